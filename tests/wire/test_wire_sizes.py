"""Exact byte counts, against the paper's formula and against the entropy."""

import numpy as np
import pytest
from reference import entropy_bytes
from wire_models import flat_state

from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

SHAPES = {
    "0.weight": (32, 1, 5, 5),
    "3.weight": (64, 32, 5, 5),
    "7.weight": (2048, 313),
    "9.weight": (62, 2048),
}
HEADER = 64 + 8 * len(SHAPES)


def random_state(density: float, rng: np.random.Generator) -> SparseState:
    masks = Masks({name: rng.random(shape) < density for name, shape in SHAPES.items()})
    values = {name: rng.standard_normal(live, np.float32) for name, live in masks.counts.items()}
    return SparseState(values, masks)


def zeros(mask: np.ndarray) -> SparseState:
    """Return a state whose values do not matter."""
    return flat_state(np.zeros(int(mask.sum()), np.float32), mask)


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_bitmap_costs_an_eighth_of_a_byte_a_weight_and_four_a_live_one(
    density: float, rng: np.random.Generator
) -> None:
    state = random_state(density, rng)
    assert state.masks.size % 8 == 0
    live = sum(state.masks.counts.values())
    assert len(wire.pack(state, kind="bitmap")) == HEADER + state.masks.size // 8 + 4 * live


@pytest.mark.parametrize("density", [0.0, 0.01, 0.1])
def test_indices_cost_eight_bytes_a_live_weight(density: float, rng: np.random.Generator) -> None:
    state = random_state(density, rng)
    assert len(wire.pack(state, kind="indices")) == HEADER + 8 * sum(state.masks.counts.values())


def test_indices_need_rows_and_columns_of_16_bits() -> None:
    with pytest.raises(wire.WireError, match="65536"):
        wire.pack(zeros(np.ones((1, 65537), np.bool_)), kind="indices")
    data = wire.pack(zeros(np.ones((2, 65536), np.bool_)), kind="indices")
    found = wire.unpack(data, Template(("w",), ((2, 65536),), frozenset({"w"})))
    assert bool(found.masks["w"].all())


@pytest.mark.parametrize("density", [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
def test_a_coded_mask_of_a_million_weights_is_within_three_percent_of_its_entropy(
    density: float, rng: np.random.Generator
) -> None:
    mask = rng.random((1000, 1000)) < density
    live = int(mask.sum())
    data = wire.pack(zeros(mask), kind="coded")
    assert 0.99 < (len(data) - 72 - 4 * live) / entropy_bytes(1_000_000, live) < 1.03


@pytest.mark.parametrize("density", [0.01, 0.1, 0.3])
def test_a_mask_that_clusters_takes_no_more_than_one_that_is_even(
    density: float, rng: np.random.Generator
) -> None:
    by_row = rng.gamma(0.3, density / 0.3, (1000, 1)).clip(0, 1)
    mask = rng.random((1000, 1000)) < by_row
    live = int(mask.sum())
    data = wire.pack(zeros(mask), kind="coded")
    assert 0.5 < (len(data) - 72 - 4 * live) / entropy_bytes(1_000_000, live) < 1.003


@pytest.mark.parametrize("density", [0.05, 0.1, 0.3])
def test_a_mask_change_of_five_percent_is_within_ten_percent_of_its_entropy(
    density: float, rng: np.random.Generator
) -> None:
    old = rng.random(1_000_000) < density
    swapped = int(old.sum()) // 20
    new = old.copy()
    new[rng.choice(np.flatnonzero(old), swapped, replace=False)] = False
    new[rng.choice(np.flatnonzero(~old), swapped, replace=False)] = True
    live = int(old.sum())
    data = wire.pack(zeros(new.reshape(1000, 1000)), known=Masks({"w": old.reshape(1000, 1000)}))
    assert wire.describe(data).kind == "change"
    bound = entropy_bytes(live, swapped) + entropy_bytes(1_000_000 - live, swapped)
    assert 0.99 < (len(data) - 72 - 4 * live) / bound < 1.10


@pytest.mark.parametrize("fill", [False, True])
def test_an_empty_or_full_layer_costs_four_bytes_at_most(fill: bool) -> None:
    state = zeros(np.full((100, 100), fill))
    assert len(wire.pack(state)) <= 64 + 8 + 4 + 4 * state.masks.counts["w"]


@pytest.mark.parametrize("density", [0.003, 0.02, 0.3, 0.9])
def test_the_encoder_takes_the_smallest(density: float, rng: np.random.Generator) -> None:
    state = random_state(density, rng)
    sizes = [len(wire.pack(state, kind=kind)) for kind in ("bitmap", "indices", "coded")]
    assert len(wire.pack(state)) <= min(sizes)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_the_encoder_takes_a_change_only_where_it_is_smaller(kept: float, rng: np.random.Generator) -> None:
    state = random_state(0.1, rng)
    known = Masks({name: mask & (rng.random(mask.shape) < kept) for name, mask in state.masks.items()})
    sizes = [len(wire.pack(state, known=known, kind=kind)) for kind in ("bitmap", "coded", "change")]
    assert len(wire.pack(state, known=known)) <= min(sizes)


@pytest.mark.parametrize(("precision", "per_value"), [("bfloat16", 2), ("float16", 2), ("int8", 1 + 4 / 256)])
def test_fewer_bits_save_the_bytes_they_promise(precision: str, per_value: float) -> None:
    state = zeros(np.ones((512, 512), np.bool_))
    data = wire.pack(state, known=state.masks, precision=precision)
    assert len(data) == 72 + per_value * 512 * 512


def test_log8_importance_takes_a_byte_a_weight(rng: np.random.Generator) -> None:
    importance = {"w": rng.random((512, 512), np.float32)}
    assert len(wire.pack_importance(importance)) == 72 + 4 * 512 * 512
    assert len(wire.pack_importance(importance, "log8")) == 72 + 4 + 512 * 512
