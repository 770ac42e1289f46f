"""Adam and AdamW on live weights only, and the choice of an optimiser by its settings."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from prunefl import _kernels
from prunefl.config.optimiser import OptimiserSettings
from prunefl.local.rules import AdamRule, adam_rule
from prunefl.local.torch_backend.optimiser import (
    SGD,
    LiveOptimiser,
    Parameters,
    contiguous_gradient,
    is_plain,
    live_bits_at,
)


class Adam(LiveOptimiser):
    """Adam; AdamW where weight decay is `decoupled` from the gradient."""

    slots = ("first", "second")

    def __init__(
        self,
        params: Parameters,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        **limits: float,
    ) -> None:
        own = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled": decoupled}
        super().__init__(params, lr, own, **limits)

    def _update_in_place(self, group: dict[str, Any], scale: float) -> None:
        rule = self._rule(group, scale)
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            first, second = (self.moment(parameter, slot) for slot in self.slots)
            if not is_plain(parameter):
                _adam_in_torch(parameter, gradient, first, second, rule)
                continue
            gradient = contiguous_gradient(parameter)
            where = parameter.data_ptr(), gradient.data_ptr(), first.data_ptr(), second.data_ptr()
            size, threads = parameter.numel(), torch.get_num_threads()
            _kernels.adam(*where, live_bits_at(parameter), size, rule, threads)
            torch.autograd.graph.increment_version(parameter)

    def _rule(self, group: dict[str, Any], scale: float) -> AdamRule:
        rate, decay = float(group["lr"]), group["weight_decay"]
        return adam_rule(rate, group["betas"], group["eps"], decay, group["decoupled"], self.steps, scale)


@torch.no_grad()
def _adam_in_torch(
    parameter: nn.Parameter, gradient: Tensor, first: Tensor, second: Tensor, rule: AdamRule
) -> None:
    """Take the same step with what the kernels do not hold: other types, orders and devices."""
    rate, rest1, beta2, rest2, epsilon, decay, shrink, scale = rule
    step = gradient * scale + decay * parameter
    first.lerp_(step, rest1)
    second.mul_(beta2).addcmul_(step, step, value=rest2)
    parameter.mul_(shrink).addcdiv_(first, second.sqrt() + epsilon, value=-rate)


def make_optimiser(
    settings: OptimiserSettings, parameters: Iterable[nn.Parameter], rate: float
) -> LiveOptimiser:
    """Return the optimiser that the settings name, with nothing remembered yet."""
    limits = {"clip_norm": settings.clip_norm, "proximal": settings.proximal}
    decay = settings.weight_decay
    if settings.name == "sgd":
        return SGD(parameters, rate, settings.momentum, settings.nesterov, decay, **limits)
    betas, decoupled = (settings.beta1, settings.beta2), settings.name == "adamw"
    return Adam(parameters, rate, betas, settings.epsilon, decay, decoupled, **limits)
