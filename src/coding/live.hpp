// Walks over the live positions of a mask that is stored as one byte (0 or 1) a weight.
#pragma once
#include "checksum.hpp"

namespace coding {

// Bit i of the result is the lowest bit of byte i: eight weights at a time.
inline uint32_t eight(const uint8_t* mask) {
    return static_cast<uint32_t>(((load<uint64_t>(mask) & 0x0101010101010101ULL) * 0x0102040810204080ULL) >> 56);
}

// The 64 positions from i on, as bits; those beyond the end are 0.
inline uint64_t sixty_four(const uint8_t* mask, size_t n, size_t i) {
    uint64_t bits = 0;
    if (i + 64 <= n)
        for (int part = 0; part < 8; ++part) bits |= static_cast<uint64_t>(eight(mask + i + 8 * part)) << (8 * part);
    else
        for (size_t at = i; at < n; ++at) bits |= static_cast<uint64_t>(mask[at] & 1u) << (at - i);
    return bits;
}

// Ones for those of the 64 positions from i on that exist.
inline uint64_t existing(size_t n, size_t i) { return i + 64 <= n ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1; }

// Calls visit(i + place of each one).
template <typename Visit>
inline void for_each_bit(uint64_t bits, size_t i, Visit visit) {
    for (; bits; bits &= bits - 1) visit(i + static_cast<size_t>(__builtin_ctzll(bits)));
}

// Calls visit(position) for each live position, or, with flip, for each pruned one, in ascending order. By 64, because
// the end of the inner loop is what the processor cannot foresee.
template <typename Visit>
inline void for_each(const uint8_t* mask, size_t n, bool flip, Visit visit) {
    for (size_t i = 0; i < n; i += 64) {
        const uint64_t bits = sixty_four(mask, n, i);
        for_each_bit(flip ? ~bits & existing(n, i) : bits, i, visit);
    }
}

// The number of positions where word_at(i), which holds the bytes i to i + 7, or byte_at(i) has its lowest bits set.
template <typename WordAt, typename ByteAt>
inline size_t count_where(size_t n, WordAt word_at, ByteAt byte_at) {
    size_t count = 0, i = 0;
    while (i + 8 <= n) {
        // at most 255 words: then no byte of their sum overflows
        const size_t end = i + 8 * ((n - i) / 8 < 255 ? (n - i) / 8 : 255);
        uint64_t sums = 0;
        for (; i < end; i += 8) sums += word_at(i) & 0x0101010101010101ULL;
        for (; sums; sums >>= 8) count += sums & 0xFF;
    }
    for (; i < n; ++i) count += byte_at(i) & 1u;
    return count;
}

inline size_t count_live(const uint8_t* mask, size_t n) {
    return count_where(
        n, [=](size_t i) { return load<uint64_t>(mask + i); }, [=](size_t i) { return mask[i]; });
}

// How many positions live in `one` and not in `other`.
inline size_t count_only(const uint8_t* one, const uint8_t* other, size_t n) {
    return count_where(
        n, [=](size_t i) { return load<uint64_t>(one + i) & ~load<uint64_t>(other + i); },
        [=](size_t i) { return one[i] & ~other[i]; });
}

// values[j] = the j-th live entry of dense. Room for count_live(mask, n) values is the caller's duty.
inline void gather(const float* dense, const uint8_t* mask, size_t n, float* values) {
    for_each(mask, n, false, [&](size_t i) { *values++ = dense[i]; });
}

// The reverse of gather; other entries of dense are left alone.
inline void scatter(const float* values, const uint8_t* mask, size_t n, float* dense) {
    for_each(mask, n, false, [&](size_t i) { dense[i] = *values++; });
}

}  // namespace coding
