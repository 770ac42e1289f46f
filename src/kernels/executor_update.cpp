// Steps of the optimisers that remember: their memory lies as the weights do, under the masks of the weights.
#include "executor.hpp"

#include <algorithm>

namespace prunefl {

namespace {

constexpr int ANCHOR = 2;

const uint8_t* bits_of(const Parameter& p) { return p.dense() ? p.live.data() : nullptr; }

float* kept(Parameter& p, int which) {
    if (p.memory[which].size() != p.value.size()) p.memory[which].assign(p.value.size(), 0.f);
    return p.memory[which].data();
}

}  // namespace

void Executor::remember(int which, int tensor, const float* values) {
    Parameter& p = parameters_[tensor];
    arrange(p, values, kept(p, which));
}

void Executor::recall(int which, int tensor, float* values) const {
    const Parameter& p = parameters_[tensor];
    if (p.memory[which].size() != p.value.size()) std::fill(values, values + size(tensor), 0.f);
    else collect(p, p.memory[which], values);
}

void Executor::forget() {
    for (Parameter& p : parameters_)
        for (auto& memory : p.memory) memory.clear();
}

template <class Work>
void Executor::each_trained(Work work) {
    for (Parameter& p : parameters_)
        if (p.trained) work(p, static_cast<ptrdiff_t>(p.value.size()));
}

void Executor::pull(float strength, int threads) {
    each_trained([&](Parameter& p, ptrdiff_t size) {
        kernels().pull(p.gradient.data(), p.value.data(), kept(p, ANCHOR), size, strength, threads);
    });
}

double Executor::squared_norm(int threads) {
    double total = 0;
    each_trained([&](Parameter& p, ptrdiff_t size) {
        total += kernels().squared_norm(p.gradient.data(), bits_of(p), size, threads);
    });
    return total;
}

void Executor::update_by_sgd(const SgdRule& rule, int threads) {
    each_trained([&](Parameter& p, ptrdiff_t size) {
        float* momentum = rule.momentum > 0.f ? kept(p, 0) : nullptr;
        kernels().momentum_sgd(p.value.data(), p.gradient.data(), momentum, bits_of(p), size, rule, threads);
    });
}

void Executor::update_by_adam(const AdamRule& rule, int threads) {
    each_trained([&](Parameter& p, ptrdiff_t size) {
        kernels().adam(p.value.data(), p.gradient.data(), kept(p, 0), kept(p, 1), bits_of(p), size, rule, threads);
    });
}

}  // namespace prunefl
