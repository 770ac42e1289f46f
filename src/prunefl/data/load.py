"""From the data section of a config to clients and a test set."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path

from prunefl.config import Config
from prunefl.core.randomness import Ints, Stream, derived_seed
from prunefl.data import partition as cuts
from prunefl.data.arrays import npz
from prunefl.data.celeba import celeba
from prunefl.data.cifar10 import cifar10
from prunefl.data.digits import digits
from prunefl.data.federation import Federation, Source, checked
from prunefl.data.femnist import femnist
from prunefl.data.imagenet100 import imagenet100
from prunefl.data.mnist import mnist
from prunefl.data.own import csv_index, folder_per_class, folder_per_client
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function

Loader = Callable[..., Source]
"""From the data folder and the cache folder (either may be None) to a data set."""

LOADERS: Mapping[str, Loader] = {
    "digits": digits,
    "mnist": mnist,
    "femnist": femnist,
    "cifar10": cifar10,
    "imagenet100": imagenet100,
    "celeba": celeba,
    "folder-per-client": folder_per_client,
    "folder-per-class": folder_per_class,
    "csv": csv_index,
    "npz": npz,
}
FETCHED = ("mnist", "femnist", "cifar10", "imagenet100", "celeba")
RESIZED = ("folder-per-client", "folder-per-class", "csv")

KNOWN = ("writer", "person", "client")
DRAWN = ("iid", "dirichlet", "shards")


def load(
    name: str,
    dir: str | Path | None = None,
    *,
    partition: str = "",
    clients: int = 0,
    alpha: float = 0.5,
    shards: int = 2,
    seed: int = 0,
    size: int = 0,
    augment: bool = True,
    cache: str | Path | None = None,
) -> Federation:
    """Return a data set cut into clients; whatever is wrong with the files is found here, before training.

    Args:
        name: one of LOADERS, or `package.module:function`, a function from `dir` to a Federation or Source.
        dir: the folder of its files (`prunefl data get` makes it); data/NAME when not given.
        partition: "writer", "person" or "client" (what the data knows), "iid", "dirichlet" or "shards";
            "" for the data set's own.
        clients: how many; 0 for the data set's own number: one for each that own data names, or else 10.
        alpha: concentration of the Dirichlet partition; the smaller, the more unequal.
        shards: label shards per client of the shards partition.
        seed: what the partition is drawn from.
        size: side that own images are resized to; 0 keeps them as they are.
        augment: whether training samples are augmented where the data set's recipe says so.
        cache: where decoded images are kept; beside the data, or in the user's cache, when not given.
    """
    source = source_of(name, dir, cache, size)
    if isinstance(source, Federation):
        if clients not in (0, len(source.clients)):
            held = len(source.clients)
            raise PruneFLError(f"data.clients={clients}, must be {held}, which is how many {name} made")
        if partition or size:
            raise PruneFLError(
                f"data.partition={partition!r}, data.size={size}: {name} has cut its data itself, leave both out"
            )
        words = source.cut or f"{len(source.clients)} clients, as {name} makes them"
        return checked(replace(source, cut=words))
    shares, words = _cut(source, partition or source.partition, clients, alpha, shards, seed)
    train = source.train if augment else source.train.plain()
    parts = [train.take(rows) for rows in shares]
    return checked(Federation(parts, source.test, source.classes, source.input_shape, source.name, words))


def load_configured(config: Config) -> Federation:
    """Return the data that the config names, cut into clients."""
    return load(**asdict(config.data), seed=derived_seed(config.run.seed, "partition"))


def source_of(
    name: str, dir: str | Path | None = None, cache: str | Path | None = None, size: int = 0
) -> Source | Federation:
    """Return a data set before it is cut, or one that its own function has cut."""
    folder, cache_folder = (Path(path) if path else None for path in (dir, cache))
    if ":" in name:
        return _own_source(name, folder)
    if name not in LOADERS:
        near = get_close_matches(name, LOADERS, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(LOADERS)
        raise PruneFLError(f"data.name={name!r}, must be one of {known} or package.module:function{hint}")
    if size and name not in RESIZED:
        raise PruneFLError(f"data.size={size}, must be 0 for {name}: only own images are resized")
    if folder is None and name in FETCHED:
        folder = _usual_folder(name)
    return LOADERS[name](folder, cache_folder, **({"size": size} if size else {}))


def _usual_folder(name: str) -> Path:
    """Return where `prunefl data get` is told to put a data set, if it is there."""
    folder = Path("data") / name
    if not folder.is_dir():
        raise PruneFLError(
            f"data.dir is not set and there is no {folder}: prunefl data get {name} --dir {folder} "
            "(or give data.dir=DIR)"
        )
    return folder


def _own_source(spec: str, folder: Path | None) -> Source | Federation:
    """Return what a user's function makes of the folder."""
    source = own_function("data.name", spec)(folder)
    if not isinstance(source, Source | Federation):
        kind = type(source).__name__
        raise PruneFLError(f"data.name={spec!r}, must return a prunefl.data.Federation or Source, got {kind}")
    return source


def _cut(
    source: Source, partition: str, clients: int, alpha: float, shards: int, seed: int
) -> tuple[list[Ints], str]:
    """Return the rows of each client, and how they were cut in words."""
    stream = Stream(seed)
    if partition in KNOWN:
        return _cut_by_group(source, partition, clients)
    count = clients or source.clients or 10
    labels = source.train.labels[source.train.rows]
    if partition == "iid":
        return cuts.iid(len(labels), count, stream), f"{count} clients, IID"
    if partition == "dirichlet":
        rows = cuts.dirichlet(labels, count, alpha, stream)
        return rows, f"{count} clients, Dirichlet({alpha:g}) over the labels"
    if partition == "shards":
        rows = cuts.shards(labels, count, shards, stream)
        return rows, f"{count} clients of {shards} label shards"
    raise PruneFLError(f"data.partition={partition!r}, must be one of {', '.join((*KNOWN, *DRAWN))}")


def _cut_by_group(source: Source, partition: str, clients: int) -> tuple[list[Ints], str]:
    """Return the rows of each client where the data knows who made what."""
    if source.group_of is None or partition != source.group_word:
        known = ", ".join((*([source.group_word] if source.group_of is not None else []), *DRAWN))
        raise PruneFLError(
            f"data.partition={partition!r}, {source.name} does not say the {partition} of a sample: "
            f"must be one of {known}"
        )
    count = clients or (source.clients if source.partition == partition else 0)
    rows = cuts.by_group(source.group_of, count, source.group_word)
    groups = int(source.group_of.max()) + 1
    each, last = groups // len(rows), groups - groups // len(rows) * (len(rows) - 1)
    tail = f" (the last {last})" if last != each else ""
    if partition == "client" and each == last == 1:
        return rows, f"{len(rows)} clients, as the data names them"
    return rows, f"{len(rows)} clients of {each} {partition}{'s' if each > 1 else ''}{tail}"
