"""Fits, device files and profiles: what comes out is what went in, and bad measurements are refused."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from prunefl import devices, models
from prunefl.commands.profile import profile as command
from prunefl.devices import DeviceFile, Link, Measured, StepMemory
from prunefl.local.torch_backend.network import network_of
from prunefl.measure.profile import Fit, LayerProfile, Profile, Task, fit_line, measured, merged, profile
from prunefl.measure.profile.memory import Job, step_bytes
from prunefl.measure.profile.step import random_masks


def test_a_line_is_found_with_its_r2() -> None:
    live = np.arange(1, 11) * 1000.0
    noise = np.random.default_rng(0).normal(0, 1e-3, 10)
    fit = fit_line(live, 0.5 + 2e-5 * live + noise)
    assert fit.fixed == pytest.approx(0.5, abs=3e-3)
    assert fit.per_weight == pytest.approx(2e-5, rel=0.05)
    expected = np.corrcoef(live, 0.5 + 2e-5 * live + noise)[0, 1] ** 2
    assert fit.r2 == pytest.approx(expected, abs=1e-9)
    assert fit.clamped == ""


def test_negative_coefficients_are_clamped_and_said() -> None:
    falling = fit_line([1, 2, 3], [3.0, 2.0, 1.0])
    assert (falling.per_weight, falling.fixed, falling.clamped) == (0.0, 2.0, "per_weight")
    steep = fit_line([1, 2, 3], [0.5, 2.0, 3.5])
    assert (steep.fixed, steep.clamped) == (0.0, "fixed")
    assert steep.per_weight == pytest.approx((0.5 + 4 + 10.5) / 14)


def test_too_little_variation_to_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 different sizes are too little variation to fit"):
        fit_line([1, 1, 2, 2], [1, 1, 2, 2])
    with pytest.raises(ValueError, match="must be finite"):
        fit_line([1, 2, 3], [1, 2, math.nan])


def layer(name: str, weights: int, slope: float, with_dense: float, at_rest: float) -> LayerProfile:
    return LayerProfile(name, weights, (), Fit(at_rest, slope, 0.99), with_dense, at_rest)


def a_profile() -> Profile:
    """Return the profile of a device on which layer a costs 3 + 0.01·n or 8, layer b 5 + 0.002·n or 1."""
    constant, a, b = 2.0, (3.0, 0.01, 8.0), (5.0, 0.002, 1.0)
    at_rest = constant + a[0] + a[1] * 30 + b[0] + b[1] * 15
    layers = (
        layer("a", 1000, a[1], at_rest - a[0] - a[1] * 30 + a[2], at_rest),
        layer("b", 500, b[1], at_rest - b[0] - b[1] * 15 + b[2], at_rest),
    )
    extra = {0.1: 1.0, 0.2: 1.5, 0.3: 2.0}
    return Profile(layers, constant + 3 + 5, 11.0, extra, 0.6, (), 0.0, 20, 1)


SHAPE = devices.Shape({"a": 1000, "b": 500}, {"a": 1, "b": 2}, 9)


def test_a_device_file_gives_back_the_steps_that_were_measured() -> None:
    found = measured(a_profile(), SHAPE, "two")
    device = devices.bind(DeviceFile("d", "d", Link(), (found,)), SHAPE, 20)
    for n in (1, 100, 400, 499):
        assert device.step_seconds({"a": n, "b": 50}) == pytest.approx(2 + 3 + 0.01 * n + 1)
    assert device.step_seconds({"a": 1000, "b": 500}) == pytest.approx(2 + 8 + 1)
    sparse_both = {"a": 100, "b": 50}
    extra = device.step_seconds(sparse_both, full_gradient=True) - device.step_seconds(sparse_both)
    assert 0 < extra < 1.0 + 0.6  # a's share of the sparse surplus, b's of the dense one


def test_a_whole_dense_step_is_what_was_measured() -> None:
    found = measured(replace(a_profile(), dense_step=13.5), SHAPE, "two")
    device = devices.bind(DeviceFile("d", "d", Link(), (found,)), SHAPE, 20)
    assert device.dense_step_seconds() == pytest.approx(13.5)


def test_a_device_file_survives_writing_and_reading() -> None:
    found = Measured(
        "two", 20, 6.0, (1000, 500), (1, 2), ("a", "b"), (0.01, 2e-9), (0.0, 4.0), (5.0, 0.0), r2=(0.99, 0.5)
    )
    found = replace(
        found,
        command="prunefl profile",
        overhead=0.5,
        dense_bytes=3000,
        sparse_bytes=100,
        bytes_per_weight=12.5,
    )
    link = Link(1e6, math.inf, 0.5, (2000, 0.1))
    file = DeviceFile("über", "here.toml", link, (found, replace(found, name="again")), 0.25, "n")
    assert devices.parse(devices.dump(file), "here.toml") == file


def test_a_new_profile_replaces_its_own_model_only() -> None:
    one, two = measured(a_profile(), SHAPE, "one"), measured(a_profile(), SHAPE, "two")
    old = DeviceFile("d", "d", Link(), (one, two))
    newer = replace(two, constant=99.0)
    assert merged(old, DeviceFile("d", "d", Link(5.0, 5.0), (newer,))).models == (one, newer)


def test_a_new_profile_keeps_the_link_unless_one_is_given() -> None:
    one = measured(a_profile(), SHAPE, "one")
    old = DeviceFile("d", "d", Link(7.0, 8.0, 0.1), (one,), note="in the attic")
    kept = merged(old, DeviceFile("d", "d", Link(), (one,)))
    assert (kept.link, kept.note) == (old.link, "in the attic")
    assert merged(old, DeviceFile("d", "d", Link(5.0, 5.0), (one,))).link == Link(5.0, 5.0)


def test_masks_have_exactly_the_density_asked_for() -> None:
    sizes = {"a": torch.Size([20, 30]), "b": torch.Size([7])}
    masks = random_masks(sizes, {"a": 0.25, "b": 0.01})
    assert [int(mask.sum()) for mask in masks.values()] == [150, 1]


def test_a_real_profile_has_ten_densities_below_break_even_for_every_layer() -> None:
    model = models.build("lenet300100", classes=10, input_shape=(1, 28, 28), seed=0)
    network = network_of(model, (1, 28, 28), 10)
    names = list(network.template.layers)
    seen: list[float] = []
    before = torch.get_num_threads()
    found = profile(
        Task(model, names, (1, 28, 28), 10, repeats=1, progress=lambda text, share: seen.append(share))
    )
    assert torch.get_num_threads() == before
    assert [layer.name for layer in found.layers] == names
    assert all(len(layer.points) == 10 for layer in found.layers)
    assert all(seconds > 0 for layer in found.layers for _, seconds in layer.points)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    shape = devices.shape_of(network)
    device = devices.bind(DeviceFile("d", "d", Link(), (measured(found, shape, "lenet300100"),)), shape, 20)
    assert device.kinked
    assert device.dense_step_seconds() > 0


def test_the_command_writes_a_file_that_a_run_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "here.toml"
    command(model="lenet300100", out=out, repeats=1, memory=False, bandwidth=1e6)
    printed = capsys.readouterr().out
    assert "not fitted on: predicted" in printed
    assert "R²" in printed
    assert (tmp_path / "here.png").stat().st_size > 1000
    file = devices.load(str(out))
    assert file.link == Link(1e6, 1e6)
    assert [model.name for model in file.models] == ["lenet300100"]
    with pytest.raises(ValueError, match="holds measurements of lenet300100, not of"):
        devices.bind(file, SHAPE, 20)


def test_an_own_model_needs_its_data_named() -> None:
    with pytest.raises(ValueError, match="give --classes and --input-shape"):
        command(model="my.module:net")
    with pytest.raises(ValueError, match=r"input_shape='3x32', must be whole numbers"):
        command(model="my.module:net", classes=3, input_shape="3x32")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak can be reset on Linux only")
def test_a_sparse_step_takes_less_memory_than_a_dense_one() -> None:
    dense, sparse = (step_bytes(Job("conv2", 62, (1, 28, 28), 20, density)) for density in (1.0, 0.02))
    # weights and their gradients are 53 MB dense
    assert dense > 52e6
    assert sparse < 0.5 * dense


def test_a_memory_limit_becomes_a_density_limit() -> None:
    memory = StepMemory(dense=1000, sparse=100, per_weight=2.0)
    assert memory.density_limit(1000, 500) is None
    assert memory.density_limit(500, 500) == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"time.memory_limit=100, must be > 100"):
        memory.density_limit(100, 500)
    known = devices.bind(
        DeviceFile("d", "d", Link(), (measured(a_profile(), SHAPE, "two", memory),)), SHAPE, 20
    )
    smaller = replace(known, memory=StepMemory(1000, 100, 4.0))
    assert devices.memory_density([known, smaller, known], 500) == pytest.approx(100 / 1500)
    with pytest.raises(ValueError, match="d has no memory measured for this model"):
        devices.memory_density([replace(known, memory=None)], 500)


def test_parts_of_a_measured_table_may_be_left_out() -> None:
    whole = Measured("m", 20, 1.0, (10,), (1,), dense_step=3.0, sparse_step=2.0)
    device = devices.bind(DeviceFile("d", "d", Link(), (whole,)), devices.Shape({"a": 10}, {"a": 1}, 0), 20)
    assert device.step_seconds({"a": 5}) == pytest.approx(1.5)
