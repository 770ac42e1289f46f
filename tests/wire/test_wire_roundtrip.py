"""Whatever goes in comes out: random models, masks and kinds."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from wire_models import same_bits

from prunefl import wire
from prunefl.core import masks as pattern

shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
densities = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))


@st.composite
def models(draw: st.DrawFn) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """A state of arbitrary bits that are finite, its masks, and masks from before."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    state, masks, before = {}, {}, {}
    for number in range(draw(st.integers(0, 4))):
        shape, name = draw(shapes), f"{number}.weight"
        bits = torch.from_numpy(rng.integers(-(2**31), 2**31, shape, dtype=np.int32)).reshape(shape)
        floats = bits.view(torch.float32)
        state[name] = torch.where(floats.isfinite(), floats, torch.tensor(-0.0))
        if draw(st.booleans()):
            masks[name] = torch.from_numpy(np.asarray(rng.random(shape) < draw(densities)))
            flips = torch.from_numpy(np.asarray(rng.random(shape) < draw(densities)))
            before[name] = masks[name] ^ flips
    return state, masks, before


def template_of(state: dict[str, Tensor], masks: dict[str, Tensor]) -> wire.Template:
    return wire.Template(tuple(state), tuple(tuple(t.shape) for t in state.values()), frozenset(masks))


@settings(deadline=None, max_examples=300)
@given(models(), st.sampled_from([None, "bitmap", "indices", "coded", "change"]))
def test_every_kind_round_trips_to_the_bit(
    model: tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]], kind: str | None
) -> None:
    state, masks, before = model
    data = wire.pack(state, masks, known=before, kind=kind)
    found, found_masks = wire.unpack(data, template_of(state, masks), {pattern.digest(before): before})
    assert list(found) == list(state)
    assert pattern.digest(found_masks) == pattern.digest(masks)
    for name, tensor in state.items():
        assert same_bits(found[name], tensor[masks[name]] if name in masks else tensor)


@settings(deadline=None, max_examples=150)
@given(models())
def test_values_only_round_trips_to_the_bit(
    model: tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]],
) -> None:
    state, masks, _ = model
    data = wire.pack(state, masks, known=masks)
    found, found_masks = wire.unpack(data, template_of(state, masks), {pattern.digest(masks): masks})
    dense = wire.dense(found, found_masks)
    for name, tensor in state.items():
        where = masks.get(name, torch.ones_like(tensor, dtype=torch.bool))
        assert same_bits(dense[name], torch.where(where, tensor, torch.tensor(0.0)))


@settings(deadline=None, max_examples=100)
@given(models(), st.sampled_from(["float32", "log8"]))
def test_importance_round_trips(
    model: tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]], precision: str
) -> None:
    state, masks, _ = model
    importance = {name: tensor.abs() for name, tensor in state.items()}
    data = wire.pack_importance(importance, precision)
    found = wire.unpack_importance(data, template_of(state, masks))
    assert list(found) == list(importance)
    for name, tensor in importance.items():
        assert found[name].shape == tensor.shape
        if precision == "float32":
            assert same_bits(found[name], tensor)
