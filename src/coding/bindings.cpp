// The Python side of the byte coding: checks sizes, lets other threads run, and calls.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "subset.hpp"
#include "values.hpp"

namespace nb = nanobind;
using namespace coding;

namespace {

template <typename T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = Array<const uint8_t>;
using Floats = Array<const float>;

void require(bool condition, const char* rule) {
    if (!condition) throw std::invalid_argument(rule);
}

constexpr size_t kMaxWeights = (size_t{1} << 30) - 1;  // what the format's layer word can count

PyObject* new_bytes(size_t num_bytes) {
    PyObject* object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(num_bytes));
    if (!object) throw std::bad_alloc();
    return object;
}

uint8_t* data_of(PyObject* bytes) { return reinterpret_cast<uint8_t*>(PyBytes_AsString(bytes)); }

// Joins the parts and appends their checksum: one copy, into the bytes object that is sent.
nb::object seal(nb::list parts) {
    std::vector<Bytes> arrays;
    size_t total = 0;
    for (nb::handle part : parts) {
        arrays.push_back(nb::cast<Bytes>(part));
        total += arrays.back().size();
    }
    PyObject* message = new_bytes(total + 8);
    uint8_t* to = data_of(message);
    {
        nb::gil_scoped_release release;
        for (const Bytes& part : arrays) {
            if (part.size()) std::memcpy(to, part.data(), part.size());
            to += part.size();
        }
        store(to, xxh64(to - total, total));
    }
    return nb::steal(message);
}

uint64_t checksum(Bytes data) {
    nb::gil_scoped_release release;
    return xxh64(data.data(), data.size());
}

size_t count(Bytes mask) {
    nb::gil_scoped_release release;
    return count_live(mask.data(), mask.size());
}

void gather_into(Floats dense, Bytes mask, Array<float> values) {
    require(dense.size() == mask.size(), "dense and mask must have the same size");
    nb::gil_scoped_release release;
    require(values.size() == count_live(mask.data(), mask.size()), "values must have one entry per live position");
    gather(dense.data(), mask.data(), mask.size(), values.data());
}

void scatter_into(Floats values, Bytes mask, Array<float> dense) {
    require(dense.size() == mask.size(), "dense and mask must have the same size");
    nb::gil_scoped_release release;
    require(values.size() == count_live(mask.data(), mask.size()), "values must have one entry per live position");
    scatter(values.data(), mask.data(), mask.size(), dense.data());
}

nb::object subset_bytes(Bytes mask) {
    require(mask.size() <= kMaxWeights, "a mask must have fewer than 2^30 positions");
    std::vector<uint8_t> coded;
    {
        nb::gil_scoped_release release;
        coded = encode_subset(mask.data(), mask.size());
    }
    return nb::bytes(coded.data(), coded.size());
}

bool subset_into(Bytes coded, size_t live, Array<uint8_t> mask) {
    require(mask.size() <= kMaxWeights, "a mask must have fewer than 2^30 positions");
    nb::gil_scoped_release release;
    return decode_subset(coded.data(), coded.size(), mask.size(), live, mask.data());
}

nb::tuple change_bytes(Bytes mask, Bytes base) {
    require(mask.size() == base.size(), "mask and base must have the same size");
    require(mask.size() <= kMaxWeights, "a mask must have fewer than 2^30 positions");
    Change change;
    {
        nb::gil_scoped_release release;
        change = encode_change(mask.data(), base.data(), mask.size());
    }
    return nb::make_tuple(change.num_removed, nb::bytes(change.removed.data(), change.removed.size()),
                          nb::bytes(change.added.data(), change.added.size()));
}

bool change_into(Bytes removed, size_t num_removed, Bytes added, size_t num_added, Bytes base, Array<uint8_t> mask) {
    require(mask.size() == base.size(), "mask and base must have the same size");
    require(mask.size() <= kMaxWeights, "a mask must have fewer than 2^30 positions");
    nb::gil_scoped_release release;
    return decode_change({removed.data(), removed.size(), num_removed}, {added.data(), added.size(), num_added},
                         base.data(), base.size(), mask.data());
}

bool floats_into(Bytes data, bool refuse_negative, Array<float> values) {
    require(data.size() == 4 * values.size(), "data must have four bytes per value");
    nb::gil_scoped_release release;
    return copy_finite(data.data(), values.size(), refuse_negative, values.data());
}

