"""What a worker has loaded for one run, and what a server may make it load. torch is loaded here, not before."""

import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prunefl import config as settings
from prunefl import wire
from prunefl.config import Config
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.handshake import Facts, collect_facts
from prunefl.runs.checkpoint import KEPT

if TYPE_CHECKING:
    from prunefl.data import Federation, Samples
    from prunefl.local.torch_backend.trainer import Trainer

ANYTHING = "*"
"""Allows all that the server says: for clients that are on the server's own machine."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is started with.

    Attributes:
        folder: its state, kept over restarts.
        client: its number in the federation.
        data_dir: its data; "" for data/NAME. A server has no say in it.
        allowed: functions that a server may name here as its model, data or method, as package.module:function.
    """

    folder: Path
    client: int
    data_dir: str = ""
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Session:
    """What is loaded for one run."""

    run: str
    config: Config
    data: "Samples"
    trainer: "Trainer"
    store: ClientStore
    facts: Facts


class SessionError(ValueError):
    """This client cannot take part in the run, and somebody can mend that: the server's user, or its own."""


def open_session(options: WorkerOptions, run: str, config_text: str) -> Session:
    """Return everything loaded that a client needs for a run; SessionError, in one line, if it cannot be."""
    try:
        config = settings.from_tables(tomllib.loads(config_text))
        if ANYTHING not in options.allowed:
            config = restrict_config(config, options)
        federation, trainer = load_task(config)
    except (ValueError, OSError, MemoryError) as error:
        raise SessionError(str(error) or type(error).__name__) from error
    clients = len(federation.clients)
    if not 0 <= options.client < clients:
        raise SessionError(f"--partition {options.client}, must be < data.clients={clients}")
    store = ClientStore(options.folder / "rounds", keep=KEPT * config.run.checkpoint_every)
    facts = collect_facts(federation, trainer.template)
    return Session(run, config, federation.clients[options.client], trainer, store, facts)


def restrict_config(config: Config, options: WorkerOptions) -> Config:
    """Return the config with this machine's own folders; refuses code that this client did not allow."""
    from prunefl.methods import pruners

    named = {"model.name": config.model.name, "data.name": config.data.name}
    wanted = {key: name for key, name in named.items() if ":" in name}
    if config.run.method not in pruners():
        wanted["run.method"] = config.run.method
    for key, name in wanted.items():
        if name not in options.allowed:
            raise ValueError(
                f"{key}={name!r}: the server wants code of this machine to be run; allow it with --allow {name}"
            )
    return replace(config, data=replace(config.data, dir=options.data_dir, cache=""))


@lru_cache(maxsize=1)
def load_task(config: Config) -> "tuple[Federation, Trainer]":
    """Return data and network, loaded once for all clients that this process may be."""
    import torch

    from prunefl import data, models
    from prunefl.core.masks import prunable_names
    from prunefl.local.torch_backend.memory import keep_freed_memory
    from prunefl.local.torch_backend.trainer import Trainer

    torch.set_num_threads(config.run.threads)
    keep_freed_memory()
    federation = data.load_configured(config)
    model = models.build_configured(config, federation.classes, federation.input_shape)
    template = wire.Template.of(model, prunable_names(model, config.pruning.exclude))
    batch_shape = (config.training.batch_size, *federation.input_shape)
    return federation, Trainer(model, template, federation.classes, batch_shape)
