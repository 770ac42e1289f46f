// Algorithm 3 step by step for a piecewise linear T: a fleet's slowest device, each layer at its cheapest way.
// Ten million steps of a dozen comparisons each: a second here, minutes in Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace greedy {

// T(n) = max over devices of constant[d] + sum over layers of min over ways of intercept + slope * n.
struct Times {
    size_t devices, layers, ways;
    const double *constant, *intercept, *slope;  // (devices), (devices, layers, ways) twice
};

struct LayerCost {
    double now, next;  // seconds of the layer as it is, and what one more weight adds
};

inline LayerCost layer_cost(const Times& times, size_t device, size_t layer, int64_t count) {
    const size_t at = (device * times.layers + layer) * times.ways;
    const double *intercept = times.intercept + at, *slope = times.slope + at;
    const double n = static_cast<double>(count);
    size_t way = 0;
    double now = std::numeric_limits<double>::infinity(), after = now;
    for (size_t k = 0; k < times.ways; ++k) {
        const double seconds = intercept[k] + slope[k] * n;
        // at a crossing the flatter line leads on
        if (seconds < now || (seconds == now && slope[k] < slope[way])) now = seconds, way = k;
        after = std::min(after, intercept[k] + slope[k] * (n + 1));
    }
    // the slope itself where no kink lies between: a difference of two sums would only add rounding
    const bool same = intercept[way] + slope[way] * (n + 1) <= after;
    return {now, same ? slope[way] : std::max(0.0, after - now)};
}

// Fills taken[layer] with how many heads of each layer are worth their time. heads: each layer's gains in
// non-increasing order, layer k at heads[offsets[k]] .. heads[offsets[k + 1]].
template <typename Gain>
void walk(const Times& times, const Gain* heads, const int64_t* offsets, const int64_t* kept, double gain, int64_t room,
          double tie, int64_t* taken) {
    const size_t devices = times.devices, layers = times.layers;
    std::vector<LayerCost> cost(devices * layers);
    std::vector<double> seconds(devices);
    const auto refresh = [&](size_t layer) {
        for (size_t d = 0; d < devices; ++d)
            cost[d * layers + layer] = layer_cost(times, d, layer, kept[layer] + taken[layer]);
    };
    for (size_t layer = 0; layer < layers; ++layer) taken[layer] = 0, refresh(layer);
    for (; room > 0; --room) {
        double slowest = 0;
        for (size_t d = 0; d < devices; ++d) {
            seconds[d] = times.constant[d];
            for (size_t layer = 0; layer < layers; ++layer) seconds[d] += cost[d * layers + layer].now;
            slowest = std::max(slowest, seconds[d]);
        }
        double best_ratio = -1, best_marginal = 0;
        size_t best = layers;
        for (size_t layer = 0; layer < layers; ++layer) {
            if (offsets[layer] + taken[layer] >= offsets[layer + 1]) continue;
            double marginal = 0;
            // lags behind the slowest, not whole rounds: a weight costs 1e-7 of them and would drown in rounding
            for (size_t d = 0; d < devices; ++d)
                marginal = std::max(marginal, seconds[d] - slowest + cost[d * layers + layer].next);
            const double head = static_cast<double>(heads[offsets[layer] + taken[layer]]);
            const double ratio = marginal > 0 ? head / marginal : std::numeric_limits<double>::infinity();
            if (ratio > best_ratio) best_ratio = ratio, best_marginal = marginal, best = layer;
        }
        if (best == layers) return;
        const double head = static_cast<double>(heads[offsets[best] + taken[best]]);
        if (head * slowest < best_marginal * gain * tie) return;
        gain += head;
        ++taken[best];
        refresh(best);
    }
}

}  // namespace greedy
