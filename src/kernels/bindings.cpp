// The Python module: checks what it can, releases the interpreter's lock, and calls.
// Tensors come as addresses: prunefl.local.torch_backend has checked their type, device, layout and size.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>

#include "chain.hpp"
#include "paths.hpp"

namespace nb = nanobind;
using namespace prunefl;

namespace {

using Live = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Address = uintptr_t;
using Addresses = std::vector<Address>;
using Size = std::tuple<int, int, int, int>;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

float* writable(Address a) { return reinterpret_cast<float*>(a); }
const float* readable(Address a) { return reinterpret_cast<const float*>(a); }
const uint8_t* bits(Address a) { return reinterpret_cast<const uint8_t*>(a); }

std::vector<const float*> all_readable(const Addresses& addresses) {
    std::vector<const float*> pointers;
    for (const Address a : addresses) pointers.push_back(readable(a));
    return pointers;
}

std::vector<float*> all_writable(const Addresses& addresses) {
    std::vector<float*> pointers;
    for (const Address a : addresses) pointers.push_back(writable(a));
    return pointers;
}

Activation activation(const Size& size, bool ours) {
    const auto [batch, channels, height, width] = size;
    return {batch, channels, height, width, ours};
}

Layout ours(const Size& size) {
    const auto [batch, channels, height, width] = size;
    Layout at;
    at.channels = channels, at.height = at.cells_h = height, at.width = at.cells_w = width;
    at.batch = at.lanes = batch;
    return at;
}

// Positions as a numpy array that owns its memory.
template <class Pattern>
nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> positions_of(const Pattern& pattern) {
    auto* found = new std::vector<int64_t>(pattern.positions());
    const nb::capsule owner(found, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
    return {found->data(), {found->size()}, owner};
}

template <class Pattern>
void to_row_major(const Pattern& pattern, Address from, Address to) {
    pattern.to_row_major(readable(from), writable(to));
}
template <class Pattern>
void from_row_major(const Pattern& pattern, Address from, Address to) {
    pattern.from_row_major(readable(from), writable(to));
}

std::shared_ptr<LinearPattern> linear_pattern(const Live& live) {
    return std::make_shared<LinearPattern>(live.data(), static_cast<int>(live.shape(0)),
                                           static_cast<int>(live.shape(1)));
}

std::shared_ptr<ConvPattern> conv_pattern(const Live& live, int groups, std::tuple<int, int> kernel,
                                          std::tuple<int, int> stride, std::tuple<int, int> dilation,
                                          const Size& padding) {
    ConvShape s{};
    s.out_channels = static_cast<int>(live.shape(0)), s.groups = groups;
    std::tie(s.kernel_h, s.kernel_w) = kernel;
    std::tie(s.stride_h, s.stride_w) = stride;
    std::tie(s.dilation_h, s.dilation_w) = dilation;
    std::tie(s.pad_top, s.pad_bottom, s.pad_left, s.pad_right) = padding;
    s.in_channels = static_cast<int>(live.shape(1)) / s.taps() * groups;
    if (s.stride_h > MOST_STRIDE || s.stride_w > MOST_STRIDE) throw std::invalid_argument("stride is too large");
    return std::make_shared<ConvPattern>(live.data(), s);
}

// (pattern, relu, pool or None)
Stage stage(const nb::handle& item) {
    const auto parts = nb::cast<nb::tuple>(item);
    Stage made{nullptr, nullptr, nb::cast<bool>(parts[1]), std::nullopt};
    if (nb::isinstance<LinearPattern>(parts[0])) made.linear = nb::cast<std::shared_ptr<LinearPattern>>(parts[0]);
    else made.conv = nb::cast<std::shared_ptr<ConvPattern>>(parts[0]);
    if (!parts[2].is_none()) {
        const auto [kh, kw, sh, sw, ph, pw] = nb::cast<std::tuple<int, int, int, int, int, int>>(parts[2]);
        made.pool = PoolShape{kh, kw, sh, sw, ph, pw};
    }
    return made;
}

std::shared_ptr<Chain> chain(const nb::list& items) {
    std::vector<Stage> stages;
    for (const nb::handle item : items) stages.push_back(stage(item));
    return std::make_shared<Chain>(std::move(stages));
}

void chain_backward(const Chain& chain, const Tape& tape, const Addresses& weights, Address out, Address dout,
                    bool dout_ours, const Addresses& weight_gradients, const Addresses& bias_gradients,
                    const Addresses& totals, bool squared, Address input_gradient, int threads) {
    Gradients gradients{all_writable(weight_gradients), all_writable(bias_gradients), {}, writable(input_gradient)};
    for (const Address total : totals) gradients.totals.push_back({writable(total), squared});
    chain.backward(tape, all_readable(weights), readable(out), readable(dout), dout_ours, gradients, threads);
}

}  // namespace

void bind_executor(nb::module_& m);  // bindings_executor.cpp

NB_MODULE(_kernels, m) {
    m.doc() = "Sparse training kernels: runs of layers forward and backward, and SGD on live weights.";
    // Models may live until the interpreter ends, and then nothing is freed in order.
    nb::set_leak_warnings(false);
    m.def("paths", &paths, "Names of the instruction sets that this machine runs, the fastest first.");
    m.def(
        "path", [] { return std::string(kernels().name); }, "Name of the instruction set in use.");
    m.def("use_path", &use_path, nb::arg("name"));

    nb::class_<LinearPattern>(m, "LinearPattern")
        .def("to_row_major", &to_row_major<LinearPattern>, Unlocked())
        .def("from_row_major", &from_row_major<LinearPattern>, Unlocked())
        .def(nb::new_(&linear_pattern), nb::arg("live").noconvert())
        .def(
            "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"))
        .def("__len__", &LinearPattern::size)
        .def("positions", &positions_of<LinearPattern>);
    nb::class_<ConvPattern>(m, "ConvPattern")
        .def("to_row_major", &to_row_major<ConvPattern>, Unlocked())
        .def("from_row_major", &from_row_major<ConvPattern>, Unlocked())
        .def(nb::new_(&conv_pattern), nb::arg("live").noconvert(), nb::arg("groups"), nb::arg("kernel"),
             nb::arg("stride"), nb::arg("dilation"), nb::arg("padding"))
        .def(
            "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"))
        .def("__len__", &ConvPattern::size)
        .def("positions", &positions_of<ConvPattern>);
    nb::class_<Tape>(m, "Tape");
    nb::class_<Chain>(m, "Chain")
        .def(nb::new_(&chain), nb::arg("stages"))
        // A copy of a model shares the pattern but no memory that a step writes.
        .def(
            "__deepcopy__", [](const Chain& self, nb::handle) { return std::make_shared<Chain>(self.stages()); },
            nb::arg("memo"))
        .def("output_for",
             [](const Chain& self, const Size& size) {
                 const Activation out = self.output_for(activation(size, false));
                 return Size{out.batch, out.channels, out.height, out.width};
             })
        .def(
            "forward",
            [](const Chain& self, const Size& size, bool ours, Address x, const Addresses& weights,
               const Addresses& biases, Address out, int threads) {
                return self.forward(activation(size, ours), readable(x), all_readable(weights), all_readable(biases),
                                    writable(out), threads);
            },
            Unlocked())
        .def(
            "infer",
            [](const Chain& self, const Size& size, bool ours, Address x, const Addresses& weights,
               const Addresses& biases, Address out, int threads) {
                self.infer(activation(size, ours), readable(x), all_readable(weights), all_readable(biases),
                           writable(out), threads);
            },
            Unlocked())
        .def("backward", &chain_backward, Unlocked());

    bind_executor(m);
    m.def(
        "to_torch",
        [](const Size& size, Address from, Address to, int threads) {
            kernels().to_torch({ours(size), readable(from)}, writable(to), threads);
        },
        "Copy from ours to (batch, channels, height, width).", Unlocked());
    m.def(
        "from_torch",
        [](const Size& size, Address from, Address to, int threads) {
            kernels().from_torch(readable(from), {ours(size), writable(to)}, threads);
        },
        "Copy from (batch, channels, height, width) to ours.", Unlocked());
    m.def(
        "sgd",
        [](const Addresses& weights, const Addresses& gradients, const std::vector<int64_t>& sizes, float rate,
           int threads) {
            for (size_t i = 0; i < weights.size(); i++)
                kernels().sgd(writable(weights[i]), readable(gradients[i]), sizes[i], rate, threads);
        },
        Unlocked());
    m.def(
        "masked_sgd",
        [](Address weights, Address gradients, Address live, int64_t size, float rate, int threads) {
            kernels().masked_sgd(writable(weights), readable(gradients), bits(live), size, rate, threads);
        },
        Unlocked());
    m.def(
        "momentum_sgd",
        [](Address weight, Address gradient, Address momentum, Address live, int64_t size,
           const std::tuple<float, float, float, float, bool>& rule, int threads) {
            const auto& [rate, mu, decay, scale, nesterov] = rule;
            kernels().momentum_sgd(writable(weight), writable(gradient), writable(momentum), bits(live), size,
                                   {rate, mu, decay, scale, nesterov}, threads);
        },
        "Momentum's address is zero where there is none, live's where all weights live.", Unlocked());
    m.def(
        "adam",
        [](Address weight, Address gradient, Address first, Address second, Address live, int64_t size,
           const std::array<float, 8>& rule, int threads) {
            const auto& [rate, rest1, beta2, rest2, epsilon, decay, shrink, scale] = rule;
            kernels().adam(writable(weight), writable(gradient), writable(first), writable(second), bits(live), size,
                           {rate, rest1, beta2, rest2, epsilon, decay, shrink, scale}, threads);
        },
        Unlocked());
    m.def(
        "pull",
        [](Address gradient, Address weight, Address anchor, int64_t size, float strength, int threads) {
            kernels().pull(writable(gradient), readable(weight), readable(anchor), size, strength, threads);
        },
        Unlocked());
    m.def(
        "squared_norm",
        [](Address gradient, Address live, int64_t size, int threads) {
            return kernels().squared_norm(writable(gradient), bits(live), size, threads);
        },
        Unlocked());
}
