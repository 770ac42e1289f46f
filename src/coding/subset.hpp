// Codes k marked positions of n at very nearly log2(n choose k) bits: gaps, by a range variant of ANS.
#pragma once
#include <vector>

#include "live.hpp"

namespace coding {

// The coded form of the positions where the mask is 1; empty when none or all are (their number says it all).
std::vector<uint8_t> encode_subset(const uint8_t *mask, size_t n);

// Writes the mask of n bytes with k ones; false if the bytes are not exactly one that encode_subset makes.
bool decode_subset(const uint8_t *in, size_t num_bytes, size_t n, size_t k, uint8_t *mask);

}  // namespace coding
