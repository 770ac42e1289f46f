"""T of a device and of a fleet: sums, kinks, the slowest, and which devices can be left out."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from time_models import Opaque, random_fleet

from prunefl.core.time_model import (
    FleetTime,
    KinkedTime,
    LinearTime,
    fleet_time,
    from_json,
    lengthen,
    to_json,
)
from random_states import generators


def test_linear_time_is_a_sum() -> None:
    assert LinearTime(1.5, {"a": 0.5, "b": 2.0}).seconds({"a": 4, "b": 3}) == 1.5 + 2 + 6


def test_a_layer_runs_the_cheaper_way() -> None:
    time = KinkedTime(1.0, {"a": ((5.0, 0.0), (1.0, 0.5))})
    assert [time.seconds({"a": n}) for n in (0, 4, 8, 100)] == [2.0, 4.0, 6.0, 6.0]


def test_a_fleet_waits_for_its_slowest() -> None:
    fleet = FleetTime((LinearTime(10.0, {"a": 0.0}), LinearTime(0.0, {"a": 1.0})))
    assert [fleet.seconds({"a": n}) for n in (3, 10, 30)] == [10.0, 10.0, 30.0]


def test_devices_that_are_never_waited_for_leave_the_fleet_linear() -> None:
    slow, fast = LinearTime(2.0, {"a": 1.0}), LinearTime(1.0, {"a": 1.0})
    assert fleet_time([fast, slow, fast, slow], {"a": 5}) == slow
    assert fleet_time([slow, KinkedTime(2.0, {"a": ((9.0, 0.0), (0.0, 1.0))})], {"a": 50}) == slow
    other = LinearTime(0.0, {"a": 3.0})
    assert fleet_time([slow, other, fast], {"a": 5}) == FleetTime((slow, other))


def test_leaving_devices_out_never_changes_the_time(rng: np.random.Generator) -> None:
    sizes, left_out = {"a": 8, "b": 5}, 0
    for _ in range(300):
        devices = [
            KinkedTime(
                float(rng.integers(0, 4)),
                {
                    n: tuple(
                        (float(a), float(b)) for a, b in rng.integers(0, 4, (int(rng.integers(1, 3)), 2))
                    )
                    for n in "ab"
                },
            )
            for _ in range(4)
        ]
        left_out += isinstance(fleet_time(devices, sizes), KinkedTime)
        for a, b in itertools.product(range(9), range(6)):
            counts = {"a": a, "b": b}
            assert fleet_time(devices, sizes).seconds(counts) == FleetTime(tuple(devices)).seconds(counts)
    assert left_out > 30


def test_a_device_that_is_slower_in_one_layer_only_may_still_never_be_waited_for() -> None:
    slow, mixed = LinearTime(5.0, {"a": 1.0, "b": 1.0}), LinearTime(0.0, {"a": 1.5, "b": 0.0})
    assert fleet_time([slow, mixed], {"a": 10, "b": 10}) == slow
    assert fleet_time([mixed, slow], {"a": 11, "b": 10}) == FleetTime((mixed, slow))


def test_impossible_coefficients_are_refused() -> None:
    with pytest.raises(ValueError, match=r"constant=-1.0, must be finite seconds >= 0"):
        LinearTime(-1.0, {})
    with pytest.raises(ValueError, match=r"per_weight\[a\]=nan"):
        LinearTime(0.0, {"a": float("nan")})
    with pytest.raises(ValueError, match=r"ways\[a\]"):
        KinkedTime(0.0, {"a": ()})
    with pytest.raises(ValueError, match="at least one"):
        FleetTime(())
    with pytest.raises(ValueError, match=r"devices=\[\], must name at least one"):
        fleet_time([], {"a": 1})


@given(generators)
def test_a_time_model_comes_back_from_its_text_as_it_was(rng: np.random.Generator) -> None:
    names = ["a", "b"]
    for model in (
        LinearTime(rng.random(), {name: rng.random() for name in names}),
        random_fleet(rng, names, rng.random()).devices[0],
        FleetTime(
            (random_fleet(rng, names, 1.5).devices[0], LinearTime(rng.random(), dict.fromkeys(names, 1e-9)))
        ),
    ):
        assert from_json(to_json(model)) == model


def test_a_time_model_that_is_not_made_of_lines_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match=r"Opaque cannot be sent; use LinearTime, KinkedTime or FleetTime"):
        to_json(Opaque(LinearTime(1.0, {"a": 1.0})))


@given(generators)
def test_a_longer_round_is_longer_by_as_much_whatever_lives(rng: np.random.Generator) -> None:
    fleet, more = random_fleet(rng, ["a", "b"], 1.0), float(rng.integers(0, 9))
    for time in (LinearTime(2.0, {"a": 1.0, "b": 3.0}), fleet.devices[0], fleet, Opaque(fleet)):
        longer = lengthen(time, more)
        # lines stay lines: the fast algorithms need them, and only they can be sent
        assert isinstance(longer, type(time)) or isinstance(time, Opaque)
        for a, b in itertools.product((0, 1, 7), repeat=2):
            assert longer.seconds({"a": a, "b": b}) == time.seconds({"a": a, "b": b}) + more
