"""Who holds what: the clients' shares, and the test data the server judges by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prunefl.core.randomness import Ints
from prunefl.data.inputs import as_ints, parts_of
from prunefl.data.samples import Cuttable, Later, Samples, filled, labels_of, wrap_all
from prunefl.data.task import counted_names
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Federation:
    """A data set cut into clients.

    Attributes:
        clients: one share per client, none of them empty.
        test: what the server evaluates on; None where it has nothing.
        input_shape: shape of one sample, (channels, height, width) for images.
        cut: how clients were made, in words.
        names: of the classes, in order; "0", "1", ... where they have none.
    """

    clients: Sequence[Samples]
    test: Samples | None
    classes: int
    input_shape: tuple[int, ...]
    name: str
    cut: str = ""
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _named(self.names, self.classes))

    @property
    def spoken(self) -> str:
        """How clients were made, and what the server has to evaluate on, in words."""
        tested = "no test set, so no accuracy (data.test=PATH gives one)"
        return f"{self.cut}; {tested if self.test is None else f'test set of {len(self.test):,} samples'}"


@dataclass(frozen=True)
class Source:
    """A data set before it is cut.

    Attributes:
        group_of: who made each training sample, int64 (samples,), counted from 0 in the order of the files;
            None where nobody is known.
        group_word: what a group is: "writer", "person", "client".
        partition: how it is cut when the config does not say.
        clients: into how many; 0 for one per group.
        names: of the classes, in order; "0", "1", ... where they have none.
    """

    name: str
    train: Cuttable
    test: Cuttable | None
    classes: int
    input_shape: tuple[int, ...]
    group_of: Ints | None = None
    group_word: str = ""
    partition: str = "iid"
    clients: int = 10
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Take a tensor for the groups, too; refuse what no run should start on."""
        object.__setattr__(self, "names", _named(self.names, self.classes))
        if self.group_of is not None:
            object.__setattr__(self, "group_of", as_ints(self.group_of))
        for split, images in (("training", self.train), ("test", self.test)):
            if images is None:
                continue
            if len(images) == 0:
                raise PruneFLError(f"data.name={self.name!r}, has no {split} samples, must have at least 1")
            _check_labels(
                f"data.name={self.name!r}, its {split} data", images.labels[images.rows], self.classes
            )


def checked(federation: Federation, classified: bool = True) -> Federation:
    """Return it with any data sets wrapped as Samples; refuse what no run should start on.

    Args:
        classified: whether every sample has a class; targets of another kind are checked with the loss.
    """
    clients = wrap_all(federation.clients)
    test = None if federation.test is None else filled(federation.test, "the test set")
    for client, samples in enumerate(clients):
        check_samples(f"client {client}", samples, federation.classes, federation.input_shape, classified)
    if test is not None:
        check_samples("the test set", test, federation.classes, federation.input_shape, classified)
    return replace(federation, clients=clients, test=test)


def check_samples(
    who: str, samples: Samples, classes: int, shape: tuple[int, ...], classified: bool = True
) -> None:
    """Refuse samples of another shape, and every wrong label where that takes no reading of all samples."""
    if isinstance(samples, Later):
        # checked when they are read, which is not now
        return _check_labels(who, samples.labels, classes)
    inputs, labels = samples.batch(np.arange(1))
    if not all(isinstance(part, np.ndarray) for part in (*parts_of(inputs), labels)):
        raise PruneFLError(f"{who} has batches of {type(inputs).__name__}, must be numpy arrays")
    given, wanted = tuple(parts_of(inputs)[0].shape[1:]), tuple(shape)
    if given != wanted:
        raise PruneFLError(f"{who} has samples of shape {given}, must be {wanted} as all others")
    if not classified:
        return
    if labels.shape != (1,):
        raise PruneFLError(f"{who} has labels of shape {tuple(labels.shape[1:])}, must be whole numbers")
    known = labels_of(samples)
    found = labels if known is None else known
    if found.dtype.kind == "f":
        raise PruneFLError(f"{who}: labels are not whole numbers, must be classes from 0 on")
    _check_labels(who, found, classes)


def _check_labels(who: str, labels: Ints, classes: int) -> None:
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise PruneFLError(f"{who} has the label {int(wrong[0])}, must be in 0..{classes - 1}")


def _named(names: tuple[str, ...], classes: int) -> tuple[str, ...]:
    """Return one name a class."""
    if names and len(names) != classes:
        raise PruneFLError(f"names has {len(names)} classes, must have {classes}, one each")
    return tuple(names) or counted_names(classes)
