"""What torch's layers and functions are in a plan, one by one."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from prunefl.core.masks import Shape
from prunefl.local.native import PlanError
from prunefl.local.native.operations import (
    Activation,
    Add,
    AveragePool,
    BatchNorm,
    Conv,
    Dropout,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool,
    Multiply,
    Operation,
    Pair,
)
from prunefl.local.torch_backend.spec import ConvSpec, spec_of
from prunefl.models.dropout import SeededDropout

ACTIVATIONS: Mapping[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.Hardswish: "hard_swish",
    nn.Hardsigmoid: "hard_sigmoid",
    nn.Sigmoid: "sigmoid",
    nn.GELU: "gelu",
}

FUNCTIONS: Mapping[Any, Callable[..., nn.Module]] = {
    functional.relu: nn.ReLU,
    torch.relu: nn.ReLU,
    "relu": nn.ReLU,
    functional.relu6: nn.ReLU6,
    functional.hardswish: nn.Hardswish,
    functional.hardsigmoid: nn.Hardsigmoid,
    functional.sigmoid: nn.Sigmoid,
    torch.sigmoid: nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    functional.gelu: nn.GELU,
    functional.max_pool2d: nn.MaxPool2d,
    functional.avg_pool2d: nn.AvgPool2d,
    functional.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
}
"""Function, or method of a tensor -> the layer that computes the same with the same arguments."""

OF_TWO: Mapping[Any, Operation] = {
    operator.add: Add(),
    operator.iadd: Add(),
    torch.add: Add(),
    "add": Add(),
    operator.mul: Multiply(),
    operator.imul: Multiply(),
    torch.mul: Multiply(),
    "mul": Multiply(),
}

UNCHANGED = (nn.Identity,)


def translate_layer(path: str, layer: nn.Module, shape: Shape) -> Operation | None:
    """Return a layer as an operation, None where it changes nothing; PlanError where there is none like it.

    Args:
        shape: of one sample that it reads.
    """
    kind = type(layer)
    if kind in ACTIVATIONS:
        if isinstance(layer, nn.GELU) and layer.approximate != "none":
            raise PlanError(f"layer {path}: GELU(approximate={layer.approximate!r})")
        return Activation(ACTIVATIONS[kind])
    if isinstance(layer, nn.Linear | nn.Conv2d):
        return _weighted(path, layer)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return _batch_norm(path, layer)
    if isinstance(layer, nn.MaxPool2d | nn.AvgPool2d | nn.AdaptiveAvgPool2d):
        return _pool(path, layer, shape)
    if isinstance(layer, nn.Dropout | nn.Dropout2d):
        by_channel = layer.by_channel if isinstance(layer, SeededDropout) else isinstance(layer, nn.Dropout2d)
        return Dropout(float(layer.p), by_channel) if layer.p else None
    if isinstance(layer, nn.GroupNorm | nn.LayerNorm | nn.Embedding):
        return _by_sample(path, layer, shape)
    if isinstance(layer, UNCHANGED):
        return None
    raise PlanError(f"layer {path}: there is no operation like {kind.__name__}")


def _weighted(path: str, layer: nn.Linear | nn.Conv2d) -> Operation:
    spec = spec_of(layer)
    weight, bias = f"{path}.weight", f"{path}.bias" if layer.bias is not None else ""
    if not isinstance(spec, ConvSpec):
        return Linear(weight, bias)
    if spec.padding_mode != "zeros":
        raise PlanError(f"layer {path}: padding_mode={spec.padding_mode!r}")
    return Conv(weight, bias, spec.stride, spec.zeros_around(), spec.dilation, spec.groups)


def _batch_norm(path: str, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> Operation:
    if not layer.affine or not layer.track_running_stats or layer.momentum is None:
        raise PlanError(f"layer {path}: BatchNorm without weights, running statistics or momentum")
    weight, bias, mean, variance = (
        f"{path}.{name}" for name in ("weight", "bias", "running_mean", "running_var")
    )
    return BatchNorm(weight, bias, mean, variance, float(layer.eps), float(layer.momentum))


def _by_sample(path: str, layer: nn.GroupNorm | nn.LayerNorm | nn.Embedding, shape: Shape) -> Operation:
    if isinstance(layer, nn.Embedding):
        unusual = (layer.padding_idx, layer.max_norm, layer.scale_grad_by_freq or None, layer.sparse or None)
        if unusual != (None, None, None, None):
            raise PlanError(
                f"layer {path}: Embedding with padding_idx, max_norm or other than plain gradients"
            )
        return Embedding(f"{path}.weight")
    if layer.weight is None or layer.bias is None:
        raise PlanError(f"layer {path}: {type(layer).__name__} without weight or bias")
    if isinstance(layer, nn.GroupNorm):
        return GroupNorm(f"{path}.weight", f"{path}.bias", layer.num_groups, float(layer.eps))
    if tuple(layer.normalized_shape) != shape[-1:] or len(shape) > 2:
        raise PlanError(f"layer {path}: LayerNorm over {tuple(layer.normalized_shape)} of shape {shape}")
    return LayerNorm(f"{path}.weight", f"{path}.bias", float(layer.eps))


def _pair(given: Any) -> Pair:
    return (given, given) if isinstance(given, int) else (int(given[0]), int(given[1]))


def _pool(path: str, layer: nn.Module, shape: Shape) -> Operation:
    if isinstance(layer, nn.AdaptiveAvgPool2d):
        return _adaptive(path, layer, shape)
    assert isinstance(layer, nn.MaxPool2d | nn.AvgPool2d)
    kernel, padding = _pair(layer.kernel_size), _pair(layer.padding)
    stride = _pair(layer.stride if layer.stride is not None else layer.kernel_size)
    if layer.ceil_mode:
        raise PlanError(f"layer {path}: pooling with ceil_mode")
    if isinstance(layer, nn.MaxPool2d):
        if _pair(layer.dilation) != (1, 1) or layer.return_indices:
            raise PlanError(f"layer {path}: max-pooling with dilation or indices")
        return MaxPool(kernel, stride, padding)
    if layer.divisor_override is not None:
        raise PlanError(f"layer {path}: pooling with divisor_override")
    return AveragePool(kernel, stride, padding, bool(layer.count_include_pad))


def _adaptive(path: str, layer: nn.AdaptiveAvgPool2d, shape: Shape) -> Operation:
    """Return it as windows of one size, where they are."""
    given: Any = layer.output_size
    given = (given, given) if given is None or isinstance(given, int) else tuple(given)
    if len(shape) != 3:
        raise PlanError(f"layer {path}: pooling of shape {shape}")
    wanted = [side if size is None else int(size) for size, side in zip(given, shape[1:], strict=True)]
    if any(size < 1 or side % size for size, side in zip(wanted, shape[1:], strict=True)):
        raise PlanError(
            f"layer {path}: pooling from {shape[1:]} to {tuple(wanted)}, which does not divide it"
        )
    kernel = (shape[1] // wanted[0], shape[2] // wanted[1])
    return AveragePool(kernel, kernel, (0, 0), padding_counts=False)
