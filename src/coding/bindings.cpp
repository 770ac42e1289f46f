#include <nanobind/nanobind.h>

NB_MODULE(_coding, m) { m.doc() = "prunefl coding"; }
