"""The promises that clients build on: masks in, masks out, state, gradients, training as masked dense."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from prunefl.local.torch_backend import (
    SGD,
    collect_gradients,
    densify,
    load_state,
    masks_of,
    sparsify,
    state_of,
)
from prunefl.local.torch_backend.network import prunable_names


def small_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 5, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(5 * 16, 7),
        nn.ReLU(),
        nn.Linear(7, 3),
    )


def random_masks(model: nn.Module, density: float, seed: int = 2) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    return {
        name: torch.rand(parameters[name].shape, generator=generator) < density
        for name in prunable_names(model)
    }


def batch(size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(size, 2, 8, 8, generator=generator)
    return images, torch.randint(0, 3, (size,), generator=generator)


def masked_dense_steps(
    model: nn.Module, masks: dict[str, torch.Tensor], lr: float, steps: int
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The oracle: plain torch whose weights and gradients are multiplied by the masks."""
    model = copy.deepcopy(model)
    squares = {name: torch.zeros(mask.shape) for name, mask in masks.items()}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, mask in masks.items():
            parameters[name].mul_(mask)
    for _ in range(steps):
        images, labels = batch()
        model.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            for name, parameter in parameters.items():
                gradient = parameter.grad
                assert gradient is not None
                if name in masks:
                    squares[name] += gradient**2
                    gradient = gradient * masks[name]
                parameter -= lr * gradient
    return model, squares


@pytest.mark.parametrize("choose", ["auto", "sparse", "dense"])
def test_training_equals_masked_dense_training(choose: str) -> None:
    model = small_model()
    masks = random_masks(model, 0.4)
    expected, squares = masked_dense_steps(model, masks, lr=0.1, steps=4)
    sparse = sparsify(model, masks, choose=choose)
    sums = {name: torch.zeros(mask.shape) for name, mask in masks.items()}
    optimiser = SGD(sparse.parameters(), lr=0.1)
    for _ in range(4):
        images, labels = batch()
        optimiser.zero_grad()
        with collect_gradients(sparse, sums):
            functional.cross_entropy(sparse(images), labels).backward()
        optimiser.step()
    trained = densify(sparse).state_dict()
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(trained[name], tensor, rtol=1e-4, atol=1e-5)
    for name, total in sums.items():
        torch.testing.assert_close(total, squares[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("choose", ["auto", "sparse", "dense"])
def test_state_is_live_values_in_row_major_order_and_loads_back(choose: str) -> None:
    model = small_model()
    masks = random_masks(model, 0.3)
    sparse = sparsify(model, masks, choose=choose)
    dense_state = {k: v for k, v in model.state_dict().items() if v.is_floating_point()}
    state = state_of(sparse)
    assert state.keys() == dense_state.keys()
    for name, mask in masks.items():
        assert torch.equal(state[name], dense_state[name][mask])
    for load in (dense_state, state):
        other = sparsify(small_model(), masks, choose=choose)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        load_state(other, load)
        assert all(torch.equal(state_of(other)[name], state[name]) for name in state)


@pytest.mark.parametrize("choose", ["auto", "sparse", "dense"])
def test_densify_undoes_sparsify_and_masks_come_back(choose: str) -> None:
    model = small_model()
    masks = random_masks(model, 0.3)
    sparse = sparsify(model, masks, choose=choose)
    assert all(torch.equal(masks_of(sparse)[name], masks[name]) for name in masks)
    dense = densify(sparse)
    assert dense.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        expected = tensor * masks[name] if name in masks else tensor
        assert torch.equal(dense.state_dict()[name], expected)


def test_full_masks_leave_plain_layers_and_their_bits() -> None:
    model = small_model()
    sparse = sparsify(model, random_masks(model, 1.1))
    images, _ = batch()
    assert torch.equal(sparse(images), model(images))
    assert masks_of(sparse) == {}


@pytest.mark.parametrize(
    ("name", "mask", "message"),
    [
        ("nothing.weight", torch.ones(1, dtype=torch.bool), "must name the weight"),
        ("1.weight", torch.ones(6, dtype=torch.bool), "must name the weight"),
        ("0.weight", torch.ones(6, 2, 3, 3), "must be a bool tensor"),
        ("0.weight", torch.ones(6, 2, 3, dtype=torch.bool), "has shape"),
    ],
)
def test_masks_that_do_not_fit_are_refused(name: str, mask: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sparsify(small_model(), {name: mask})


def test_state_that_does_not_fit_is_refused() -> None:
    model = small_model()
    sparse = sparsify(model, random_masks(model, 0.3))
    with pytest.raises(ValueError, match="other names"):
        load_state(sparse, {})
    with pytest.raises(ValueError, match="weight has shape"):
        load_state(sparse, {**state_of(sparse), "0.weight": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"state\['0.bias'\] has shape"):
        load_state(sparse, {**state_of(sparse), "0.bias": torch.zeros(1)})


def test_sums_that_do_not_fit_are_refused() -> None:
    model = small_model()
    sparse = sparsify(model, random_masks(model, 0.3))
    for sums in ({"0.weight": torch.zeros(1)}, {"9.nothing": torch.zeros(1)}):
        with pytest.raises(ValueError, match="sums"), collect_gradients(sparse, sums):
            pass


@pytest.mark.parametrize("kind", [SGD, torch.optim.SGD])
def test_pruned_weights_stay_zero_under_any_optimiser(kind: type[torch.optim.Optimizer]) -> None:
    model = small_model()
    masks = random_masks(model, 0.8)
    sparse = sparsify(model, masks, choose="dense")
    for optimiser in (SGD(sparse.parameters(), lr=0.1), kind(sparse.parameters(), lr=0.1)):
        for _ in range(2):
            images, labels = batch()
            optimiser.zero_grad()
            functional.cross_entropy(sparse(images), labels).backward()
            optimiser.step()
    expected, _ = masked_dense_steps(model, masks, lr=0.1, steps=4)
    for name, tensor in densify(sparse).named_parameters():
        torch.testing.assert_close(tensor, dict(expected.named_parameters())[name], rtol=1e-4, atol=1e-5)
        if name in masks:
            assert not tensor[~masks[name]].any()


def test_a_layer_without_a_live_weight_gives_its_bias() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 16, 3))
    masks = {name: torch.zeros_like(mask) for name, mask in random_masks(model, 0.5).items()}
    sparse = sparsify(model, masks)
    x = torch.randn(5, 1, 6, 6)
    torch.testing.assert_close(sparse(x), model[3].bias.expand(5, 3))
    sparse(x).sum().backward()
    torch.testing.assert_close(sparse[3].bias.grad, torch.full((3,), 5.0))
