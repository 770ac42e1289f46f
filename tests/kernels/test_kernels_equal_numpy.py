"""Every set of instructions against layers in plain numpy: it needs no torch, so that it runs wherever kernels do."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy_layers import Conv, Floats, Pool
from sparse_chain import Layer, Results, in_numpy, on_kernels

from prunefl import _kernels

pytestmark = pytest.mark.usefixtures("every_path")

ENOUGH = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def layer_of(
    rng: np.random.Generator, conv: Conv | None, shape: tuple[int, ...], density: float, **after: object
) -> Layer:
    """A layer with random weights, of which a part lives."""
    weight = rng.standard_normal(shape).astype(np.float32).astype(np.float64) / np.sqrt(np.prod(shape[1:]))
    bias = rng.standard_normal(shape[0]).astype(np.float32).astype(np.float64)
    return Layer(conv, weight, bias, rng.random(shape) < density, **after)  # type: ignore[arg-type]


@st.composite
def convolutions(draw: st.DrawFn, channels: int, height: int, width: int) -> Conv:
    """Any convolution that fits its input."""
    groups = draw(st.sampled_from([1, 1, 1, channels]))
    conv = Conv(
        channels,
        groups * draw(st.integers(1, 7)),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        (draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        (draw(st.integers(1, 2)), 1),
        tuple(draw(st.integers(0, 2)) for _ in range(4)),  # type: ignore[arg-type]
        groups,
    )
    fits = min(conv.out_size(height, width)) >= 1
    return conv if fits else Conv(channels, 3, (1, 1))


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Layer], Floats]:
    """Some convolutions, then some linear layers, and an input."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.02, 0.3, 0.9, 1.0]))
    batch, channels = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    x = rng.standard_normal((batch, channels, height, width)).astype(np.float32).astype(np.float64)
    layers: list[Layer] = []
    for _ in range(draw(st.integers(0, 2))):
        conv = draw(convolutions(channels, height, width))
        (height, width), channels = conv.out_size(height, width), conv.outputs
        pool = draw(st.sampled_from([None, Pool((2, 2), (2, 2)), Pool((3, 2), (2, 1), (1, 0))]))
        pool = pool if min(height, width) >= 3 else None
        layers.append(layer_of(rng, conv, conv.weight_shape, density, relu=draw(st.booleans()), pool=pool))
        if pool:
            height, width = pool.forward(np.zeros((1, 1, height, width))).shape[2:]
    features = channels * height * width
    for _ in range(draw(st.integers(0 if layers else 1, 2))):
        outputs = draw(st.integers(1, 30))
        layers.append(layer_of(rng, None, (outputs, features), density, relu=draw(st.booleans())))
        features = outputs
    return layers, x


def close(found: Floats, expected: Floats) -> None:
    """Equal but for the rounding of float32 sums."""
    scale = max(1.0, float(np.abs(expected).max())) if expected.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=3e-5 * scale)


def check(layers: list[Layer], x: Floats, squared: bool, threads: int) -> None:
    """Output, input gradient, gradients of live weights and biases, and the full gradient that importance adds up."""
    expected, dy = in_numpy(layers, x, seed=len(x))
    found: Results = on_kernels(layers, x, dy, squared, threads)
    close(found.y, expected.y)
    close(found.dx, expected.dx.reshape(x.shape))
    for i in range(len(layers)):
        close(found.live[i], expected.live[i])
        close(found.biases[i], expected.biases[i])
        close(found.weights[i], expected.weights[i] ** 2 if squared else expected.weights[i])


@ENOUGH
@given(chains(), st.booleans(), st.sampled_from([1, 1, 2]))
def test_any_chain_equals_numpy(case: tuple[list[Layer], Floats], squared: bool, threads: int) -> None:
    check(*case, squared, threads)


@pytest.mark.parametrize("batch", [1, 3, 16, 20, 33, 67])
@pytest.mark.parametrize("size", [2, 4, 8, 17])
def test_rows_of_any_length_equal_numpy(rng: np.random.Generator, batch: int, size: int) -> None:
    """The paper's planes, and one that fills several tiles and ends in the midst of a vector."""
    conv = Conv(6, 5, (3, 3), padding=(1, 1, 1, 1))
    x = rng.standard_normal((batch, 6, size, size)).astype(np.float32).astype(np.float64)
    check([layer_of(rng, conv, conv.weight_shape, 0.3, relu=True)], x, squared=True, threads=1)


