"""One sample through the network before a run: whether it takes such inputs, and gives what the loss needs."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunefl.core.objectives import CLASSES, Loss, check_class_weights, check_targets
from prunefl.core.randomness import Ints, Stream
from prunefl.data import Federation, Samples
from prunefl.data.inputs import Inputs, parts_of
from prunefl.data.samples import Batch, Elsewhere, Images, Later
from prunefl.data.transform import as_float
from prunefl.local.torch_backend.inputs import as_torch_inputs, call
from prunefl.local.torch_backend.losses import criterion_of
from prunefl.system.errors import PruneFLError

FEW = 8
"""Samples of a client that are looked at before a run."""


@dataclass(frozen=True)
class AsFloats:
    """Samples whose whole numbers are no tokens: their network takes floats."""

    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs and targets; see Samples."""
        inputs, targets = self.samples.batch(indices, stream)
        assert isinstance(inputs, np.ndarray)
        return as_float(inputs), targets


def example_of(federation: Federation) -> Inputs | None:
    """Return the input of one sample, where it can be read now and is not one float array."""
    known = [federation.test, *federation.clients[:1]]
    readable = [s for s in known if s is not None and not isinstance(s, Later | Elsewhere) and len(s)]
    if not readable:
        return None
    inputs, _ = readable[0].batch(np.arange(1))
    return None if isinstance(inputs, np.ndarray) and inputs.dtype.kind == "f" else inputs


def with_fitting_inputs(model: nn.Module, federation: Federation) -> Federation:
    """Return the federation, its inputs as floats where they are whole numbers that the network does not take."""
    example = example_of(federation)
    if not isinstance(example, np.ndarray) or example.dtype.kind != "i":
        return federation
    try:
        _called(model, example)
    # a network of the user's own may raise anything
    except Exception:
        test = None if federation.test is None else AsFloats(federation.test)
        return replace(federation, clients=[AsFloats(share) for share in federation.clients], test=test)
    return federation


def count_classes(model: nn.Module, inputs: Inputs, loss: Loss) -> int:
    """Return how many classes the outputs of a sample are for; 1 where the loss knows none."""
    try:
        outputs = _called(model, inputs)
    # a network of the user's own may raise anything
    except Exception as error:
        first = parts_of(inputs)[0]
        raise PruneFLError(
            f"model cannot take samples of shape {first.shape[1:]} of {first.dtype}: {_first_line(error)}"
        ) from error
    axis = loss.objective.class_axis
    wrong = not isinstance(outputs, Tensor) or (loss.objective.targets == CLASSES and outputs.dim() != 2)
    if wrong or (axis is not None and outputs.dim() < 2):
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise PruneFLError(f"model gives {got} for one sample, must give one row of logits")
    return 1 if axis is None else int(outputs.shape[axis])


def check_all_targets(loss: Loss, federation: Federation) -> None:
    """Refuse targets that the loss cannot be computed from, by a few samples of every client."""
    check_class_weights(loss, federation.classes)
    if loss.objective.targets == CLASSES:
        return
    named: Sequence[tuple[str, Samples | None]] = [
        ("the test set", federation.test),
        *((f"client {number}", share) for number, share in enumerate(federation.clients)),
    ]
    for who, samples in named:
        if samples is not None and not isinstance(samples, Later | Elsewhere):
            _, targets = samples.batch(np.arange(min(FEW, len(samples))))
            check_targets(loss, targets, federation.classes, who)


def check_first_loss(model: nn.Module, loss: Loss, federation: Federation) -> None:
    """Refuse weights, samples or a loss that give no number before anything is trained; a rate cannot mend them."""
    for name, tensor in model.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise PruneFLError(f"model: {name} holds NaN or infinity before anything is trained")
    for number, share in enumerate(federation.clients):
        # stored pixels are numbers
        if isinstance(share, Images | Later | Elsewhere):
            continue
        inputs, _ = share.batch(np.arange(min(FEW, len(share))))
        if not all(np.isfinite(part).all() for part in parts_of(inputs)):
            raise PruneFLError(f"client {number}: its first samples hold NaN or infinity, must be numbers")
    first = federation.clients[0]
    if isinstance(first, Later | Elsewhere):
        return
    inputs, targets = first.batch(np.arange(min(FEW, len(first))))
    outputs = _outputs_of(model, inputs, len(targets))
    with torch.no_grad():
        found = float(criterion_of(loss)(outputs, torch.from_numpy(targets)))
    if not math.isfinite(found):
        raise PruneFLError(
            f"training.loss={loss.name!r} is {found} for the first samples of client 0 before training, must "
            "be a number: look at the network's outputs and at the loss"
        )


def _outputs_of(model: nn.Module, inputs: Inputs, count: int) -> Tensor:
    """Return what a model gives for some samples at a time: as many rows, which one sample alone does not show."""
    try:
        outputs = _called(model, inputs)
    # a network of the user's own may raise anything
    except Exception as error:
        raise PruneFLError(
            f"model takes one sample, but not a batch of {count}: {_first_line(error)}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (count,):
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise PruneFLError(f"model gives {got} for a batch of {count}, must give a row for each sample")
    return outputs


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _called(model: nn.Module, inputs: Inputs) -> Any:
    with torch.no_grad():
        return call(copy.deepcopy(model).eval(), as_torch_inputs(inputs))
