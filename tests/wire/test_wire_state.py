"""A state comes back from its bytes as it was."""

import math

import numpy as np
import pytest
from wire_models import SHAPES, TEMPLATE, random_masks, random_state, random_weights

from prunefl import wire
from prunefl.core.state import SparseState
from random_states import same_bits

KINDS = ["bitmap", "indices", "coded", "change", None]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_brings_back_state_and_masks_to_the_bit(kind: str | None, seed: int) -> None:
    weights, masks, old = random_weights(seed), random_masks(0.3, seed), random_masks(0.35, seed + 5)
    weights["0.weight"][:] = -0.0  # a live zero lives, and keeps its sign
    data = wire.pack(SparseState.from_dense(weights, masks), known=old, kind=kind)
    found = wire.unpack(data, TEMPLATE, {old.digest: old})
    assert list(found.values) == list(weights)
    assert list(found.masks) == list(masks)
    for name, weight in weights.items():
        assert same_bits(found.values[name], weight[masks[name]] if name in masks else weight)
    assert all(np.array_equal(found.masks[name], masks[name]) for name in masks)


def test_values_only_needs_no_pattern_and_gives_back_the_known_masks(seed: int) -> None:
    state = random_state(0.3, seed)
    masks, data = state.masks, wire.pack(state, known=state.masks)
    others = sum(math.prod(shape) for name, shape in SHAPES.items() if name not in masks)
    assert len(data) == 64 + 8 * len(masks) + 4 * (sum(masks.counts.values()) + others)
    found = wire.unpack(data, TEMPLATE, {masks.digest: masks})
    assert found.masks is masks
    assert same_bits(found.values["3.weight"], state.values["3.weight"])


def test_equal_masks_need_not_be_the_same_object(seed: int) -> None:
    state, again = random_state(0.3, seed), random_masks(0.3, seed)
    assert again is not state.masks
    assert wire.pack(state, known=again) == wire.pack(state, known=state.masks)


def test_dense_gives_zeros_at_pruned_positions(seed: int) -> None:
    weights, masks = random_weights(seed), random_masks(0.3, seed)
    found = wire.unpack(wire.pack(SparseState.from_dense(weights, masks)), TEMPLATE)
    for name, weight in weights.items():
        np.testing.assert_array_equal(found.dense(name), weight * masks[name] if name in masks else weight)


def test_a_full_model_is_sent_dense() -> None:
    state = random_state(1.1)
    data = wire.pack(state)
    assert len(data) == 64 + 8 * 3 + 4 * sum(math.prod(shape) for shape in SHAPES.values())
    assert data == wire.pack(state, kind="dense")


def test_the_order_of_the_state_does_not_matter(seed: int) -> None:
    state = random_state(0.3, seed)
    turned = SparseState(dict(reversed(state.values.items())), state.masks)
    assert list(turned.values) != list(state.values)
    assert wire.pack(turned) == wire.pack(state)


def test_importance_comes_back_of_all_positions_and_parameters(rng: np.random.Generator) -> None:
    importance = {name: rng.random(shape, np.float32) for name, shape in TEMPLATE.parameters.items()}
    found = wire.unpack_importance(wire.pack_importance(importance), TEMPLATE)
    assert list(found) == list(importance)
    assert all(same_bits(found[name], importance[name]) for name in importance)


def test_importance_may_be_of_the_prunable_weights_alone(rng: np.random.Generator) -> None:
    importance = {name: rng.random(shape, np.float32) for name, shape in TEMPLATE.layers.items()}
    found = wire.unpack_importance(wire.pack_importance(importance), TEMPLATE)
    assert list(found) == list(TEMPLATE.layers)
    assert all(same_bits(found[name], importance[name]) for name in importance)


def test_unknown_masks_are_refused_with_a_reason_that_asks_for_the_whole_state() -> None:
    state = random_state(0.3)
    with pytest.raises(wire.WireError, match="not known here") as caught:
        wire.unpack(wire.pack(state, known=state.masks), TEMPLATE)
    assert caught.value.reason == "digest"
