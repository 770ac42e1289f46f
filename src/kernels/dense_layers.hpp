// Dense convolutions and linear layers as the kernels take them: offsets that all rows share.
#pragma once
#include "kernels.hpp"
#include "pattern.hpp"

namespace prunefl {

// Positions that are treated together, so that their part of a tile of input stays in the first-level cache.
constexpr int DENSE_BLOCK = 96;

// A linear layer's: feature i is a row of `lanes` floats.
std::vector<int32_t> linear_offsets(int inputs, int lanes);

// The input gradient of a dense convolution: for each phase of the input a convolution of the output's gradient.
class DenseBackward {
  public:
    DenseBackward(const ConvShape& shape, const ConvGeometry& geometry);
    ptrdiff_t num_weights() const { return static_cast<ptrdiff_t>(shape_.out_channels) * shape_.per_row(); }
    // reordered: num_weights() floats of scratch. Writes planes (channel, phase) of `at`.
    void run(const float* weights, float* reordered, const float* dy, ptrdiff_t y_row, float* dx, const Layout& at,
             bool phases, int threads) const;

  private:
    struct Phase {
        std::vector<int> taps;
        std::vector<int32_t> offset;  // output channel by tap
    };
    void reorder(const Phase& phase, const float* weights, float* to, int threads) const;
    const ConvShape shape_;
    int cells_h_, length_;
    bool flat_;
    std::vector<Phase> phases_;
};

}  // namespace prunefl
