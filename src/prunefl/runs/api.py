"""The front door from Python: `prunefl.train` for models and data in hand, `run_config` for a config."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from prunefl import config as settings
from prunefl import data, models
from prunefl.config import Config
from prunefl.core.network import Network
from prunefl.core.objectives import CLASSES, loss_of
from prunefl.data import Federation
from prunefl.data.inputs import parts_of
from prunefl.data.public import load_public
from prunefl.data.recipe import transform_federation
from prunefl.devices import spoken_estimates
from prunefl.engines.simulator import Simulator
from prunefl.local import OnPass, choose_backend
from prunefl.local.torch_backend.network import network_of
from prunefl.methods import build_method
from prunefl.rounds.setup import prepare
from prunefl.runs import loggers
from prunefl.runs.callbacks import OnRecord, Progress, all_told
from prunefl.runs.probe import (
    check_all_targets,
    check_first_loss,
    count_classes,
    example_of,
    with_fitting_inputs,
)
from prunefl.runs.records import Record
from prunefl.runs.resume import as_begun
from prunefl.runs.runner import Run, execute
from prunefl.system.errors import PruneFLError
from prunefl.system.instructions import spoken_kernels
from prunefl.system.locks import hold

NAMED = 4
"""Of weights that are left whole: a line is read, a list is not."""


def train(
    model: nn.Module,
    clients: Sequence[Any],
    *,
    test: Any,
    config: Config | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_record: OnRecord | None = None,
    progress: bool = False,
) -> Run:
    """Train a network on data that stays with its clients, pruning it on the way.

    Args:
        model: any network that maps a batch to what training.loss takes, by default one logit a class; it is not
            changed.
        clients: one torch Dataset of (input, label) a client. An input may be a tuple or a dict of tensors, which the
            network is called with; whole numbers stay so if the network takes them.
        test: the Dataset to evaluate on.
        config: settings that differ from the defaults, such as {"run": {"rounds": 100}}, or a Config.
        out: folder for records, checkpoints and the final model; default: none is kept.
        resume: go on with the run in `out`, perhaps for more rounds than it was begun with.
        on_record: told of every record; answers True to stop after this round, as prunefl.EarlyStopping(patience) does.
        progress: write a line at the start and one for each evaluated round, in a notebook or a terminal.
    """
    chosen = config if isinstance(config, Config) else settings.from_tables(dict(config or {}))
    shares, tested = data.wrap_all(clients), data.filled(test, "the test set")
    own_data = replace(chosen.data, name="own", clients=len(shares))
    # the final model's file names the network it is of
    chosen = replace(chosen, data=own_data, model=replace(chosen.model, name="own"))
    inputs, _ = tested.batch(np.arange(1))
    shape, loss = tuple(parts_of(inputs)[0].shape[1:]), loss_of(chosen)
    federation = Federation(shares, tested, 1, shape, "own", f"{len(shares)} clients, as given")
    federation = with_fitting_inputs(model, federation)
    assert federation.test is not None
    classes = count_classes(model, federation.test.batch(np.arange(1))[0], loss)
    federation = replace(federation, classes=classes, names=())
    federation = data.checked(federation, loss.objective.targets == CLASSES)
    federation = transform_federation(federation, chosen.transforms)
    lines = Progress(chosen.run.rounds, loss.judged_by) if progress else None
    on_begin = lines.begin if lines else None
    run = _run(model, federation, chosen, out, resume, all_told(lines, on_record), on_begin=on_begin)
    if out is None:
        return run

    def again(rounds: int) -> Run:
        longer = replace(chosen, run=replace(chosen.run, rounds=rounds))
        return train(
            model,
            clients,
            test=test,
            config=longer,
            out=out,
            resume=True,
            on_record=on_record,
            progress=progress,
        )

    return replace(run, again=again)


def run_config(
    config: Config,
    out: str | Path | None,
    resume: bool = False,
    on_record: Callable[[Record], bool | None] | None = None,
    on_pass: OnPass | None = None,
    on_begin: Callable[[str, int], None] | None = None,
    measured: Mapping[str, float] | None = None,
) -> Run:
    """Run what a config describes; the CLI is a thin layer over this.

    Args:
        on_begin: told when all is checked, before anything is trained, how the data is cut into clients and how many
            rounds are done already.
        measured: break-even densities of another run, to repeat its bits on another machine.
    """
    federation = data.load_configured(config)
    usual = example_of(federation) is None and loss_of(config).objective.targets == CLASSES
    model = models.build_configured(config, federation.classes, federation.input_shape, check_it=usual)
    federation = with_fitting_inputs(model, federation)
    return _run(model, federation, config, out, resume, on_record, on_pass, measured, on_begin)


def _run(
    model: nn.Module,
    federation: Federation,
    config: Config,
    out: str | Path | None,
    resume: bool,
    on_record: Callable[[Record], bool | None] | None,
    on_pass: OnPass | None = None,
    measured: Mapping[str, float] | None = None,
    on_begin: Callable[[str, int], None] | None = None,
) -> Run:
    check_all_targets(loss_of(config), federation)
    check_first_loss(model, loss_of(config), federation)
    made = network_of(
        model, federation.input_shape, federation.classes, config.pruning.exclude, example_of(federation)
    )
    public = load_public(config, federation)
    begun = as_begun(config, Path(out)) if resume and out is not None else config
    choice = choose_backend(made, begun, build_method(begun).prunes)
    network, config = choice.network, choice.config
    setup = prepare(
        network, [len(share) for share in federation.clients], config, federation.cut, dict(measured or {})
    )
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
            words = f"{federation.spoken}{_whole(network)}; {choice.spoken}, {spoken_kernels()}"
            guessed = spoken_estimates(setup.devices)
            words += f"; {guessed}" if guessed else ""
            tell = None if on_begin is None else partial(on_begin, words)
            return execute(
                setup, engine, federation.test, federation.name, folder, resume, told, tell, public
            )


def _whole(network: Network) -> str:
    """Return which weights are trained but never pruned, in words; none of biases and the like."""
    whole = network.left_whole
    more = f" and {len(whole) - NAMED} more" if len(whole) > NAMED else ""
    return f"; left whole: {', '.join(whole[:NAMED])}{more}" if whole else ""
