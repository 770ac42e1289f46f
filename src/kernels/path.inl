// Compiled once for each instruction set by a path_*.cpp, which defines PRUNEFL_PATH and PRUNEFL_LANES. Everything
// is private to that file: a function that the linker could share might be the one compiled for the wider vectors.
#include <omp.h>

#include <cstring>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels.hpp"

namespace prunefl {
namespace {
#include "vector.hpp"
#include "linear.hpp"
#include "conv_tiles.hpp"
#include "conv.hpp"
#include "layout.hpp"
#include "pool.hpp"
#include "blend.hpp"
#include "sample_norm.hpp"
#include "attend.hpp"
#include "dense.hpp"
#include "spread.hpp"
#include "update.hpp"
#ifdef PRUNEFL_NARROW
#include "narrow.hpp"
#define CHOSEN(kernel) either::kernel
constexpr int WHOLE_LANES = narrow::LANES;
#else
#define CHOSEN(kernel) kernel
constexpr int WHOLE_LANES = LANES;
#endif
}  // namespace

extern const Kernels PRUNEFL_PATH;
const Kernels PRUNEFL_PATH{PRUNEFL_NAME,
                           WHOLE_LANES,
                           CHOSEN(linear_forward),
                           CHOSEN(linear_backward),
                           linear_full_gradient,
                           CHOSEN(conv_forward),
                           CHOSEN(conv_weight_gradient),
                           CHOSEN(conv_full_gradient),
                           transpose,
                           clear,
                           from_torch,
                           to_torch,
                           move_rows,
                           relu_backward,
                           bias_gradient,
                           pool_forward,
                           pool_backward,
                           add_rows,
                           blend_forward,
                           blend_backward,
                           average_forward,
                           average_backward,
                           multiply_forward,
                           multiply_backward,
                           drop,
                           sample_norm_forward,
                           sample_norm_backward,
                           attend_forward,
                           attend_backward,
                           dense_forward,
                           dense_conv_gradient,
                           dense_linear_backward,
                           dense_linear_gradient,
                           sgd,
                           masked_sgd,
                           momentum_sgd,
                           adam,
                           pull,
                           squared_norm,
                           gather};

}  // namespace prunefl
