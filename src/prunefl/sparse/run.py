"""A run of sparse layers as one autograd function: between them there is neither Python nor torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from prunefl import _kernels
from prunefl.sparse.layout import empty_ours, is_ours
from prunefl.sparse.pruned import Collection

if TYPE_CHECKING:
    from prunefl.sparse.layer import SparseLayer

Pool = tuple[int, int, int, int, int, int]
"""Kernel height and width, stride, padding."""


@dataclass
class Link:
    """A sparse layer and what follows it in a run."""

    layer: "SparseLayer"
    relu: bool = False
    pool: Pool | None = None


class Run:
    """Sparse layers that are computed together, forward and backward."""

    def __init__(self, links: list[Link], modules: list[nn.Module]) -> None:
        self.links = links
        self.modules = modules  # the same computation in torch, for what the kernels do not do
        self.dense: dict[nn.Module, Callable[[Tensor], Tensor]] = {
            link.layer: link.layer.dense_forward for link in links
        }
        self.chain: _kernels.Chain | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the modules return."""
        if not self._suits(x):
            for module in self.modules:
                x = self.dense.get(module, module)(x)
            return x
        ours = is_ours(x)
        x = x if ours else x.contiguous()
        weights = [link.layer.weight for link in self.links]
        biases = [link.layer.bias for link in self.links]
        tensors = [x, *weights, *(bias for bias in biases if bias is not None)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            out: Tensor = _Backprop.apply(self, ours, x, *weights, *biases)  # type: ignore[no-untyped-call]
            return out
        size, out = self._output(x)
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

    def _suits(self, x: Tensor) -> bool:
        """Return whether the kernels can compute this."""
        floats = x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0
        layers = all(link.layer.weight.dtype == torch.float32 for link in self.links)
        return floats and layers and not torch.is_autocast_enabled("cpu")

    def _output(self, x: Tensor) -> tuple[tuple[int, int, int, int], Tensor]:
        """Return the input's size and an empty output for it."""
        size = (*x.shape, *[1] * (4 - x.dim()))
        try:
            out = self.native().output_for(size)
        except ValueError as error:
            raise ValueError(f"input has shape {tuple(x.shape)}: {error} in {self.links[0].layer}") from None
        if self.links[-1].layer.is_linear:
            return size, torch.empty(out[:2])
        return size, empty_ours(out)

    def __getstate__(self) -> dict[str, Any]:
        # A copy makes its own: the chain holds memory that its steps write.
        return {**self.__dict__, "chain": None}


class _Backprop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, ours: bool, x: Tensor, *parameters: Tensor | None) -> Tensor:
        size, out = run._output(x)
        count = len(run.links)
        weights, biases = addresses(parameters[:count]), addresses(parameters[count:])
        tape = run.native().forward(size, ours, x.data_ptr(), weights, biases, out.data_ptr(), _threads())
        ctx.run, ctx.ours, ctx.tape = run, ours, tape
        # Only a ReLU at the end needs the output again.
        ctx.save_for_backward(x, out if run.links[-1].relu else None, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        run: Run = ctx.run
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
        totals = _Totals([link.layer.collection for link in run.links], run)
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


def _again(run: Run, ours: bool, x: Tensor, parameters: list[Tensor | None]) -> _kernels.Tape:
    """Return the tape of a forward pass that is repeated."""
    size, out = run._output(x)
    count = len(run.links)
    weights, biases = addresses(parameters[:count]), addresses(parameters[count:])
    return run.native().forward(size, ours, x.data_ptr(), weights, biases, out.data_ptr(), _threads())


class _Totals:
    """Where the kernels add full gradients: in the caller's sums if these are contiguous float32."""

    def __init__(self, collections: list[Collection | None], run: Run) -> None:
        self.squared = any(c.squared for c in collections if c is not None)
        self.later: list[tuple[Collection, Tensor]] = []
        self.addresses: list[int] = []
        for collection, link in zip(collections, run.links, strict=True):
            if collection is None:
                self.addresses.append(0)
            elif self._direct(collection.total):
                self.addresses.append(collection.total.data_ptr())
            else:
                total = torch.zeros(link.layer.pattern.shape)
                self.later.append((collection, total))
                self.addresses.append(total.data_ptr())

    @staticmethod
    def _direct(total: Tensor) -> bool:
        return total.dtype == torch.float32 and total.device.type == "cpu" and total.is_contiguous()

    def finish(self) -> None:
        """Add what could not be added directly."""
        for collection, total in self.later:
            collection.total.add_(total.to(collection.total))


def addresses(tensors: Any) -> list[int]:
    """Return the addresses of tensors, zero for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def _threads() -> int:
    return torch.get_num_threads()
