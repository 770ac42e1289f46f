// The plain data that kernels are given: pointers and sizes, the same for every vector width.
#pragma once
#include <cstddef>
#include <cstdint>

namespace prunefl {

// Every buffer that kernels read ends with this many spare, finite floats: the last vector may overlap the end.
constexpr int SLACK = 64;
constexpr int MOST_STRIDE = 8;

// Live weights of a linear layer, panel by panel and within a panel row by row. A panel is some columns, so few that
// the part of the input that they need stays in the first-level cache. Weights of row r in panel p are
// [start[p][r], start[p][r + 1]).
struct LinearWeights {
    int inputs, outputs;
    int panels, panel_width;
    const int32_t* start;    // panels x outputs, and the end
    const uint16_t* column;  // within its panel
    const float* value;
};

// Live weights of a convolution: a row makes one output plane, blocks are some input channels, and a band is all that
// read the same line of the input. A weight reads the input at `offset` floats from the place where the output is
// written; those of band b, for line h of the output, read line h + b of the input.
struct ConvWeights {
    int rows, blocks, bands;
    const int32_t* start;   // blocks x rows x bands, the end, and as many spare ones as there are bands
    const int32_t* offset;  // in floats
    const float* value;
    int first_line, last_line;  // of the input that are not padding
};

// All positions of a convolution, live or not, which the output channels of a group share.
struct ConvPositions {
    int rows, groups;
    int per_row;            // weights a row has when none is pruned
    int block;              // positions treated together, so that their input stays in the cache
    const int32_t* offset;  // groups x per_row
};

// Weights of a layer as a matrix, row-major; a row makes one output plane, and all rows read the input at the same
// offsets from the place where the output is written.
struct DenseWeights {
    int rows, per_row;
    int block;              // positions treated together, so that their input stays in the cache
    const int32_t* offset;  // per_row
    const float* value;
};

// Planes of rows: element i of row r of plane p is at data[p * plane + r * row + i]. A row is width * batch floats.
template <class Float>
struct Planes {
    Float* data;
    ptrdiff_t plane, row;
    int height, length;
};

// How a (channels, height, width, batch) tensor lies in a buffer: padded by zeros, and split by stride into phases,
// such that a strided convolution becomes an ordinary one on each phase. Pixel (h, w) is cell
// ((h + pad_h) / stride_h - first_h[phase], ...) of phase ((h + pad_h) % stride_h, ...).
struct Layout {
    int channels = 0, height = 0, width = 0, batch = 0;
    int lanes = 0;  // floats a pixel takes, at least batch
    int stride_h = 1, stride_w = 1;
    int pad_h = 0, pad_w = 0;
    int cells_h = 0, cells_w = 0;
    int first_h[MOST_STRIDE] = {}, first_w[MOST_STRIDE] = {};

    ptrdiff_t row() const { return static_cast<ptrdiff_t>(cells_w) * lanes; }
    ptrdiff_t plane() const { return cells_h * row(); }
    ptrdiff_t channel() const { return stride_h * stride_w * plane(); }
    ptrdiff_t size() const { return channels * channel(); }
    // Whether every row lies in one piece, rows at equal distances.
    bool whole_rows() const { return stride_h == 1 && stride_w == 1 && lanes == batch; }
    // The first pixel of the tensor, where rows are whole.
    ptrdiff_t origin() const { return (pad_h - first_h[0]) * row() + (pad_w - first_w[0]) * lanes; }
};

// A tensor in such a buffer.
template <class Float>
struct Placed {
    Layout at;
    Float* data;
};

struct PoolShape {
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};
constexpr uint8_t NO_GRADIENT = 255;  // instead of a position in the pooling window: ReLU cut it off

enum class Act { none, relu, relu6, hard_swish, hard_sigmoid, sigmoid, gelu };

// BatchNorm of one pass. Mean and inverse deviation are filled on the way forward and read on the way back.
struct Norm {
    const float *weight, *bias;
    float *running_mean, *running_variance;
    float *mean, *inverse;
    float *weight_gradient, *bias_gradient;
    float epsilon, momentum;
    bool training, note;  // note: whether the running statistics follow
};
// Rows of scratch that a thread needs beside a channel, for rows that do not lie in one piece.
constexpr int COPIED_ROWS = 4;

// GroupNorm (`by_pixel` false) or LayerNorm (true, one group) of one pass; sums: two a statistic.
struct SampleNorm {
    const float *weight, *bias;
    float *mean, *inverse;
    float *weight_gradient, *bias_gradient;
    double* sums;
    float epsilon;
    int groups;
    bool by_pixel;
};

// Softmax attention: queries, keys and values are channels of one tensor of (3 width, tokens, batch).
struct Attention {
    int width, heads, tokens, batch;
    bool causal;
    int head_width() const { return width / heads; }
    ptrdiff_t channel() const { return static_cast<ptrdiff_t>(tokens) * batch; }
    float scale() const { return 1.f / __builtin_sqrtf(static_cast<float>(head_width())); }
};

// Where a gradient goes; the first of several is written, the others are added. Without data: nowhere.
struct Gift {
    Placed<float> to;
    bool first;
};

struct Dropping {
    float probability;
    bool by_channel;
    uint64_t seed;
};

// Where the full weight gradient goes while importance is collected.
struct Total {
    float* sum;
    bool squared;
};

}  // namespace prunefl
