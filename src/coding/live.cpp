// Counting is separate from walking: it vectorises, and gives the size that a walk then fills.
#include "live.hpp"

namespace coding {

size_t count_live(const uint8_t *mask, size_t n) {
  size_t live = 0, i = 0;
  // sums of at most 255 words of eight bytes stay below a byte's limit
  for (; i + 8 <= n;) {
    const size_t words = (n - i) / 8 < 255 ? (n - i) / 8 : 255;
    uint64_t sums = 0;
    for (size_t w = 0; w < words; ++w, i += 8) sums += load<uint64_t>(mask + i) & 0x0101010101010101ULL;
    for (; sums; sums >>= 8) live += sums & 0xFF;
  }
  for (; i < n; ++i) live += mask[i] & 1u;
  return live;
}

}  // namespace coding
