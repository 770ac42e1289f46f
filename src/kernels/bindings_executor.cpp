// The executor in Python: arrays are checked here, the plan by prunefl.local.native.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "executor.hpp"

namespace nb = nanobind;
using namespace prunefl;

namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Inputs = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = std::vector<std::tuple<int, int, int>>;
using Operations =
    std::vector<std::tuple<std::string, std::vector<int>, int, std::vector<int>, std::vector<float>, std::vector<int>>>;
using Totals = nb::list;  // of pairs: tensor, sums
using Unlocked = nb::gil_scoped_release;

constexpr int MOST_SAMPLES = 1 << 20;

Plan plan_of(const Values& values, const Operations& operations) {
    Plan plan;
    for (const auto& [channels, height, width] : values) plan.values.push_back({channels, height, width});
    for (const auto& [kind, inputs, output, sizes, factors, tensors] : operations)
        plan.operations.push_back({kind, inputs, output, sizes, factors, tensors});
    if (plan.values.empty() || plan.operations.empty()) throw std::invalid_argument("a plan needs operations");
    return plan;
}

void make(Executor* self, const Values& values, const Operations& operations, const std::vector<int64_t>& sizes,
          const std::vector<bool>& trained, const std::string& loss) {
    if (loss != "cross_entropy" && loss != "onehot_bce") throw std::invalid_argument("loss " + loss + " is not known");
    new (self) Executor(plan_of(values, operations), sizes, trained,
                        loss == "onehot_bce" ? Loss::onehot_bce : Loss::cross_entropy);
}

void require(bool right, const char* what) {
    if (!right) throw std::invalid_argument(what);
}

int batch_of(const Executor& self, const Inputs& x, const Labels& labels) {
    require(labels.size() > 0 && labels.size() <= MOST_SAMPLES, "a batch needs samples, at most a million");
    require(x.size() == labels.size() * static_cast<size_t>(self.plan().values[0].size()), "samples of another shape");
    return static_cast<int>(labels.size());
}

// Points parameters at the sums that are to be added to, as long as it lives.
class Collecting {
  public:
    Collecting(Executor& executor, const Totals& totals, bool squared) : executor_(executor) {
        std::vector<std::pair<int, float*>> found;
        for (const nb::handle entry : totals) {
            const auto pair = nb::cast<nb::tuple>(entry);
            const int tensor = nb::cast<int>(pair[0]);
            Sums sums;
            require(nb::try_cast(pair[1], sums, false), "sums must be a contiguous float32 array");
            require(static_cast<int64_t>(sums.size()) == executor.dense_size(tensor), "sums of another size");
            found.emplace_back(tensor, sums.data());
        }
        for (const auto& [tensor, sum] : found) executor.set_total(tensor, {sum, squared}), tensors_.push_back(tensor);
    }
    ~Collecting() {
        for (const int tensor : tensors_) executor_.set_total(tensor, {nullptr, false});
    }

  private:
    Executor& executor_;
    std::vector<int> tensors_;
};

std::pair<double, int64_t> differentiate(Executor& self, const Inputs& x, const Labels& labels, uint64_t seed,
                                         bool note_statistics, const Totals& totals, bool squared, int threads) {
    const int batch = batch_of(self, x, labels);
    const Collecting collecting(self, totals, squared);
    const Unlocked unlocked;
    const Outcome found = self.differentiate(x.data(), labels.data(), batch, {seed, note_statistics}, threads);
    return {found.loss, found.right};
}

std::pair<int64_t, double> evaluate(Executor& self, const Inputs& x, const Labels& labels, int threads) {
    const int batch = batch_of(self, x, labels);
    const Unlocked unlocked;
    const Outcome found = self.evaluate(x.data(), labels.data(), batch, threads);
    return {found.right, found.loss};
}

using Made = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

template <class Fill>
Made made(int64_t size, Fill fill) {
    auto* values = new std::vector<float>(size);
    const nb::capsule owner(values, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    fill(values->data());
    return {values->data(), {values->size()}, owner};
}

Made store(const Executor& self, int tensor) {
    return made(self.size(tensor), [&](float* values) { self.store(tensor, values); });
}

void check_memory(const Executor& self, int which, int tensor, int64_t size) {
    require(which >= 0 && which < 3, "an optimiser has no such memory");
    require(size == self.size(tensor), "a memory of another size");
}

Made recall(const Executor& self, int which, int tensor) {
    check_memory(self, which, tensor, self.size(tensor));
    return made(self.size(tensor), [&](float* values) { self.recall(which, tensor, values); });
}

}  // namespace

void bind_executor(nb::module_& m) {
    nb::class_<Executor>(m, "Executor")
        .def("__init__", &make, nb::arg("values"), nb::arg("operations"), nb::arg("sizes"), nb::arg("trained"),
             nb::arg("loss"))
        .def("set_mask",
             [](Executor& self, int tensor, const Bytes& live) {
                 require(static_cast<int64_t>(live.size()) == self.dense_size(tensor), "a mask of another size");
                 self.set_mask(tensor, live.data());
             })
        .def("load",
             [](Executor& self, int tensor, const Floats& values) {
                 require(static_cast<int64_t>(values.size()) == self.size(tensor), "values of another size");
                 self.load(tensor, values.data());
             })
        .def("store", &store)
        .def("add_gradient",
             [](Executor& self, int tensor, const Floats& values) {
                 require(static_cast<int64_t>(values.size()) == self.size(tensor), "a gradient of another size");
                 self.add_gradient(tensor, values.data());
             })
        .def("differentiate", &differentiate)
        .def("update", &Executor::update, nb::call_guard<Unlocked>())
        .def("remember",
             [](Executor& self, int which, int tensor, const Floats& values) {
                 check_memory(self, which, tensor, static_cast<int64_t>(values.size()));
                 self.remember(which, tensor, values.data());
             })
        .def("recall", &recall)
        .def("forget", &Executor::forget)
        .def("pull", &Executor::pull, nb::call_guard<Unlocked>())
        .def("squared_norm", &Executor::squared_norm, nb::call_guard<Unlocked>())
        .def("update_by_sgd",
             [](Executor& self, const std::tuple<float, float, float, float, bool>& rule, int threads) {
                 const auto& [rate, momentum, decay, scale, nesterov] = rule;
                 const Unlocked unlocked;
                 self.update_by_sgd({rate, momentum, decay, scale, nesterov}, threads);
             })
        .def("update_by_adam",
             [](Executor& self, const std::array<float, 8>& rule, int threads) {
                 const auto& [rate, rest1, beta2, rest2, epsilon, decay, shrink, scale] = rule;
                 const Unlocked unlocked;
                 self.update_by_adam({rate, rest1, beta2, rest2, epsilon, decay, shrink, scale}, threads);
             })
        .def("evaluate", &evaluate)
        .def_prop_ro("num_bytes", &Executor::num_bytes);
}
