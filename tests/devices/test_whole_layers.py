"""Layers that are never pruned: what they cost is a part of every step."""

from dataclasses import replace

import pytest

from prunefl import devices
from prunefl.devices import Link, Shape, shape_of
from prunefl.devices.file import DeviceFile, Measured
from prunefl.local.torch_backend.network import network_of
from prunefl.models import build

LAYERS = Measured(
    name="two",
    batch=10,
    constant=0.5,
    weights=(100, 40),
    positions=(4, 1),
    per_weight=(0.01, 0.002),
    fixed=(0.1, 0.0),
    dense=(0.7, 0.06),
)
MEASURED = DeviceFile("bench", "bench.toml", Link(), (LAYERS,))
TWO = Shape({"a": 100, "b": 40}, {"a": 4, "b": 1}, 7)


def test_a_layer_that_is_left_whole_costs_what_it_costs_dense() -> None:
    """Measured with both layers prunable: the one that is never pruned is a part of every step."""
    whole = replace(TWO, whole=frozenset({"a"}))
    device = devices.bind(MEASURED, whole, batch=10)
    assert list(device.layers) == ["b"]
    assert device.step_seconds({"b": 10}) == pytest.approx(0.5 + 0.7 + 0.02)
    assert device.dense_step_seconds() == pytest.approx(
        devices.bind(MEASURED, TWO, batch=10).dense_step_seconds()
    )


def test_a_layer_that_was_whole_when_measured_is_in_the_constant() -> None:
    three = Shape(TWO.weights | {"shortcut": 9}, TWO.positions | {"shortcut": 1}, 16, frozenset({"shortcut"}))
    device = devices.bind(MEASURED, three, batch=10)
    assert device.constant == pytest.approx(0.5)
    assert list(device.layers) == ["a", "b"]


def test_an_estimate_counts_layers_that_are_left_whole() -> None:
    """Of a model that was not measured: to leave a layer whole makes no step of the full model cheaper."""
    layers = Shape({"a": 300, "b": 500, "c": 70}, {"a": 9, "b": 2, "c": 1}, 5)
    pruned, kept = (
        devices.bind(devices.load("raspberry-pi-4"), shape, batch=20)
        for shape in (layers, replace(layers, whole=frozenset({"a", "c"})))
    )
    assert kept.dense_step_seconds() == pytest.approx(pruned.dense_step_seconds())
    assert kept.step_seconds({"b": 0}) > pruned.step_seconds({"a": 0, "b": 0, "c": 0})


def test_a_layer_that_is_left_whole_runs_the_cheaper_way_too() -> None:
    """x86's first convolution is dearer dense than sparse, even with all its weights."""
    shape = shape_of(network_of(build("conv2", classes=62, input_shape=(1, 28, 28), seed=0), (1, 28, 28), 62))
    first = next(iter(shape.weights))
    x86 = devices.load("x86")
    pruned = devices.bind(x86, shape, batch=20)
    kept = devices.bind(x86, replace(shape, whole=frozenset({first})), batch=20)
    ways = pruned.layers[first].ordinary
    assert ways.fixed + ways.per_weight * shape.weights[first] < ways.dense
    assert kept.dense_step_seconds() == pytest.approx(pruned.dense_step_seconds())


def test_a_layer_that_is_left_whole_costs_more_in_steps_that_collect_importance() -> None:
    dearer = replace(
        LAYERS,
        importance_dense=(0.9, 0.08),
        importance_fixed=(0.2, 0.0),
        importance_per_weight=(0.02, 0.003),
    )
    device = devices.bind(replace(MEASURED, models=(dearer,)), replace(TWO, whole=frozenset({"a"})), batch=10)
    assert device.step_seconds({"b": 10}) == pytest.approx(0.5 + 0.7 + 0.02)
    assert device.step_seconds({"b": 10}, full_gradient=True) == pytest.approx(0.5 + 0.9 + 0.03)
    for full, constant in ((False, 1.2), (True, 1.4)):
        time = device.round_time(1, 0.0, full_gradient=full)
        assert time.seconds({"b": 0}) == pytest.approx(constant)


def test_some_layers_were_whole_when_measured_and_others_are_now() -> None:
    """Measured with a and b prunable and a shortcut whole; now b is left whole, too."""
    names = ("a", "shortcut", "b")
    three = Shape(
        dict(zip(names, (100, 9, 40), strict=True)),
        dict(zip(names, (4, 1, 1), strict=True)),
        56,
        frozenset({"shortcut", "b"}),
    )
    device = devices.bind(MEASURED, three, batch=10)
    assert not device.estimated
    assert list(device.layers) == ["a"]
    assert device.constant == pytest.approx(0.5 + 0.06)


def test_weights_of_layers_that_are_left_whole_take_their_memory_first() -> None:
    """5,000 of 10,000 weights fit: beside a, whole with 1,000, there is room for 4,000; b alone has 9,000."""
    sizes = {"a": 1000, "b": 9000}
    model = replace(LAYERS, weights=(1000, 9000), dense_bytes=10**6, sparse_bytes=1000, bytes_per_weight=10.0)
    device = replace(MEASURED, models=(model,))

    def limit(*whole: str) -> float | None:
        shape = Shape(sizes, TWO.positions, 7, frozenset(whole))
        return devices.memory_density([devices.bind(device, shape, batch=10)], 51_000)

    assert limit() == pytest.approx(0.5)
    assert limit("a") == pytest.approx(4 / 9)
    with pytest.raises(ValueError, match=r"time\.memory_limit=51000, must be > 91000"):
        limit("b")