using EncodeHalf = bool (*)(const float*, size_t, uint8_t*);

template <EncodeHalf encode>
nb::object half_encode(Floats values) {
    nb::object out = nb::steal(new_bytes(2 * values.size()));
    bool good;
    {
        nb::gil_scoped_release release;
        good = encode(values.data(), values.size(), data_of(out.ptr()));
    }
    return good ? out : nb::none();
}

bool bfloat16_into(Bytes data, Array<float> values) {
    require(data.size() == 2 * values.size(), "data must have two bytes per value");
    nb::gil_scoped_release release;
    return decode_bfloat16(data.data(), values.size(), values.data());
}

nb::object int8_encode(Floats values) {
    PyObject* out = new_bytes(int8_bytes(values.size()));
    {
        nb::gil_scoped_release release;
        encode_int8(values.data(), values.size(), data_of(out));
    }
    return nb::steal(out);
}

bool int8_into(Bytes data, Array<float> values) {
    require(data.size() == int8_bytes(values.size()), "data must have one byte per value and four per block of 256");
    nb::gil_scoped_release release;
    return decode_int8(data.data(), values.size(), values.data());
}

nb::object log8_encode(Floats values) {
    nb::object out = nb::steal(new_bytes(4 + values.size()));
    bool good;
    {
        nb::gil_scoped_release release;
        good = encode_log8(values.data(), values.size(), data_of(out.ptr()));
    }
    return good ? out : nb::none();
}

bool log8_into(Bytes data, Array<float> values) {
    require(data.size() == 4 + values.size(), "data must have four bytes and one per value");
    nb::gil_scoped_release release;
    return decode_log8(data.data(), values.size(), values.data());
}

}  // namespace

NB_MODULE(_coding, m) {
    m.doc() = "Byte coding for prunefl.wire. All arrays are flat; a mask has one byte, 0 or 1, a position.";
    m.def("seal", &seal, nb::arg("parts"), "The parts (arrays of bytes) joined, and their XXH64 behind them.");
    m.def("checksum", &checksum, nb::arg("data"), "The XXH64 of the bytes, seed 0.");
    m.def("count", &count, nb::arg("mask"), "The number of live positions.");
    m.def("gather", &gather_into, nb::arg("dense"), nb::arg("mask"), nb::arg("values"));
    m.def("scatter", &scatter_into, nb::arg("values"), nb::arg("mask"), nb::arg("dense"));
    m.def("encode_subset", &subset_bytes, nb::arg("mask"), "The live positions, coded near their entropy.");
    m.def("decode_subset", &subset_into, nb::arg("coded"), nb::arg("live"), nb::arg("mask"),
          "Fills the mask; False if the bytes are not the code of any mask of this size and count.");
    m.def("encode_change", &change_bytes, nb::arg("mask"), nb::arg("base"),
          "How many live positions of the base left, which they are, and which others joined, coded.");
    m.def("decode_change", &change_into, nb::arg("removed"), nb::arg("num_removed"), nb::arg("added"),
          nb::arg("num_added"), nb::arg("base"), nb::arg("mask"),
          "Fills the mask; False if the bytes are no such change.");
    m.def("decode_float32", &floats_into, nb::arg("data"), nb::arg("refuse_negative"), nb::arg("values"),
          "Fills the values; False if one is NaN, infinite or, if so asked, negative.");
    m.def("encode_bfloat16", &half_encode<encode_bfloat16>, nb::arg("values"),
          "Two bytes a value; None if a finite one overflows.");
    m.def("encode_float16", &half_encode<encode_float16>, nb::arg("values"),
          "Two bytes a value; None if a finite one overflows.");
    m.def("decode_bfloat16", &bfloat16_into, nb::arg("data"), nb::arg("values"),
          "Fills the values; False if not finite.");
    m.def("encode_int8", &int8_encode, nb::arg("values"), "Scales by block of 256, then one byte a value.");
    m.def("decode_int8", &int8_into, nb::arg("data"), nb::arg("values"),
          "Fills the values; False if they are not finite.");
    m.def("encode_log8", &log8_encode, nb::arg("values"),
          "The largest, then one byte a value; None if one is negative.");
    m.def("decode_log8", &log8_into, nb::arg("data"), nb::arg("values"), "Fills the values; False if not finite.");
}
