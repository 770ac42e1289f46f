"""States and masks of arbitrary shapes, drawn by Hypothesis."""

import numpy as np
from hypothesis import strategies as st

from prunefl.core.masks import Masks

Dense = dict[str, np.ndarray]

shapes = st.lists(st.integers(0, 6), max_size=4).map(tuple)
densities = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def any_mask(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    """Return a bool array of this shape, of no shape too, in one of several memory layouts."""
    mask = np.asarray(rng.random(shape) < density)
    return np.asfortranarray(mask) if mask.ndim > 1 and rng.integers(2) else mask


def finite_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 of any bits that are a finite number: subnormal and huge ones, and both zeros."""
    drawn = np.asarray(rng.integers(0, 2**32, shape, dtype=np.uint32)).view(np.float32)
    return np.where(np.isfinite(drawn), drawn, np.float32(-0.0))


@st.composite
def dense_states(draw: st.DrawFn) -> tuple[Dense, Dense, Dense]:
    """Return weights in their own shapes, masks of some of them, and other masks of the same ones."""
    rng = draw(generators)
    weights: Dense = {}
    masks: Dense = {}
    others: Dense = {}
    for number in range(draw(st.integers(0, 4))):
        shape, name = draw(shapes), f"{number}.weight"
        weights[name] = finite_bits(rng, shape)
        if draw(st.booleans()):
            masks[name] = any_mask(rng, shape, draw(densities))
            others[name] = any_mask(rng, shape, draw(densities))
    return weights, masks, others


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two float32 arrays have the same shape and bits, the sign of zero included."""
    return (
        one.dtype == other.dtype == np.float32
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
    )


def full(**sizes: int) -> Masks:
    """Return masks of flat layers in which all weights live."""
    return Masks.full({name: (size,) for name, size in sizes.items()})
