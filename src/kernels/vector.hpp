// Vectors of PRUNEFL_LANES floats in GCC's portable vector language; a path's file sets the width and includes this.
#define INLINE static inline __attribute__((always_inline))
// Kept out of line: when the compiler merges the inner loops into their callers it spills the accumulators.
#define KERNEL static __attribute__((noinline))
#ifdef PRUNEFL_NO_UNROLL
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

constexpr int LANES = PRUNEFL_LANES;
#if defined(__AVX512VL__) || defined(__aarch64__)
constexpr int REGISTERS = 32;
#else
constexpr int REGISTERS = 16;
#endif
typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef int32_t Int __attribute__((vector_size(LANES * 4)));
typedef float LooseVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
INLINE void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
INLINE Vec splat(float s) { return s - Vec{}; }
// Written so that NaN stays NaN: a model that diverges must not look as if it did not.
INLINE Vec positive(Vec v) { return v <= Vec{} ? Vec{} : v; }

// The first `count` lanes of a vector, 0 < count <= LANES: neither reads nor writes beyond them.
#if defined(__AVX512VL__) && PRUNEFL_LANES == 8
INLINE Vec load_first(const float* p, int count) {
    return count == LANES ? load(p) : _mm256_maskz_loadu_ps((1u << count) - 1u, p);
}
INLINE void store_first(float* p, Vec v, int count) {
    if (count == LANES) return store(p, v);
    _mm256_mask_storeu_ps(p, (1u << count) - 1u, v);
}
#elif defined(__AVX512F__) && PRUNEFL_LANES == 16
INLINE Vec load_first(const float* p, int count) {
    return count == LANES ? load(p) : _mm512_maskz_loadu_ps((1u << count) - 1u, p);
}
INLINE void store_first(float* p, Vec v, int count) {
    if (count == LANES) return store(p, v);
    _mm512_mask_storeu_ps(p, (1u << count) - 1u, v);
}
#elif defined(__AVX2__) && PRUNEFL_LANES == 8
alignas(32) static const int32_t FIRST[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
INLINE Vec load_first(const float* p, int count) {
    if (count == LANES) return load(p);
    return _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(FIRST + 8 - count)));
}
// In pieces: AMD's masked store takes longer than all of them.
INLINE void store_first(float* p, Vec v, int count) {
    if (count == LANES) return store(p, v);
    __m128 rest = _mm256_castps256_ps128(v);
    if (count & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (count & 2) {
        _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (count & 1) _mm_store_ss(p, rest);
}
#else
// Lanes by constant numbers: a variable one goes through memory.
INLINE Vec load_first(const float* p, int count) {
    if (count == LANES) return load(p);
    Vec v{};
    UNROLL for (int i = 0; i < LANES - 1; i++) if (i < count) v[i] = p[i];
    return v;
}
INLINE void store_first(float* p, Vec v, int count) {
    if (count == LANES) return store(p, v);
    UNROLL for (int i = 0; i < LANES - 1; i++) if (i < count) p[i] = v[i];
}
#endif

typedef float Vec4 __attribute__((vector_size(16)));
typedef float LooseVec4 __attribute__((vector_size(16), aligned(4), may_alias));
INLINE Vec4 load4(const float* p) { return *reinterpret_cast<const LooseVec4*>(p); }
INLINE void store4(float* p, Vec4 v) { *reinterpret_cast<LooseVec4*>(p) = v; }

// The sums of four vectors: one shuffle tree for four is three times cheaper than four trees.
typedef float Vec8 __attribute__((vector_size(32)));
#if defined(__aarch64__)
INLINE Vec4 sums_of_four(Vec4 a, Vec4 b, Vec4 c, Vec4 d) { return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)); }
#else
INLINE Vec4 sums_of_four(Vec4 a, Vec4 b, Vec4 c, Vec4 d) {
    const Vec4 ab = __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
    const Vec4 cd = __builtin_shufflevector(c, d, 0, 4, 2, 6) + __builtin_shufflevector(c, d, 1, 5, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
#endif
#if PRUNEFL_LANES >= 8
INLINE Vec4 sums_of_four(Vec8 a, Vec8 b, Vec8 c, Vec8 d) {
    const Vec8 ab = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
                    __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    const Vec8 cd = __builtin_shufflevector(c, d, 0, 8, 2, 10, 4, 12, 6, 14) +
                    __builtin_shufflevector(c, d, 1, 9, 3, 11, 5, 13, 7, 15);
    const Vec8 all = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                     __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    return __builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7);
}
#endif
#if PRUNEFL_LANES == 16
INLINE Vec8 fold(Vec v) {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
INLINE Vec4 sums_of_four(Vec a, Vec b, Vec c, Vec d) { return sums_of_four(fold(a), fold(b), fold(c), fold(d)); }
#endif
INLINE float sum_of(Vec v) { return sums_of_four(v, Vec{}, Vec{}, Vec{})[0]; }

// The range [first, last) that part `index` of `parts` takes of `count` things.
struct Range {
    int first, last;
};
INLINE Range part_of(int count, int index, int parts) {
    return {static_cast<int>(static_cast<int64_t>(count) * index / parts),
            static_cast<int>(static_cast<int64_t>(count) * (index + 1) / parts)};
}
INLINE int least(int a, int b) { return a < b ? a : b; }
INLINE int most(int a, int b) { return a > b ? a : b; }

// Run `task(i)` for i < tasks. Tasks never share an output, so the schedule cannot change a bit of the result.
template <class Task>
INLINE void run_tasks(int tasks, int threads, Task task) {
    if (threads <= 1 || tasks <= 1) {
        for (int i = 0; i < tasks; i++) task(i);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int i = 0; i < tasks; i++) task(i);
}
