// Memory for activations that is kept from step to step: fresh pages cost more than the arithmetic on them.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "views.hpp"

namespace prunefl {

// Every copy of a model has a pool of its own; the lock is for models that several threads evaluate.
class Pool {
  public:
    ~Pool() {
        for (auto& [size, memory] : free_) std::free(memory);
    }
    void* take(size_t& size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = free_.lower_bound(size);
        // A buffer twice too large is better left to those that need it.
        if (found != free_.end() && found->first <= 2 * size + 4096) {
            void* memory = found->second;
            size = found->first;
            free_.erase(found);
            return memory;
        }
        void* memory = std::aligned_alloc(64, size);
        if (!memory) throw std::bad_alloc();
        return memory;
    }
    void give(void* memory, size_t size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (free_.size() >= MOST_FREE) {
            std::free(free_.begin()->second);
            free_.erase(free_.begin());
        }
        free_.emplace(size, memory);
    }

  private:
    static constexpr size_t MOST_FREE = 32;
    std::mutex mutex_;
    std::multimap<size_t, void*> free_;
};

// A piece of a pool, with finite floats in the slack behind it; goes back by itself.
class Buffer {
  public:
    Buffer() = default;
    Buffer(const std::shared_ptr<Pool>& pool, ptrdiff_t floats) : pool_(pool) {
        size_ = (sizeof(float) * (floats + SLACK) + 63) / 64 * 64;
        data_ = static_cast<float*>(pool->take(size_));
        std::memset(data_ + floats, 0, sizeof(float) * SLACK);
    }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer() {
        if (data_) pool_->give(data_, size_);
    }
    float* data() const { return data_; }
    uint8_t* bytes() const { return reinterpret_cast<uint8_t*>(data_); }

  private:
    void swap(Buffer& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    std::shared_ptr<Pool> pool_;
    float* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace prunefl
