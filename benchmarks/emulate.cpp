// Compares the kernels with plain loops, for machines that can only be emulated (benchmarks/emulate.sh).
#include <cmath>
#include <cstdio>
#include <random>

#include "chain.hpp"
#include "paths.hpp"

using namespace prunefl;

static std::mt19937 generator(1);
static float number() { return std::uniform_real_distribution<float>(-1.f, 1.f)(generator); }
static std::vector<float> numbers(size_t count) {
    std::vector<float> made(count);
    for (float& value : made) value = number();
    return made;
}

struct Case {
    int batch, in, out, size, kernel, stride, pad, groups;
};

// Scatter values, which are in the kernels' order, into a dense weight.
template <class Pattern>
static std::vector<float> dense(const Pattern& pattern, const std::vector<float>& values, size_t count) {
    std::vector<float> weight(count, 0.f);
    const auto positions = pattern.positions();
    for (size_t k = 0; k < positions.size(); k++) weight[positions[k]] = values[k];
    return weight;
}

static float worst = 0;
static void compare(float actual, double expected) {
    worst = std::max(worst, static_cast<float>(std::fabs(actual - expected) / (1 + std::fabs(expected))));
}

static void check_conv(const Case& c) {
    const ConvShape s{c.out, c.in, c.groups, c.kernel, c.kernel, c.stride, c.stride, 1, 1, c.pad, c.pad, c.pad, c.pad};
    std::vector<uint8_t> live(static_cast<size_t>(c.out) * s.per_row());
    for (auto& bit : live) bit = number() < -0.4f;
    const auto pattern = std::make_shared<ConvPattern>(live.data(), s);
    const auto values = numbers(pattern->size()), x = numbers(static_cast<size_t>(c.batch) * c.in * c.size * c.size);
    const int height = s.out_height(c.size);
    const size_t outputs = static_cast<size_t>(c.out) * height * height * c.batch;
    std::vector<float> y(outputs), dw(values.size()), dx(x.size());
    const auto dy = numbers(outputs);
    const Chain chain({{nullptr, pattern, false, std::nullopt}});
    const auto tape = chain.forward({c.batch, c.in, c.size, c.size, false}, x.data(), {values.data()}, {nullptr}, y.data(), 1);
    chain.backward(*tape, {values.data()}, y.data(), dy.data(), true, {{dw.data()}, {nullptr}, {{nullptr, false}}, dx.data()}, 1);

    const auto weight = dense(*pattern, values, live.size()), gradient = dense(*pattern, dw, live.size());
    std::vector<double> wanted_dw(live.size(), 0.0), wanted_dx(x.size(), 0.0);
    for (int o = 0; o < c.out; o++)
        for (int h = 0; h < height; h++)
            for (int w = 0; w < height; w++)
                for (int n = 0; n < c.batch; n++) {
                    const size_t at = ((static_cast<size_t>(o) * height + h) * height + w) * c.batch + n;
                    double sum = 0;
                    for (int i = 0; i < s.per_row(); i++) {
                        const int channel = o / s.out_each() * s.in_each() + i / s.taps();
                        const int row = h * c.stride - c.pad + i % s.taps() / c.kernel, column = w * c.stride - c.pad + i % c.kernel;
                        if (row < 0 || row >= c.size || column < 0 || column >= c.size) continue;
                        const size_t from = ((static_cast<size_t>(n) * c.in + channel) * c.size + row) * c.size + column;
                        const size_t k = static_cast<size_t>(o) * s.per_row() + i;
                        sum += weight[k] * x[from];
                        wanted_dw[k] += live[k] ? dy[at] * x[from] : 0.0;
                        wanted_dx[from] += weight[k] * dy[at];
                    }
                    compare(y[at], sum);
                }
    for (size_t k = 0; k < live.size(); k++) compare(gradient[k], wanted_dw[k]);
    for (size_t k = 0; k < x.size(); k++) compare(dx[k], wanted_dx[k]);
}

static void check_linear(int batch, int inputs, int outputs) {
    std::vector<uint8_t> live(static_cast<size_t>(inputs) * outputs);
    for (auto& bit : live) bit = number() < -0.6f;
    const auto pattern = std::make_shared<LinearPattern>(live.data(), outputs, inputs);
    const auto values = numbers(pattern->size()), x = numbers(static_cast<size_t>(batch) * inputs), dy = numbers(static_cast<size_t>(batch) * outputs);
    std::vector<float> y(dy.size()), dw(values.size()), dx(x.size());
    const Chain chain({{pattern, nullptr, false, std::nullopt}});
    const auto tape = chain.forward({batch, inputs, 1, 1, false}, x.data(), {values.data()}, {nullptr}, y.data(), 1);
    chain.backward(*tape, {values.data()}, y.data(), dy.data(), false, {{dw.data()}, {nullptr}, {{nullptr, false}}, dx.data()}, 1);
    const auto weight = dense(*pattern, values, live.size()), gradient = dense(*pattern, dw, live.size());
    for (int o = 0; o < outputs; o++)
        for (int n = 0; n < batch; n++) {
            double sum = 0;
            for (int i = 0; i < inputs; i++) sum += weight[static_cast<size_t>(o) * inputs + i] * x[static_cast<size_t>(n) * inputs + i];
            compare(y[static_cast<size_t>(n) * outputs + o], sum);
        }
    for (int o = 0; o < outputs; o++)
        for (int i = 0; i < inputs; i++) {
            double sum = 0;
            for (int n = 0; n < batch; n++) sum += dy[static_cast<size_t>(n) * outputs + o] * x[static_cast<size_t>(n) * inputs + i];
            const size_t k = static_cast<size_t>(o) * inputs + i;
            compare(gradient[k], live[k] ? sum : 0.0);
        }
}

int main() {
    for (const int batch : {1, 3, 16, 20, 33})
        for (const Case& c : {Case{batch, 3, 5, 9, 3, 1, 1, 1}, {batch, 4, 6, 8, 5, 2, 2, 2}, {batch, 5, 5, 7, 3, 2, 1, 5},
                              {batch, 7, 9, 4, 1, 1, 0, 1}})
            check_conv(c);
    for (const int batch : {1, 5, 20, 67}) check_linear(batch, 611, 37);
    std::printf("%s, %d floats a vector: worst relative error %.1e\n", kernels().name, kernels().lanes, worst);
    return worst < 1e-4f ? 0 : 1;
}
