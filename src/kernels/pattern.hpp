// Which weights of a layer live, in the form that kernels walk. Immutable, so copies of a model share it across threads.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "views.hpp"

namespace prunefl {

// Weights in the order of the kernels: block by block of columns, and within a block row by row. torch's row-major
// order has the same pieces, row by row, so either is made of the other by copying pieces.
class BlockedRows {
public:
    void to_row_major(const float* blocked, float* row_major) const;
    void from_row_major(const float* row_major, float* blocked) const;
    const int32_t* start() const { return start_.data(); }
    int blocks() const { return blocks_; }

protected:
    template <class Copy>
    void each_piece(Copy copy) const;
    int rows_ = 0, blocks_ = 0;
    std::vector<int32_t> start_;  // blocks x rows, and the end
};

// A linear layer's live columns.
class LinearPattern : public BlockedRows {
public:
    // live: outputs x inputs bytes, 0 for pruned.
    LinearPattern(const uint8_t* live, int outputs, int inputs);
    int64_t size() const { return static_cast<int64_t>(column_.size()); }
    int inputs() const { return inputs_; }
    int outputs() const { return outputs_; }
    LinearWeights with(const float* value) const;
    // Positions in the flat dense weight, in the order of the kernels.
    std::vector<int64_t> positions() const;

private:
    int inputs_, outputs_, panel_width_;
    std::vector<uint16_t> column_;  // within its panel
};

struct ConvShape {
    int out_channels, in_channels, groups;
    int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_bottom, pad_left, pad_right;
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
    Layout input;           // what the forward pass reads
    Layout output;          // the output's gradient, padded for the input gradient
    Layout input_gradient;  // what the input gradient writes, split into phases
    bool flat;              // 1x1, unpadded: a plane is one long row
    std::vector<int32_t> forward_offset;
    std::vector<int32_t> backward_offset;
    std::vector<int32_t> all_offset;
    int all_block;
};

class ConvPattern : public BlockedRows {
public:
    // live: out_channels x per_row bytes, 0 for pruned.
    ConvPattern(const uint8_t* live, const ConvShape& shape);
    int64_t size() const { return static_cast<int64_t>(position_.size()); }
    const ConvShape& shape() const { return shape_; }
    std::vector<int64_t> positions() const;
    // Rows of the input gradient: one for each input channel and phase.
    int backward_rows() const { return shape_.in_channels * shape_.stride_h * shape_.stride_w; }
    int backward_blocks() const { return backward_blocks_; }
    const int32_t* backward_start() const { return backward_start_.data(); }
    // The weights in the order that the input gradient takes them.
    const std::vector<int32_t>& backward_order() const { return backward_order_; }
    // Tables for an input size; the last few sizes are kept.
    std::shared_ptr<const ConvGeometry> geometry(int height, int width, int batch) const;

private:
    std::shared_ptr<const ConvGeometry> build(int height, int width, int batch) const;
    void order_backward();
    void place_forward(ConvGeometry& g) const;
    void place_backward(ConvGeometry& g) const;

    ConvShape shape_;
    std::vector<int32_t> row_of_, position_;  // of each weight, the position within the row
    int backward_blocks_ = 0;
    std::vector<int32_t> backward_start_, backward_order_;
    mutable std::mutex mutex_;
    mutable std::deque<std::shared_ptr<const ConvGeometry>> recent_;
};

}  // namespace prunefl
