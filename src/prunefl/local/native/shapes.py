"""What shape comes out of an operation; what does not fit is refused here, before anything is computed."""

import math
from collections.abc import Sequence

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native.operations import (
    FUNCTIONS,
    Activation,
    Add,
    Attention,
    AveragePool,
    BatchNorm,
    Concatenate,
    Conv,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool,
    MeanToken,
    Multiply,
    Operation,
    Places,
    Tokens,
)
from prunefl.local.native.token_shapes import (
    PlanError,
    infer_token_shape,
)
from prunefl.local.native.token_shapes import (
    require as _require,
)
from prunefl.local.native.token_shapes import (
    tensor_shape as _tensor,
)

MAX_STRIDE = 8
"""Of a convolution: what the kernels can split by."""

MAX_WINDOW = 254
"""Places in a window of max-pooling: the winner's is kept in a byte."""

MAX_REACH = 4096
"""Of a kernel, stride, dilation or padding, in pixels."""


def infer_shape(operation: Operation, inputs: Sequence[Shape], template: Template) -> Shape:
    """Return the shape of one sample of what the operation makes."""
    wanted = 2 if isinstance(operation, Add | Multiply) else 1
    if len(inputs) != wanted and not (isinstance(operation, Concatenate) and inputs):
        raise PlanError(f"has {len(inputs)} inputs, must have {wanted}")
    match operation:
        case Conv():
            return _conv(operation, inputs[0], template)
        case Linear():
            return _linear(operation, inputs[0], template)
        case GroupNorm() | LayerNorm():
            return _sample_norm(operation, inputs[0], template)
        case Embedding() | Places() | Attention() | Tokens() | MeanToken():
            return infer_token_shape(operation, inputs[0], template)
        case BatchNorm():
            return _batch_norm(operation, inputs[0], template)
        case MaxPool() | AveragePool():
            return _pool(operation, inputs[0])
        case Add():
            _require(inputs[0] == inputs[1], f"adds shapes {inputs[0]} and {inputs[1]}")
            return inputs[0]
        case Multiply():
            return _multiply(inputs[0], inputs[1])
        case Concatenate():
            return _concatenate(inputs)
        case Activation():
            _require(
                operation.function in FUNCTIONS[1:], f"function {operation.function[:40]!r} is not known"
            )
            return inputs[0]
        case Dropout():
            _require(0.0 <= operation.probability <= 1.0, f"probability {operation.probability}")
            _require(len(inputs[0]) != 2 or not operation.by_channel, "drops channels of tokens")
            return inputs[0]
        case Flatten():
            return (math.prod(inputs[0]),)


def _vector(template: Template, name: str, size: int, *, trained: bool) -> None:
    _require(_tensor(template, name, 1) == (size,), f"{name} must have {size} numbers")
    _require(name not in template.prunable, f"{name} must not be prunable")
    _require((name not in template.buffers) == trained, f"{name} must {'' if trained else 'not '}be trained")


def _window(size: int, kernel: int, stride: int, padding: int) -> int:
    _require(size + padding >= kernel, f"an input of {size} is smaller than the kernel, {kernel}")
    return (size + padding - kernel) // stride + 1


def _positive(*numbers: int) -> None:
    _require(all(1 <= number <= MAX_REACH for number in numbers), f"{numbers}, must be 1 to {MAX_REACH}")


def _conv(conv: Conv, shape: Shape, template: Template) -> Shape:
    _require(len(shape) == 3, f"reads shape {shape}, must be (channels, height, width)")
    out, each, *kernel = _tensor(template, conv.weight, 4)
    _positive(*kernel, *conv.stride, *conv.dilation)
    _require(max(conv.stride) <= MAX_STRIDE, f"stride {conv.stride}, must be <= {MAX_STRIDE}")
    _require(all(0 <= side <= MAX_REACH for side in conv.padding), f"padding {conv.padding}")
    _require(
        1 <= conv.groups <= out and out % conv.groups == 0 and each * conv.groups == shape[0],
        f"{conv.weight} has shape {(out, each, *kernel)} in {conv.groups} groups, reads {shape[0]} channels",
    )
    _require(conv.weight not in template.buffers, f"{conv.weight} must be trained")
    if conv.bias:
        _vector(template, conv.bias, out, trained=True)
    reach = [(side - 1) * dilation + 1 for side, dilation in zip(kernel, conv.dilation, strict=True)]
    top, bottom, left, right = conv.padding
    height = _window(shape[1], reach[0], conv.stride[0], top + bottom)
    return out, height, _window(shape[2], reach[1], conv.stride[1], left + right)


