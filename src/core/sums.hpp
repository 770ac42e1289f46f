// Sums over whole updates in one pass: numpy would make an array for each product or difference.
#pragma once
#include <cmath>
#include <cstddef>

// By what the processor can do, not by its name: "arch=haswell" is never chosen on AMD.
#if defined(__x86_64__) && defined(__GLIBC__)
#define CORE_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define CORE_CLONES
#endif

namespace core {

// total += weight * part, rounded once: the bits do not depend on how wide the processor's vectors are.
CORE_CLONES static void accumulate(const float* part, float weight, float* total, size_t size) {
    for (size_t i = 0; i < size; ++i) total[i] = __builtin_fmaf(part[i], weight, total[i]);
}

// The sum of squared differences in float64; sixteen sums side by side, for the same bits at every vector width.
CORE_CLONES static double square_distance(const float* one, const float* other, size_t size) {
    constexpr size_t kLanes = 16;
    double sums[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= size; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const double difference = double(one[i + lane]) - double(other[i + lane]);
            sums[lane] = __builtin_fma(difference, difference, sums[lane]);
        }
    for (size_t lane = 0; i < size; ++i, ++lane) {
        const double difference = double(one[i]) - double(other[i]);
        sums[lane] = __builtin_fma(difference, difference, sums[lane]);
    }
    double total = 0;
    for (const double sum : sums) total += sum;
    return total;
}

}  // namespace core
