"""Who holds what: the clients' shares, and the test data the server judges by."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from prunefl.data.samples import Cuttable, Samples


@dataclass(frozen=True)
class Federation:
    """A data set cut into clients.

    Attributes:
        clients: one share per client, none of them empty.
        test: what the server evaluates on.
        input_shape: shape of one sample, (channels, height, width) for images.
        cut: how clients were made, in words.
    """

    clients: Sequence[Samples]
    test: Samples
    classes: int
    input_shape: tuple[int, ...]
    name: str
    cut: str = ""


@dataclass(frozen=True)
class Source:
    """A data set before it is cut.

    Attributes:
        group_of: who made each training sample, int64 (samples,), counted from 0 in the order of the files;
            None where nobody is known.
        group_word: what a group is: "writer", "person", "client".
        partition: how it is cut when the config does not say.
        clients: into how many; 0 for one per group.
    """

    name: str
    train: Cuttable
    test: Cuttable
    classes: int
    input_shape: tuple[int, ...]
    group_of: Tensor | None = None
    group_word: str = ""
    partition: str = "iid"
    clients: int = 10

    def __post_init__(self) -> None:
        """Refuse what no run should start on."""
        for split, images in (("training", self.train), ("test", self.test)):
            if len(images) == 0:
                raise ValueError(f"data.name={self.name!r}, has no {split} samples, must have at least 1")
            labels = images.labels[images.rows]
            low, high = int(labels.min()), int(labels.max())
            if low < 0 or high >= self.classes:
                bad = low if low < 0 else high
                raise ValueError(
                    f"data.name={self.name!r}, a {split} label is {bad}, must be in 0..{self.classes - 1}"
                )
