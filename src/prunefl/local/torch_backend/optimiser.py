"""Plain SGD (no momentum, no weight decay: the paper's) on live weights only."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from prunefl import _kernels
from prunefl.system.errors import PruneFLError


class SGD(torch.optim.Optimizer):
    """w ← w − lr·g, in one call for all parameters; the learning rate stands in `param_groups`, as in torch."""

    def __init__(self, params: Iterable[nn.Parameter] | Iterable[dict[str, Any]], lr: float) -> None:
        if not lr >= 0.0:
            raise PruneFLError(f"lr={lr}, must be >= 0")
        super().__init__(params, {"lr": lr})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters as torch does, but not through its compiler, which takes over a second to import."""
        add = torch.optim.Optimizer.add_param_group
        getattr(add, "__wrapped__", add)(self, param_group)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; return the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            _update_in_place(group["params"], float(group["lr"]))
        return loss

    # torch would wrap `step` for its profiler and for hooks, at the price of half a small model's update.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()
                if "live_bits" in parameter.__dict__:
                    # This update passes over pruned weights; their layer need not clear the gradient there.
                    parameter.live_only = set_to_none and _plain(parameter)


def _update_in_place(parameters: list[nn.Parameter], rate: float) -> None:
    """Take one step."""
    plain: list[Tensor] = []
    gradients, sizes = [], []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if "live_bits" in parameter.__dict__:
            _masked_update_in_place(parameter, gradient, parameter.__dict__["live_bits"], rate)
        elif not _plain(parameter) or not gradient.is_contiguous():
            with torch.no_grad():
                parameter.add_(gradient, alpha=-rate)
        else:
            plain.append(parameter)
            gradients.append(gradient.data_ptr())
            sizes.append(parameter.numel())
    weights = [parameter.data_ptr() for parameter in plain]
    _kernels.sgd(weights, gradients, sizes, rate, torch.get_num_threads())
    # A graph that still needs the old values must notice that they have gone.
    torch.autograd.graph.increment_version(plain)


def _masked_update_in_place(weight: nn.Parameter, gradient: Tensor, bits: Tensor, rate: float) -> None:
    """Take one step with a dense weight of which only the marked positions live."""
    if not _plain(weight):
        with torch.no_grad():
            weight.add_(gradient, alpha=-rate)
        return
    gradient = gradient.contiguous()
    size, threads = weight.numel(), torch.get_num_threads()
    _kernels.masked_sgd(weight.data_ptr(), gradient.data_ptr(), bits.data_ptr(), size, rate, threads)
    torch.autograd.graph.increment_version(weight)


def _plain(tensor: Tensor) -> bool:
    """Return whether the kernels can update it."""
    return tensor.dtype is torch.float32 and tensor.is_cpu and tensor.is_contiguous()