@pytest.mark.parametrize("density", [0.005, 0.02, 0.05, 0.2])
@pytest.mark.parametrize("batch", [1, 5, 20, 32, 67, 130])
def test_panels_of_any_width_equal_numpy(rng: np.random.Generator, batch: int, density: float) -> None:
    x = rng.standard_normal((batch, 1300)).astype(np.float32).astype(np.float64)
    check([layer_of(rng, None, (37, 1300), density)], x, squared=False, threads=2)


MOST_TILE_ROWS = 24
"""No path has larger tiles; with four lanes they have 24 vectors."""


@pytest.mark.parametrize("rows", range(1, MOST_TILE_ROWS + 1))
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_tiles_of_every_shape_equal_numpy(rng: np.random.Generator, rows: int, lanes: int) -> None:
    """Each number of rows and vectors is a function of its own; a plane of one column is one tile of that shape."""
    conv = Conv(3, 2, (2, 1))
    for vectors in range(1, MOST_TILE_ROWS // rows + 1):
        x = rng.standard_normal((vectors * lanes - 1, 3, rows + 1, 1)).astype(np.float32).astype(np.float64)
        check([layer_of(rng, conv, conv.weight_shape, 0.7)], x, squared=True, threads=1)


@pytest.mark.parametrize("vectors", range(1, 8))
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("missing", [0, 1])
def test_linear_rows_of_every_length_equal_numpy(
    rng: np.random.Generator, vectors: int, lanes: int, missing: int
) -> None:
    x = rng.standard_normal((vectors * lanes - missing, 19)).astype(np.float32).astype(np.float64)
    check([layer_of(rng, None, (7, 19), 0.5), layer_of(rng, None, (5, 7), 0.5)], x, squared=True, threads=1)


@pytest.mark.parametrize(
    ("kernel", "stride"), [((2, 2), (2, 2)), ((2, 1), (2, 1)), ((1, 2), (1, 3)), ((1, 1), (3, 3))]
)
def test_a_gate_before_a_convolution_that_leaves_rows_out_equals_numpy(
    rng: np.random.Generator, kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    first, second = Conv(2, 3, (3, 3), padding=(1, 1, 1, 1)), Conv(3, 2, kernel, stride)
    x = rng.standard_normal((5, 2, 5, 5)).astype(np.float32).astype(np.float64)
    layers = [
        layer_of(rng, first, first.weight_shape, 0.5, relu=True),
        layer_of(rng, second, second.weight_shape, 0.8),
    ]
    check(layers, x, squared=False, threads=1)


def test_nan_stays_nan() -> None:
    """A model that diverges must not look as if it did not: no path may compute by rules that forget NaN."""
    layer = Layer(None, np.ones((3, 8)), np.zeros(3), np.ones((3, 8), bool), relu=True)
    x = np.ones((20, 8))
    x[7, 2] = np.nan
    found = on_kernels([layer], x, np.ones((20, 3)), squared=False, threads=1)
    assert np.isnan(found.y[7]).all()
    assert not np.isnan(np.delete(found.y, 7, axis=0)).any()


def test_sgd_of_live_weights_and_under_a_mask(rng: np.random.Generator) -> None:
    weights, gradient = (rng.standard_normal(1003).astype(np.float32) for _ in range(2))
    live = rng.random(1003) < 0.4
    plain, masked = weights.copy(), weights.copy()
    _kernels.sgd([plain.ctypes.data], [gradient.ctypes.data], [1003], 0.5, 1)
    np.testing.assert_allclose(plain, weights - np.float32(0.5) * gradient, rtol=1e-6, atol=1e-6)
    bits = np.packbits(live, bitorder="little")
    bits = np.append(bits, np.zeros(8, np.uint8))
    _kernels.masked_sgd(masked.ctypes.data, gradient.ctypes.data, bits.ctypes.data, 1003, 0.5, 1)
    np.testing.assert_array_equal(masked, np.where(live, plain, weights))
