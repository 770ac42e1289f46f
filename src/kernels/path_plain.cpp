// The kernels in vectors of 4 floats, with nothing but what every CPU of its kind has.
#define PRUNEFL_PATH path_plain
#define PRUNEFL_NAME "plain"
#define PRUNEFL_LANES 4
#include "path.inl"
