// Gaps between marked positions are geometric when the marks are spread evenly. The high part of a gap is coded by
// interleaved rANS with exactly that distribution, made from n and k alone, so no table travels; the low bits, which
// are almost uniform, are stored as they are. docs/wire-format.md specifies it number by number.
#include "gaps.hpp"

#include <algorithm>
#include <array>

namespace coding {
namespace {

constexpr uint32_t kBits = 12, kTotal = 1u << kBits;  // frequencies sum to 4096: the decoder's table fits in L1
constexpr uint32_t kLow = 1u << 16;                   // states live in [2^16, 2^32) and shed 16 bits at a time
constexpr size_t kMaxSymbols = 64;
constexpr size_t kManyStates = 4;  // four independent chains keep the processor busy

struct Model {
    uint32_t shift = 0;   // low bits stored plainly
    uint32_t escape = 0;  // the last symbol: add this many and read on (a geometric law forgets, so this is exact)
    std::array<uint32_t, kMaxSymbols + 1> start{};  // symbol s owns [start[s], start[s + 1]) of 4096
};

// Fixed-point products only: sender and receiver must agree to the last bit.
uint64_t power(uint64_t ratio32, uint32_t shift) {
    for (; shift > 0; --shift) ratio32 = (ratio32 * ratio32) >> 32;
    return ratio32;
}

Model make_model(size_t n, size_t k) {
    Model model;
    while ((n >> model.shift) > 8 * k) ++model.shift;
    const auto mean = static_cast<uint32_t>(((n >> model.shift) + k - 1) / k);  // 2 to 8
    model.escape = 8 * std::max(2u, std::min(8u, mean)) - 1;
    const uint64_t miss = power((static_cast<uint64_t>(n - k) << 32) / n, model.shift);
    const uint64_t spread = kTotal - (model.escape + 1);  // the rest gives each symbol a frequency of at least one
    uint64_t survive = uint64_t{1} << 32;
    for (uint32_t s = 0; s <= model.escape; ++s) {
        model.start[s] = s + static_cast<uint32_t>((spread * ((uint64_t{1} << 32) - survive)) >> 32);
        survive = (survive * miss) >> 32;
    }
    model.start[model.escape + 1] = kTotal;
    return model;
}

size_t num_states(size_t k) { return k < 1024 ? 1 : kManyStates; }

void write_low_bits(const uint32_t* gaps, size_t k, uint32_t shift, uint8_t* out) {
    uint64_t pending = 0;
    uint32_t filled = 0;
    for (size_t i = 0; i < k; ++i) {
        pending |= static_cast<uint64_t>(gaps[i] & ((1u << shift) - 1)) << filled;
        for (filled += shift; filled >= 8; filled -= 8, pending >>= 8) *out++ = static_cast<uint8_t>(pending);
    }
    if (filled) *out = static_cast<uint8_t>(pending);
}

// rANS is last in, first out: the gaps are put backwards so that they come out forwards.
class Encoder {
  public:
    Encoder(const Model& model, size_t max_words) : model_(model), words_(max_words), top_(words_.end) {
        for (uint32_t s = 0; s <= model.escape; ++s) {
            frequency_[s] = model.start[s + 1] - model.start[s];
            inverse_[s] = ((uint64_t{1} << 44) + frequency_[s] - 1) / frequency_[s];
        }
    }

    void put(uint32_t& state, uint32_t symbol) {
        const uint32_t frequency = frequency_[symbol];
        if (state >= (static_cast<uint64_t>(frequency) << (32 - kBits))) {
            *--top_ = static_cast<uint16_t>(state);
            state >>= 16;
        }
        // state < 2^20 * frequency and frequency <= 2^12, hence this product neither overflows nor misses the quotient
        const auto quotient = static_cast<uint32_t>((state * inverse_[symbol]) >> 44);
        state = (quotient << kBits) + (state - quotient * frequency) + model_.start[symbol];
    }

    void append_to(std::vector<uint8_t>& out) const {
        out.insert(out.end(), reinterpret_cast<const uint8_t*>(top_), reinterpret_cast<const uint8_t*>(words_.end));
    }

