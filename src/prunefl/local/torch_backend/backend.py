"""Training through torch: autograd over our sparse layers, rebuilt only when the masks change."""

import copy
from collections.abc import MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from prunefl.config.optimiser import PLAIN_SGD, OptimiserSettings
from prunefl.core import importance
from prunefl.core.masks import Masks
from prunefl.core.moments import Moments
from prunefl.core.network import Template
from prunefl.core.objectives import Loss, Tally
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.local.backend import Batch, Inputs, Penalty, Sums, Trained
from prunefl.local.torch_backend.collect import collect_gradients
from prunefl.local.torch_backend.convert import pruned_layers, sparsify
from prunefl.local.torch_backend.device import CPU, as_array, has_kernels, moved
from prunefl.local.torch_backend.inputs import as_torch_inputs, call, repeated
from prunefl.local.torch_backend.losses import criterion_of
from prunefl.local.torch_backend.state import load_state, state_of
from prunefl.local.torch_backend.stepper import Stepper
from prunefl.local.torch_backend.threads import running_threads
from prunefl.models import seed_dropout


class TorchBackend:
    """One worker's network; see `prunefl.local.backend.Backend`.

    Args:
        batch_shape: shape of a mini-batch; layers compute densely or sparsely, whichever is faster here at it.
        measured: break-even densities to go by, and where new ones are entered.
        optimiser: how a gradient becomes a step.
        example: the input of one sample, where it is not a float array of this shape.
        device: where it computes; on others than the CPU pruned layers are dense under their mask.
    """

    name = "torch"

    def __init__(
        self,
        module: nn.Module,
        template: Template,
        loss: Loss | str,
        batch_shape: tuple[int, ...],
        measured: MutableMapping[str, float],
        optimiser: OptimiserSettings = PLAIN_SGD,
        example: Inputs | None = None,
        device: torch.device = CPU,
    ) -> None:
        self._template, self._measured, self._device = template, measured, device
        # the network is everybody's: other devices have a copy
        self._module = module if has_kernels(device) else copy.deepcopy(module).to(device)
        self._loss = loss if isinstance(loss, Loss) else Loss(loss)
        self._criterion = criterion_of(self._loss, device)
        self._example = repeated(example, batch_shape[0]) if example is not None else torch.zeros(batch_shape)
        self._generator = torch.Generator(device)
        self._masks: Masks | None = None
        self._threads = 0
        self._stepper = Stepper(optimiser, template)
        self.model = self._module

    def seed(self, seed: int) -> None:
        """Begin the random numbers of dropout anew."""
        self._generator = torch.Generator(self._device).manual_seed(seed)

    def begin(self, moments: Moments | None = None, anchor: SparseState | None = None) -> None:
        """Begin a client's training, before its state is loaded."""
        self._stepper.begin(moments, anchor)

    def moments(self) -> Moments:
        """Return a copy of what the optimiser remembers."""
        assert self._masks is not None
        return self._stepper.moments(self.model, self._masks)

    def load(self, state: SparseState) -> None:
        """Take over a state; only other masks take time."""
        # break-even differs with the number of threads; which worker pruned first must not decide bits
        if state.masks != self._masks or self._threads != torch.get_num_threads():
            if self._masks is not None:
                self._stepper.leave(self.model, self._masks)
            self.model = self._pruned(state.masks)
            self._masks, self._threads = state.masks, torch.get_num_threads()
        load_state(self.model, {name: self._tensor(name, value) for name, value in state.values.items()})
        seed_dropout(self.model, self._generator)

    def _pruned(self, masks: Masks) -> nn.Module:
        if not has_kernels(self._device):
            return sparsify(self._module, masks, choose="dense")
        return sparsify(self._module, masks, example=self._example, measured=self._measured)

    def _tensor(self, name: str, value: Array) -> Tensor:
        # the live values of a full layer are the whole layer, and it is a plain torch layer
        assert self._masks is not None
        full = name in self._masks and self._masks.counts[name] == self._masks.sizes[name]
        return torch.from_numpy(value.reshape(self._masks.shapes[name]) if full else value)

    def state(self) -> SparseState:
        """Return a copy of the state."""
        assert self._masks is not None
        values = {name: as_array(tensor) for name, tensor in state_of(self.model).items()}
        flat = {n: values[n].reshape(-1) if n in self._masks else values[n] for n in self._template.names}
        return SparseState(flat, self._masks)

    def steps(
        self, batches: Sequence[Batch], rate: float, sums: Sums | None = None, penalty: Penalty | None = None
    ) -> Trained:
        """Take one step of the optimiser a batch, at live positions; g or g² added to the sums at all."""
        assert self._masks is not None
        optimiser = self._stepper.optimiser(self.model, self._masks, rate)
        loss_sum, right, samples = 0.0, 0, 0
        self.model.train()
        with self._adding(sums):
            for inputs, labels in batches:
                optimiser.zero_grad()
                logits, loss = self._forward(inputs, labels)
                loss.backward()
                if penalty is not None:
                    self._add_gradient(penalty(self.state()))
                optimiser.step()
                right += self._count_right(logits, labels)
                samples += len(labels)
                loss_sum += float(loss.detach())
        return Trained(loss_sum / len(batches), right, samples)

    def _forward(self, inputs: Inputs, targets: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Return outputs and loss of a batch."""
        outputs = call(self.model, moved(as_torch_inputs(inputs), self._device))
        return outputs, self._criterion(outputs, torch.from_numpy(targets).to(self._device))

    def _adding(self, sums: Sums | None) -> AbstractContextManager[None]:
        if sums is None:
            return collect_gradients(self.model, None)
        tensors = {name: torch.from_numpy(total) for name, total in sums.arrays.items()}
        return collect_gradients(self.model, tensors, "square" if sums.squared else "plain")

    def _add_gradient(self, extra: Arrays) -> None:
        """Add to the gradient of the parameters, each in the order in which its layer holds it."""
        layers, parameters = pruned_layers(self.model), dict(self.model.named_parameters())
        for name, value in extra.items():
            parameter, gradient = parameters[name], torch.from_numpy(np.ascontiguousarray(value))
            gradient = gradient.to(parameter.device)
            gradient = layers[name].arranged(gradient) if name in layers else gradient.view_as(parameter)
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)

    def gradient(self, batches: Sequence[Batch], names: Sequence[str]) -> dict[str, Array]:
        """Return the mean gradient over the batches at all positions; the state stays."""
        sums = importance.empty_sums({name: self._template.shape_of[name] for name in names})
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.model.train()
        with self._adding(Sums(sums, squared=False)):
            for inputs, labels in batches:
                self.model.zero_grad()
                self._forward(inputs, labels)[1].backward()
        # what BatchNorm has noted meanwhile was not training
        for buffer, before in buffers:
            buffer.copy_(before)
        return importance.mean(sums, len(batches))

    def evaluate(self, batch: Batch) -> tuple[int, float]:
        """Return how many samples are classified right, and the mean loss."""
        outputs, loss = self._outputs(batch)
        return self._count_right(outputs, batch[1]), loss

    def judge(self, batch: Batch) -> tuple[Tally, float]:
        """Return what the loss's metric adds up, and the mean loss."""
        outputs, loss = self._outputs(batch)
        return self._loss.judged_by.tally(as_array(outputs), batch[1]), loss

    def _outputs(self, batch: Batch) -> tuple[Tensor, float]:
        self.model.eval()
        with torch.no_grad():
            outputs, loss = self._forward(*batch)
            return outputs, float(loss)

    def _count_right(self, logits: Tensor, labels: NDArray[Any]) -> int:
        if self._loss.metric != "accuracy":
            return 0
        return int(np.count_nonzero(as_array(logits).argmax(1) == labels))

    def threads(self, count: int) -> AbstractContextManager[None]:
        """Compute with so many threads meanwhile, in the whole process."""
        return running_threads(count)


def module_with(module: nn.Module, state: SparseState) -> nn.Module:
    """Return a plain copy of the network with this state's weights, zero where pruned."""
    made = copy.deepcopy(module)
    load_state(made, {name: torch.tensor(state.dense(name)) for name in state.values})
    return made


def as_tensors(masks: Masks) -> dict[str, Tensor]:
    """Return masks as torch has them."""
    return {name: torch.tensor(mask) for name, mask in masks.items()}
