// A weighted sum of many updates, one after another: numpy would make a product array for each.
#pragma once
#include <cmath>
#include <cstddef>

namespace core {

// total += weight * part, rounded once: the bits do not depend on how wide the processor's vectors are.
#if defined(__x86_64__) && defined(__GLIBC__)
__attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#endif
static void
accumulate(const float* part, float weight, float* total, size_t size) {
    for (size_t i = 0; i < size; ++i) total[i] = __builtin_fmaf(part[i], weight, total[i]);
}

}  // namespace core
