// The pattern of a layer in few bytes: as a subset of its positions, or as a change of a pattern that is known.
#pragma once
#include "gaps.hpp"

namespace coding {

// The coded form of the positions where the mask is 1; empty when none or all are (their number says it all).
std::vector<uint8_t> encode_subset(const uint8_t* mask, size_t n);

// Writes the mask of n bytes with `live` ones; false if the bytes are not exactly what encode_subset makes.
bool decode_subset(const uint8_t* in, size_t num_bytes, size_t n, size_t live, uint8_t* mask);

// What left the live positions of `base`, as a subset of these, and what joined, as a subset of its pruned ones: each
// has its own rate, and a position that cannot change in this way costs nothing.
struct Change {
    size_t num_removed;
    std::vector<uint8_t> removed, added;
};
Change encode_change(const uint8_t* mask, const uint8_t* base, size_t n);

struct Part {
    const uint8_t* in;
    size_t num_bytes, marked;
};
// Writes the mask that the change makes of the base; false if the bytes are not exactly what encode_change makes.
bool decode_change(Part removed, Part added, const uint8_t* base, size_t n, uint8_t* mask);

}  // namespace coding
