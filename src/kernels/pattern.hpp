// Which weights of a layer live, in the form that kernels walk. Immutable, so copies of a model share it across threads.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "views.hpp"

namespace prunefl {

// A linear layer's live columns, row by row.
class LinearPattern {
public:
    // live: outputs x inputs bytes, 0 for pruned.
    LinearPattern(const uint8_t* live, int outputs, int inputs);
    int64_t size() const { return static_cast<int64_t>(column_.size()); }
    int inputs() const { return inputs_; }
    int outputs() const { return outputs_; }
    LinearWeights with(const float* value) const;
    // Flat positions in the dense weight, row-major.
    std::vector<int64_t> positions() const;

private:
    int inputs_, outputs_, panels_, panel_width_;
    std::vector<int32_t> start_;
    std::vector<uint16_t> column_;
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
    int forward_blocks, backward_blocks;
    std::vector<int32_t> forward_start, forward_offset;
    std::vector<int32_t> backward_start, backward_offset;
    std::vector<int32_t> all_offset;
    int all_block;
};

class ConvPattern {
public:
    // live: out_channels x per_row bytes, 0 for pruned.
    ConvPattern(const uint8_t* live, const ConvShape& shape);
    int64_t size() const { return static_cast<int64_t>(position_.size()); }
    const ConvShape& shape() const { return shape_; }
    std::vector<int64_t> positions() const;
    // Rows of the input gradient: one for each input channel and phase.
    int backward_rows() const { return shape_.in_channels * shape_.stride_h * shape_.stride_w; }
    // The weights in the order that the input gradient takes them.
    const std::vector<int32_t>& backward_order() const { return backward_order_; }
    // Tables for an input size; the last few sizes are kept.
    std::shared_ptr<const ConvGeometry> geometry(int height, int width, int batch) const;

private:
    std::shared_ptr<const ConvGeometry> build(int height, int width, int batch) const;
    void place_forward(ConvGeometry& g) const;
    void place_backward(ConvGeometry& g) const;

    ConvShape shape_;
    std::vector<int32_t> row_start_, position_;  // position: within the row
    std::vector<int32_t> backward_row_start_, backward_order_;
    mutable std::mutex mutex_;
    mutable std::deque<std::shared_ptr<const ConvGeometry>> recent_;
};

}  // namespace prunefl
