"""From a name in a config to a method: ours, one that an installed package registers, or one's own function."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest
from method_cases import make, settings

from prunefl import methods
from prunefl.config import Config
from prunefl.methods import Method, build_method, known, label_method

OURS = (
    "prunefl",
    "prunefl-fisher",
    "conventional",
    "snip",
    "synflow",
    "online",
    "iterative",
    "initial-only",
    "further-only",
    "feddst",
    "rigl",
    "set",
    "erk",
    "dpf",
    "prunetrain",
    "ticket",
    "ssfl",
    "magnitude",
    "fedrts",
    "fedmef",
    "fedtiny",
    "sparsyfed",
    "feddip",
)


class Registered(Method):
    """As an installed package would bring it."""

    label = "Somebody's"
    keeps_limits = ("density_limit",)


def install(patch: pytest.MonkeyPatch, **found: Any) -> None:
    """Let packages be installed that register these under the names of their arguments."""
    module = ModuleType("installed_package")
    vars(module).update(found)
    patch.setitem(sys.modules, "installed_package", module)
    points = [EntryPoint(name, f"installed_package:{name}", methods.ENTRY_POINTS) for name in found]
    others = [EntryPoint("elsewhere", "installed_package:missing", "another.group")]

    def entry_points(**wanted: str) -> EntryPoints:
        return EntryPoints([*points, *others]).select(**wanted)

    patch.setattr(methods, "entry_points", entry_points)


def test_every_file_of_the_folder_is_found_in_the_order_of_lists() -> None:
    assert tuple(known()) == OURS
    assert all(type(make_any(name)) is kind for name, kind in known().items())
    assert len({kind.label for kind in known().values()}) == len(OURS)


def make_any(name: str) -> Method:
    return make(f"run.method={name}", "pruning.density=0.2")


def test_a_registered_method_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, theirs=Registered, made=lambda config: Registered(config))
    for name in ("theirs", "made"):
        method = make(f"run.method={name}", "pruning.density_limit=0.5")
        assert isinstance(method, Registered)
        assert method.config.run.method == name


def test_what_a_registered_method_does_not_keep_is_refused_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, theirs=Registered)
    with pytest.raises(
        ValueError, match=r"pruning.density_target=0.1, which run.method='theirs' does not keep"
    ):
        make("run.method=theirs", "pruning.density_target=0.1")


def test_our_own_come_before_what_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, snip=Registered)
    assert type(make_any("snip")) is known()["snip"]


def test_a_name_that_nobody_has_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, theirs=Registered)
    for name in ("nothing", "elsewhere"):
        with pytest.raises(
            ValueError,
            match=rf"run.method='{name}', must be one of prunefl, .*, a registered one or package.module:function",
        ):
            make(f"run.method={name}")


@pytest.mark.parametrize("give", [lambda config: None, lambda config: Registered, lambda config: config])
def test_what_is_registered_but_no_method_is_refused(
    give: Callable[[Config], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, theirs=give)
    with pytest.raises(ValueError, match=r"run.method='theirs', must give a prunefl.methods.Method, gave"):
        make("run.method=theirs")


def test_a_function_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "own_file", ModuleType("own_file"))
    with pytest.raises(ValueError, match=r"run.method='own_file:nothing', module 'own_file' has no function"):
        build_method(settings("run.method=own_file:nothing"))


def test_a_method_of_ones_own_goes_by_its_name() -> None:
    assert label_method("snip") == "SNIP"
    assert label_method("own_file:mine") == "own_file:mine"
