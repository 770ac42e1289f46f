"""A run of sparse layers as one autograd function: between them there is neither Python nor torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from prunefl import _kernels
from prunefl.local.torch_backend.layout import empty_ours, is_ours
from prunefl.local.torch_backend.pruned import Collection
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.local.torch_backend.layer import SparseLayer

KEPT_SIZES = 64
Size = tuple[int, int, int, int]
Pool = tuple[int, int, int, int, int, int]
"""Kernel height and width, stride, padding."""


@dataclass
class Link:
    """A sparse layer and what follows it in a run."""

    layer: "SparseLayer"
    relu: bool = False
    pool: Pool | None = None


class LayerChain:
    """Sparse layers that are computed together, forward and backward."""

    def __init__(self, links: list[Link], modules: list[nn.Module]) -> None:
        self.links = links
        self.modules = modules  # the same computation in torch, for what the kernels do not do
        self.dense: dict[nn.Module, Callable[[Tensor], Tensor]] = {
            link.layer: link.layer.dense_forward for link in links
        }
        self.chain: _kernels.Chain | None = None
        self.outputs: dict[torch.Size, tuple[Size, Size]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the modules return."""
        first = self.links[0].layer
        if first.is_linear and self.modules[0] is first and x.dim() != 2:
            # tokens are samples to a linear layer: no Flatten stands before it
            return self(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
        # Not as attributes, which nn.Module looks up slowly: a small model would notice.
        parameters = [link.layer._parameters for link in self.links]
        weights: list[nn.Parameter] = [own["weight"] for own in parameters]  # type: ignore[misc]
        biases = [own.get("bias") for own in parameters]
        if not _suits(x, weights):
            for module in self.modules:
                x = self.dense.get(module, module)(x)
            return x
        ours = not x.is_contiguous() and is_ours(x)
        x = x if ours else x.contiguous()
        if torch.is_grad_enabled() and _wants_gradient(x, weights, biases):
            out: Tensor = _Backprop.apply(self, ours, x, *weights, *biases)  # type: ignore[no-untyped-call]
            return out
        size, out = self.output(x)
        self.native().infer(
            size, ours, x.data_ptr(), addresses(weights), addresses(biases), out.data_ptr(), _threads()
        )
        return out

    def native(self) -> _kernels.Chain:
        """Return the kernels' form of this run."""
        if self.chain is None:
            stages = [(link.layer.pattern.native, link.relu, link.pool) for link in self.links]
            self.chain = _kernels.Chain(stages)
        return self.chain

    def output(self, x: Tensor) -> tuple[Size, Tensor]:
        """Return the input's size and an empty output for it."""
        shape = x.shape
        if shape not in self.outputs:
            if len(self.outputs) >= KEPT_SIZES:
                self.outputs.clear()
            size = (*shape, *[1] * (4 - len(shape)))
            try:
                self.outputs[shape] = size, self.native().output_for(size)
            except ValueError as error:
                given = f"input has shape {tuple(shape)}"
                raise PruneFLError(f"{given}: {error}, in {self.links[0].layer}") from None
        size, out = self.outputs[shape]
        return size, torch.empty(out[:2]) if self.links[-1].layer.is_linear else empty_ours(out)

    def __getstate__(self) -> dict[str, Any]:
        # A copy makes its own: the chain holds memory that its steps write.
        return {**self.__dict__, "chain": None}


class _Backprop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: LayerChain, ours: bool, x: Tensor, *parameters: Tensor | None) -> Tensor:
        size, out = run.output(x)
        count = len(run.links)
        weights, biases = addresses(parameters[:count]), addresses(parameters[count:])
        tape = run.native().forward(size, ours, x.data_ptr(), weights, biases, out.data_ptr(), _threads())
        ctx.run, ctx.ours, ctx.tape = run, ours, tape
        # Only a ReLU at the end needs the output again.
        ctx.save_for_backward(x, out if run.links[-1].relu else None, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        run: LayerChain = ctx.run
        x, out, *parameters = ctx.saved_tensors
        count = len(run.links)
        tape = ctx.tape if ctx.tape is not None else _again(run, ctx.ours, x, parameters)
        # The tape's memory serves the next step; whoever kept the graph has it made again.
        ctx.tape = None
        gradient_ours = is_ours(gradient) and not run.links[-1].layer.is_linear
        gradient = gradient if gradient_ours else gradient.contiguous()
        needed = ctx.needs_input_grad[2:]
        results = [
            torch.empty_like(tensor) if need else None
            for tensor, need in zip([x, *parameters], needed, strict=True)
        ]
        totals = _Totals(run)
        run.native().backward(
            tape,
            addresses(parameters[:count]),
            0 if out is None else out.data_ptr(),
            gradient.data_ptr(),
            gradient_ours,
            addresses(results[1 : count + 1]),
            addresses(results[count + 1 :]),
            totals.addresses,
            totals.squared,
            0 if results[0] is None else results[0].data_ptr(),
            _threads(),
        )
        totals.finish()
        return None, None, *results


def _again(run: LayerChain, ours: bool, x: Tensor, parameters: list[Tensor | None]) -> _kernels.Tape:
    """Return the tape of a forward pass that is repeated."""
    size, out = run.output(x)
    count = len(run.links)
    weights, biases = addresses(parameters[:count]), addresses(parameters[count:])
    return run.native().forward(size, ours, x.data_ptr(), weights, biases, out.data_ptr(), _threads())


class _Totals:
    """Where the kernels add full gradients: in the caller's sums if these are contiguous float32."""

    def __init__(self, run: LayerChain) -> None:
        self.squared = False
        self.later: list[tuple[Collection, Tensor]] = []
        self.addresses = [0] * len(run.links)
        for i, link in enumerate(run.links):
            collection = link.layer.collection
            if collection is None:
                continue
            total = collection.total
            if not self._direct(total):
                total = torch.zeros(link.layer.pattern.shape)
                self.later.append((collection, total))
            self.squared = collection.squared
            self.addresses[i] = total.data_ptr()

    @staticmethod
    def _direct(total: Tensor) -> bool:
        return total.dtype == torch.float32 and total.device.type == "cpu" and total.is_contiguous()

    def finish(self) -> None:
        """Add what could not be added directly."""
        for collection, total in self.later:
            collection.total.add_(total.to(collection.total))


def _suits(x: Tensor, weights: list[nn.Parameter]) -> bool:
    """Return whether the kernels can compute this."""
    if x.dtype is not torch.float32 or not x.is_cpu or x.numel() == 0 or torch.is_autocast_enabled("cpu"):
        return False
    return all(w.dtype is torch.float32 for w in weights)


def _wants_gradient(x: Tensor, weights: list[nn.Parameter], biases: list[nn.Parameter | None]) -> bool:
    """Return whether anything that goes in wants a gradient."""
    if x.requires_grad or weights[0].requires_grad:
        return True
    return any(parameter is not None and parameter.requires_grad for parameter in [*weights, *biases])


def addresses(tensors: Any) -> list[int]:
    """Return the addresses of tensors, zero for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def _threads() -> int:
    return torch.get_num_threads()
