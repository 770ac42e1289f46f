// Values on the wire: float32 as it is or its upper half, int8 with one scale a block, and the 8-bit logarithm of
// importance.
#pragma once
#include "live.hpp"

namespace coding {

constexpr size_t kBlock = 256;  // values that share an int8 scale: 4 bytes in 260 is 1.5 % on top

// Copies n floats (at any alignment); false if one of them is NaN or infinite, or negative where that is refused.
bool copy_finite(const uint8_t* from, size_t n, bool refuse_negative, float* to);

// out: the upper two bytes of each value, rounded to even. False if a finite value becomes infinite.
bool encode_bfloat16(const float* values, size_t n, uint8_t* out);
// False if a value is NaN or infinite.
bool decode_bfloat16(const uint8_t* in, size_t n, float* values);

// out: each value as IEEE half, rounded to even. False if a finite value becomes infinite.
bool encode_float16(const float* values, size_t n, uint8_t* out);

size_t int8_bytes(size_t n);
// out: the scales of all blocks (float32), then one signed byte a value, in [-127, 127].
void encode_int8(const float* values, size_t n, uint8_t* out);
// False if a scale is negative, NaN or infinite, a byte is -128 or a value overflows.
bool decode_int8(const uint8_t* in, size_t n, float* values);

// out: the largest value (float32), then one byte a value; see docs/wire-format.md. False if a value is negative.
bool encode_log8(const float* values, size_t n, uint8_t* out);
// False if the largest value is negative, NaN or infinite.
bool decode_log8(const uint8_t* in, size_t n, float* values);

}  // namespace coding
