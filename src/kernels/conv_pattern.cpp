// From a mask and an input size to the offsets at which a convolution's live weights read.
#include <algorithm>
#include <climits>
#include <cmath>
#include <stdexcept>

#include "pattern.hpp"

namespace prunefl {

namespace {

constexpr int KEPT_SIZES = 6;
constexpr int WINDOW_BYTES = 20000;  // of input that a block reads for one tile: most of a first-level cache
constexpr int TILE_FLOATS = 96;
constexpr int FEWEST_WEIGHTS = 12;  // of one row and block: fewer do not repay loading and storing the tile

// Channels that are treated together.
int block_for(int channels, int kernel_h, int kernel_w, int dilation_w, ptrdiff_t row, int batch, double weights_each) {
    const ptrdiff_t across = std::min<ptrdiff_t>(row, TILE_FLOATS + static_cast<ptrdiff_t>(kernel_w - 1) * dilation_w * batch);
    const ptrdiff_t down = kernel_h + (row < TILE_FLOATS ? TILE_FLOATS / std::max<ptrdiff_t>(row, 1) : 0);
    const int by_window = static_cast<int>(WINDOW_BYTES / (4 * across * down));
    const int by_weights = static_cast<int>(std::ceil(FEWEST_WEIGHTS / std::max(weights_each, 1e-4)));
    return std::clamp(std::max(by_window, by_weights), 1, std::max(1, channels));
}

Layout input_layout(const ConvShape& s, const ConvGeometry& g) {
    Layout at;
    at.channels = s.in_channels, at.height = g.height, at.width = g.width, at.batch = at.lanes = g.batch;
    at.stride_h = s.stride_h, at.stride_w = s.stride_w, at.pad_h = s.pad_top, at.pad_w = s.pad_left;
    at.cells_h = g.out_height + (s.kernel_h - 1) * s.dilation_h / s.stride_h;
    at.cells_w = g.out_width + (s.kernel_w - 1) * s.dilation_w / s.stride_w;
    return at;
}

Layout gradient_layout(const ConvShape& s, const ConvGeometry& g) {
    Layout at;
    at.channels = s.in_channels, at.height = g.height, at.width = g.width, at.batch = at.lanes = g.batch;
    at.stride_h = s.stride_h, at.stride_w = s.stride_w, at.pad_h = s.pad_top, at.pad_w = s.pad_left;
    at.cells_h = (g.height + s.stride_h - 1) / s.stride_h, at.cells_w = (g.width + s.stride_w - 1) / s.stride_w;
    // The first cell of each phase that holds a pixel and not padding.
    for (int a = 0; a < s.stride_h; a++) at.first_h[a] = (s.pad_top - a + s.stride_h - 1) / s.stride_h;
    for (int a = 0; a < s.stride_w; a++) at.first_w[a] = (s.pad_left - a + s.stride_w - 1) / s.stride_w;
    return at;
}

// Cell i of a phase of the input gradient takes, through kernel position k, the output's gradient at i + shift.
int shift_of(int k, int dilation, int stride, const int* first) {
    return first[k * dilation % stride] - k * dilation / stride;
}

struct Padding {
    int before, cells;
};

Padding output_padding(int kernel, int dilation, int stride, const int* first, int cells, int size) {
    int least = 0, most = 0;
    for (int k = 0; k < kernel; k++) {
        least = std::min(least, shift_of(k, dilation, stride, first));
        most = std::max(most, shift_of(k, dilation, stride, first) + cells);
    }
    return {-least, std::max(size, most) - least};
}

Layout output_layout(const ConvShape& s, const ConvGeometry& g) {
    const Layout& d = g.input_gradient;
    const Padding h = output_padding(s.kernel_h, s.dilation_h, s.stride_h, d.first_h, d.cells_h, g.out_height);
    const Padding w = output_padding(s.kernel_w, s.dilation_w, s.stride_w, d.first_w, d.cells_w, g.out_width);
    Layout at;
    at.channels = s.out_channels, at.height = g.out_height, at.width = g.out_width, at.batch = at.lanes = g.batch;
    at.pad_h = h.before, at.pad_w = w.before, at.cells_h = h.cells, at.cells_w = w.cells;
    return at;
}

}  // namespace

ConvPattern::ConvPattern(const uint8_t* live, const ConvShape& s) : shape_(s) {
    row_start_.assign(1, 0);
    for (int r = 0; r < s.out_channels; r++) {
        for (int i = 0; i < s.per_row(); i++)
            if (live[static_cast<int64_t>(r) * s.per_row() + i]) position_.push_back(i);
        row_start_.push_back(static_cast<int32_t>(position_.size()));
    }
    // Counting sort into the rows of the input gradient; within one, output channels ascend.
    const auto row_of = [&](int out, int32_t position) {
        const int in = out / s.out_each() * s.in_each() + position / s.taps();
        const int kh = position % s.taps() / s.kernel_w, kw = position % s.kernel_w;
        const int phase = kh * s.dilation_h % s.stride_h * s.stride_w + kw * s.dilation_w % s.stride_w;
        return in * s.stride_h * s.stride_w + phase;
    };
    backward_row_start_.assign(backward_rows() + 1, 0);
    backward_order_.resize(position_.size());
    for (int r = 0; r < s.out_channels; r++)
        for (int32_t k = row_start_[r]; k < row_start_[r + 1]; k++) backward_row_start_[row_of(r, position_[k]) + 1]++;
    for (int r = 0; r < backward_rows(); r++) backward_row_start_[r + 1] += backward_row_start_[r];
    std::vector<int32_t> next(backward_row_start_.begin(), backward_row_start_.end() - 1);
    for (int r = 0; r < s.out_channels; r++)
        for (int32_t k = row_start_[r]; k < row_start_[r + 1]; k++) backward_order_[next[row_of(r, position_[k])]++] = k;
}

std::vector<int64_t> ConvPattern::positions() const {
    std::vector<int64_t> found;
    found.reserve(position_.size());
    for (int r = 0; r < shape_.out_channels; r++)
        for (int32_t k = row_start_[r]; k < row_start_[r + 1]; k++)
            found.push_back(static_cast<int64_t>(r) * shape_.per_row() + position_[k]);
    return found;
}

std::shared_ptr<const ConvGeometry> ConvPattern::geometry(int height, int width, int batch) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : recent_)
        if (known->height == height && known->width == width && known->batch == batch) return known;
    recent_.push_front(build(height, width, batch));
    if (recent_.size() > KEPT_SIZES) recent_.pop_back();
    return recent_.front();
}

