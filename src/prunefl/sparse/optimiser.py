"""Plain SGD (no momentum, no weight decay: the paper's) on live weights only."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


class SGD(torch.optim.Optimizer):
    """w ← w − lr·g; the learning rate stands in `param_groups`, as in torch."""

    def __init__(self, params: Iterable[nn.Parameter] | Iterable[dict[str, Any]], lr: float) -> None:
        if not lr >= 0.0:
            raise ValueError(f"lr={lr}, must be >= 0")
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; return the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-group["lr"])
        return loss
