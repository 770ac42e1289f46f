"""Floating-point operations of a training step by layer, as the paper counts them (its appendix on FLOPs).

Two per multiply-add: 2·n_in·n_out·batch·d forward, the same for the gradient of the input, and for the
gradient of the weights d where it is computed at live positions only, 1 where it is full.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def positions(model: nn.Module, input_shape: Sequence[int], names: Iterable[str]) -> dict[str, int]:
    """Return for each named weight tensor at how many output positions of a sample each of its weights works.

    That is 1 for a linear layer and height × width of the output for a convolution, whatever its stride and
    groups: a group's weight is one that exists for fewer channels. A layer used twice counts twice.
    """
    return {name: sum(each) for name, each in uses(model, input_shape, names).items()}


def uses(model: nn.Module, input_shape: Sequence[int], names: Iterable[str]) -> dict[str, list[int]]:
    """Return for each named weight tensor the output positions of every time that its layer is called."""
    layers = {f"{path}.weight" if path else "weight": module for path, module in model.named_modules()}
    found: dict[str, list[int]] = {name: [] for name in names}

    def hook(name: str) -> Any:
        def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            spatial = output.shape[2:] if isinstance(module, nn.Conv2d) else output.shape[1:-1]
            found[name].append(spatial.numel())

        return layers[name].register_forward_hook(add)

    modes = {module: module.training for module in model.modules()}
    handles = [hook(name) for name in found]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model.eval()(torch.zeros(1, *input_shape))
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    return found


def step_flops(
    positions: Mapping[str, int],
    live: Mapping[str, int],
    total: Mapping[str, int],
    batch: int,
    full_weight_gradient: bool,
) -> dict[str, int]:
    """Return the FLOPs of one training step by layer.

    Args:
        positions: of each layer, from `positions`.
        live: live weights of each layer.
        total: all weights of each layer, live or not.
        full_weight_gradient: whether the weight gradient is computed at pruned positions too.
    """
    return {
        name: 2 * batch * where * (2 * live[name] + (total[name] if full_weight_gradient else live[name]))
        for name, where in positions.items()
    }
