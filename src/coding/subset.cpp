// When more than half of the positions are marked, the others are coded instead: the receiver knows the counts too.
#include "subset.hpp"

#include <algorithm>

namespace coding {
namespace {

// Numbers the positions of a mask (or, with flip, the others) in turn and finds them again by number.
class Selector {
  public:
    Selector(const uint8_t* mask, size_t n, bool flip) : mask_(mask), n_(n), flip_(flip) { load_chunk(); }

    // Numbers must ascend from call to call and be smaller than the count of positions.
    size_t find(size_t number) {
        for (; before_ + count_ <= number; load_chunk()) {
            before_ += count_;
            chunk_ += 64;
        }
        uint64_t bits = bits_;
        for (size_t skip = number - before_; skip > 0; --skip) bits &= bits - 1;
        return chunk_ + static_cast<size_t>(__builtin_ctzll(bits));
    }

  private:
    void load_chunk() {
        const uint64_t bits = sixty_four(mask_, n_, chunk_);
        bits_ = flip_ ? ~bits & existing(n_, chunk_) : bits;
        count_ = static_cast<size_t>(__builtin_popcountll(bits_));
    }

    const uint8_t* mask_;
    size_t n_, chunk_ = 0, before_ = 0, count_ = 0;
    bool flip_;
    uint64_t bits_ = 0;
};

// The gaps between the marked among the positions of base (or, with among_pruned, among the others); marked are those
// where the mask is `value`.
void write_gaps_among(const uint8_t* mask, const uint8_t* base, size_t n, bool among_pruned, bool value,
                      uint32_t* gaps) {
    size_t before = 0, from = 0;
    for (size_t i = 0; i < n; i += 64) {
        const uint64_t base_bits = sixty_four(base, n, i), mask_bits = sixty_four(mask, n, i);
        const uint64_t among = among_pruned ? ~base_bits & existing(n, i) : base_bits;
        for (uint64_t marked = among & (value ? mask_bits : ~mask_bits); marked; marked &= marked - 1) {
            const uint64_t below = among & ((marked & (~marked + 1)) - 1);
            const size_t number = before + static_cast<size_t>(__builtin_popcountll(below));
            // there is room for all that are marked, as the caller has counted them
            *gaps++ = static_cast<uint32_t>(number - from);  // NOLINT(clang-analyzer-security.ArrayBound)
            from = number + 1;
        }
        before += static_cast<size_t>(__builtin_popcountll(among));
    }
}

std::vector<uint8_t> encode_among(const uint8_t* mask, const uint8_t* base, size_t n, bool among_pruned, size_t size,
                                  size_t marked, bool value) {
    const size_t k = std::min(marked, size - marked);
    if (k == 0) return {};
    Scratch<uint32_t> gaps(k);
    write_gaps_among(mask, base, n, among_pruned, (marked > k) != value, gaps.data.get());
    return encode_gaps(gaps.data.get(), k, size);
}

// Turns around the marked of the numbered positions; false if the bytes are wrong.
bool apply(Part part, const uint8_t* base, size_t n, bool among_pruned, size_t size, uint8_t* mask) {
    const size_t k = std::min(part.marked, size - part.marked);
    if (k == 0) return part.num_bytes == 0;
    Scratch<uint32_t> numbers(k);
    if (!decode_positions(part.in, part.num_bytes, size, k, numbers.data.get())) return false;
    Selector selector(base, n, among_pruned);
    for (const uint32_t* number = numbers.data.get(); number < numbers.end; ++number) mask[selector.find(*number)] ^= 1;
    return true;
}

}  // namespace

std::vector<uint8_t> encode_subset(const uint8_t* mask, size_t n) {
    const size_t live = count_live(mask, n), k = std::min(live, n - live);
    if (k == 0) return {};
    Scratch<uint32_t> gaps(k);
    uint32_t* next = gaps.data.get();
    size_t from = 0;
    for_each(mask, n, live > k, [&](size_t i) {
        *next++ = static_cast<uint32_t>(i - from);
        from = i + 1;
    });
    return encode_gaps(gaps.data.get(), k, n);
}

bool decode_subset(const uint8_t* in, size_t num_bytes, size_t n, size_t live, uint8_t* mask) {
    if (live > n) return false;
    const size_t k = std::min(live, n - live);
    const bool flip = live > k;
    if (n) std::memset(mask, flip, n);
    if (k == 0) return num_bytes == 0;
    Scratch<uint32_t> positions(k);
    if (!decode_positions(in, num_bytes, n, k, positions.data.get())) return false;
    for (const uint32_t* position = positions.data.get(); position < positions.end; ++position) mask[*position] = !flip;
    return true;
}

Change encode_change(const uint8_t* mask, const uint8_t* base, size_t n) {
    const size_t live = count_live(base, n), removed = count_only(base, mask, n), added = count_only(mask, base, n);
    return {removed, encode_among(mask, base, n, false, live, removed, false),
            encode_among(mask, base, n, true, n - live, added, true)};
}

bool decode_change(Part removed, Part added, const uint8_t* base, size_t n, uint8_t* mask) {
    const size_t live = count_live(base, n);
    if (removed.marked > live || added.marked > n - live) return false;
    const auto kept = static_cast<uint8_t>(removed.marked <= live - removed.marked);
    const auto joined = static_cast<uint8_t>(added.marked > n - live - added.marked);
    for (size_t i = 0; i < n; ++i) mask[i] = (base[i] & 1u) ? kept : joined;
    return apply(removed, base, n, false, live, mask) && apply(added, base, n, true, n - live, mask);
}

}  // namespace coding
