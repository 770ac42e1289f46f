// The Python side of what the mathematics needs beyond numpy: checks sizes, lets other threads run, and calls.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "sums.hpp"
#include "walk.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T, size_t N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* rule) {
    if (!condition) throw std::invalid_argument(rule);
}

template <typename Gain>
void walk(Array<const double, 1> constant, Array<const double, 3> intercept, Array<const double, 3> slope,
          Array<const Gain, 1> heads, Array<const int64_t, 1> offsets, Array<const int64_t, 1> kept, double gain,
          int64_t room, double tie, Array<int64_t, 1> taken) {
    const greedy::Times times{intercept.shape(0), intercept.shape(1), intercept.shape(2),
                              constant.data(),    intercept.data(),   slope.data()};
    require(times.devices > 0 && times.ways > 0, "a time model needs a device and a way to run a layer");
    require(constant.shape(0) == times.devices, "one constant per device");
    for (size_t axis = 0; axis < 3; ++axis)
        require(slope.shape(axis) == intercept.shape(axis), "slope and intercept of one shape");
    require(kept.shape(0) == times.layers && taken.shape(0) == times.layers, "one count per layer");
    require(offsets.shape(0) == times.layers + 1 && offsets.data()[0] == 0, "one offset per layer and one more");
    for (size_t layer = 0; layer < times.layers; ++layer)
        require(offsets.data()[layer] <= offsets.data()[layer + 1], "offsets that do not fall");
    require(offsets.data()[times.layers] == static_cast<int64_t>(heads.shape(0)), "heads up to the last offset");
    nb::gil_scoped_release release;
    greedy::walk(times, heads.data(), offsets.data(), kept.data(), gain, room, tie, taken.data());
}

void accumulate(Array<const float, 1> part, float weight, Array<float, 1> total) {
    require(part.shape(0) == total.shape(0), "part and total of one size");
    nb::gil_scoped_release release;
    core::accumulate(part.data(), weight, total.data(), total.shape(0));
}

double square_distance(Array<const float, 1> one, Array<const float, 1> other) {
    require(one.shape(0) == other.shape(0), "two arrays of one size");
    nb::gil_scoped_release release;
    return core::square_distance(one.data(), other.data(), one.shape(0));
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Algorithm 3 for a piecewise linear T, and sums over updates";
    m.def("accumulate", &accumulate, "part"_a, "weight"_a, nb::arg("total").noconvert());
    m.def("square_distance", &square_distance, "one"_a, "other"_a);
    m.def("walk", &walk<float>, "constant"_a, "intercept"_a, "slope"_a, "heads"_a, "offsets"_a, "kept"_a, "gain"_a,
          "room"_a, "tie"_a, "taken"_a);
    m.def("walk", &walk<double>, "constant"_a, "intercept"_a, "slope"_a, "heads"_a, "offsets"_a, "kept"_a, "gain"_a,
          "room"_a, "tie"_a, "taken"_a);
}
