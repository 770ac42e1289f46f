// From a mask and an input size to the offsets at which a convolution's live weights read.
#include <algorithm>
#include <climits>
#include <cmath>
#include <stdexcept>

#include "pattern.hpp"

namespace prunefl {

namespace {

constexpr int KEPT_SIZES = 6;
constexpr int WINDOW_BYTES = 28000;  // of input that a block reads for one tile: most of a first-level cache
constexpr int TILE_FLOATS = 96;
constexpr int FEWEST_WEIGHTS = 12;  // of one row and block: fewer do not repay loading and storing the tile

constexpr int USUAL_BATCH = 20;

// Channels that are treated together. The order of the weights depends on it, so it cannot depend on the input's size.
int block_for(int channels, int kernel_h, int kernel_w, double weights_each) {
    const int across = TILE_FLOATS + (kernel_w - 1) * USUAL_BATCH;
    const int by_window = WINDOW_BYTES / (4 * across * kernel_h);
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
    const int64_t total = static_cast<int64_t>(s.out_channels) * s.per_row();
    const int64_t count = total - std::count(live, live + total, uint8_t{0});
    const int block = block_for(s.in_each(), s.kernel_h, s.kernel_w, static_cast<double>(count) / total * s.taps());
    rows_ = s.out_channels;
    blocks_ = (s.in_each() + block - 1) / block;
    start_.assign(1, 0);
    for (int b = 0; b < blocks_; b++)
        for (int r = 0; r < rows_; r++) {
            const int last = std::min(s.per_row(), (b + 1) * block * s.taps());
            for (int i = b * block * s.taps(); i < last; i++)
                if (live[static_cast<int64_t>(r) * s.per_row() + i]) position_.push_back(i), row_of_.push_back(r);
            start_.push_back(static_cast<int32_t>(position_.size()));
        }
    order_backward();
}

// A counting sort into the blocks and rows of the input gradient, whose blocks are of output channels.
void ConvPattern::order_backward() {
    const ConvShape& s = shape_;
    const int32_t size = static_cast<int32_t>(position_.size());
    const double each = static_cast<double>(size) / (static_cast<double>(backward_rows()) * s.out_each());
    const int block = block_for(s.out_each(), (s.kernel_h + s.stride_h - 1) / s.stride_h,
                                (s.kernel_w + s.stride_w - 1) / s.stride_w, each);
    backward_blocks_ = (s.out_each() + block - 1) / block;
    const auto piece_of = [&](int32_t k) {
        const int in = row_of_[k] / s.out_each() * s.in_each() + position_[k] / s.taps();
        const int kh = position_[k] % s.taps() / s.kernel_w, kw = position_[k] % s.kernel_w;
        const int phase = kh * s.dilation_h % s.stride_h * s.stride_w + kw * s.dilation_w % s.stride_w;
        return row_of_[k] % s.out_each() / block * backward_rows() + in * s.stride_h * s.stride_w + phase;
    };
    backward_start_.assign(static_cast<size_t>(backward_blocks_) * backward_rows() + 1, 0);
    for (int32_t k = 0; k < size; k++) backward_start_[piece_of(k) + 1]++;
    for (size_t i = 1; i < backward_start_.size(); i++) backward_start_[i] += backward_start_[i - 1];
    std::vector<int32_t> next(backward_start_.begin(), backward_start_.end() - 1);
    backward_order_.resize(size);
    for (int32_t k = 0; k < size; k++) backward_order_[next[piece_of(k)]++] = k;
}

std::vector<int64_t> ConvPattern::positions() const {
    std::vector<int64_t> found;
    found.reserve(position_.size());
    for (size_t k = 0; k < position_.size(); k++)
        found.push_back(static_cast<int64_t>(row_of_[k]) * shape_.per_row() + position_[k]);
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
    const auto offset = [&](int group, int position) {
        const int kh = position % s.taps() / s.kernel_w * s.dilation_h, kw = position % s.kernel_w * s.dilation_w;
        const ptrdiff_t phase = kh % s.stride_h * s.stride_w + kw % s.stride_w;
        return static_cast<int32_t>((group * s.in_each() + position / s.taps()) * at.channel() + phase * at.plane() +
                                    kh / s.stride_h * at.row() + static_cast<ptrdiff_t>(kw / s.stride_w) * at.lanes);
    };
    g.forward_offset.resize(position_.size());
    for (size_t k = 0; k < position_.size(); k++)
        g.forward_offset[k] = offset(row_of_[k] / s.out_each(), position_[k]);
    g.all_block = block_for(s.in_each(), s.kernel_h, s.kernel_w, s.taps()) * s.taps();
    g.all_offset.resize(static_cast<size_t>(s.groups) * s.per_row());
    for (int group = 0; group < s.groups; group++)
        for (int i = 0; i < s.per_row(); i++)
            g.all_offset[static_cast<size_t>(group) * s.per_row() + i] = offset(group, i);
}

void ConvPattern::place_backward(ConvGeometry& g) const {
    const ConvShape& s = shape_;
    const Layout& at = g.output;
    const auto offset = [&](int32_t k) {
        const int kh = position_[k] % s.taps() / s.kernel_w, kw = position_[k] % s.kernel_w;
        const int down = at.pad_h + shift_of(kh, s.dilation_h, s.stride_h, g.input_gradient.first_h);
        const int right = at.pad_w + shift_of(kw, s.dilation_w, s.stride_w, g.input_gradient.first_w);
        return static_cast<int32_t>(row_of_[k] * at.plane() + down * at.row() + static_cast<ptrdiff_t>(right) * at.lanes);
    };
    g.backward_offset.resize(position_.size());
    for (size_t k = 0; k < position_.size(); k++) g.backward_offset[k] = offset(backward_order_[k]);
}

}  // namespace prunefl