  private:
    const Model& model_;
    std::array<uint32_t, kMaxSymbols> frequency_{};
    std::array<uint64_t, kMaxSymbols> inverse_{};
    Scratch<uint16_t> words_;
    uint16_t* top_;
};

using States = std::array<uint32_t, kManyStates>;

void put_gaps(Encoder& encoder, const Model& model, const uint32_t* gaps, size_t k, States& states) {
    for (size_t i = k, last = num_states(k) - 1; i-- > 0;) {
        uint32_t high = gaps[i] >> model.shift, escapes = 0;
        for (; high >= model.escape; high -= model.escape) ++escapes;
        encoder.put(states[i & last], high);
        for (; escapes > 0; --escapes) encoder.put(states[i & last], model.escape);
    }
}

struct Slot {
    uint16_t symbol, frequency, offset;
};

// Everything the decoder reads goes through the two checks below, so no byte outside the input is touched.
class Decoder {
  public:
    Decoder(const Model& model, const uint8_t* in, const uint8_t* end) : in_(in), end_(end), slots_(kTotal) {
        for (uint32_t s = 0; s <= model.escape; ++s)
            for (uint32_t i = model.start[s]; i < model.start[s + 1]; ++i)
                slots_[i] = {static_cast<uint16_t>(s), static_cast<uint16_t>(model.start[s + 1] - model.start[s]),
                             static_cast<uint16_t>(i - model.start[s])};
    }

    bool get(uint32_t& state, uint32_t& symbol) {
        const Slot slot = slots_[state & (kTotal - 1)];
        symbol = slot.symbol;
        state = slot.frequency * (state >> kBits) + slot.offset;
        const bool refill = state < kLow;
        if (end_ - in_ < 2) return !refill;
        // no branch on refill: it comes every third time or so, unforeseeably
        state = refill ? (state << 16) | load<uint16_t>(in_) : state;
        in_ += refill ? 2 : 0;
        return true;
    }

    bool at_end() const { return in_ == end_; }

  private:
    const uint8_t *in_, *end_;
    std::vector<Slot> slots_;
};

// Plain low bits, read from a section whose length was checked before.
class LowBits {
  public:
    LowBits(const uint8_t* in, const uint8_t* end, uint32_t shift) : in_(in), end_(end), shift_(shift) {}

    uint32_t next() {
        if (filled_ < shift_) refill();
        const auto bits = static_cast<uint32_t>(pending_ & ((uint64_t{1} << shift_) - 1));
        pending_ >>= shift_;
        filled_ -= shift_;
        return bits;
    }

    bool only_zeros_left() const { return pending_ == 0; }

  private:
    // at most 27 bits are pending before, so 32 more fit
    void refill() {
        const size_t step = std::min<size_t>(4, static_cast<size_t>(end_ - in_));
        uint32_t fresh = 0;
        std::memcpy(&fresh, in_, step);
        pending_ |= static_cast<uint64_t>(fresh) << filled_;
        in_ += step;
        filled_ += 32;
    }

    const uint8_t *in_, *end_;
    uint32_t shift_, filled_ = 0;
    uint64_t pending_ = 0;
};

// One gap: false if the bytes ran out or the gap passes `room`, the positions that are left.
inline bool read_gap(Decoder& decoder, LowBits& low, const Model& model, uint32_t& state, uint64_t room,
                     uint64_t& gap) {
    uint64_t high = 0;
    uint32_t symbol;
    do {
        if (!decoder.get(state, symbol)) return false;
        high += symbol;
        if ((high << model.shift) >= room) return false;
    } while (symbol == model.escape);
    gap = (high << model.shift) | low.next();
    return gap < room;
}

}  // namespace

std::vector<uint8_t> encode_gaps(const uint32_t* gaps, size_t k, size_t n) {
    const Model model = make_model(n, k);
    Encoder encoder(model, k + (n >> model.shift) / model.escape + 1);
    States states;
    states.fill(kLow);
    put_gaps(encoder, model, gaps, k, states);
    const size_t low_bytes = (k * model.shift + 7) / 8, head = low_bytes + 4 * num_states(k);
    std::vector<uint8_t> out(head);
    write_low_bits(gaps, k, model.shift, out.data());
    std::memcpy(out.data() + low_bytes, states.data(), 4 * num_states(k));
    encoder.append_to(out);
    return out;
}

bool decode_positions(const uint8_t* in, size_t num_bytes, size_t n, size_t k, uint32_t* positions) {
    const Model model = make_model(n, k);
    const size_t low_bytes = (k * model.shift + 7) / 8, head = low_bytes + 4 * num_states(k);
    if (num_bytes < head) return false;
    LowBits low(in, in + low_bytes, model.shift);
    States states;
    states.fill(kLow);
    std::memcpy(states.data(), in + low_bytes, 4 * num_states(k));
    if (std::any_of(states.begin(), states.end(), [](uint32_t s) { return s < kLow; })) return false;
    Decoder decoder(model, in + head, in + num_bytes);
    uint64_t position = 0, gap = 0;
    for (size_t i = 0, last = num_states(k) - 1; i < k; ++i, ++position) {
        if (!read_gap(decoder, low, model, states[i & last], n - position, gap)) return false;
        position += gap;
        positions[i] = static_cast<uint32_t>(position);
    }
    const bool clean = std::all_of(states.begin(), states.end(), [](uint32_t s) { return s == kLow; });
    return clean && decoder.at_end() && low.only_zeros_left();
}

}  // namespace coding
