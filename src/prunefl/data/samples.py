"""What a client holds: samples that come in batches, as views into arrays that all clients share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prunefl.core.randomness import Ints, Stream
from prunefl.data.inputs import Inputs, as_array, as_input, as_ints, as_target, stacked
from prunefl.data.transform import Floats
from prunefl.system.errors import PruneFLError

Pixels = NDArray[Any]
"""Inputs as stored, shape (samples, channels, height, width), mostly uint8 and memory-mapped."""

Augment = Callable[[Pixels, Stream], Pixels]
"""uint8 batch and random numbers -> uint8 batch, both (B, C, H, W)."""

Normalise = Callable[[Pixels], Floats]
"""Stored batch -> float32 batch, both (B, C, H, W)."""

Chosen = Ints | NDArray[np.bool_]
"""Positions among the samples, or for each whether it is chosen."""

Batch = tuple[Inputs, NDArray[Any]]
"""Inputs, and targets (B, ...): classes as int64, or whatever the loss is computed from."""


@runtime_checkable
class Samples(Protocol):
    """What training and evaluation need of a data set."""

    def __len__(self) -> int: ...

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs (float32, (B, ...)) and labels (int64, (B,)) of these positions, as new arrays.

        Other tasks have other inputs and targets; see `Inputs` and `Batch`.

        Args:
            indices: int64, shape (B,), each below len(self).
            stream: where augmentation is drawn from; without it the samples come as they are.
        """
        ...


class Cuttable(Samples, Protocol):
    """Samples of a shared store, of which clients take a part each.

    Attributes:
        labels: the label of each row of the store.
        rows: which rows of the store these samples are, shape (len(self),).
    """

    @property
    def labels(self) -> Ints: ...
    @property
    def rows(self) -> Ints: ...

    def take(self, chosen: Chosen) -> "Cuttable":
        """Return the data set made of these of its samples; the store is shared."""
        ...

    def plain(self) -> "Cuttable":
        """Return the same samples, never augmented."""
        ...


@dataclass(frozen=True)
class Images:
    """Rows of a shared array. A thousand of these cost a thousand small arrays of indices, not the images."""

    pixels: Pixels = field(repr=False)
    labels: Ints = field(repr=False)
    rows: Ints = field(repr=False)
    normalise: Normalise
    augment: Augment | None = None

    def __post_init__(self) -> None:
        """Take tensors for labels and rows, too: a user's own function may have them."""
        object.__setattr__(self, "labels", as_ints(self.labels))
        object.__setattr__(self, "rows", as_ints(self.rows))

    @classmethod
    def whole(
        cls, pixels: Pixels, labels: Ints, normalise: Normalise, augment: Augment | None = None
    ) -> Self:
        """Return all rows of an array."""
        return cls(pixels, labels, np.arange(len(labels)), normalise, augment)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return images (float32, (B, C, H, W)) and labels (int64, (B,)); see Samples."""
        rows = self.rows[indices]
        pixels = np.asarray(self.pixels[rows])
        if stream is not None and self.augment is not None:
            pixels = self.augment(pixels, stream)
        return self.normalise(pixels), self.labels[rows]

    def take(self, chosen: Chosen) -> "Images":
        """Return the data set made of these of its samples; the array is shared."""
        return replace(self, rows=self.rows[chosen])

    def plain(self) -> "Images":
        """Return the same samples, never augmented."""
        return replace(self, augment=None)


class Later:
    """Samples that are read when they are first asked for; how many there are, and of what classes, is known.

    Args:
        labels: the label of each, int64.
    """

    def __init__(self, labels: Ints, read: Callable[[], Samples]) -> None:
        self.labels, self.rows, self._read = labels, np.arange(len(labels)), read

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def samples(self) -> Samples:
        """The samples, read now if nobody has asked before."""
        return self._read()

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs and labels; see Samples."""
        return self.samples.batch(indices, stream)


class Elsewhere:
    """Samples of a client on another machine: how many there are, it says when it comes."""

    def __len__(self) -> int:
        return 0

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Nobody here can give them."""
        raise AssertionError("a server trains on no samples")


@dataclass(frozen=True)
class Relabelled:
    """Samples whose labels have other numbers elsewhere: `numbers[label]` is the one that comes out."""

    samples: Samples
    numbers: Ints

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs and labels; see Samples."""
        inputs, labels = self.samples.batch(indices, stream)
        return inputs, self.numbers[labels]


