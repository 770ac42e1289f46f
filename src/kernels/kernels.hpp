// The kernels as a table of functions: every instruction set fills one, compiled from the same sources.
#pragma once
#include "views.hpp"

namespace prunefl {

// A step of SGD: m = momentum m + (scale g + decay w), w -= rate m; with Nesterov's look ahead.
struct SgdRule {
    float rate, momentum, decay, scale;
    bool nesterov;
};

// A step of Adam, its corrections of the bias worked into rate and epsilon.
// rest is 1 - beta, which floats would not give; decay is added to the gradient; shrink multiplies the weight (AdamW).
struct AdamRule {
    float rate, rest1, beta2, rest2, epsilon, decay, shrink, scale;
};

struct Kernels {
    const char* name;
    int lanes;
    void (*linear_forward)(const LinearWeights&, const float* x, ptrdiff_t x_stride, float* y, ptrdiff_t y_stride,
                           int batch, const float* bias, bool relu, int threads);
    void (*linear_backward)(const LinearWeights&, const float* x, float* dx, ptrdiff_t x_stride, const float* dy,
                            ptrdiff_t y_stride, int batch, float* dw, int threads);
    void (*linear_full_gradient)(const float* x, ptrdiff_t x_stride, int inputs, const float* dy, ptrdiff_t y_stride,
                                 int outputs, int batch, Total, int threads);
    void (*conv_forward)(const ConvWeights&, const float* x, ptrdiff_t x_row, const Planes<float>& y, const float* bias,
                         bool relu, int threads);
    void (*conv_weight_gradient)(const ConvWeights&, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                 float* dw, int threads);
    void (*conv_full_gradient)(const ConvPositions&, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                               Total, float* scratch, int rows_each, int threads);
    void (*transpose)(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, int rows, int columns,
                      int threads);
    void (*clear)(const Placed<float>& to, int threads);  // the padding
    void (*from_torch)(const float* x, const Placed<float>& to, int threads);
    void (*to_torch)(const Placed<const float>& from, float* x, int threads);
    void (*move_rows)(const Placed<const float>& from, const Placed<const float>* active, const Placed<float>& to,
                      int threads);
    void (*relu_backward)(const float* active, float* dy, ptrdiff_t size, int threads);
    void (*bias_gradient)(const Planes<const float>& dy, int channels, float* db, int threads);
    void (*pool_forward)(const Planes<const float>& x, const PoolShape&, bool relu, const Placed<float>& to,
                         uint8_t* index, int threads);
    void (*pool_backward)(const Placed<const float>& dy, const uint8_t* index, const PoolShape&,
                          const Placed<float>& dx, int threads);
    void (*add_rows)(const Placed<const float>& from, const Placed<float>& to, int threads);
    // y = act(norm(x) + r); scratch: for each thread a channel and COPIED_ROWS rows.
    void (*blend_forward)(Placed<const float> x, const Placed<const float>* r, Placed<float> y, const Norm*, Act,
                          float* scratch, int threads);
    void (*blend_backward)(Placed<const float> x, const Placed<const float>* r, Placed<const float> y,
                           Placed<const float> dy, Gift dx, Gift dr, const Norm*, Act, float* scratch, int threads);
    void (*average_forward)(const Placed<const float>& x, const PoolShape&, bool counted, const Placed<float>& y,
                            int threads);
    void (*average_backward)(const Placed<const float>& dy, const PoolShape&, bool counted, const Placed<float>& dx,
                             int threads);
    void (*multiply_forward)(const Placed<const float>& a, const Placed<const float>& b, const Placed<float>& y,
                             int threads);
    void (*multiply_backward)(const Placed<const float>& dy, const Placed<const float>& b, const Gift& da, int threads);
    void (*drop)(const Placed<const float>& x, const Dropping&, const Gift& y, int threads);
    void (*sample_norm_forward)(const Placed<const float>& x, const SampleNorm&, const Placed<float>& y, int threads);
    void (*sample_norm_backward)(const Placed<const float>& x, const Placed<const float>& dy, const SampleNorm&,
                                 const Gift& dx, int threads);
    // p: the probabilities, heads x tokens x tokens x batch; scratch: for each thread two rows of batch floats.
    void (*attend_forward)(const Attention&, const float* x, float* p, float* y, float* scratch, int threads);
    // scratch: for each thread tokens x tokens x batch floats, and batch.
    void (*attend_backward)(const Attention&, const float* x, const float* p, const float* dy, float* dx,
                            float* scratch, int threads);
    void (*dense_forward)(const DenseWeights&, const float* x, ptrdiff_t x_row, const Planes<float>& y,
                          const float* bias, bool relu, int threads);
    void (*dense_conv_gradient)(const DenseWeights&, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                float* dw, int threads);
    void (*dense_linear_backward)(const DenseWeights&, const float* dy, ptrdiff_t y_stride, float* dx,
                                  ptrdiff_t x_stride, int batch, int threads);
    void (*dense_linear_gradient)(const float* x, int inputs, const float* dy, ptrdiff_t y_stride, int outputs,
                                  int batch, float* dw, int threads);
    void (*sgd)(float* w, const float* g, ptrdiff_t size, float rate, int threads);
    void (*masked_sgd)(float* w, const float* g, const uint8_t* live, ptrdiff_t size, float rate, int threads);
    void (*momentum_sgd)(float* w, float* g, float* m, const uint8_t* live, ptrdiff_t size, const SgdRule&,
                         int threads);
    void (*adam)(float* w, float* g, float* m, float* v, const uint8_t* live, ptrdiff_t size, const AdamRule&,
                 int threads);
    void (*pull)(float* g, const float* w, const float* anchor, ptrdiff_t size, float strength, int threads);
    double (*squared_norm)(float* g, const uint8_t* live, ptrdiff_t size, int threads);
    void (*gather)(float* to, const float* from, const int32_t* order, ptrdiff_t size, int threads);
};

}  // namespace prunefl
