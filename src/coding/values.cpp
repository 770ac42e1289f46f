// Loops that are simple enough for the compiler to vectorise, and give the same bits on every machine.
#include "values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace coding {
namespace {

constexpr uint32_t kExponent = 0x7F800000u;  // all ones: NaN or infinite

// Written out, so that no machine's exp2 decides: 2^(-j/8), and 2^((2j+1)/16), the borders between the 2^(j/8).
constexpr double kEighth[8] = {1.0,
                               0.9170040432046712,
                               0.8408964152537145,
                               0.7711054127039704,
                               0.7071067811865476,
                               0.6484197773255048,
                               0.5946035575013605,
                               0.5452538663326288};
constexpr double kBorder[8] = {1.0442737824274138, 1.1387886347566916, 1.241857812073484,  1.3542555469368927,
                               1.4768261459394993, 1.6104903319492543, 1.7562521603732995, 1.9152065613971474};

// For the top eight bits of a fraction 1.xxxxxxxx: how many eighths of an octave it is above 1, rounded (0 to 8).
std::array<uint8_t, 256> eighths_above_one() {
    std::array<uint8_t, 256> table{};
    for (int i = 0; i < 256; ++i)
        table[i] = static_cast<uint8_t>(
            std::count_if(kBorder, kBorder + 8, [i](double b) { return b < 1 + (i + 0.5) / 256; }));
    return table;
}

bool finite(float x) { return std::isfinite(x); }

float largest_magnitude(const float* values, size_t n) {
    uint32_t top = 0;  // as integers, magnitudes sort like numbers and a NaN comes out on top
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, values + i, 4);
        top = std::max(top, bits & 0x7FFFFFFFu);
    }
    float result;
    std::memcpy(&result, &top, 4);
    return result;
}

float largest_finite(const float* values, size_t n) {
    uint32_t top = 0;
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, values + i, 4);
        bits &= 0x7FFFFFFFu;
        top = std::max(top, bits < kExponent ? bits : 0u);
    }
    float result;
    std::memcpy(&result, &top, 4);
    return result;
}

float block_scale(const float* values, size_t n) {
    float scale = largest_magnitude(values, n) / 127.0f;
    // the division may have rounded up, and then the largest finite value would come back infinite
    if (finite(scale) && !finite(scale * 127.0f)) scale = std::nextafter(scale, 0.0f);
    return scale;
}

int8_t nearest(float value, float scale) {
    const float ratio = std::min(127.0f, std::max(-127.0f, value / scale));
    return static_cast<int8_t>((ratio + 12582912.0f) - 12582912.0f);  // 1.5 * 2^23: rounds to even, without a call
}

}  // namespace

bool copy_finite(const uint8_t* from, size_t n, bool refuse_negative, float* to) {
    if (n == 0) return true;
    std::memcpy(to, from, 4 * n);
    uint32_t bad = 0;
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, to + i, 4);
        bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
        bad |= static_cast<uint32_t>(refuse_negative && bits > 0x80000000u);
    }
    return bad == 0;
}

bool encode_bfloat16(const float* values, size_t n, uint8_t* out) {
    uint32_t overflow = 0;
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, values + i, 4);
        const bool finite = (bits & kExponent) != kExponent;
        const bool nan = (bits & 0x7FFFFFFFu) > kExponent;
        const uint32_t half = nan ? 0x7FC0u : (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
        overflow |= static_cast<uint32_t>(finite && (half & 0x7F80u) == 0x7F80u);
        store(out + 2 * i, static_cast<uint16_t>(half));
    }
    return overflow == 0;
}

bool decode_bfloat16(const uint8_t* in, size_t n, float* values) {
    uint32_t bad = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t bits = static_cast<uint32_t>(load<uint16_t>(in + 2 * i)) << 16;
        bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
        std::memcpy(values + i, &bits, 4);
    }
    return bad == 0;
}

namespace {

// The nearest half, ties to even: by adding a power of two that pushes the lost bits out, as the hardware rounds.
uint16_t nearest_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > kExponent) return static_cast<uint16_t>(sign | 0x7E00u);  // NaN
    if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
    if (magnitude < 0x38800000u) {  // below the smallest normal half: steps of 2^-24
        float shifted;
        std::memcpy(&shifted, &magnitude, 4);
        shifted += 0.5f;
        std::memcpy(&bits, &shifted, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3F000000u));
    }
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) size_t halves_by_eight(const float* values, size_t n, uint8_t* out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0));
    return i;
}
#endif

}  // namespace

bool encode_float16(const float* values, size_t n, uint8_t* out) {
    size_t i = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c")) i = halves_by_eight(values, n, out);
#endif
    for (; i < n; ++i) store(out + 2 * i, nearest_half(values[i]));
    const float top = largest_finite(values, n);
    return top < 65520.0f;  // what would round to infinity
}

size_t int8_bytes(size_t n) { return n + 4 * ((n + kBlock - 1) / kBlock); }

void encode_int8(const float* values, size_t n, uint8_t* out) {
    uint8_t* bytes = out + 4 * ((n + kBlock - 1) / kBlock);
    for (size_t start = 0; start < n; start += kBlock, out += 4) {
        const size_t end = std::min(n, start + kBlock);
        const float scale = block_scale(values + start, end - start);
        store(out, scale);
        // a scale that is zero or not finite says all there is to say about its block
        if (!finite(scale) || scale == 0.0f) {
            std::memset(bytes + start, 0, end - start);
            continue;
        }
        for (size_t i = start; i < end; ++i) bytes[i] = static_cast<uint8_t>(nearest(values[i], scale));
    }
}

bool decode_int8(const uint8_t* in, size_t n, float* values) {
    const uint8_t* bytes = in + 4 * ((n + kBlock - 1) / kBlock);
    bool good = true;
    for (size_t start = 0; start < n; start += kBlock, in += 4) {
        const float scale = load<float>(in);
        good &= finite(scale * 127.0f) && scale >= 0.0f;
        for (size_t i = start; i < std::min(n, start + kBlock); ++i) {
            good &= bytes[i] != 0x80;
            values[i] = scale * static_cast<float>(static_cast<int8_t>(bytes[i]));
        }
    }
    return good;
}

bool encode_log8(const float* values, size_t n, uint8_t* out) {
    static const std::array<uint8_t, 256> above_one = eighths_above_one();
    const float top = largest_magnitude(values, n);
    store(out, top);
    out += 4;
    bool good = true;
    for (size_t i = 0; i < n; ++i) {
        good &= !(values[i] < 0.0f);
        const float ratio = finite(top) && top > 0.0f ? values[i] / top : 0.0f;
        uint32_t bits;
        std::memcpy(&bits, &ratio, 4);
        const int octaves = static_cast<int>((bits >> 23) & 0xFF) - 127;
        const int code = 255 + 8 * octaves + above_one[(bits >> 15) & 0xFF];
        out[i] = static_cast<uint8_t>(std::max(0, std::min(255, code)));
    }
    return good;
}

bool decode_log8(const uint8_t* in, size_t n, float* values) {
    const float top = load<float>(in);
    if (!finite(top) || std::signbit(top)) return false;
    float table[256] = {0.0f};
    for (int code = 1; code < 256; ++code)
        table[code] = static_cast<float>(std::ldexp(top * kEighth[(255 - code) % 8], -((255 - code) / 8)));
    for (size_t i = 0; i < n; ++i) values[i] = table[in[4 + i]];
    return true;
}

}  // namespace coding
