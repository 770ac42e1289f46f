"""Exact byte counts, against the paper's formula and against the entropy."""

import numpy as np
import pytest
import torch
from reference import entropy_bytes
from torch import Tensor

from prunefl import wire
from prunefl.core import masks as pattern

SHAPES = {
    "0.weight": (32, 1, 5, 5),
    "3.weight": (64, 32, 5, 5),
    "7.weight": (2048, 313),
    "9.weight": (62, 2048),
}
HEADER = 64 + 8 * len(SHAPES)


def random_state(density: float) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(7)
    state = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    return state, {name: torch.rand(shape, generator=generator) < density for name, shape in SHAPES.items()}


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_bitmap_costs_an_eighth_of_a_byte_a_weight_and_four_a_live_one(density: float) -> None:
    state, masks = random_state(density)
    live, weights = sum(pattern.live_counts(masks).values()), sum(mask.numel() for mask in masks.values())
    assert weights % 8 == 0
    assert len(wire.pack(state, masks, kind="bitmap")) == HEADER + weights // 8 + 4 * live


@pytest.mark.parametrize("density", [0.0, 0.01, 0.1])
def test_indices_cost_eight_bytes_a_live_weight(density: float) -> None:
    state, masks = random_state(density)
    assert len(wire.pack(state, masks, kind="indices")) == HEADER + 8 * sum(
        pattern.live_counts(masks).values()
    )


def test_indices_need_rows_and_columns_of_16_bits() -> None:
    wide = {"w": torch.ones(1, 65537, dtype=torch.bool)}
    with pytest.raises(wire.WireError, match="65536"):
        wire.pack({"w": torch.zeros(1, 65537)}, wide, kind="indices")
    most = {"w": torch.ones(2, 65536, dtype=torch.bool)}
    data = wire.pack({"w": torch.zeros(2, 65536)}, most, kind="indices")
    found = wire.unpack(data, wire.Template(("w",), ((2, 65536),), frozenset({"w"})))[1]
    assert bool(found["w"].all())


@pytest.mark.parametrize("density", [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
def test_a_coded_mask_of_a_million_weights_is_within_three_percent_of_its_entropy(density: float) -> None:
    generator = torch.Generator().manual_seed(3)
    masks = {"w": torch.rand(1000, 1000, generator=generator) < density}
    live = pattern.live_counts(masks)["w"]
    data = wire.pack({"w": torch.zeros(live)}, masks, kind="coded")
    assert 0.99 < (len(data) - 72 - 4 * live) / entropy_bytes(1_000_000, live) < 1.03


@pytest.mark.parametrize("density", [0.01, 0.1, 0.3])
def test_a_mask_that_clusters_takes_no_more_than_one_that_is_even(density: float) -> None:
    rng = np.random.default_rng(2)
    by_row = rng.gamma(0.3, density / 0.3, (1000, 1)).clip(0, 1)
    masks = {"w": torch.from_numpy(rng.random((1000, 1000)) < by_row)}
    live = pattern.live_counts(masks)["w"]
    data = wire.pack({"w": torch.zeros(live)}, masks, kind="coded")
    assert 0.5 < (len(data) - 72 - 4 * live) / entropy_bytes(1_000_000, live) < 1.003


@pytest.mark.parametrize("density", [0.05, 0.1, 0.3])
def test_a_mask_change_of_five_percent_is_within_ten_percent_of_its_entropy(density: float) -> None:
    rng = np.random.default_rng(5)
    old = rng.random(1_000_000) < density
    swapped = int(old.sum()) // 20
    new = old.copy()
    new[rng.choice(np.flatnonzero(old), swapped, replace=False)] = False
    new[rng.choice(np.flatnonzero(~old), swapped, replace=False)] = True
    live = int(old.sum())
    masks, known = ({"w": torch.from_numpy(mask).reshape(1000, 1000)} for mask in (new, old))
    data = wire.pack({"w": torch.zeros(live)}, masks, known=known)
    assert wire.describe(data).kind == "change"
    bound = entropy_bytes(live, swapped) + entropy_bytes(1_000_000 - live, swapped)
    assert 0.99 < (len(data) - 72 - 4 * live) / bound < 1.10


def test_an_empty_or_full_layer_costs_four_bytes_at_most() -> None:
    for fill in (False, True):
        masks = {"w": torch.full((100, 100), fill)}
        live = pattern.live_counts(masks)["w"]
        assert len(wire.pack({"w": torch.zeros(100, 100)}, masks)) <= 64 + 8 + 4 + 4 * live


@pytest.mark.parametrize("density", [0.003, 0.02, 0.3, 0.9])
def test_the_encoder_takes_the_smallest(density: float) -> None:
    state, masks = random_state(density)
    sizes = [len(wire.pack(state, masks, kind=kind)) for kind in ("bitmap", "indices", "coded")]
    assert len(wire.pack(state, masks)) <= min(sizes)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_the_encoder_takes_a_change_only_where_it_is_smaller(kept: float) -> None:
    state, masks = random_state(0.1)
    generator = torch.Generator().manual_seed(1)
    known = {
        name: mask & (torch.rand(mask.shape, generator=generator) < kept) for name, mask in masks.items()
    }
    sizes = [len(wire.pack(state, masks, known=known, kind=kind)) for kind in ("bitmap", "coded", "change")]
    assert len(wire.pack(state, masks, known=known)) <= min(sizes)


@pytest.mark.parametrize(("precision", "per_value"), [("bfloat16", 2), ("float16", 2), ("int8", 1 + 4 / 256)])
def test_fewer_bits_save_the_bytes_they_promise(precision: str, per_value: float) -> None:
    masks = {"w": torch.ones(512, 512, dtype=torch.bool)}
    data = wire.pack({"w": torch.randn(512, 512)}, masks, known=masks, precision=precision)
    assert len(data) == 72 + per_value * 512 * 512


def test_log8_importance_takes_a_byte_a_weight() -> None:
    importance = {"w": torch.rand(512, 512)}
    assert len(wire.pack_importance(importance)) == 72 + 4 * 512 * 512
    assert len(wire.pack_importance(importance, "log8")) == 72 + 4 + 512 * 512
