"""A state comes back from its bytes as it was."""

import pytest
import torch
from torch import nn
from wire_models import random_masks, same_bits, small_model, state_of, template_of

from prunefl import wire
from prunefl.core import masks as pattern

KINDS = ["bitmap", "indices", "coded", "change", None]


@pytest.fixture(name="model")
def _model() -> nn.Module:
    return small_model()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_brings_back_state_and_masks_to_the_bit(model: nn.Module, kind: str | None) -> None:
    state, masks, old = state_of(model), random_masks(model, 0.3), random_masks(model, 0.35, seed=5)
    state["0.weight"][:] = -0.0  # a live zero lives, and keeps its sign
    data = wire.pack(state, masks, known=old, kind=kind)
    found, found_masks = wire.unpack(data, template_of(model), {pattern.digest(old): old})
    assert list(found) == list(state)
    assert list(found_masks) == list(masks)
    for name, tensor in state.items():
        expected = tensor[masks[name]] if name in masks else tensor
        assert same_bits(found[name], expected)
    assert all(torch.equal(found_masks[name], masks[name]) for name in masks)


def test_values_only_needs_no_pattern_and_gives_back_the_known_masks(model: nn.Module) -> None:
    state, masks = state_of(model), random_masks(model, 0.3)
    data = wire.pack(state, masks, known=masks)
    live = sum(pattern.live_counts(masks).values())
    others = sum(tensor.numel() for name, tensor in state.items() if name not in masks)
    assert len(data) == 64 + 8 * len(masks) + 4 * (live + others)
    found, found_masks = wire.unpack(data, template_of(model), {pattern.digest(masks): masks})
    assert all(found_masks[name] is masks[name] for name in masks)
    assert torch.equal(found["3.weight"], state["3.weight"][masks["3.weight"]])


def test_live_values_and_dense_tensors_pack_to_the_same_bytes(model: nn.Module) -> None:
    state, masks = state_of(model), random_masks(model, 0.3)
    live = {name: tensor[masks[name]] if name in masks else tensor for name, tensor in state.items()}
    assert wire.pack(live, masks) == wire.pack(state, masks)


def test_dense_gives_zeros_at_pruned_positions(model: nn.Module) -> None:
    state, masks = state_of(model), random_masks(model, 0.3)
    found, found_masks = wire.unpack(wire.pack(state, masks), template_of(model))
    for name, tensor in wire.dense(found, found_masks).items():
        assert torch.equal(tensor, state[name] * masks[name] if name in masks else state[name])


def test_a_full_model_is_sent_dense(model: nn.Module) -> None:
    state, masks = state_of(model), random_masks(model, 1.1)
    data = wire.pack(state, masks)
    assert len(data) == 64 + 8 * 3 + 4 * sum(tensor.numel() for tensor in state.values())
    assert data == wire.pack(state, masks, kind="dense")


def test_the_order_of_the_state_does_not_matter(model: nn.Module) -> None:
    state, masks = state_of(model), random_masks(model, 0.3)
    assert wire.pack(dict(reversed(state.items())), masks) == wire.pack(state, masks)


def test_importance_comes_back_of_all_positions_and_parameters(model: nn.Module) -> None:
    importance = {name: torch.rand(parameter.shape) for name, parameter in model.named_parameters()}
    found = wire.unpack_importance(wire.pack_importance(importance), template_of(model))
    assert list(found) == list(importance)
    assert all(torch.equal(found[name], importance[name]) for name in importance)


def test_unknown_masks_are_refused_with_a_reason_that_asks_for_the_whole_state(model: nn.Module) -> None:
    masks = random_masks(model, 0.3)
    with pytest.raises(wire.WireError, match="not known here") as caught:
        wire.unpack(wire.pack(state_of(model), masks, known=masks), template_of(model))
    assert caught.value.reason == "digest"
