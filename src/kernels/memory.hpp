// Buffers planned ahead: each says when it is written first and read last, and those that never live together share.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "views.hpp"

namespace prunefl {

class Memory {
  public:
    // A buffer of so many floats that is in use at this time; `keep` extends its life.
    int reserve(ptrdiff_t floats, int time) {
        const ptrdiff_t padded = (floats + SLACK + ALIGNED - 1) / ALIGNED * ALIGNED;
        wanted_.push_back({floats, padded, time, time, 0});
        return static_cast<int>(wanted_.size()) - 1;
    }
    void keep(int buffer, int time) {
        Wanted& w = wanted_[buffer];
        w.first = std::min(w.first, time), w.last = std::max(w.last, time);
    }
    // Give every buffer its place, the largest first, each as low as those allow that live beside it.
    void place() {
        std::vector<int> order(wanted_.size());
        for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int>(i);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return wanted_[a].size > wanted_[b].size; });
        std::vector<int> placed;
        for (const int i : order) {
            wanted_[i].offset = lowest(wanted_[i], placed);
            size_ = std::max(size_, wanted_[i].offset + wanted_[i].size);
            placed.push_back(i);
        }
        auto* memory = static_cast<float*>(std::aligned_alloc(64, sizeof(float) * std::max<ptrdiff_t>(size_, ALIGNED)));
        if (!memory) throw std::bad_alloc();
        std::memset(memory, 0, sizeof(float) * size_);
        memory_.reset(memory);
        for (size_t i = 0; i < wanted_.size(); i++) {
            const size_t at = static_cast<size_t>(wanted_[i].first);
            if (begins_.size() <= at) begins_.resize(at + 1);
            begins_[at].push_back(static_cast<int>(i));
        }
    }
    float* data(int buffer) const { return memory_.get() + wanted_[buffer].offset; }
    ptrdiff_t num_bytes() const { return static_cast<ptrdiff_t>(sizeof(float)) * size_; }
    // Kernels read a little beyond a buffer, where whatever was there before may be no number at all.
    void begin(int time) const {
        if (static_cast<size_t>(time) >= begins_.size()) return;
        for (const int i : begins_[time]) std::memset(data(i) + wanted_[i].floats, 0, sizeof(float) * SLACK);
    }

  private:
    static constexpr ptrdiff_t ALIGNED = 16;
    struct Wanted {
        ptrdiff_t floats, size;
        int first, last;
        ptrdiff_t offset;
    };
    struct Freed {
        void operator()(float* memory) const { std::free(memory); }
    };
    ptrdiff_t lowest(const Wanted& w, const std::vector<int>& placed) const {
        std::vector<const Wanted*> beside;
        for (const int i : placed)
            if (wanted_[i].first <= w.last && w.first <= wanted_[i].last) beside.push_back(&wanted_[i]);
        std::sort(beside.begin(), beside.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
        ptrdiff_t offset = 0;
        for (const Wanted* other : beside) {
            if (offset + w.size <= other->offset) break;
            offset = std::max(offset, other->offset + other->size);
        }
        return offset;
    }
    std::vector<Wanted> wanted_;
    std::vector<std::vector<int>> begins_;
    std::unique_ptr<float, Freed> memory_;
    ptrdiff_t size_ = 0;
};

}  // namespace prunefl
