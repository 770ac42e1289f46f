"""Pruning methods: each whole in one file, both halves of it. Nobody else knows their names."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from prunefl.core.memory import Memory
from prunefl.methods.base import (
    BadUpdate,
    Chosen,
    Clients,
    Combined,
    Method,
    Received,
    Seen,
    Steps,
    Update,
    Work,
)
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function
from prunefl.system.suggest import did_you_mean

if TYPE_CHECKING:
    from prunefl.config import Config

__all__ = [
    "BadUpdate",
    "Chosen",
    "Clients",
    "Combined",
    "Memory",
    "Method",
    "NoDensity",
    "Received",
    "Seen",
    "Steps",
    "Update",
    "Work",
    "build_method",
    "finds_density",
    "known",
    "label_method",
]

ENTRY_POINTS = "prunefl.methods"
"""Group under which an installed package registers methods of its own, by name."""


class NoDensity(PruneFLError):
    """A fixed-size method was not told its density."""


@cache
def known() -> Mapping[str, type[Method]]:
    """Return our own methods by name, in the order of lists: every Method with a name in a file of this folder."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                found[value.name] = value
    return dict(sorted(found.items(), key=lambda item: item[1].place))


def label_method(name: str) -> str:
    """Return what people call a method; one of the user's own goes by its name."""
    return known()[name].label if name in known() else name


def finds_density(name: str) -> bool:
    """Return whether it is one of ours that finds its size by itself."""
    return name in known() and known()[name].finds_density


def _registered(name: str) -> Callable[..., Any] | None:
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        loaded: Callable[..., Any] = entry.load()
        return loaded
    return None


def build_method(config: "Config") -> Method:
    """Return the method that `run.method` names: ours, a registered one, or `package.module:function`."""
    name = config.run.method
    make = own_function("run.method", name) if ":" in name else known().get(name) or _registered(name)
    if make is None:
        raise PruneFLError(
            f"run.method={name!r}, must be one of {', '.join(known())}, a registered one or package.module:function"
            f"{did_you_mean(name, known())}"
        )
    if isinstance(make, type) and issubclass(make, Method):
        _check_config(make, name, config)
    method = make(config)
    if not isinstance(method, Method):
        raise PruneFLError(
            f"run.method={name!r}, must give a prunefl.methods.Method, gave {type(method).__name__}"
        )
    _check_config(type(method), name, config)
    if config.privacy.hides and method.first_round == 0 and config.privacy.initial != "server":
        raise PruneFLError(
            f"run.method={name!r} begins at single clients, whose models would be seen: must be another with "
            f"{config.privacy.hides}"
        )
    return method


def _check_config(method: type[Method], name: str, config: "Config") -> None:
    """Refuse settings that the method needs and lacks, or has and would ignore."""
    if method.needs_density and config.pruning.density <= 0:
        raise NoDensity(
            f"pruning.density={config.pruning.density}, must be > 0 for run.method={name!r}: "
            "give it, or let `prunefl compare` take the density that PruneFL finds"
        )
    for limit in ("density_limit", "density_target"):
        # with a limit that it does not keep, a method would be silently larger
        if getattr(config.pruning, limit) and limit not in method.keeps_limits:
            raise PruneFLError(
                f"pruning.{limit}={getattr(config.pruning, limit)}, which run.method={name!r} does not keep: leave "
                f"it and time.memory_limit out; in a comparison prunefl:pruning.{limit}=D limits PruneFL alone"
            )
    if method.averages_itself and (config.server.aggregate != "mean" or config.server.clip_norm):
        raise PruneFLError(
            f"server.aggregate={config.server.aggregate!r} and server.clip_norm={config.server.clip_norm:g}: "
            f"run.method={name!r} averages in its own way, leave both out"
        )
    _check_privacy(method, name, config)
    if method.needs_plain_sgd and not config.optimiser.is_plain:
        raise PruneFLError(
            f"run.method={name!r} takes plain steps of SGD, must be without settings of [optimiser]"
        )


def _check_privacy(method: type[Method], name: str, config: "Config") -> None:
    """Refuse a method that needs to see what privacy hides, or that noise does not cover."""
    hides = config.privacy.hides
    why = method.looks_at_clients or ("it averages in its own way" if method.averages_itself else "")
    if hides and why:
        raise PruneFLError(
            f"run.method={name!r} needs each client's own update, masks or numbers, must be another with {hides}: {why}"
        )
    if hides and method.lives_by_first_stage and config.privacy.initial == "skip":
        raise PruneFLError(
            f"privacy.initial='skip', must be 'rounds' or 'server' with {hides}: run.method={name!r} would prune by no "
            "data at all"
        )
    if config.privacy.noise and method.uncovered:
        noise = f"privacy.noise={config.privacy.noise:g}"
        raise PruneFLError(f"run.method={name!r} must be another with {noise}: {method.uncovered}")
