"""Optimisers that step on live weights only, as torch.optim's do on all: SGD here, Adam in adam.py."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from prunefl import _kernels
from prunefl.local.rules import clip_scale
from prunefl.system.errors import PruneFLError

Parameters = Iterable[nn.Parameter] | Iterable[dict[str, Any]]


class LiveOptimiser(torch.optim.Optimizer):
    """What they share. The learning rate stands in `param_groups`, moments in `state`, as in torch.

    Args:
        clip_norm: largest norm of the gradient of all live weights; 0 for any.
        proximal: strength of the pull towards `anchors` (FedProx); a parameter without one is not pulled.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        params: Parameters,
        lr: float,
        defaults: dict[str, Any],
        clip_norm: float = 0.0,
        proximal: float = 0.0,
    ) -> None:
        if not lr >= 0.0:
            raise PruneFLError(f"lr={lr}, must be >= 0")
        super().__init__(params, {"lr": lr, **defaults})
        self.clip_norm, self.proximal = clip_norm, proximal
        self.anchors: dict[nn.Parameter, Tensor] = {}
        self.steps = 0

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
        self.steps += 1
        if self.anchors:
            self._pull()
        scale = self._scale() if self.clip_norm else 1.0
        for group in self.param_groups:
            self._update_in_place(group, scale)
        return loss

    # torch would wrap `step` for its profiler and for hooks, at the price of half a small model's update.
    step.hooked = True  # type: ignore[attr-defined]

    def _update_in_place(self, group: dict[str, Any], scale: float) -> None:
        """Take one step with the parameters of a group; `scale` is what clipping leaves of the gradient."""
        raise NotImplementedError

    def moment(self, parameter: nn.Parameter, slot: str) -> Tensor:
        """Return what is remembered of a parameter, in its shape; zero before its first step."""
        kept: dict[str, Tensor] = self.state[parameter]
        if slot not in kept:
            kept[slot] = torch.zeros_like(parameter.detach())
        return kept[slot]

    def _pull(self) -> None:
        for parameter, anchor in self.anchors.items():
            gradient = parameter.grad
            if gradient is None:
                continue
            if not is_plain(parameter):
                gradient.add_(parameter.detach() - anchor, alpha=self.proximal)
                continue
            gradient = contiguous_gradient(parameter)
            where = gradient.data_ptr(), parameter.data_ptr(), anchor.data_ptr()
            _kernels.pull(*where, parameter.numel(), self.proximal, torch.get_num_threads())

    def _scale(self) -> float:
        """Return by what the gradient is multiplied so that its norm is not above the limit."""
        threads, total = torch.get_num_threads(), 0.0
        for parameter in self._stepping():
            gradient = parameter.grad
            assert gradient is not None
            if not is_plain(parameter):
                total += float(gradient.double().square().sum())
            else:
                gradient, bits = contiguous_gradient(parameter), live_bits_at(parameter)
                total += _kernels.squared_norm(gradient.data_ptr(), bits, parameter.numel(), threads)
        return clip_scale(total, self.clip_norm)

    def _stepping(self) -> Iterator[nn.Parameter]:
        return (p for group in self.param_groups for p in group["params"] if p.grad is not None)

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
                    parameter.live_only = set_to_none and is_plain(parameter)


class SGD(LiveOptimiser):
    """w ← w − lr·g, in one call for all parameters; with momentum, Nesterov's look ahead and weight decay if wanted."""

    slots = ("momentum",)

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        **limits: float,
    ) -> None:
        own = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
        super().__init__(params, lr, own, **limits)

    def _update_in_place(self, group: dict[str, Any], scale: float) -> None:
        if not group["momentum"] and not group["weight_decay"] and scale == 1.0:
            _plain_update_in_place(group["params"], float(group["lr"]))
            return
        rule = (group["lr"], group["momentum"], group["weight_decay"], scale, group["nesterov"])
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            moment = self.moment(parameter, "momentum") if group["momentum"] else None
            if is_plain(parameter):
                gradient = contiguous_gradient(parameter)
                where = parameter.data_ptr(), gradient.data_ptr(), 0 if moment is None else moment.data_ptr()
                bits, size = live_bits_at(parameter), parameter.numel()
                _kernels.momentum_sgd(*where, bits, size, rule, torch.get_num_threads())
                torch.autograd.graph.increment_version(parameter)
            else:
                _momentum_in_torch(parameter, gradient, moment, rule)


@torch.no_grad()
def _momentum_in_torch(
    parameter: nn.Parameter,
    gradient: Tensor,
    moment: Tensor | None,
    rule: tuple[float, float, float, float, bool],
) -> None:
    """Take the same step with what the kernels do not hold: other types, orders and devices."""
    rate, momentum, decay, scale, nesterov = rule
    step = gradient * scale + decay * parameter
    if moment is not None:
        moment.mul_(momentum).add_(step)
        step = step + momentum * moment if nesterov else moment
    parameter.sub_(step, alpha=rate)


def _plain_update_in_place(parameters: list[nn.Parameter], rate: float) -> None:
    """Take one step of w − rate·g."""
    plain: list[Tensor] = []
    gradients, sizes = [], []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if "live_bits" in parameter.__dict__:
            _masked_update_in_place(parameter, gradient, parameter.__dict__["live_bits"], rate)
        elif not is_plain(parameter) or not gradient.is_contiguous():
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
    if not is_plain(weight):
        with torch.no_grad():
            weight.add_(gradient, alpha=-rate)
        return
    gradient = gradient.contiguous()
    size, threads = weight.numel(), torch.get_num_threads()
    _kernels.masked_sgd(weight.data_ptr(), gradient.data_ptr(), bits.data_ptr(), size, rate, threads)
    torch.autograd.graph.increment_version(weight)


def contiguous_gradient(parameter: nn.Parameter) -> Tensor:
    """Return the gradient of a parameter that has one, from now on in the order of the parameter."""
    assert parameter.grad is not None
    if not parameter.grad.is_contiguous():
        parameter.grad = parameter.grad.contiguous()
    return parameter.grad


def live_bits_at(parameter: nn.Parameter) -> int:
    """Return the address of the bits that say which weights live, zero where all do."""
    bits: Tensor | None = parameter.__dict__.get("live_bits")
    return 0 if bits is None else bits.data_ptr()


def is_plain(tensor: Tensor) -> bool:
    """Return whether the kernels can update it."""
    return tensor.dtype is torch.float32 and tensor.is_cpu and tensor.is_contiguous()
