// Offsets of dense layers, and the weights of a convolution in the order of its input gradient.
#include "dense_layers.hpp"

#include <algorithm>

#include "paths.hpp"

namespace prunefl {

std::vector<int32_t> linear_offsets(int inputs, int lanes) {
    std::vector<int32_t> offset(inputs);
    for (int i = 0; i < inputs; i++) offset[i] = i * lanes;
    return offset;
}

DenseBackward::DenseBackward(const ConvShape& s, const ConvGeometry& g)
    : shape_(s), cells_h_(g.input_gradient.cells_h), length_(g.input_gradient.cells_w * g.batch), flat_(g.flat) {
    const Layout &from = g.output, &to = g.input_gradient;
    phases_.resize(static_cast<size_t>(s.stride_h) * s.stride_w);
    for (int tap = 0; tap < s.taps(); tap++) {
        const int kh = tap / s.kernel_w * s.dilation_h, kw = tap % s.kernel_w * s.dilation_w;
        phases_[kh % s.stride_h * s.stride_w + kw % s.stride_w].taps.push_back(tap);
    }
    for (Phase& phase : phases_)
        for (int out = 0; out < s.out_channels; out++)
            for (const int tap : phase.taps) {
                const int kh = tap / s.kernel_w * s.dilation_h, kw = tap % s.kernel_w * s.dilation_w;
                const int down = from.pad_h + to.first_h[kh % s.stride_h] - kh / s.stride_h;
                const int right = from.pad_w + to.first_w[kw % s.stride_w] - kw / s.stride_w;
                phase.offset.push_back(static_cast<int32_t>(out * from.plane() + down * from.row() +
                                                            static_cast<ptrdiff_t>(right) * from.lanes));
            }
}

// From (output, input, tap) to (input, output, tap of the phase).
void DenseBackward::reorder(const Phase& phase, const float* weights, float* to, int threads) const {
    if (shape_.taps() == 1)
        return kernels().transpose(weights, shape_.in_channels, to, shape_.out_channels, shape_.out_channels,
                                   shape_.in_channels, threads);
    const int taps = shape_.taps(), some = static_cast<int>(phase.taps.size());
    for (int in = 0; in < shape_.in_channels; in++)
        for (int out = 0; out < shape_.out_channels; out++) {
            const float* from = weights + (static_cast<ptrdiff_t>(out) * shape_.in_channels + in) * taps;
            for (int t = 0; t < some; t++) *to++ = from[phase.taps[t]];
        }
}

void DenseBackward::run(const float* weights, float* reordered, const float* dy, ptrdiff_t y_row, float* dx,
                        const Layout& at, bool phases, int threads) const {
    const bool flat = flat_ && at.row() == length_ && y_row == length_;
    for (size_t p = 0; p < phases_.size(); p++) {
        const Phase& phase = phases_[p];
        const int per_row = static_cast<int>(phase.offset.size());
        const Planes<float> planes{dx + p * at.plane(), phases ? at.channel() : at.plane(), at.row(),
                                   flat ? 1 : cells_h_, flat ? length_ * cells_h_ : length_};
        if (!per_row) {
            // no tap reaches these pixels
            for (int c = 0; c < shape_.in_channels; c++)
                std::fill_n(planes.data + c * planes.plane, static_cast<ptrdiff_t>(cells_h_) * at.row(), 0.f);
            continue;
        }
        reorder(phase, weights, reordered, threads);
        kernels().dense_forward({shape_.in_channels, per_row, DENSE_BLOCK, phase.offset.data(), reordered}, dy, y_row,
                                planes, nullptr, false, threads);
    }
}

}  // namespace prunefl
