"""At how many output positions a layer's weights work, for strides, groups and layers used twice."""

import pytest
import torch
from torch import Tensor, nn

from prunefl.local.torch_backend.network import count_uses, network_of


def test_a_convolution_works_at_every_output_position_and_a_linear_layer_at_one() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 196, 10)
    )
    assert count_uses(model, (1, 28, 28), ["0.weight", "3.weight"]) == {"0.weight": [784], "3.weight": [1]}
    assert network_of(model, (1, 28, 28), 10).positions == {"0.weight": 784, "3.weight": 1}


def test_a_linear_layer_over_a_sequence_works_at_each_of_its_places() -> None:
    assert count_uses(nn.Sequential(nn.Linear(6, 5)), (7, 6), ["0.weight"]) == {"0.weight": [7]}


@pytest.mark.parametrize(
    ("stride", "groups", "padding"), [(1, 1, 0), (2, 1, 1), (1, 4, 1), (3, 2, 0), (2, 8, 2)]
)
def test_a_convolution_counts_its_multiply_adds_stride_and_groups_included(
    stride: int, groups: int, padding: int
) -> None:
    layer = nn.Conv2d(8, 16, 3, stride=stride, groups=groups, padding=padding, bias=False)
    where = count_uses(nn.Sequential(layer), (8, 11, 9), ["0.weight"])
    # with all weights and inputs one, and no padding, each output is the number of its multiply-adds
    nn.init.ones_(layer.weight)
    unpadded = nn.functional.pad(torch.ones(1, 8, 11, 9), (padding,) * 4, value=1.0)
    layer.padding = (0, 0)
    assert sum(where["0.weight"]) * layer.weight.numel() == int(layer(unpadded).sum())


def test_a_layer_used_twice_counts_twice_and_the_model_is_left_as_it_was() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.norm(self.linear(x)))

    model = Twice()
    state = torch.get_rng_state()
    assert count_uses(model, (6,), ["linear.weight"]) == {"linear.weight": [1, 1]}
    assert model.training
    assert model.norm.training
    assert int(model.norm.num_batches_tracked) == 0
    assert not model.linear._forward_hooks
    assert torch.equal(state, torch.get_rng_state())
