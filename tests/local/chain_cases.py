"""Little models of which every run of layers is fused, and what it takes to be equal to dense torch."""

import torch
from torch import Tensor, nn

from prunefl.local.torch_backend import collect_gradients, densify, sparsify
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.network import prunable_names


def masks_for(model: nn.Module, density: float, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    return {n: torch.rand(parameters[n].shape, generator=generator) < density for n in prunable_names(model)}


def close(actual: Tensor, expected: Tensor) -> None:
    scale = expected.detach().abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=3e-5 * max(1.0, scale))


def check_like_dense(model: nn.Module, x: Tensor, density: float, seed: int = 0) -> None:
    """Output, input gradient and all parameter gradients, at pruned positions too, are the dense model's."""
    masks = masks_for(model, density, seed)
    sparse = sparsify(model, masks, choose="sparse")
    dense = densify(sparse)
    mine, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = sparse(mine), dense(plain)
    close(out, expected)
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(seed))
    sums = {name: torch.zeros(mask.shape) for name, mask in masks.items()}
    squared = seed % 2 == 0
    with collect_gradients(sparse, sums, "square" if squared else "plain"):
        out.backward(gradient)
    expected.backward(gradient)
    close(mine.grad, plain.grad)
    for name, total in sums.items():
        full = dense.get_parameter(name).grad
        assert full is not None
        close(total, full**2 if squared else full)
    layers = dict(sparse.named_modules())
    for name, parameter in dense.named_parameters():
        found = sparse.get_parameter(name).grad
        wanted = parameter.grad
        layer = layers[name.rpartition(".")[0]]
        if isinstance(layer, SparseLayer) and name.endswith("weight"):
            found, wanted = layer.pattern.row_major(found), wanted[masks[name]]
        close(found, wanted)
    with torch.no_grad():
        close(sparse.eval()(x), dense.eval()(x))


def run_model() -> nn.Sequential:
    torch.manual_seed(3)
    features = nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(features, nn.Flatten(), nn.Linear(5 * 16, 6), nn.ReLU(), nn.Linear(6, 3))


def sparse_run_model() -> nn.Module:
    model = run_model()
    return sparsify(model, masks_for(model, 0.4), choose="sparse")
