// The kernels in vectors of 4 floats and 32 registers, as every aarch64 CPU has them.
#define PRUNEFL_PATH path_neon
#define PRUNEFL_NAME "neon"
#define PRUNEFL_LANES 4
#include "path.inl"
