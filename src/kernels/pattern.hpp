// Which weights of a layer live, in the form that kernels walk. Immutable, so copies of a model share it across
// threads.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "views.hpp"

namespace prunefl {

// A linear layer's live columns. Weights are in the order of the kernels: panel by panel, and within a panel row by
// row. torch's row-major order has the same pieces, row by row, so either is made of the other by copying pieces.
class LinearPattern {
  public:
    // live: outputs x inputs bytes, 0 for pruned.
    LinearPattern(const uint8_t* live, int outputs, int inputs);
    void to_row_major(const float* blocked, float* row_major) const;
    void from_row_major(const float* row_major, float* blocked) const;
    int64_t size() const { return static_cast<int64_t>(column_.size()); }
    int inputs() const { return inputs_; }
    int outputs() const { return outputs_; }
    LinearWeights with(const float* value) const;
    // Positions in the flat dense weight, in the order of the kernels.
    std::vector<int64_t> positions() const;

  private:
    template <class Copy>
    void each_piece(Copy copy) const;
    int inputs_, outputs_, panel_width_, panels_;
    std::vector<int32_t> start_;    // panels x outputs, and the end
    std::vector<uint16_t> column_;  // within its panel
};

struct ConvShape {
    int out_channels, in_channels, groups;
    int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_bottom, pad_left, pad_right;
    int height = 0, width = 0;  // of the input, where it is known: weights are then cut for it
    int in_each() const { return in_channels / groups; }
    int out_each() const { return out_channels / groups; }
    int taps() const { return kernel_h * kernel_w; }
    int per_row() const { return in_each() * taps(); }
    int out_height(int height) const {
        return (height + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1;
    }
    int out_width(int width) const {
        return (width + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1;
    }
};

// Where a convolution's live weights read, for one size of input.
struct ConvGeometry {
    int height, width, batch, out_height, out_width;
    Layout input;               // what the forward pass reads
    Layout output;              // the output's gradient, padded for the input gradient
    Layout input_gradient;      // what the input gradient writes, split into phases
    bool flat;                  // 1x1, unpadded: a plane is one long row
    int first_line, last_line;  // of the input that are not padding, in any phase
    std::vector<int32_t> forward_offset;
    std::vector<int32_t> backward_offset;
    std::vector<int32_t> all_offset;
    int all_block;
};

// How weights are cut into blocks, rows and bands (ConvWeights says what these are).
struct ConvPieces {
    int rows = 0, blocks = 0, bands = 1;
    std::vector<int32_t> start;
    std::vector<int32_t> order;  // of each weight, its number in the order that was cut
};

class ConvPattern {
  public:
    // live: out_channels x per_row bytes, 0 for pruned.
    ConvPattern(const uint8_t* live, const ConvShape& shape);
    void to_row_major(const float* ordered, float* row_major) const;
    void from_row_major(const float* row_major, float* ordered) const;
    int64_t size() const { return static_cast<int64_t>(position_.size()); }
    const ConvShape& shape() const { return shape_; }
    std::vector<int64_t> positions() const;
    // The weights as the forward pass and the weight gradient take them.
    ConvWeights forward(const ConvGeometry& geometry, const float* value) const;
    // The weights as the input gradient takes them: in the order of backward_order, and a row for each input channel
    // and phase.
    ConvWeights backward(const ConvGeometry& geometry, const float* value) const;
    const std::vector<int32_t>& backward_order() const { return backward_.order; }
    // Tables for an input size; the last few sizes are kept.
    std::shared_ptr<const ConvGeometry> geometry(int height, int width, int batch) const;

  private:
    std::shared_ptr<const ConvGeometry> build(int height, int width, int batch) const;
    void cut_forward(const std::vector<int32_t>& rows, const std::vector<int32_t>& positions);
    void cut_backward();
    void place_forward(ConvGeometry& g) const;
    void place_backward(ConvGeometry& g) const;

    ConvShape shape_;
    std::vector<int32_t> row_of_, position_;  // of each weight, the position within the row
    ConvPieces forward_, backward_;
    mutable std::mutex mutex_;
    mutable std::deque<std::shared_ptr<const ConvGeometry>> recent_;
};

}  // namespace prunefl
