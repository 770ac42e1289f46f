// The kernels in vectors of 16 floats, and of 8 where these fit the rows better.
#define PRUNEFL_PATH path_avx512
#define PRUNEFL_NAME "avx512"
#define PRUNEFL_LANES 16
#define PRUNEFL_NARROW 8
#include "path.inl"
