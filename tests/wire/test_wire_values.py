"""Fewer bits cost what the format says they cost, and error feedback pays it back."""

import pytest
import torch
from wire_models import random_masks, same_bits, small_model, state_of, template_of

from prunefl import wire
from prunefl.core import masks as pattern

FULL = {"w": torch.ones(40, 50, dtype=torch.bool)}
TEMPLATE = wire.Template(("w",), ((40, 50),), frozenset({"w"}))


def through(values: torch.Tensor, precision: str) -> torch.Tensor:
    """Return what arrives of 2,000 values."""
    return wire.unpack(wire.pack({"w": values}, FULL, precision=precision), TEMPLATE)[0]["w"]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_halves_are_those_of_torch(precision: str) -> None:
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    assert same_bits(through(values, precision), values.to(getattr(torch, precision)).float())


def test_int8_errs_by_half_a_step_of_its_block_at_most() -> None:
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0)) * torch.logspace(-5, 5, 2000)
    error = (through(values, "int8") - values).abs()
    for block, wrong in zip(values.split(256), error.split(256), strict=True):
        assert float(wrong.max()) <= float(block.abs().max()) / 254 * 1.0001


@pytest.mark.parametrize("extreme", [3.4028234663852886e38, 1e-44, 0.0, -0.0])
def test_int8_survives_extreme_blocks(extreme: float) -> None:
    values = torch.linspace(-1, 1, 2000) * torch.tensor(extreme)
    found = through(values, "int8")
    assert bool(found.isfinite().all())
    assert float((found - values).abs().max()) <= max(abs(extreme) / 250, 1e-44)


def test_only_weights_with_a_mask_lose_precision() -> None:
    model = small_model()
    state, masks = state_of(model), random_masks(model, 0.5)
    found, _ = wire.unpack(wire.pack(state, masks, precision="int8"), template_of(model))
    assert all(same_bits(found[name], state[name]) for name in state if name not in masks)


def test_error_feedback_brings_across_what_one_message_cannot() -> None:
    # a weight of 1 beside one that int8 cannot tell from zero: 1/127 is the smallest step
    values, residual, total = torch.full((2000,), 0.001), None, torch.zeros(2000)
    values[0] = 1.0
    for _ in range(100):
        data, residual = wire.pack_with_feedback({"w": values}, FULL, residual)
        total += wire.unpack(data, TEMPLATE)[0]["w"]
    assert float(through(values, "int8")[1]) == 0.0
    assert torch.allclose(total / 100, values, atol=1 / 127 / 2 / 100 * 1.01, rtol=0)


def test_a_residual_of_other_masks_is_dropped() -> None:
    other = {"w": FULL["w"].clone()}
    other["w"][0, 0] = False
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    _, residual = wire.pack_with_feedback({"w": values}, FULL, None)
    fresh = wire.pack_with_feedback({"w": values[1:]}, other, None)
    stale = wire.pack_with_feedback({"w": values[1:]}, other, residual)
    assert stale[0] == fresh[0]
    assert fresh[1].digest == pattern.digest(other)


def test_feedback_does_not_edit_what_it_is_given() -> None:
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    before = values.clone()
    _, residual = wire.pack_with_feedback({"w": values}, FULL, None)
    kept = residual.values["w"].clone()
    wire.pack_with_feedback({"w": values}, FULL, residual)
    assert torch.equal(values, before)
    assert torch.equal(residual.values["w"], kept)


def test_log8_keeps_ratios_within_a_sixteenth_of_an_octave() -> None:
    generator = torch.Generator().manual_seed(0)
    importance = {"w": torch.rand(40, 50, generator=generator).double().pow(20).float()}
    found = wire.unpack_importance(wire.pack_importance(importance, "log8"), TEMPLATE)["w"]
    top = float(importance["w"].max())
    large = importance["w"] > top * 2.0**-31
    assert bool(((found - importance["w"]).abs() <= 0.046 * importance["w"])[large].all())
    assert bool((found <= top * 2.0**-31)[~large].all())
    assert float(found.max()) == top


def test_log8_never_turns_an_order_around() -> None:
    importance = (
        torch.rand(2000, generator=torch.Generator().manual_seed(1)).pow(8).sort().values.reshape(40, 50)
    )
    found = wire.unpack_importance(wire.pack_importance({"w": importance}, "log8"), TEMPLATE)["w"]
    assert bool((found.reshape(-1).diff() >= 0).all())