std::shared_ptr<const ConvGeometry> ConvPattern::build(int height, int width, int batch) const {
    auto g = std::make_shared<ConvGeometry>();
    const ConvShape& s = shape_;
    g->height = height, g->width = width, g->batch = batch;
    g->out_height = s.out_height(height), g->out_width = s.out_width(width);
    if (g->out_height < 1 || g->out_width < 1) throw std::invalid_argument("the input is smaller than the kernel");
    g->input = input_layout(s, *g);
    g->input_gradient = gradient_layout(s, *g);
    g->output = output_layout(s, *g);
    if (std::max(g->input.size(), g->output.size()) > INT_MAX) throw std::invalid_argument("the input is too large");
    g->flat = s.taps() == 1 && s.stride_h * s.stride_w == 1 && !(s.pad_top | s.pad_bottom | s.pad_left | s.pad_right);
    place_forward(*g);
    place_backward(*g);
    return g;
}

void ConvPattern::place_forward(ConvGeometry& g) const {
    const ConvShape& s = shape_;
    const Layout& at = g.input;
    const double each = static_cast<double>(position_.size()) / (static_cast<double>(s.out_channels) * s.in_each());
    const int block = block_for(s.in_each(), s.kernel_h, s.kernel_w, s.dilation_w, at.row(), g.batch, each);
    const auto offset = [&](int group, int position) {
        const int kh = position % s.taps() / s.kernel_w * s.dilation_h, kw = position % s.kernel_w * s.dilation_w;
        const ptrdiff_t phase = kh % s.stride_h * s.stride_w + kw % s.stride_w;
        return static_cast<int32_t>((group * s.in_each() + position / s.taps()) * at.channel() + phase * at.plane() +
                                    kh / s.stride_h * at.row() + static_cast<ptrdiff_t>(kw / s.stride_w) * at.lanes);
    };
    g.forward_blocks = (s.in_each() + block - 1) / block;
    g.forward_start.resize(static_cast<size_t>(g.forward_blocks + 1) * s.out_channels);
    g.forward_offset.resize(position_.size());
    for (int r = 0; r < s.out_channels; r++) {
        int32_t k = row_start_[r];
        for (int b = 0; b <= g.forward_blocks; b++) {
            g.forward_start[static_cast<size_t>(b) * s.out_channels + r] = k;
            for (; k < row_start_[r + 1] && position_[k] / s.taps() < (b + 1) * block; k++)
                g.forward_offset[k] = offset(r / s.out_each(), position_[k]);
        }
    }
    g.all_block = block_for(s.in_each(), s.kernel_h, s.kernel_w, s.dilation_w, at.row(), g.batch, s.taps()) * s.taps();
    g.all_offset.resize(static_cast<size_t>(s.groups) * s.per_row());
    for (int group = 0; group < s.groups; group++)
        for (int i = 0; i < s.per_row(); i++)
            g.all_offset[static_cast<size_t>(group) * s.per_row() + i] = offset(group, i);
}

void ConvPattern::place_backward(ConvGeometry& g) const {
    const ConvShape& s = shape_;
    const Layout& at = g.output;
    const int rows = backward_rows();
    const double each = static_cast<double>(position_.size()) / (static_cast<double>(rows) * s.out_each());
    const int block = block_for(s.out_each(), (s.kernel_h + s.stride_h - 1) / s.stride_h,
                                (s.kernel_w + s.stride_w - 1) / s.stride_w, s.dilation_w, at.row(), g.batch, each);
    g.backward_blocks = (s.out_each() + block - 1) / block;
    g.backward_start.resize(static_cast<size_t>(g.backward_blocks + 1) * rows);
    g.backward_offset.resize(position_.size());
    std::vector<int32_t> out_of(position_.size());
    for (int r = 0; r < s.out_channels; r++) std::fill(&out_of[0] + row_start_[r], &out_of[0] + row_start_[r + 1], r);
    for (int r = 0; r < rows; r++) {
        int32_t k = backward_row_start_[r];
        for (int b = 0; b <= g.backward_blocks; b++) {
            g.backward_start[static_cast<size_t>(b) * rows + r] = k;
            for (; k < backward_row_start_[r + 1]; k++) {
                const int out = out_of[backward_order_[k]], position = position_[backward_order_[k]];
                if (out % s.out_each() >= (b + 1) * block) break;
                const int kh = position % s.taps() / s.kernel_w, kw = position % s.kernel_w;
                const int down = at.pad_h + shift_of(kh, s.dilation_h, s.stride_h, g.input_gradient.first_h);
                const int right = at.pad_w + shift_of(kw, s.dilation_w, s.stride_w, g.input_gradient.first_w);
                g.backward_offset[k] = static_cast<int32_t>(out * at.plane() + down * at.row() +
                                                            static_cast<ptrdiff_t>(right) * at.lanes);
            }
        }
    }
}

}  // namespace prunefl
