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
constexpr int MOST_BANDS = 8;  // wide dilations have more lines than are worth telling apart

// Channels that are treated together. A tile reads some lines of a plane of `height` x `width` cells, and no more than
// there are; 0: nobody knows how many. The order of the weights depends on it, so it cannot depend on the batch.
int block_for(int channels, int kernel_h, int kernel_w, int height, int width, double weights_each) {
    const int beside = (kernel_w - 1) * USUAL_BATCH, lines = (TILE_FLOATS + beside) * kernel_h;
    const int64_t plane = static_cast<int64_t>(height) * (width * USUAL_BATCH + beside);
    const int by_window = WINDOW_BYTES / (4 * static_cast<int>(plane ? std::min<int64_t>(plane, lines) : lines));
    const int by_weights = static_cast<int>(std::ceil(FEWEST_WEIGHTS / std::max(weights_each, 1e-4)));
    return std::clamp(std::max(by_window, by_weights), 1, std::max(1, channels));
}

// The first cell of a phase that holds a pixel and not padding.
int first_cell(int phase, int padding, int stride) { return (padding - phase + stride - 1) / stride; }

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
    for (int a = 0; a < s.stride_h; a++) at.first_h[a] = first_cell(a, s.pad_top, s.stride_h);
    for (int a = 0; a < s.stride_w; a++) at.first_w[a] = first_cell(a, s.pad_left, s.stride_w);
    return at;
}

// Cell i of a phase of the input gradient takes, through kernel position k, the output's gradient at i + shift.
int shift_of(int k, int dilation, int stride, int padding) {
    return first_cell(k * dilation % stride, padding, stride) - k * dilation / stride;
}

// How far the least shift reaches above the output.
int reach_above(int kernel, int dilation, int stride, int padding) {
    int least = 0;
    for (int k = 0; k < kernel; k++) least = std::min(least, shift_of(k, dilation, stride, padding));
    return -least;
}

// The line that a weight reads forward and on the way back, counted from the first that any weight reads.
int line_of(const ConvShape& s, int kh) { return kh * s.dilation_h / s.stride_h; }
int backward_line(const ConvShape& s, int kh) {
    return shift_of(kh, s.dilation_h, s.stride_h, s.pad_top) +
           reach_above(s.kernel_h, s.dilation_h, s.stride_h, s.pad_top);
}

template <class Line>
int bands_of(const ConvShape& s, Line line) {
    int most = 0;
    for (int kh = 0; kh < s.kernel_h; kh++) most = std::max(most, line(s, kh));
    return most < MOST_BANDS ? most + 1 : 1;
}

struct Place {
    int block, row, band;
};

// A counting sort of weights by their places.
template <class PlaceOf>
void cut(ConvPieces& to, size_t size, PlaceOf place_of) {
    const auto piece_of = [&](size_t k) {
        const Place p = place_of(static_cast<int32_t>(k));
        return (static_cast<size_t>(p.block) * to.rows + p.row) * to.bands + p.band;
    };
    to.start.assign(static_cast<size_t>(to.blocks) * to.rows * to.bands + 1, 0);
    for (size_t k = 0; k < size; k++) to.start[piece_of(k) + 1]++;
    for (size_t i = 1; i < to.start.size(); i++) to.start[i] += to.start[i - 1];
    std::vector<int32_t> next(to.start.begin(), to.start.end() - 1);
    to.start.resize(to.start.size() + to.bands, to.start.back());
    to.order.resize(size);
    for (size_t k = 0; k < size; k++) to.order[next[piece_of(k)]++] = static_cast<int32_t>(k);
}

// Where nothing is known of lines (one band), all of them count.
ConvWeights view_of(const ConvPieces& of, const std::vector<int32_t>& offset, const float* value, int first, int last) {
    const bool known = of.bands > 1;
    return {of.rows,       of.blocks, of.bands,          of.start.data(),
            offset.data(), value,     known ? first : 0, known ? last : INT_MAX};
}

struct Padding {
    int before, cells;
};

Padding output_padding(int kernel, int dilation, int stride, int padding, int cells, int size) {
    int most = 0;
    for (int k = 0; k < kernel; k++) most = std::max(most, shift_of(k, dilation, stride, padding) + cells);
    const int above = reach_above(kernel, dilation, stride, padding);
    return {above, std::max(size, most) + above};
}

Layout output_layout(const ConvShape& s, const ConvGeometry& g) {
    const Layout& d = g.input_gradient;
    const Padding h = output_padding(s.kernel_h, s.dilation_h, s.stride_h, s.pad_top, d.cells_h, g.out_height);
    const Padding w = output_padding(s.kernel_w, s.dilation_w, s.stride_w, s.pad_left, d.cells_w, g.out_width);
    Layout at;
    at.channels = s.out_channels, at.height = g.out_height, at.width = g.out_width, at.batch = at.lanes = g.batch;
    at.pad_h = h.before, at.pad_w = w.before, at.cells_h = h.cells, at.cells_w = w.cells;
    return at;
}

}  // namespace

