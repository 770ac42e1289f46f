"""A chain of sparse layers on the kernels, and the same in numpy: what tests compare."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from numpy_layers import Conv, Floats, Pool

from prunefl import _kernels

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Layer:
    """One stage: a convolution, or a linear layer where `conv` is None."""

    conv: Conv | None
    weight: Floats
    bias: Floats
    live: Bools
    relu: bool = False
    pool: Pool | None = None


@dataclass
class Results:
    """Output and gradients, in torch's shapes; those of weights at all positions, and again at live ones alone."""

    y: Floats
    dx: Floats
    weights: list[Floats] = field(default_factory=list)
    biases: list[Floats] = field(default_factory=list)
    live: list[Floats] = field(default_factory=list)


def in_numpy(layers: list[Layer], x: Floats, seed: int) -> tuple[Results, Floats]:
    """The oracle, and the gradient of the output that it was given."""
    inputs, before_pool = [], []
    for layer in layers:
        w = layer.weight * layer.live
        if layer.conv is None:
            x = x.reshape(len(x), -1)
        inputs.append(x)
        x = x @ w.T + layer.bias if layer.conv is None else layer.conv.forward(x, w, layer.bias)
        before_pool.append(x)
        x = layer.pool.forward(x) if layer.pool else x
        x = np.maximum(x, 0) if layer.relu else x
    dy = given = np.random.default_rng(seed).standard_normal(x.shape).astype(np.float32).astype(np.float64)
    found = Results(x, x)
    for layer, entered, made in reversed(list(zip(layers, inputs, before_pool, strict=True))):
        w = layer.weight * layer.live
        after = layer.pool.forward(made) if layer.pool else made
        dy = dy.reshape(after.shape) * ((after > 0) if layer.relu else 1)
        dy = layer.pool.backward(made, dy) if layer.pool else dy
        if layer.conv is None:
            dx, dw, db = dy @ w, dy.T @ entered, dy.sum(axis=0)
        else:
            dx, dw, db = layer.conv.backward(entered, w, dy)
        found.weights.insert(0, dw)
        found.biases.insert(0, db)
        found.live.insert(0, dw[layer.live])
        dy = dx
    found.dx = dy
    return found, given


def pattern_of(layer: Layer) -> _kernels.LinearPattern | _kernels.ConvPattern:
    """The layer's live positions, as the kernels walk them."""
    live = np.ascontiguousarray(layer.live.reshape(len(layer.live), -1).astype(np.uint8))
    if layer.conv is None:
        return _kernels.LinearPattern(live)
    conv = layer.conv
    return _kernels.ConvPattern(live, conv.groups, conv.kernel, conv.stride, conv.dilation, conv.padding)


def on_kernels(layers: list[Layer], x: Floats, dy: Floats, squared: bool, threads: int) -> Results:
    """What the kernels make of it; `weights` are sums of the full gradient, or of its square."""
    patterns = [pattern_of(layer) for layer in layers]
    pools = [(*p.kernel, *p.stride, *p.pad) if (p := layer.pool) else None for layer in layers]
    chain = _kernels.Chain(
        [(pattern, layer.relu, pool) for pattern, layer, pool in zip(patterns, layers, pools, strict=True)]
    )
    weights = [single(layer.weight.ravel()[p.positions()]) for layer, p in zip(layers, patterns, strict=True)]
    biases = [single(layer.bias) for layer in layers]
    size = (*x.shape, *[1] * (4 - x.ndim))
    given, ours = single(x), layers[-1].conv is not None
    made = chain.output_for(size)
    out = np.empty((*made[1:], made[0]) if ours else made[:2], np.float32)
    tape = chain.forward(size, False, at(given), ats(weights), ats(biases), at(out), threads)
    inferred = np.empty_like(out)
    chain.infer(size, False, at(given), ats(weights), ats(biases), at(inferred), threads)
    np.testing.assert_allclose(inferred, out, rtol=1e-4, atol=1e-5)  # in parts, whose sums have another order

    gradients = [np.empty_like(w) for w in weights], [np.empty_like(b) for b in biases]
    totals = [np.zeros(layer.weight.shape, np.float32) for layer in layers]
    dout, dx = single(np.moveaxis(dy, 0, -1) if ours else dy), np.empty_like(given)
    chain.backward(
        tape,
        ats(weights),
        at(out),
        at(dout),
        ours,
        *map(ats, gradients),
        ats(totals),
        squared,
        at(dx),
        threads,
    )
    live = [g[np.argsort(p.positions())] for g, p in zip(gradients[0], patterns, strict=True)]
    return Results(np.moveaxis(out, -1, 0) if ours else out, dx, totals, gradients[1], live)


def single(values: Floats) -> NDArray[np.float32]:
    """As the kernels take numbers."""
    return np.ascontiguousarray(values, np.float32)


def at(array: NDArray[np.float32]) -> int:
    """The array's address."""
    return int(array.ctypes.data)


def ats(arrays: list[NDArray[np.float32]]) -> list[int]:
    """The arrays' addresses."""
    return [at(array) for array in arrays]
