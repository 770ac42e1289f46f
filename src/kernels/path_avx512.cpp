// The kernels in vectors of 16 floats.
#define PRUNEFL_PATH path_avx512
#define PRUNEFL_NAME "avx512"
#define PRUNEFL_LANES 16
#include "path.inl"
