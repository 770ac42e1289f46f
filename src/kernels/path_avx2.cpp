// The kernels in vectors of 8 floats.
#define PRUNEFL_PATH path_avx2
#define PRUNEFL_NAME "avx2"
#define PRUNEFL_LANES 8
#include "path.inl"
