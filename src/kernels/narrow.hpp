// Layers in half vectors, beside whole ones: 20 floats fill a third of a second vector of sixteen, but half of a third
// one of eight. Included by a path that defines PRUNEFL_NARROW; the choice depends on shapes alone.

namespace narrow {
#undef PRUNEFL_LANES
#define PRUNEFL_LANES PRUNEFL_NARROW
#include "vector.hpp"
#include "linear.hpp"
#include "conv_tiles.hpp"
#include "conv.hpp"
}  // namespace narrow

namespace either {

INLINE int padded(int length, int lanes) { return (length + lanes - 1) / lanes * lanes; }
// A tenth more floats is what wide vectors are worth.
INLINE bool wide(int length) { return padded(length, LANES) * 10 <= padded(length, narrow::LANES) * 11; }

static void linear_forward(const LinearWeights& w, const float* x, ptrdiff_t x_stride, float* y, ptrdiff_t y_stride,
                           int batch, const float* bias, bool relu, int threads) {
    const bool whole = x_stride % LANES == 0 && y_stride % LANES == 0 && wide(batch);
    (whole ? prunefl::linear_forward : narrow::linear_forward)(w, x, x_stride, y, y_stride, batch, bias, relu, threads);
}

static void linear_backward(const LinearWeights& w, const float* x, float* dx, ptrdiff_t x_stride, const float* dy,
                            ptrdiff_t y_stride, int batch, float* dw, int threads) {
    const bool whole = x_stride % LANES == 0 && y_stride % LANES == 0 && wide(batch);
    (whole ? prunefl::linear_backward : narrow::linear_backward)(w, x, dx, x_stride, dy, y_stride, batch, dw, threads);
}

static void conv_forward(const ConvWeights& w, const float* x, ptrdiff_t x_row, const Planes<float>& y,
                         const float* bias, bool relu, int threads) {
    (wide(y.length) ? prunefl::conv_forward : narrow::conv_forward)(w, x, x_row, y, bias, relu, threads);
}

static void conv_weight_gradient(const ConvWeights& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                 float* dw, int threads) {
    (wide(dy.length) ? prunefl::conv_weight_gradient : narrow::conv_weight_gradient)(w, x, x_row, dy, dw, threads);
}

static void conv_full_gradient(const ConvPositions& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                               Total total, float* scratch, int rows_each, int threads) {
    (wide(dy.length) ? prunefl::conv_full_gradient : narrow::conv_full_gradient)(w, x, x_row, dy, total, scratch,
                                                                                 rows_each, threads);
}

}  // namespace either
