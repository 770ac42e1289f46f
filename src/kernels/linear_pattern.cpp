// From a mask to the panels of a linear layer.
#include <algorithm>
#include <cstring>

#include "pattern.hpp"

namespace prunefl {

namespace {

// Narrow panels keep their input in the cache, wide ones give rows enough weights to be worth a visit.
int width_for(double density, int inputs) {
    const int width = density > 0.08 ? 256 : density > 0.03 ? 512 : density > 0.012 ? 1024 : 4096;
    return std::min(width, std::max(1, inputs));
}

}  // namespace

LinearPattern::LinearPattern(const uint8_t* live, int outputs, int inputs) : inputs_(inputs), outputs_(outputs) {
    const int64_t total = static_cast<int64_t>(outputs) * inputs;
    const int64_t count = total - std::count(live, live + total, uint8_t{0});
    panel_width_ = width_for(static_cast<double>(count) / total, inputs);
    panels_ = (inputs + panel_width_ - 1) / panel_width_;
    start_.assign(1, 0);
    column_.reserve(count);
    for (int p = 0; p < panels_; p++) {
        const int first = p * panel_width_, last = std::min(inputs, first + panel_width_);
        for (int r = 0; r < outputs; r++) {
            const uint8_t* row = live + static_cast<int64_t>(r) * inputs;
            for (int i = first; i < last; i++)
                if (row[i]) column_.push_back(static_cast<uint16_t>(i - first));
            start_.push_back(static_cast<int32_t>(column_.size()));
        }
    }
}

LinearWeights LinearPattern::with(const float* value) const {
    return {inputs_, outputs_, panels_, panel_width_, start_.data(), column_.data(), value};
}

std::vector<int64_t> LinearPattern::positions() const {
    std::vector<int64_t> found;
    found.reserve(column_.size());
    for (int p = 0; p < panels_; p++)
        for (int r = 0; r < outputs_; r++) {
            const size_t at = static_cast<size_t>(p) * outputs_ + r;
            for (int32_t k = start_[at]; k < start_[at + 1]; k++)
                found.push_back(static_cast<int64_t>(r) * inputs_ + p * panel_width_ + column_[k]);
        }
    return found;
}

template <class Copy>
void LinearPattern::each_piece(Copy copy) const {
    ptrdiff_t at = 0;
    for (int r = 0; r < outputs_; r++)
        for (int b = 0; b < panels_; b++) {
            const int32_t* piece = &start_[static_cast<size_t>(b) * outputs_ + r];
            if (piece[0] == piece[1]) continue;
            copy(at, piece[0], sizeof(float) * (piece[1] - piece[0]));
            at += piece[1] - piece[0];
        }
}

void LinearPattern::to_row_major(const float* blocked, float* row_major) const {
    each_piece([&](ptrdiff_t at, ptrdiff_t k, size_t bytes) { std::memcpy(row_major + at, blocked + k, bytes); });
}

void LinearPattern::from_row_major(const float* row_major, float* blocked) const {
    each_piece([&](ptrdiff_t at, ptrdiff_t k, size_t bytes) { std::memcpy(blocked + k, row_major + at, bytes); });
}

}  // namespace prunefl
