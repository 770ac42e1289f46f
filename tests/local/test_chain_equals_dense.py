"""Fused chains against dense autograd on every set of instructions: whatever layers, shapes and densities."""

from collections.abc import Callable

import pytest
import torch
from chain_cases import check_like_dense
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from prunefl import models

pytestmark = pytest.mark.usefixtures("every_path")

ENOUGH = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def chains(draw: st.DrawFn) -> tuple[nn.Sequential, tuple[int, ...]]:
    channels, size = draw(st.integers(1, 4)), draw(st.integers(6, 11))
    shape = (draw(st.integers(1, 40)), channels, size, size)
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(0, 3))):
        width, kernel = draw(st.integers(1, 9)), draw(st.sampled_from([1, 3]))
        stride = draw(st.sampled_from([1, 1, 2]))
        between = draw(st.sampled_from(["none", "relu", "relu pool", "pool relu", "pool", "norm", "overlap"]))
        # a bias before BatchNorm has a gradient of zero: each side would have nothing but the noise of its sum
        bias = between != "norm"
        layers.append(nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=bias))
        layers += {
            "none": [],
            "relu": [nn.ReLU()],
            "relu pool": [nn.ReLU(inplace=True), nn.MaxPool2d(2)],
            "pool relu": [nn.MaxPool2d(2), nn.ReLU()],
            "pool": [nn.MaxPool2d(2)],
            # with the usual eps the noise of a channel without a live weight would be magnified three hundred times
            "norm": [nn.BatchNorm2d(width, eps=1.0), nn.ReLU(inplace=True)],
            "overlap": [nn.MaxPool2d(3, 2, padding=1), nn.ReLU()],
        }[between]
        channels = width
        if nn.Sequential(*layers)(torch.zeros(2, *shape[1:])).shape[-1] < 3:
            break
    layers.append(nn.Flatten())
    features = nn.Sequential(*layers).eval()(torch.zeros(2, *shape[1:])).shape[1]
    for _ in range(draw(st.integers(0, 2))):
        width = draw(st.integers(1, 30))
        layers += [nn.Linear(features, width), *([nn.ReLU()] if draw(st.booleans()) else [])]
        features = width
    return nn.Sequential(*layers).train(), shape


@ENOUGH
@given(chains(), st.sampled_from([0.05, 0.3, 0.9]), st.integers(0, 2**31))
def test_any_sequential_equals_dense(
    case: tuple[nn.Sequential, tuple[int, ...]], density: float, seed: int
) -> None:
    torch.manual_seed(seed)
    model, shape = case
    check_like_dense(model, torch.randn(shape), density, seed)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (models.conv2, (5, 1, 28, 28)),
        (models.lenet300100, (5, 1, 28, 28)),
        (models.resnet18, (3, 3, 32, 32)),
        (models.mobilenetv3_small, (2, 3, 64, 64)),
    ],
)
def test_the_papers_networks_equal_dense(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    # In evaluation: dropout draws nothing, and statistics of three numbers do not magnify the last bit.
    check_like_dense(build().eval(), torch.randn(shape), 0.1)
