"""The front door from Python: `prunefl.train` for models and data in hand, `run_config` for a config."""

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from prunefl import config as settings
from prunefl import data, devices, models, wire
from prunefl.config import Config
from prunefl.core.masks import prunable_names
from prunefl.core.randomness import derived_seed
from prunefl.data import Federation
from prunefl.engines.simulator import Simulator
from prunefl.local.torch_backend.trainer import OnPass
from prunefl.methods import build_pruner
from prunefl.models import flops
from prunefl.rounds import cost as charges
from prunefl.rounds.server import Setup
from prunefl.runs import loggers
from prunefl.runs.records import Record
from prunefl.runs.runner import Run, execute
from prunefl.system.errors import PruneFLError
from prunefl.system.locks import hold


def train(
    model: nn.Module,
    clients: Sequence[Any],
    *,
    test: Any,
    config: Config | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[Record], bool | None] | None = None,
) -> Run:
    """Train a classifier on data that stays with its clients, pruning it on the way.

    Args:
        model: any network that maps a batch to one logit a class; it is not changed.
        clients: one torch Dataset of (input, label) a client.
        test: the Dataset to evaluate on.
        config: settings that differ from the defaults, such as {"run": {"rounds": 100}}, or a Config.
        out: folder for records, checkpoints and the final model; default: none is kept.
        resume: go on with the run in `out`, perhaps for more rounds than it was begun with.
        on_record: told of every record; answers True to stop after this round.
    """
    chosen = config if isinstance(config, Config) else settings.from_tables(dict(config or {}))
    shares, tested = data.wrap_all(clients), data.filled(test, "the test set")
    own_data = replace(chosen.data, name="own", clients=len(shares))
    # the final model's file names the network it is of
    chosen = replace(chosen, data=own_data, model=replace(chosen.model, name="own"))
    inputs, _ = tested.batch(torch.arange(1))
    shape = tuple(inputs.shape[1:])
    cut = f"{len(shares)} clients, as given"
    federation = Federation(shares, tested, _num_classes(model, inputs), shape, "own", cut)
    return _run(model, data.checked(federation), chosen, out, resume, on_record)


def _num_classes(model: nn.Module, inputs: Tensor) -> int:
    """Return how many logits a sample gets."""
    try:
        with torch.no_grad():
            logits = copy.deepcopy(model).eval()(inputs)
    # a network of the user's own may raise anything
    except Exception as error:
        given = f"{tuple(inputs.shape[1:])} of {inputs.dtype}"
        raise PruneFLError(
            f"model cannot take samples of shape {given}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise PruneFLError(f"model gives {got} for one sample, must give one row of logits")
    return int(logits.shape[1])


def run_config(
    config: Config,
    out: str | Path | None,
    resume: bool = False,
    on_record: Callable[[Record], bool | None] | None = None,
    on_pass: OnPass | None = None,
    on_cut: Callable[[str], None] | None = None,
) -> Run:
    """Run what a config describes; the CLI is a thin layer over this.

    Args:
        on_cut: told, before anything is trained, how the data is cut into clients.
    """
    federation = load_data(config)
    if on_cut is not None:
        on_cut(federation.cut)
    return _run(build_model(config, federation), federation, config, out, resume, on_record, on_pass)


def load_data(config: Config) -> Federation:
    """Return the data that the config names, cut into clients."""
    settings = config.data
    return data.load(
        settings.name,
        settings.dir or None,
        partition=settings.partition,
        clients=settings.clients,
        alpha=settings.alpha,
        shards=settings.shards,
        size=settings.size,
        cache=settings.cache or None,
        seed=derived_seed(config.run.seed, "partition"),
    )


def build_model(config: Config, federation: Federation) -> nn.Module:
    """Return the network that the config names, with the first weights that its seed gives."""
    return models.build(
        config.model.name,
        classes=federation.classes,
        input_shape=federation.input_shape,
        seed=derived_seed(first_seed(config), "weights"),
    )


def first_seed(config: Config) -> int:
    """Return the seed of the first weights: the run's own, unless a lottery ticket asks for another's."""
    return config.run.seed if config.model.init_seed < 0 else config.model.init_seed


def prepare(model: nn.Module, federation: Federation, config: Config) -> Setup:
    """Return all that a run needs to know before its first round."""
    names = prunable_names(model, config.pruning.exclude)
    if not names:
        raise PruneFLError("the model has no Linear or Conv2d weight to prune (pruning.exclude leaves none)")
    refuse_unusual(model, federation.input_shape, names)
    # the run keeps the config as it was given; only its devices need to know how many clients there are
    known = settings.settled(config, len(federation.clients))
    fleet = devices.fleet(known, model, federation.input_shape, names)
    config = within_memory(config, fleet)
    return Setup(
        config=config,
        model=model,
        input_shape=federation.input_shape,
        classes=federation.classes,
        num_samples=[len(share) for share in federation.clients],
        devices=fleet,
        time_model=devices.round_time(fleet, config, names),
        template=wire.Template.of(model, names),
        names=names,
        pruner=build_pruner(config),
        positions=flops.positions(model, federation.input_shape, names),
        layer_sizes={name: model.get_parameter(name).numel() for name in names},
        cut=federation.cut,
    )


def refuse_unusual(model: nn.Module, input_shape: Sequence[int], names: Sequence[str]) -> None:
    """Refuse a network whose training would not be what docs/method.md says, with the remedy."""
    for name, used in flops.uses(model, input_shape, names).items():
        if len(used) != 1:
            how = f"is called {len(used)} times for a batch" if used else "is never called (but perhaps used)"
            raise PruneFLError(
                f"the layer of {name} {how}, to be pruned it must be called once: add it to pruning.exclude"
            )
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is None:
            raise PruneFLError(
                f"model layer {path} has momentum=None, must be a number: its count is not exchanged"
            )


def within_memory(config: Config, fleet: Sequence[devices.Device]) -> Config:
    """Return the config with time.memory_limit turned into a density limit that every device can hold."""
    limit = devices.memory_density(fleet, config.time.memory_limit) if config.time.memory_limit else None
    if limit is None:
        return config
    limit = min(limit, config.pruning.density_limit or 1.0)
    return replace(config, pruning=replace(config.pruning, density_limit=limit))


def _run(
    model: nn.Module,
    federation: Federation,
    config: Config,
    out: str | Path | None,
    resume: bool,
    on_record: Callable[[Record], bool | None] | None,
    on_pass: OnPass | None = None,
) -> Run:
    setup = prepare(model, federation, config)
    if plan := setup.pruner.initial():
        # refused before anything is written
        charges.initial_client(setup, plan)
    if resume and out is None:
        raise PruneFLError("resume=True needs out, the folder of the run to go on with")
    with tempfile.TemporaryDirectory(prefix="prunefl-") as spare:
        folder = Path(out) if out is not None else Path(spare)
        watched = loggers.told(
            config.run.loggers, folder, settings.as_dict(config), on_record or (lambda record: None)
        )
        with (
            hold(folder),
            Simulator(setup, federation.clients, folder / "clients", on_pass) as engine,
            watched as told,
        ):
            return execute(setup, engine, federation.test, federation.name, folder, resume, told)
