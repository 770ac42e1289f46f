// Walks over the live positions of a mask that is stored as one byte (0 or 1) a weight.
#pragma once
#include "checksum.hpp"

namespace coding {

// Bit i of the result is the lowest bit of byte i: eight weights at a time.
inline uint32_t eight(const uint8_t *mask) {
  return static_cast<uint32_t>(((load<uint64_t>(mask) & 0x0101010101010101ULL) * 0x0102040810204080ULL) >> 56);
}

inline uint64_t sixty_four(const uint8_t *mask) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits |= static_cast<uint64_t>(eight(mask + 8 * i)) << (8 * i);
  return bits;
}

// Calls visit(position) for each live position, or, with flip, for each pruned one, in ascending order. By 64, because
// the end of the inner loop is what the processor cannot foresee.
template <typename Visit>
inline void for_each(const uint8_t *mask, size_t n, bool flip, Visit visit) {
  size_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (uint64_t bits = sixty_four(mask + i) ^ (flip ? ~uint64_t{0} : 0); bits; bits &= bits - 1)
      visit(i + static_cast<size_t>(__builtin_ctzll(bits)));
  for (; i < n; ++i)
    if (((mask[i] & 1u) != 0) != flip) visit(i);
}

size_t count_live(const uint8_t *mask, size_t n);

// values[j] = the j-th live entry of dense. Room for count_live(mask, n) values is the caller's duty.
template <typename T>
void gather(const T *dense, const uint8_t *mask, size_t n, T *values) {
  for_each(mask, n, false, [&](size_t i) { *values++ = dense[i]; });
}

// The reverse of gather; other entries of dense are left alone.
template <typename T>
void scatter(const T *values, const uint8_t *mask, size_t n, T *dense) {
  for_each(mask, n, false, [&](size_t i) { dense[i] = *values++; });
}

}  // namespace coding