ConvPattern::ConvPattern(const uint8_t* live, const ConvShape& s) : shape_(s) {
    std::vector<int32_t> rows, positions;
    for (int r = 0; r < s.out_channels; r++)
        for (int i = 0; i < s.per_row(); i++)
            if (live[static_cast<int64_t>(r) * s.per_row() + i]) rows.push_back(r), positions.push_back(i);
    cut_forward(rows, positions);
    cut_backward();
}

// `rows` and `positions` of all weights, row-major.
void ConvPattern::cut_forward(const std::vector<int32_t>& rows, const std::vector<int32_t>& positions) {
    const ConvShape& s = shape_;
    const double each = static_cast<double>(rows.size()) / (static_cast<double>(s.out_channels) * s.in_each());
    const int block = block_for(s.in_each(), s.kernel_h, s.kernel_w, s.height, s.width, each);
    forward_.rows = s.out_channels;
    forward_.blocks = (s.in_each() + block - 1) / block;
    forward_.bands = bands_of(s, line_of);
    cut(forward_, rows.size(), [&](int32_t k) {
        const int kh = positions[k] % s.taps() / s.kernel_w;
        return Place{positions[k] / s.taps() / block, rows[k], forward_.bands > 1 ? line_of(s, kh) : 0};
    });
    for (const int32_t k : forward_.order) row_of_.push_back(rows[k]), position_.push_back(positions[k]);
}

// Blocks of the input gradient are of output channels.
void ConvPattern::cut_backward() {
    const ConvShape& s = shape_;
    const int phases = s.stride_h * s.stride_w;
    backward_.rows = s.in_channels * phases;
    const double each = static_cast<double>(size()) / (static_cast<double>(backward_.rows) * s.out_each());
    const int block =
        block_for(s.out_each(), (s.kernel_h + s.stride_h - 1) / s.stride_h, (s.kernel_w + s.stride_w - 1) / s.stride_w,
                  s.height ? s.out_height(s.height) : 0, s.width ? s.out_width(s.width) : 0, each);
    backward_.blocks = (s.out_each() + block - 1) / block;
    backward_.bands = bands_of(s, backward_line);
    cut(backward_, position_.size(), [&](int32_t k) {
        const int in = row_of_[k] / s.out_each() * s.in_each() + position_[k] / s.taps();
        const int kh = position_[k] % s.taps() / s.kernel_w, kw = position_[k] % s.kernel_w;
        const int phase = kh * s.dilation_h % s.stride_h * s.stride_w + kw * s.dilation_w % s.stride_w;
        return Place{row_of_[k] % s.out_each() / block, in * phases + phase,
                     backward_.bands > 1 ? backward_line(s, kh) : 0};
    });
}

void ConvPattern::to_row_major(const float* ordered, float* row_major) const {
    for (size_t k = 0; k < forward_.order.size(); k++) row_major[forward_.order[k]] = ordered[k];
}

void ConvPattern::from_row_major(const float* row_major, float* ordered) const {
    for (size_t k = 0; k < forward_.order.size(); k++) ordered[k] = row_major[forward_.order[k]];
}

ConvWeights ConvPattern::forward(const ConvGeometry& g, const float* value) const {
    return view_of(forward_, g.forward_offset, value, g.first_line, g.last_line);
}

ConvWeights ConvPattern::backward(const ConvGeometry& g, const float* value) const {
    return view_of(backward_, g.backward_offset, value, g.output.pad_h, g.output.pad_h + g.out_height);
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
    g->first_line = first_cell(s.stride_h - 1, s.pad_top, s.stride_h);
    g->last_line = (height - 1 + s.pad_top) / s.stride_h + 1;
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
    for (size_t k = 0; k < position_.size(); k++) g.forward_offset[k] = offset(row_of_[k] / s.out_each(), position_[k]);
    g.all_block = block_for(s.in_each(), s.kernel_h, s.kernel_w, g.height, g.width, s.taps()) * s.taps();
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
        const int down = at.pad_h + shift_of(kh, s.dilation_h, s.stride_h, s.pad_top);
        const int right = at.pad_w + shift_of(kw, s.dilation_w, s.stride_w, s.pad_left);
        return static_cast<int32_t>(row_of_[k] * at.plane() + down * at.row() +
                                    static_cast<ptrdiff_t>(right) * at.lanes);
    };
    g.backward_offset.resize(position_.size());
    for (size_t k = 0; k < position_.size(); k++) g.backward_offset[k] = offset(backward_.order[k]);
}

}  // namespace prunefl
