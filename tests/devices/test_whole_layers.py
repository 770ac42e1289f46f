"""Layers that are never pruned: what they cost is a part of every step."""

from dataclasses import replace

import pytest

from prunefl import devices
from prunefl.devices import Link, Shape
from prunefl.devices.file import DeviceFile, Measured

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
