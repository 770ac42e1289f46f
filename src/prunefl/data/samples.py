"""What a client holds: samples that come in batches, as views into arrays that all clients share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

Pixels = npt.NDArray[Any]
"""Inputs as stored, shape (samples, channels, height, width), mostly uint8 and memory-mapped."""

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""uint8 batch and generator -> uint8 batch, both (B, C, H, W)."""

Normalise = Callable[[Tensor], Tensor]
"""Stored batch -> float32 batch, both (B, C, H, W)."""


@runtime_checkable
class Samples(Protocol):
    """What training and evaluation need of a data set."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return inputs (float32, (B, ...)) and labels (int64, (B,)) of these positions.

        Args:
            indices: int64, shape (B,), each below len(self).
            generator: where augmentation is drawn from; without it the samples come as they are.
        """
        ...


class Cuttable(Samples, Protocol):
    """Samples of a shared store, of which clients take a part each."""

    @property
    def labels(self) -> Tensor:
        """The label of each row of the store, int64."""
        ...

    @property
    def rows(self) -> Tensor:
        """Which rows of the store these samples are, int64, shape (len(self),)."""
        ...

    def take(self, chosen: Tensor) -> "Cuttable":
        """Return the data set made of these of its samples; the store is shared."""
        ...

    def plain(self) -> "Cuttable":
        """Return the same samples, never augmented."""
        ...


@dataclass(frozen=True)
class Images:
    """Rows of a shared array. A thousand of these cost a thousand small index tensors, not the images."""

    pixels: Pixels = field(repr=False)
    labels: Tensor = field(repr=False)
    rows: Tensor = field(repr=False)
    normalise: Normalise
    augment: Augment | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return images (float32, (B, C, H, W)) and labels (int64, (B,)); see Samples."""
        rows = self.rows[indices]
        pixels = torch.from_numpy(np.asarray(self.pixels[rows.numpy()]))
        if generator is not None and self.augment is not None:
            pixels = self.augment(pixels, generator)
        return self.normalise(pixels), self.labels[rows]

    def take(self, chosen: Tensor) -> "Images":
        """Return the data set made of these of its samples; the array is shared."""
        return replace(self, rows=self.rows[chosen])

    def plain(self) -> "Images":
        """Return the same samples, never augmented."""
        return replace(self, augment=None)


@dataclass(frozen=True)
class Wrapped:
    """Any torch Dataset of (input, label) pairs. Its own randomness, if it has any, is its own affair."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the stacked items; see Samples."""
        pairs = [_pair(self.dataset, int(i)) for i in indices]
        return torch.stack([x for x, _ in pairs]), torch.tensor([y for _, y in pairs], dtype=torch.int64)


@dataclass(frozen=True)
class Tensors:
    """Inputs and labels that are tensors already, such as a torch TensorDataset."""

    inputs: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the chosen rows; see Samples."""
        return self.inputs[indices].to(torch.float32), self.labels[indices].to(torch.int64)


def wrap(dataset: Any) -> Samples:
    """Return a torch Dataset (or anything with len() and [i] -> (input, label)) as Samples."""
    if isinstance(dataset, Samples):
        return dataset
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        kind = type(dataset).__name__
        raise ValueError(
            f"data set of type {kind}, must have len() and [i], as a map-style torch Dataset has"
        )
    # a subclass may make something else of its tensors
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        inputs, labels = dataset.tensors
        if labels.is_floating_point() and not torch.equal(labels, labels.round()):
            raise ValueError("labels are not whole numbers, must be classes from 0 on")
        return Tensors(inputs, labels)
    return Wrapped(dataset)


def wrap_all(datasets: Sequence[Any]) -> list[Samples]:
    """Return one Samples per client; a client with nothing is refused by its number."""
    if not len(datasets):
        raise ValueError("clients is empty, must hold at least one data set")
    return [filled(dataset, f"client {client}") for client, dataset in enumerate(datasets)]


def filled(dataset: Any, who: str) -> Samples:
    """Return a data set as Samples, of which there must be some."""
    samples = wrap(dataset)
    if len(samples) == 0:
        raise ValueError(f"{who} has 0 samples, must have at least 1")
    return samples


def labels_of(samples: Samples) -> Tensor | None:
    """Return all labels, int64, or None where only reading every sample would tell."""
    if isinstance(samples, Tensors):
        return samples.labels.to(torch.int64)
    if isinstance(samples, Wrapped):
        part = samples.dataset
        whole = labels_of(wrap(part.dataset)) if isinstance(part, Subset) else None
        return None if whole is None else whole[torch.as_tensor(part.indices)]
    labels, rows = getattr(samples, "labels", None), getattr(samples, "rows", None)
    return labels[rows] if isinstance(labels, Tensor) and isinstance(rows, Tensor) else None


def _pair(dataset: Any, i: int) -> tuple[Tensor, int]:
    """Return one input as a float32 tensor, and its label."""
    item = dataset[i]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise ValueError(f"data set item {i} is {type(item).__name__}, must be a pair (input, label)")
    x, y = item
    if isinstance(x, np.ndarray):
        x = torch.from_numpy(x)
    if not isinstance(x, Tensor):
        raise ValueError(
            f"data set item {i} has an input of type {type(x).__name__}, must be a tensor or array"
        )
    if float(y) != int(y):
        raise ValueError(f"data set item {i} has the label {y}, must be a whole number: a class from 0 on")
    return x.to(torch.float32), int(y)
