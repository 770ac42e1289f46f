"""From the data section of a config to clients and a test set."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from prunefl.config import Config
from prunefl.core.objectives import CLASSES, loss_of
from prunefl.core.randomness import Ints, Stream, derived_seed
from prunefl.data import partition as cuts
from prunefl.data.check import recognise
from prunefl.data.client_folders import NAME as FOLDERS
from prunefl.data.client_folders import client_folders
from prunefl.data.client_functions import NAME as FUNCTIONS
from prunefl.data.client_functions import client_functions
from prunefl.data.federation import Federation, Source, checked
from prunefl.data.listed import ImageOptions
from prunefl.data.mine import bring_test
from prunefl.data.recipe import transform_federation
from prunefl.data.samples import Cuttable, Elsewhere, Samples, relabelled
from prunefl.data.scaling import find_scaling, refuse_scaling
from prunefl.data.sources import AT_CLIENTS, PUBLISHED, source_of
from prunefl.data.task import Task, number_classes, refuse_shape
from prunefl.system.errors import PruneFLError

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
    classes: Sequence[str] = (),
    shape: Sequence[int] = (),
    scaling: str = "",
    test: str | Path = "",
    classified: bool = True,
) -> Federation:
    """Return a data set cut into clients; whatever is wrong with the files is found here, before training.

    Args:
        name: one of NAMES, or `package.module:function`, a function from `dir` to a Federation or Source.
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
        classes: the names of all classes, in order, for data that may lack some; () for those of the data.
        shape: of a sample; () for that of the data.
        scaling: "unit", "none" or a data set's name, which the samples must have; "" for any.
        test: a folder or file that is the test set, whole; "" for the data's own, or what is held out of it.
        classified: whether every sample has a class; False for targets of another kind.
    """
    task = Task(tuple(classes), tuple(shape), scaling)
    options = ImageOptions(size, (), Path(cache) if cache else None)
    made = _as_made(name, dir, partition, clients, task, options, hold_out=not test)
    if isinstance(made, Source):
        made = _federated(
            made if augment else replace(made, train=made.train.plain()),
            partition,
            clients,
            alpha,
            shards,
            seed,
        )
    if test:
        agreed = Task(made.names, made.input_shape, scaling)
        made = replace(made, test=bring_test(Path(test), agreed, options))
    return checked(made, classified)


def _federated(
    source: Source, partition: str, clients: int, alpha: float, shards: int, seed: int
) -> Federation:
    """Return a data set cut into clients."""
    shares, words = _cut(source, partition or source.partition, clients, alpha, shards, seed)
    parts = [source.train.take(rows) for rows in shares]
    classes, shape = source.classes, source.input_shape
    return Federation(parts, source.test, classes, shape, source.name, words, source.names)


def _as_made(
    name: str,
    dir: str | Path | None,
    partition: str,
    clients: int,
    task: Task,
    options: ImageOptions,
    hold_out: bool,
) -> Source | Federation:
    """Return a data set before it is cut, or clients where the data has them and nobody wants them otherwise."""
    if name == FUNCTIONS:
        return client_functions(str(dir or ""), clients, task)
    if name == FOLDERS and partition in ("", "client"):
        federation = client_folders(Path(dir) if dir else None, task, options)
        if clients in (0, len(federation.clients)):
            return federation
    source = source_of(name, dir, replace(options, shape=task.shape), hold_out)
    refuse_shape(source.input_shape, task.shape, name)
    if isinstance(source, Source):
        refuse_scaling(
            source.train, find_scaling(source.train, name if name in PUBLISHED else ""), task.scaling, name
        )
        return _with_classes(source, task.classes or source.names)
    held = len(source.clients)
    if clients not in (0, held):
        raise PruneFLError(f"data.clients={clients}, must be {held}, which is how many {name} made")
    if partition or options.size:
        raise PruneFLError(
            f"data.partition={partition!r}, data.size={options.size}: {name} has cut its data itself, leave both out"
        )
    if task.classes and task.classes != source.names:
        raise PruneFLError(
            f"data.classes={list(task.classes)}, must be {list(source.names)}, those of {name}"
        )
    return replace(source, cut=source.cut or f"{held} clients, as {name} makes them")


def _with_classes(source: Source, classes: tuple[str, ...]) -> Source:
    """Return the data set labelled by these classes, of which it may lack some."""
    numbers = number_classes(source.names, classes, f"data.name={source.name!r}")
    train = cast(Cuttable, relabelled(source.train, numbers))
    test = None if source.test is None else cast(Cuttable, relabelled(source.test, numbers))
    return replace(source, train=train, test=test, classes=len(classes), names=classes)


def load_configured(config: Config) -> Federation:
    """Return the data that the config names, cut into clients."""
    classified = loss_of(config).objective.targets == CLASSES
    seed = derived_seed(config.run.seed, "partition")
    return transform_federation(
        load(**asdict(config.data), seed=seed, classified=classified), config.transforms
    )


def load_for_server(config: Config) -> Federation:
    """Return the data as a server of real clients needs it: with no sample but those of a test set, if it may be."""
    settings = config.data
    if settings.name != AT_CLIENTS:
        return load_configured(config)
    for key, form in (("classes", '["a", "b"]'), ("shape", "[3, 32, 32]"), ("clients", "3")):
        if not getattr(settings, key):
            raise PruneFLError(
                f"data.{key} is not set, must be given with data.name={AT_CLIENTS!r}, such as {key} = {form} "
                "(prunefl data describe FOLDER prints it)"
            )
    task = Task(settings.classes, settings.shape, settings.scaling)
    options = ImageOptions(settings.size, (), Path(settings.cache) if settings.cache else None)
    test = bring_test(Path(settings.test), task, options) if settings.test else None
    words = f"{settings.clients} clients, each with its own data"
    clients: list[Samples] = [Elsewhere()] * settings.clients
    made = Federation(clients, test, len(task.classes), task.shape, AT_CLIENTS, words, task.classes)
    return transform_federation(made, config.transforms)


def load_for_share(config: Config) -> Federation:
    """Return the data as the simulator cuts it, for a client that wants a share of it: there is no test set."""
    settings = config.data
    if settings.name == AT_CLIENTS:
        if not settings.dir:
            raise PruneFLError(
                "--share needs --data PATH: the data of which to take a share, as the server has none"
            )
        settings = replace(settings, name=recognise(Path(settings.dir)))
    task = Task(settings.classes, settings.shape, settings.scaling)
    options = ImageOptions(settings.size)
    made = _as_made(
        settings.name, settings.dir, settings.partition, settings.clients, task, options, not settings.test
    )
    if isinstance(made, Source):
        seed = derived_seed(config.run.seed, "partition")
        cut = (settings.partition, settings.clients, settings.alpha, settings.shards, seed)
        made = _federated(made, *cut)
    return checked(replace(made, test=None))


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