def relabelled(samples: Samples, numbers: Ints) -> Samples:
    """Return the samples with the label numbers[l] in place of l."""
    if np.array_equal(numbers, np.arange(len(numbers))):
        return samples
    if is_dataclass(samples) and isinstance(getattr(samples, "labels", None), np.ndarray):
        changed: Samples = replace(samples, labels=numbers[samples.labels])
        return changed
    return Relabelled(samples, numbers)


@dataclass(frozen=True)
class Wrapped:
    """Any torch Dataset of (input, label) pairs. Its own randomness, if it has any, is its own affair."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return the stacked items; see Samples."""
        inputs, targets = zip(*(_pair(self.dataset, i) for i in indices.tolist()), strict=True)
        return stacked(inputs), as_target(np.stack(targets))


@dataclass(frozen=True)
class Tensors:
    """Inputs and labels that lie in memory already, such as those of a torch TensorDataset."""

    inputs: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        """Take tensors; their memory is shared, not copied."""
        object.__setattr__(self, "inputs", as_array(self.inputs))
        object.__setattr__(self, "labels", as_target(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return the chosen rows; see Samples."""
        return as_input(self.inputs[indices]), self.labels[indices]


def wrap(dataset: Any) -> Samples:
    """Return a torch Dataset (or anything with len() and [i] -> (input, label)) as Samples."""
    if isinstance(dataset, Samples):
        return dataset
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        kind = type(dataset).__name__
        raise PruneFLError(
            f"data set of type {kind}, must have len() and [i], like a map-style torch Dataset"
        )
    if _is_torchs(dataset, "TensorDataset") and len(dataset.tensors) == 2:
        return Tensors(*dataset.tensors)
    return Wrapped(dataset)


def wrap_all(datasets: Sequence[Any]) -> list[Samples]:
    """Return one Samples per client; a client with nothing is refused by its number."""
    if not len(datasets):
        raise PruneFLError("clients is empty, must hold at least one data set")
    return [filled(dataset, f"client {client}") for client, dataset in enumerate(datasets)]


def filled(dataset: Any, who: str) -> Samples:
    """Return a data set as Samples, of which there must be some."""
    samples = wrap(dataset)
    if len(samples) == 0:
        raise PruneFLError(f"{who} has 0 samples, must have at least 1")
    return samples


def labels_of(samples: Samples) -> Ints | None:
    """Return all labels, int64, or None where only reading every sample would tell."""
    if isinstance(samples, Tensors):
        return samples.labels
    if isinstance(samples, Relabelled):
        before = labels_of(samples.samples)
        return None if before is None else samples.numbers[before]
    if isinstance(samples, Wrapped):
        part = samples.dataset
        whole = labels_of(wrap(part.dataset)) if _is_torchs(part, "Subset") else None
        return None if whole is None else whole[as_ints(part.indices)]
    labels, rows = getattr(samples, "labels", None), getattr(samples, "rows", None)
    return labels[rows] if isinstance(labels, np.ndarray) and isinstance(rows, np.ndarray) else None


def _is_torchs(dataset: Any, name: str) -> bool:
    """Return whether this is of torch's own class of that name; a subclass may make something else of its items."""
    kind = type(dataset)
    return kind.__name__ == name and kind.__module__.startswith("torch.")


def _pair(dataset: Any, i: int) -> tuple[Any, NDArray[Any]]:
    """Return one sample's input, perhaps of several parts, and its target."""
    item = dataset[i]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise PruneFLError(f"data set item {i} is {type(item).__name__}, must be a pair (input, label)")
    x, y = item
    if isinstance(x, Mapping):
        return {str(name): _part(part, i) for name, part in x.items()}, as_array(y)
    if isinstance(x, tuple):
        return tuple(_part(part, i) for part in x), as_array(y)
    return _part(x, i), as_array(y)


def _part(x: Any, i: int) -> NDArray[Any]:
    if not (hasattr(x, "detach") or isinstance(x, np.ndarray | np.number | int | float)):
        kind = type(x).__name__
        raise PruneFLError(
            f"data set item {i} has an input of type {kind}, must be a tensor, array or number"
        )
    return as_input(as_array(x))
