"""Kernels against dense autograd on masked weights: random shapes, strides, paddings, groups, batches."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.pruned import Collection
from prunefl.local.torch_backend.spec import spec_of

ENOUGH = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.usefixtures("every_path")


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Conv2d, tuple[int, ...]]:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    in_each, out_each = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    if draw(st.booleans()) and groups > 1:
        in_each = 1  # depthwise
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    stride, dilation = draw(pair), draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3)]))
    padding = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    layer = nn.Conv2d(
        in_each * groups,
        out_each * groups,
        kernel,
        stride,
        padding,
        dilation,
        groups,
        bias=draw(st.booleans()),
    )
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(kernel, dilation, padding, strict=True)]
    plane = [size + draw(st.integers(0, 9)) for size in least]
    return layer, (draw(st.integers(1, 67)), in_each * groups, *plane)


@st.composite
def linears(draw: st.DrawFn) -> tuple[nn.Linear, tuple[int, ...]]:
    inputs, outputs = draw(st.integers(1, 600)), draw(st.integers(1, 40))
    layer = nn.Linear(inputs, outputs, bias=draw(st.booleans()))
    return layer, (draw(st.integers(1, 67)), inputs)


def check(
    layer: nn.Linear | nn.Conv2d, size: tuple[int, ...], density: float, ours: bool, squared: bool
) -> None:
    """Outputs, all gradients and the full weight gradient equal those of dense torch."""
    mask = torch.rand(layer.weight.shape) < density
    sparse = SparseLayer(spec_of(layer), layer.weight, layer.bias, mask.numpy())
    with torch.no_grad():
        layer.weight.mul_(mask)
    x = torch.randn(size)
    mine = x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2) if ours and x.dim() == 4 else x.clone()
    x.requires_grad_()
    mine.requires_grad_()
    out, expected = sparse(mine), layer(x)
    close(out, expected)
    with torch.no_grad():
        close(sparse(mine), expected)
    total = torch.zeros(layer.weight.shape)
    sparse.collection = Collection(total, squared)
    gradient = torch.randn(expected.shape)
    expected.backward(gradient)
    out.backward(gradient)
    close(mine.grad, x.grad)
    close(sparse.pattern.row_major(sparse.weight.grad), layer.weight.grad[mask])
    close(total, layer.weight.grad**2 if squared else layer.weight.grad)
    if layer.bias is not None:
        close(sparse.bias.grad, layer.bias.grad)


def close(actual: Tensor, expected: Tensor) -> None:
    """The two sum in another order, so the error grows with what is summed."""
    scale = expected.detach().abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=2e-5 * max(1.0, scale))


@ENOUGH
@given(
    convolutions(),
    st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_convolution_equals_masked_dense(
    case: tuple[nn.Conv2d, tuple[int, ...]], density: float, ours: bool, squared: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    check(*case, density, ours, squared)


@ENOUGH
@given(linears(), st.sampled_from([0.0, 0.005, 0.02, 0.1, 0.5, 1.0]), st.booleans(), st.integers(0, 2**31))
def test_linear_equals_masked_dense(
    case: tuple[nn.Linear, tuple[int, ...]], density: float, squared: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    check(*case, density, False, squared)
