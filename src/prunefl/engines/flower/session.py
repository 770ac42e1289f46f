"""What a worker has loaded for one run, and what a server may make it load. torch is loaded only where no plan came."""

import tomllib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from prunefl import config as settings
from prunefl.config import Config
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.data.mine import Brought, count_labels
from prunefl.data.recipe import transform
from prunefl.data.task import spoken
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.handshake import Facts, collect_facts
from prunefl.engines.flower.limits import Limits, check_config, check_plan
from prunefl.engines.flower.own_data import DataWatch, Share, load_own, refuse_changed_data
from prunefl.engines.flower.personal import Personal, refuse_without_evaluation
from prunefl.local import make_backend
from prunefl.local.held_out import count_held_out
from prunefl.local.measured import read_measured
from prunefl.local.native import decode_plan
from prunefl.methods import build_method, known
from prunefl.rounds.client import Client
from prunefl.system.errors import PruneFLError

KEPT_CHECKPOINTS = 2
"""How many of the server's checkpoints a client can go back by: as many as the server keeps."""

ANYTHING = "*"
"""Allows all that the server says: for clients that are on the server's own machine."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is started with.

    Attributes:
        folder: its state, kept over restarts.
        client: its number in the federation.
        data: its own samples: a folder, a file or package.module:function. A server has no say in it.
        share: which share of `data`, or of what the server's config names, it takes; None for all of `data`.
        allowed: functions that a server may name here as its model, data or method, as package.module:function.
        personal: a model of its own to make of the run's, or None.
        keys: its folder that `prunefl keys` made; without it messages are not signed.
        limits: what it lets a server ask of it.
        tell_classes: whether the server is told how many samples of each class there are, beside how many in all.
        resident: whether this process is there for more than one message.
    """

    folder: Path
    client: int
    data: str = ""
    share: Share | None = None
    allowed: tuple[str, ...] = ()
    personal: Personal | None = None
    keys: Path | None = None
    limits: Limits = field(default_factory=Limits)
    tell_classes: bool = True
    resident: bool = True


@dataclass(frozen=True)
class Session:
    """What is loaded for one run.

    Attributes:
        measured: break-even densities of this device for the run, kept in its folder: they decide bits.
        watch: sees whether the data has changed since.
        notes: what its user should know of the data, in words.
        by_class: how many of its samples are of each of the run's classes, where that is known.
    """

    run: str
    client: Client
    store: ClientStore
    facts: Facts
    measured: dict[str, float]
    watch: DataWatch
    notes: tuple[str, ...] = ()
    by_class: tuple[int, ...] = ()


class SessionError(PruneFLError):
    """This client cannot take part in the run, and somebody can mend that: the server's user, or its own."""


def open_session(options: WorkerOptions, run: str, config_text: str, plan_text: str = "") -> Session:
    """Return everything loaded that a client needs for a run; SessionError, in one line, if it cannot be.

    Args:
        plan_text: the network as a plan; "": this client builds it, by the name in the config, and torch trains it.
    """
    try:
        config = settings.from_tables(_parse(config_text))
        if ANYTHING not in options.allowed:
            config = restrict_config(config, options, planned=bool(plan_text))
        _refuse_number(options.client, config)
        refuse_without_evaluation(options.personal, config)
        # before the files are read: what changes meanwhile is seen later
        watch = DataWatch(config, options.client, options.share, options.folder, run)
        brought = load_own(config, options.client, options.share)
        check_config(config, len(brought.samples), options.limits)
        count_held_out(len(brought.samples), options.client, config)
        refuse_changed_data(options.folder, run, brought.samples)
        samples = transform(brought.samples, config.transforms, config.data.shape)
        network = plan_network(plan_text, config) if plan_text else load_network(config)
        if network.plan is not None:
            check_plan(network.plan, config, options.limits)
        method = build_method(config)
        measured = read_measured(options.folder, run)
        backend = make_backend(network, config, measured)
    except (PruneFLError, OSError, MemoryError) as error:
        raise SessionError(str(error) or type(error).__name__) from error
    client = Client(options.client, samples, network, backend, method, config)
    kept = KEPT_CHECKPOINTS * config.run.checkpoint_every
    store = ClientStore(options.folder / "rounds", kept, options.limits.disk_mb << 20)
    facts = collect_facts(network.template)
    by_class = count_labels(brought.samples, len(config.data.classes))
    notes = _describe_data(brought, config)
    return Session(run, client, store, facts, measured, watch, notes, by_class)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PruneFLError(f"the server's config is not valid TOML: {error}") from None


def _refuse_number(client: int, config: Config) -> None:
    if not 0 <= client < config.data.clients:
        raise PruneFLError(f"--client {client}, must be < data.clients={config.data.clients}")
    if config.server.clients and client not in config.server.clients:
        raise PruneFLError(
            f"client {client} is not among those that take part in this run: server.clients="
            f"{list(config.server.clients)}; the server's user can add it there"
        )


def _describe_data(brought: Brought, config: Config) -> tuple[str, ...]:
    """Return what is special about the data of this client."""
    samples, size = len(brought.samples), config.training.batch_size
    lacking = [name for name in config.data.classes if name not in brought.names]
    few = f"{samples} samples are fewer than training.batch_size={size}: its batches have {samples}"
    return tuple(
        words
        for words, there in (
            (f"it has none of the class {spoken(lacking)}", lacking),
            (f"{brought.left_out} samples marked as test data are not trained on", brought.left_out),
            (few, samples < size),
        )
        if there
    )


def restrict_config(config: Config, options: WorkerOptions, planned: bool = False) -> Config:
    """Return the config with this machine's own folders; refuses code that this client did not allow.

    Args:
        planned: the network came as a plan: whatever its name, no code of this machine makes it.
    """
    named = {"data.name": config.data.name} | ({} if planned else {"model.name": config.model.name})
    wanted = {key: name for key, name in named.items() if ":" in name}
    if config.run.method not in known():
        wanted["run.method"] = config.run.method
    for key, name in wanted.items():
        if name not in options.allowed:
            raise PruneFLError(
                f"{key}={name!r}: the server wants code of this machine to be run; allow it with --allow {name}"
            )
    return replace(config, data=replace(config.data, dir=options.data, cache=""))


def plan_network(text: str, config: Config) -> Network:
    """Return the network that a plan describes; its first weights come with the first order."""
    plan = decode_plan(text)
    classes, shape = len(config.data.classes), config.data.shape
    if plan.input_shape != shape or plan.classes != classes:
        raise PruneFLError(
            f"plan: is for samples of {plan.input_shape} and {plan.classes} classes, the run has {shape} and {classes}"
        )
    return Network(plan.template, SparseState({}, Masks({})), {}, shape, classes, plan=plan)


@lru_cache(maxsize=1)
def load_network(config: Config) -> Network:
    """Return the network of the run, built once for all clients that this process may be."""
    try:
        from prunefl import models
        from prunefl.local.torch_backend.network import network_of
        from prunefl.local.torch_backend.threads import set_threads
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise PruneFLError(
            f"this run trains through torch (run.backend={config.run.backend!r} there), which is not installed here: "
            "pip install 'prunefl[full]', or let the server set run.backend=native"
        ) from None
    set_threads(config.run.threads)
    classes, shape = len(config.data.classes), config.data.shape
    return network_of(models.build_configured(config, classes, shape), shape, classes, config.pruning.exclude)
