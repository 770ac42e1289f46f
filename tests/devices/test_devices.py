"""Device files are checked, presets fit the paper's models, and fleets shape the reconfiguration."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prunefl import devices
from prunefl.config import from_tables
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.reconfigure import reconfigure
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime, fleet_time
from prunefl.devices import Device, LayerCost, Link, Shape, Ways
from prunefl.local.torch_backend.network import network_of
from prunefl.models import build

GOOD = """
name = "bench"
[link]
up = 1e6
down = 2e6
latency = 0.1
[[model]]
name = "two"
batch = 10
constant = 0.5
weights = [100, 40]
positions = [4, 1]
per_weight = [0.01, 0.002]
fixed = [0.1, 0.0]
dense = [0.7, 0.06]
"""
TWO = Shape({"a": 100, "b": 40}, {"a": 4, "b": 1}, 7)


def test_a_device_file_becomes_a_device() -> None:
    device = devices.bind(devices.parse(GOOD, "bench.toml"), TWO, batch=10)
    assert device.step_seconds({"a": 20, "b": 10}) == pytest.approx(0.5 + 0.1 + 0.2 + 0.02)
    assert device.step_seconds({"a": 100, "b": 40}) == pytest.approx(0.5 + 0.7 + 0.06)
    assert device.link == Link(1e6, 2e6, 0.1)
    twice = devices.bind(devices.parse(GOOD, "bench.toml"), TWO, batch=20)
    assert twice.dense_step_seconds() == pytest.approx(2 * device.dense_step_seconds())


def test_time_of_a_profiled_device_bends_where_dense_becomes_cheaper() -> None:
    time = devices.bind(devices.parse(GOOD, "bench.toml"), TWO, batch=10).round_time(steps=5)
    assert isinstance(time, KinkedTime)
    kappa = 4 / 1e6 + 4 / 2e6
    expected = 0.2 + 5 * (0.5 + 0.7 + 0.02) + kappa * (100 + 10 + 7)
    assert time.seconds({"a": 100, "b": 10}) == pytest.approx(expected)


def test_another_number_of_classes_is_the_same_model() -> None:
    shape = Shape({"x": 100, "y": 20}, {"x": 4, "y": 1}, 7)
    device = devices.bind(devices.parse(GOOD, "bench.toml"), shape, batch=10)
    assert device.layers["y"].ordinary == Ways(pytest.approx(0.03), 0.0, pytest.approx(0.002))


def test_a_device_file_for_another_model_is_a_clear_error() -> None:
    shape = Shape({"x": 101, "y": 40}, {"x": 4, "y": 1}, 7)
    with pytest.raises(ValueError, match=r"'bench.toml' holds measurements of two, not of .*prunefl profile"):
        devices.bind(devices.parse(GOOD, "bench.toml"), shape, batch=10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("up = 1e6", "up = 0"), r"link.up=0, must be > 0"),
        (("up = 1e6", "upp = 1e6"), r"no such key 'upp'"),
        (("constant = 0.5", "constant = -0.5"), r"model two.constant=-0.5, must be >= 0"),
        (("constant = 0.5", "constant = inf"), r"constant=inf, must be >= 0 and finite"),
        (("constant = 0.5", "constant = true"), r"constant=True, must be a number"),
        (("constant = 0.5", ""), r"model two.constant is missing"),
        (("fixed = [0.1, 0.0]", "fixed = [0.1]"), r"fixed has 1 entries, must have 2"),
        (("batch = 10", "batch = 1.5"), r"batch=1.5, must be a whole number"),
        (("dense = [0.7, 0.06]", ""), r"must have dense by layer, or dense_step"),
        (("per_weight = [0.01, 0.002]", ""), r"must have per_weight by layer, or sparse_step"),
        (("[[model]]", "[[modell]]"), r"no such key 'modell'"),
        (("[link]", "[link"), r"not valid TOML"),
        (("weights = [100, 40]", "weights = 3"), r"weights=3, must be an array"),
        (("batch = 10", f"batch = 0x{'f' * 9999}"), r"model two.batch=0xf{98}\.\.\., must be a whole number"),
        (
            ("constant = 0.5", f"constant = 0x{'f' * 999}"),
            r"model two.constant=0xf{98}\.\.\., must be at most",
        ),
        (
            ("latency = 0.1", "long_message = [inf, 1]"),
            r"link.long_message=\[inf, 1\], must be \[bytes, seconds\]",
        ),
        (("batch = 10", f"batch = {'9' * 5000}"), r"^bench.toml: not valid TOML"),
        (("batch = 10", f"batch = {'[' * 5000}"), r"^bench.toml: not valid TOML"),
    ],
)
def test_a_wrong_device_file_is_refused_by_key_and_rule(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        devices.parse(GOOD.replace(*change), "bench.toml")


def test_a_file_that_is_too_long_for_a_device_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(
        ValueError, match=r"huge.toml: 1099511627776 bytes, a device file must have <= 1048576$"
    ):
        devices.load(str(path))


def test_an_unknown_device_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"device='pi', must be one of raspberry-pi-4, android-vm, x86 or"):
        devices.load("pi")


MODELS = {
    "conv2": (62, (1, 28, 28)),
    "vgg11": (10, (3, 32, 32)),
    "resnet18": (100, (3, 168, 168)),
    "lenet300100": (10, (1, 28, 28)),
    "mobilenetv3_small": (2, (3, 84, 84)),
}


def network(name: str, classes: int | None = None) -> Network:
    own, size = MODELS[name]
    classes = classes or own
    return network_of(build(name, classes=classes, input_shape=size, seed=0), size, classes)


def shape_of(name: str, classes: int | None = None) -> Shape:
    return devices.shape_of(network(name, classes))


@pytest.mark.parametrize(
    ("preset", "model", "dense_step"),
    [("raspberry-pi-4", "conv2", 2.24864), ("android-vm", "resnet18", 25.3356387)],
)
def test_presets_know_the_models_that_the_paper_measured(preset: str, model: str, dense_step: float) -> None:
    device = devices.bind(devices.load(preset), shape_of(model), 20)
    assert device.dense_step_seconds() == pytest.approx(dense_step)
    assert "estimated from FLOPs" not in device.note


def test_the_authors_coefficients_of_resnet18_add_up_to_the_sparse_step_that_they_measured() -> None:
    device = devices.bind(devices.load("android-vm"), shape_of("resnet18"), 20)
    slopes = device.round_time(1, 0.0)
    assert isinstance(slopes, LinearTime)
    assert slopes.seconds({n: layer.weights for n, layer in device.layers.items()}) == pytest.approx(
        27.966371, abs=1e-6
    )


def test_vgg_runs_sparse_even_at_full_size_on_the_pi_as_that_is_cheaper_there() -> None:
    device = devices.bind(devices.load("raspberry-pi-4"), shape_of("vgg11"), 20)
    slopes = device.round_time(1, bytes_per_weight=0.0)
    assert isinstance(slopes, LinearTime)
    assert device.dense_step_seconds() == pytest.approx(slopes.seconds(shape_of("vgg11").weights | {}))
    assert device.dense_step_seconds() < 31.5143


def test_ten_classes_keep_the_pi_coefficients() -> None:
    device = devices.bind(devices.load("raspberry-pi-4"), shape_of("conv2", classes=10), 20)
    assert "estimated" not in device.note
    assert [layer.ordinary.per_weight for layer in device.layers.values()][1] == pytest.approx(7.09885e-6)


@pytest.mark.parametrize("preset", devices.PRESETS)
@pytest.mark.parametrize("model", list(MODELS))
def test_every_preset_has_a_time_for_every_model(preset: str, model: str) -> None:
    shape = shape_of(model)
    device = devices.bind(devices.load(preset), shape, 20)
    tenth = {name: count // 10 for name, count in shape.weights.items()}
    assert 0 < device.step_seconds(tenth) < device.dense_step_seconds()


def test_groups_of_a_fleet_become_clients_in_order() -> None:
    model = network("conv2", classes=10)
    group = {"device": "raspberry-pi-4", "count": 2, "bandwidth": 1e5, "latency": 0.2, "jitter": 0.1}
    config = from_tables({"data": {"clients": 3}, "fleet": [{"device": "android-vm"}, group]})
    found = devices.fleet(config, model)
    assert [device.name for device in found] == ["android-vm", "raspberry-pi-4", "raspberry-pi-4"]
    assert found[1].link == Link(1e5, 1e5, 0.2)
    assert found[1].jitter == 0.1
    # the slow link is always waited for
    assert isinstance(devices.round_time(found, config), LinearTime)
    assert found[0].dense_step_seconds() < found[1].dense_step_seconds()
    plain = from_tables({"data": {"clients": 3}})
    alone = devices.fleet(plain, model)
    assert [device.name for device in alone] == ["raspberry-pi-4"] * 3
    assert isinstance(devices.round_time(alone, plain), LinearTime)


def test_the_papers_fleet_of_nine_pis_and_a_computer_keeps_time_linear() -> None:
    model = network("conv2")
    groups = [{"device": "raspberry-pi-4", "count": 9}, {"device": "x86", "count": 1}]
    config = from_tables({"data": {"clients": 10}, "fleet": groups})
    found = devices.fleet(config, model)
    assert devices.round_time(found, config) == found[0].round_time(5)
    assert min(range(10), key=lambda client: found[client].dense_step_seconds()) == 9


# What a fleet does to the reconfiguration (issue: a slow link shrinks the model, a slower world does not)


def random_model(seed: int) -> tuple[SparseState, Arrays]:
    """Return a full model of two layers, and the importance of its weights."""
    source = np.random.default_rng(seed)
    shapes = {"a": (30, 20), "b": (50, 30)}
    weights = {n: source.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    importance = {n: (source.normal(size=s) ** 4).astype(np.float32) for n, s in shapes.items()}
    return SparseState.from_dense(weights, Masks.full(shapes)), importance


LINK = Link(4e3, 4e3)
SIZES = {"a": 600, "b": 1500}


def device(speed: float = 1.0, link: Link = LINK, kinked: bool = True) -> Device:
    def cost(weights: int, slope: float) -> LayerCost:
        ways = Ways(0.8 * weights * slope * speed, 0.01 * speed, slope * speed)
        return LayerCost(weights, ways, ways)

    layers = {"a": cost(600, 4e-4), "b": cost(1500, 1e-4)}
    return Device("d", 0.05 * speed, layers, link, overhead=0.1 * speed, kinked=kinked)


def live_after(fleet: list[Device], seed: int) -> int:
    state, importance = random_model(seed)
    time = fleet_time([one.round_time(5) for one in fleet], SIZES)
    return sum(reconfigure(state, importance, time, fraction=0.9).counts.values())


@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_one_link_four_times_slower_makes_the_model_smaller(seed: int, kinked: bool) -> None:
    same = [device(kinked=kinked)] * 10
    slow = [*same[:9], device(link=Link(1e3, 1e3), kinked=kinked)]
    assert live_after(slow, seed) < live_after(same, seed)


@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_everything_four_times_slower_ends_with_the_same_model(seed: int, kinked: bool) -> None:
    fleet = [device(kinked=kinked), device(2.0, Link(8e3, 6e3), kinked=kinked)]
    slower = [
        device(4.0, Link(1e3, 1e3), kinked=kinked),
        replace(device(8.0, Link(2e3, 1.5e3), kinked=kinked)),
    ]
    state, importance = random_model(seed)
    one, other = (
        reconfigure(state, importance, fleet_time([d.round_time(5) for d in group], SIZES), fraction=0.9)
        for group in (fleet, slower)
    )
    assert 0 < sum(one.counts.values()) < 2100
    assert one == other


def test_two_devices_that_are_slow_in_different_ways_are_both_kept() -> None:
    near, far = device(3.0, Link(1e5, 1e5)), device(0.3, Link(1e3, 1e3))
    assert isinstance(fleet_time([near.round_time(5), far.round_time(5)], SIZES), FleetTime)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("latency = 0.1", 'long_message = ["a", "b"]', r"long_message=.*must be \[bytes, seconds\]"),
        ("positions = [4, 1]", "positions = [0, 1]", "batch, weights and positions must be >= 1"),
        ("dense = [0.7", "importance_per_weight = [0.1, 0.1]\ndense = [0.7", "belong together"),
    ],
)
def test_a_device_file_from_which_no_time_follows_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        devices.parse(GOOD.replace(old, new), "bench.toml")


def test_a_device_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ValueError, match=r"x\.toml: not a text file"):
        devices.load(str(tmp_path / "x.toml"))
