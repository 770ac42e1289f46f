"""Whatever goes in comes out: random models, masks and kinds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState
from random_states import Dense, dense_states, same_bits

Drawn = tuple[Dense, Dense, Dense]


def template_of(weights: Dense, masks: Dense) -> Template:
    return Template(tuple(weights), tuple(w.shape for w in weights.values()), frozenset(masks))


@settings(deadline=None, max_examples=300)
@given(dense_states(), st.sampled_from([None, "bitmap", "indices", "coded", "change"]))
def test_every_kind_round_trips_to_the_bit(drawn: Drawn, kind: str | None) -> None:
    weights, masks, before = drawn[0], drawn[1], Masks(drawn[2])
    data = wire.pack(SparseState.from_dense(weights, Masks(masks)), known=before, kind=kind)
    found = wire.unpack(data, template_of(weights, masks), {before.digest: before})
    assert list(found.values) == list(weights)
    assert list(found.masks) == list(masks)
    assert found.masks.digest == Masks(masks).digest
    for name, weight in weights.items():
        assert same_bits(found.values[name], weight[masks[name]] if name in masks else weight)
    for name, mask in masks.items():
        assert found.masks.shapes[name] == mask.shape
        np.testing.assert_array_equal(found.masks[name], mask)


@settings(deadline=None, max_examples=150)
@given(dense_states())
def test_values_only_round_trips_to_the_bit(drawn: Drawn) -> None:
    weights, masks = drawn[0], Masks(drawn[1])
    data = wire.pack(SparseState.from_dense(weights, masks), known=masks)
    found = wire.unpack(data, template_of(weights, drawn[1]), {masks.digest: masks})
    for name, weight in weights.items():
        where = drawn[1].get(name, np.ones(weight.shape, np.bool_))
        assert same_bits(found.dense(name), np.where(where, weight, np.float32(0)))


@settings(deadline=None, max_examples=100)
@given(dense_states())
def test_importance_round_trips_to_the_bit(drawn: Drawn) -> None:
    importance = {name: np.asarray(np.abs(weight)) for name, weight in drawn[0].items()}
    found = wire.unpack_importance(wire.pack_importance(importance), template_of(drawn[0], drawn[1]))
    assert list(found) == list(importance)
    assert all(same_bits(found[name], importance[name]) for name in importance)


@settings(deadline=None, max_examples=100)
@given(dense_states())
def test_importance_in_a_byte_keeps_its_ratio_or_is_zero_where_it_is_tiny(drawn: Drawn) -> None:
    importance = {name: np.asarray(np.abs(weight)) for name, weight in drawn[0].items()}
    found = wire.unpack_importance(wire.pack_importance(importance, "log8"), template_of(drawn[0], drawn[1]))
    assert list(found) == list(importance)
    for name, exact in importance.items():
        assert found[name].shape == exact.shape
        top = float(exact.max(initial=0.0))
        large = exact > top * 2.0**-31
        # what float32 itself cannot tell apart is no fault of the code's
        slack = np.where(large, 0.046 * exact.astype(np.float64), top * 2.0**-31) + 1e-44
        assert (np.abs(found[name].astype(np.float64) - exact) <= slack).all()