def _linear(linear: Linear, shape: Shape, template: Template) -> Shape:
    out, features = _tensor(template, linear.weight, 2)
    _require(
        len(shape) < 3 and shape[-1] == features,
        f"reads shape {shape}, must be ({features},), or such tokens",
    )
    _require(linear.weight not in template.buffers, f"{linear.weight} must be trained")
    if linear.bias:
        _vector(template, linear.bias, out, trained=True)
    return *shape[:-1], out


def _batch_norm(norm: BatchNorm, shape: Shape, template: Template) -> Shape:
    _require(len(shape) != 2, f"reads tokens {shape}")
    for name in (norm.weight, norm.bias):
        _vector(template, name, shape[0], trained=True)
    for name in (norm.mean, norm.variance):
        _vector(template, name, shape[0], trained=False)
    _require(0.0 < norm.epsilon <= 1.0, f"epsilon {norm.epsilon}, must be above 0 and at most 1")
    _require(0.0 <= norm.momentum <= 1.0, f"momentum {norm.momentum}, must be between 0 and 1")
    return shape


def _sample_norm(norm: GroupNorm | LayerNorm, shape: Shape, template: Template) -> Shape:
    by_channel = isinstance(norm, GroupNorm)
    _require(len(shape) != (2 if by_channel else 3), f"reads shape {shape}")
    size = shape[0] if by_channel else shape[-1]
    for name in (norm.weight, norm.bias):
        _vector(template, name, size, trained=True)
    _require(0.0 < norm.epsilon <= 1.0, f"epsilon {norm.epsilon}, must be above 0 and at most 1")
    if isinstance(norm, GroupNorm):
        _require(
            1 <= norm.groups <= size and size % norm.groups == 0, f"{norm.groups} groups of {size} channels"
        )
    return shape


def _pool(pool: MaxPool | AveragePool, shape: Shape) -> Shape:
    _require(len(shape) == 3, f"reads shape {shape}, must be (channels, height, width)")
    _positive(*pool.kernel, *pool.stride)
    if isinstance(pool, MaxPool):
        _require(math.prod(pool.kernel) <= MAX_WINDOW, f"kernel {pool.kernel}, {MAX_WINDOW} pixels at most")

    def side(i: int) -> int:
        padding = pool.padding[i]
        _require(0 <= 2 * padding <= pool.kernel[i], f"padding {padding}, must be at most half the kernel")
        return _window(shape[1 + i], pool.kernel[i], pool.stride[i], 2 * padding)

    return shape[0], side(0), side(1)


def one_pixel(shape: Shape) -> bool:
    """Return whether a value has one pixel a channel."""
    return len(shape) == 3 and shape[1:] == (1, 1)


def _multiply(one: Shape, other: Shape) -> Shape:
    fits = one == other or (one[0] == other[0] and len(one) == len(other) == 3)
    whole = other if one_pixel(one) else one
    _require(fits and (one == other or one_pixel(one) or one_pixel(other)), f"multiplies {one} and {other}")
    return whole


def _concatenate(inputs: Sequence[Shape]) -> Shape:
    if all(len(shape) == 2 and shape[0] == inputs[0][0] for shape in inputs):
        return inputs[0][0], sum(shape[1] for shape in inputs)
    _require(len(inputs[0]) != 2, f"joins shapes {tuple(inputs)}")
    _require(all(shape[1:] == inputs[0][1:] for shape in inputs), f"joins shapes {tuple(inputs)}")
    return sum(shape[0] for shape in inputs), *inputs[0][1:]


def pixels(shape: Shape) -> tuple[int, int, int]:
    """Return a value's shape as the executor has it: features are channels, tokens pixels of one row."""
    if len(shape) == 2:
        return shape[1], 1, shape[0]
    return (shape[0], 1, 1) if len(shape) == 1 else (shape[0], shape[1], shape[2])
