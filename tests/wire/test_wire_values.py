"""Fewer bits cost what the format says they cost, and error feedback pays it back."""

import numpy as np
import pytest
from wire_models import TEMPLATE as MODEL
from wire_models import flat_state, random_state

from prunefl import wire
from prunefl.core.network import Template
from random_states import same_bits

FULL = np.ones((40, 50), np.bool_)
TEMPLATE = Template(("w",), ((40, 50),), frozenset({"w"}))


def through(values: np.ndarray, precision: str) -> np.ndarray:
    """Return what arrives of 2,000 values."""
    return wire.unpack(wire.pack(flat_state(values, FULL), precision=precision), TEMPLATE).values["w"]


def test_int8_errs_by_half_a_step_of_its_block_at_most(rng: np.random.Generator) -> None:
    values = (rng.standard_normal(2000) * np.logspace(-5, 5, 2000)).astype(np.float32)
    error = np.abs(through(values, "int8") - values)
    for start in range(0, 2000, 256):
        block = slice(start, start + 256)
        assert 0 < float(error[block].max()) <= float(np.abs(values[block]).max()) / 254 * 1.0001


@pytest.mark.parametrize("extreme", [3.4028234663852886e38, 1e-44, 0.0, -0.0])
def test_int8_survives_extreme_blocks(extreme: float) -> None:
    values = np.linspace(-1, 1, 2000, dtype=np.float32) * np.float32(extreme)
    found = through(values, "int8")
    assert bool(np.isfinite(found).all())
    assert float(np.abs(found - values).max()) <= max(abs(extreme) / 250, 1e-44)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8"])
def test_only_weights_with_a_mask_lose_precision(precision: str, seed: int) -> None:
    state = random_state(0.5, seed)
    found = wire.unpack(wire.pack(state, precision=precision), MODEL)
    assert all(same_bits(found.values[n], state.values[n]) for n in state.values.keys() - state.masks.keys())
    assert not any(same_bits(found.values[n], state.values[n]) for n in state.masks)


def test_error_feedback_brings_across_what_one_message_cannot() -> None:
    # a weight of 1 beside one that int8 cannot tell from zero: 1/127 is the smallest step
    values, residual, total = np.full(2000, 0.001, np.float32), None, np.zeros(2000)
    values[0] = 1.0
    for _ in range(100):
        data, residual = wire.pack_with_feedback(flat_state(values, FULL), residual)
        total += wire.unpack(data, TEMPLATE).values["w"]
    assert float(through(values, "int8")[1]) == 0.0
    np.testing.assert_allclose(total / 100, values, atol=1 / 127 / 2 / 100 * 1.01, rtol=0)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8"])
def test_a_residual_is_what_did_not_arrive(precision: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal(2000, np.float32)
    data, residual = wire.pack_with_feedback(flat_state(values, FULL), None, precision=precision)
    assert residual is not None
    assert data == wire.pack(flat_state(values, FULL), precision=precision)
    assert same_bits(residual.values["w"], values - wire.unpack(data, TEMPLATE).values["w"])


def test_float32_keeps_nothing_back(rng: np.random.Generator) -> None:
    state = flat_state(rng.standard_normal(2000, np.float32), FULL)
    assert wire.pack_with_feedback(state, None, precision="float32") == (wire.pack(state), None)


def test_a_residual_of_other_masks_is_dropped(rng: np.random.Generator) -> None:
    other = FULL.copy()
    other[0, 0] = False
    values = rng.standard_normal(2000, np.float32)
    _, residual = wire.pack_with_feedback(flat_state(values, FULL), None)
    fresh = wire.pack_with_feedback(flat_state(values[1:], other), None)
    stale = wire.pack_with_feedback(flat_state(values[1:], other), residual)
    assert stale[0] == fresh[0]
    assert fresh[1] is not None
    assert fresh[1].digest == flat_state(values[1:], other).masks.digest


def test_feedback_does_not_edit_what_it_is_given(rng: np.random.Generator) -> None:
    values = rng.standard_normal(2000, np.float32)
    before = values.copy()
    _, residual = wire.pack_with_feedback(flat_state(values, FULL), None)
    assert residual is not None
    kept = residual.values["w"].copy()
    wire.pack_with_feedback(flat_state(values, FULL), residual)
    assert same_bits(values, before)
    assert same_bits(residual.values["w"], kept)


def test_log8_keeps_ratios_within_a_sixteenth_of_an_octave(rng: np.random.Generator) -> None:
    importance = (rng.random((40, 50)) ** 20).astype(np.float32)
    found = wire.unpack_importance(wire.pack_importance({"w": importance}, "log8"), TEMPLATE)["w"]
    top = float(importance.max())
    large = importance > top * 2.0**-31
    assert 0 < int(large.sum()) < 2000
    assert bool((np.abs(found - importance) <= 0.046 * importance)[large].all())
    assert bool((found <= top * 2.0**-31)[~large].all())
    assert float(found.max()) == top


def test_log8_never_turns_an_order_around(rng: np.random.Generator) -> None:
    importance = np.sort(rng.random(2000, np.float32) ** 8).reshape(40, 50)
    found = wire.unpack_importance(wire.pack_importance({"w": importance}, "log8"), TEMPLATE)["w"]
    assert bool((np.diff(found.reshape(-1)) >= 0).all())
