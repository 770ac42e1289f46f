// Codes the gaps between k marked positions of n at very nearly the entropy, with a range variant of ANS.
#pragma once
#include <memory>
#include <vector>

#include "live.hpp"

namespace coding {

// Filled before it is read, so not cleared first.
template <typename T>
struct Scratch {
    explicit Scratch(size_t size) : data(new T[size]), end(data.get() + size) {}
    std::unique_ptr<T[]> data;
    T* end;
};

// The coded form of k >= 1 gaps among n positions; k <= n / 2, so that escapes stay rare.
std::vector<uint8_t> encode_gaps(const uint32_t* gaps, size_t k, size_t n);

// Writes k >= 1 ascending positions below n; false if the bytes are not exactly what encode_gaps makes.
bool decode_positions(const uint8_t* in, size_t num_bytes, size_t n, size_t k, uint32_t* positions);

}  // namespace coding
