// Compiled once for each instruction set by a path_*.cpp, which defines PRUNEFL_PATH and PRUNEFL_LANES. Everything
// is private to that file: a function that the linker could share might be the one compiled for the wider vectors.
#include <omp.h>

#include <cstring>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels.hpp"

namespace prunefl {
namespace {
#include "vector.hpp"
#include "linear.hpp"
#include "conv.hpp"
#include "layout.hpp"
#include "pool.hpp"
#include "update.hpp"
}  // namespace

extern const Kernels PRUNEFL_PATH;
const Kernels PRUNEFL_PATH{PRUNEFL_NAME,
                           LANES,
                           linear_forward,
                           linear_backward,
                           linear_full_gradient,
                           conv_forward,
                           conv_weight_gradient,
                           conv_full_gradient,
                           transpose,
                           clear,
                           from_torch,
                           to_torch,
                           move_rows,
                           relu_backward,
                           bias_gradient,
                           pool_forward,
                           pool_backward,
                           sgd,
                           masked_sgd,
                           momentum_sgd,
                           adam,
                           pull,
                           squared_norm,
                           gather};

}  // namespace prunefl
