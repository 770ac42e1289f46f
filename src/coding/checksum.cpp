// XXH64 in its published form: four independent lanes, so that it runs at about the speed of memory.
#include "checksum.hpp"

namespace coding {
namespace {

constexpr uint64_t P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL,
                   P4 = 0x85EBCA77C2B2AE63ULL, P5 = 0x27D4EB2F165667C5ULL;

inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
inline uint64_t mix(uint64_t lane, uint64_t word) { return rotate(lane + word * P2, 31) * P1; }
inline uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * P1 + P4; }

uint64_t finish(uint64_t hash, const uint8_t* p, const uint8_t* end) {
    for (; end - p >= 8; p += 8) hash = rotate(hash ^ mix(0, load<uint64_t>(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        hash = rotate(hash ^ (load<uint32_t>(p) * P1), 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; ++p) hash = rotate(hash ^ (*p * P5), 11) * P1;
    hash = (hash ^ (hash >> 33)) * P2;
    hash = (hash ^ (hash >> 29)) * P3;
    return hash ^ (hash >> 32);
}

}  // namespace

uint64_t xxh64(const uint8_t* data, size_t num_bytes) {
    const uint8_t *p = data, *end = data + num_bytes;
    if (num_bytes < 32) return finish(P5 + num_bytes, p, end);
    uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
    for (; end - p >= 32; p += 32) {
        a = mix(a, load<uint64_t>(p));
        b = mix(b, load<uint64_t>(p + 8));
        c = mix(c, load<uint64_t>(p + 16));
        d = mix(d, load<uint64_t>(p + 24));
    }
    uint64_t hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
    return finish(hash + num_bytes, p, end);
}

}  // namespace coding
