"""Which backend trains: by plan where that can be and is faster, through torch else, and in one line why."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from prunefl import models
from prunefl.config.networks import NETWORKS
from prunefl.core.network import Network
from prunefl.local import choose_backend
from prunefl.local.torch_backend.network import network_of
from tasks import small_config, small_network


class Forked(nn.Module):
    """Goes another way for other samples."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x.flatten(1) if x.sum() > 0 else -x.flatten(1))  # type: ignore[no-any-return]


class Selecting(nn.Module):
    """Has as many numbers as the samples decide."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.masked_select(x, x > -1e9).view(-1, 64))  # type: ignore[no-any-return]


class Counting(nn.Module):
    """Goes round as often as there are samples."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        for _ in range(x.shape[0]):
            flat = flat + 1
        return self.out(flat)  # type: ignore[no-any-return]


class Tied(nn.Module):
    """One weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.two(torch.relu(self.one(x.flatten(1)))))  # type: ignore[no-any-return]


def wide() -> Network:
    layers = (nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 4, 3), nn.Flatten(), nn.Linear(64, 4))
    return network_of(nn.Sequential(*layers), (1, 8, 8), 4)


def several_parts() -> Network:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(64, 4)

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return self.out((one + other).flatten(1))  # type: ignore[no-any-return]

    part = np.zeros((1, 1, 8, 8), np.float32)
    return network_of(Sum(), (1, 8, 8), 4, example=(part, part))


def test_left_open_it_is_native_where_it_can_be_and_the_config_says_so() -> None:
    choice = choose_backend(small_network(), small_config(), prunes=True)
    assert choice.network.plan is not None
    assert choice.config.run.backend == "native"
    assert choice.spoken == "native backend"
    again = choose_backend(choice.network, choice.config, prunes=True)
    assert again == choice


def test_torch_is_kept_where_it_is_asked_for() -> None:
    config = small_config(run={"backend": "torch"})
    choice = choose_backend(small_network(), config, prunes=True)
    assert (choice.network.plan, choice.config, choice.spoken) == (None, config, "torch backend")


@pytest.mark.parametrize(
    ("network", "sections", "words"),
    [
        (small_network, {"training": {"label_smoothing": 0.1}}, "cross_entropy or onehot_bce"),
        (lambda: network_of(Forked(), (1, 8, 8), 4), {}, "control flow"),
        (lambda: network_of(Selecting(), (1, 8, 8), 4), {}, "no operation like gt"),
        (lambda: network_of(Counting(), (1, 8, 8), 4), {}, "cannot be traced"),
        (lambda: network_of(Tied(), (1, 8, 8), 4), {}, "two.weight"),
        (
            lambda: network_of(nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ELU()), (1, 8, 8), 4),
            {},
            "layer 2.*ELU",
        ),
        (several_parts, {}, "several parts"),
    ],
)
def test_what_a_plan_cannot_do_is_done_by_torch_or_refused_in_one_line(
    network: Any, sections: dict[str, Any], words: str
) -> None:
    made = network()
    choice = choose_backend(made, small_config(**sections), prunes=True)
    assert (choice.network.plan, choice.config.run.backend) == (None, "torch")
    with pytest.raises(ValueError, match=words) as caught:
        choose_backend(made, small_config(run={"backend": "native"}, **sections), prunes=True)
    assert choice.why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_network_of_wide_convolutions_that_stays_whole_is_left_to_torch() -> None:
    assert choose_backend(wide(), small_config(), prunes=True).network.plan is not None
    whole = choose_backend(wide(), small_config(), prunes=False)
    assert whole.network.plan is None
    assert "stays whole" in whole.spoken
    asked = choose_backend(wide(), small_config(run={"backend": "native"}), prunes=False)
    assert asked.network.plan is not None
    assert choose_backend(small_network(), small_config(), prunes=False).network.plan is not None


@pytest.mark.parametrize(
    ("name", "backend"),
    [("vgg11", "torch"), ("resnet18", "torch"), ("lenet300100", "native"), ("mobilenetv3_small", "native")],
)
def test_of_the_papers_networks_those_that_dense_torch_trains_faster_are_left_to_it(
    name: str, backend: str
) -> None:
    known = NETWORKS[name]
    module = models.build(name, classes=known.classes, input_shape=known.input_shape, seed=0)
    network = network_of(module, known.input_shape, known.classes)
    assert choose_backend(network, small_config(), prunes=False).config.run.backend == backend
    assert choose_backend(network, small_config(), prunes=True).config.run.backend == "native"
