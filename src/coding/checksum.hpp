// The checksum at the end of each message: XXH64 (seed 0), a public algorithm that any language has.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coding {

// The format is little-endian; so are all machines that this is built for.
template <typename T>
inline T load(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

template <typename T>
inline void store(uint8_t* p, T value) {
    std::memcpy(p, &value, sizeof value);
}

uint64_t xxh64(const uint8_t* data, size_t num_bytes);

}  // namespace coding
