"""A wrong answer of a method of one's own ends in one line that names the method, the answer and the rule."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import Chosen, Combined, Method, Steps, Update, Work, known
from prunefl.rounds.answers import check_signatures
from prunefl.rounds.server import start
from prunefl.runs.api import train
from prunefl.runs.runner import Run
from prunefl.system.errors import PruneFLError
from tasks import small_clients, small_config, small_data, small_federation, small_model, small_setup


def own(patch: pytest.MonkeyPatch, make: Any) -> str:
    """Return the name by which a config finds this class or function."""
    module = ModuleType("own_wrong")
    vars(module)["make"] = make
    patch.setitem(sys.modules, "own_wrong", module)
    return "own_wrong:make"


def answering(**answers: Callable[..., Any]) -> type[Method]:
    """Return a method named Wrong with some answers of its own."""
    return type("Wrong", (Method,), answers)


def begin(patch: pytest.MonkeyPatch, make: Any) -> None:
    """Go as far as a run goes before anything trains."""
    start(small_setup(small_federation(), small_config(run={"method": own(patch, make)})))


def run(patch: pytest.MonkeyPatch, make: Any, out: Path | None = None) -> Run:
    config = small_config(run={"method": own(patch, make), "rounds": 2, "workers": 1})
    return train(small_model(), small_clients(), test=small_data(20, 9), config=config, out=out)


def full(network: Network, **changes: Any) -> Masks:
    return Masks({**network.full_masks, **changes})


@dataclass(frozen=True)
class Unlisted(Work):
    """A kind that the method does not name."""


@dataclass(frozen=True)
class Ragged(Work):
    """A kind that cannot travel."""

    when: object = None


def other_masks(self: Method, network: Network) -> Chosen:
    masks = full(network, **{"4.weight": np.arange(4096).reshape(32, 128) < 9})
    return Chosen(masks, state=network.first)


def fewer_names(self: Method, network: Network) -> Chosen:
    values = {name: value for name, value in network.first.values.items() if name != "0.bias"}
    return Chosen(network.full_masks, state=SparseState(values, network.full_masks))


WRONG_BEFORE_TRAINING = {
    "first gave dict, must give Chosen with Masks": answering(first=lambda self, network: {}),
    "first gave Chosen, must give Chosen with Masks": answering(
        first=lambda self, network: Chosen(dict(network.full_masks))  # type: ignore[arg-type]
    ),
    "first gave a memory of type dict, must be Memory": answering(
        first=lambda self, network: Chosen(network.full_masks, {})  # type: ignore[arg-type]
    ),
    r"first gave masks for \['0.weight'\], must be for \['0.weight', '4.weight', '6.weight'\]": answering(
        first=lambda self, network: Chosen(Masks({"0.weight": network.full_masks["0.weight"]}))
    ),
    r"first gave for 4.weight a mask of shape \(128, 32\), must be \(32, 128\)": answering(
        first=lambda self, network: Chosen(full(network, **{"4.weight": np.ones((128, 32), np.bool_)}))
    ),
    "first gave a state under other masks than it chose": answering(first=other_masks),
    "first gave a state with other names than the network's": answering(first=fewer_names),
    r"work gave str, must give one of its `works`: Work": answering(work=lambda self, *given: "train"),
    r"work gave report='loss', must be one of '', 'importance', 'gradient'": answering(
        work=lambda self, *given: Work(report="loss")
    ),
    r"work gave what cannot be sent: Ragged.when=None, must be object": answering(
        work=lambda self, *given: Ragged(), works=(Ragged,)
    ),
    r"work gave what cannot be sent: .*not JSON serializable": answering(
        work=lambda self, *given: Ragged(when={1, 2}), works=(Ragged,)
    ),
    "cost gave float, must give a list of Steps": answering(cost=lambda self, *given: 3.0),
    "cost gave list, must give a list of Steps": answering(cost=lambda self, *given: [3.0]),
    r"cohort gave \[\], must give some of the clients 0 to 3, each once": answering(
        cohort=lambda self, round, clients: []
    ),
    r"cohort gave \[4\], must give some": answering(cohort=lambda self, round, clients: [4]),
    r"cohort gave \[1, 1\], must give some": answering(cohort=lambda self, round, clients: [1, 1]),
    "cohort gave None, must give some": answering(cohort=lambda self, round, clients: None),
    r"first must take \(network\)": answering(first=lambda self: None),
    r"work must take \(round, memory, time_model\)": answering(work=lambda self, round: Work()),
    r"train must take \(work, local\)": answering(train=lambda self, local: None),
    r"combine must take \(work, start, updates, memory\)": answering(combine=lambda self, updates: None),
    r"next must take \(seen\)": answering(next=lambda self: None),
    r"check must take \(work, numbers, masks\)": answering(check=lambda self: None),
}


@pytest.mark.parametrize("rule", WRONG_BEFORE_TRAINING)
def test_a_wrong_answer_is_named_before_anything_trains(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PruneFLError, match=rf"^run.method='Wrong': {rule}") as caught:
        begin(monkeypatch, WRONG_BEFORE_TRAINING[rule])
    assert "\n" not in str(caught.value)


def test_work_of_a_kind_that_is_not_among_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = answering(work=lambda self, *given: Work(), works=(Unlisted,))
    with pytest.raises(PruneFLError, match="work gave Work, must give one of its `works`: Unlisted"):
        begin(monkeypatch, wrong)
    # a kind of its own that the method names only by what it inherits from could not be read at the other end
    wrong = answering(work=lambda self, *given: Unlisted())
    with pytest.raises(PruneFLError, match=r"cannot be sent: work of kind 'Unlisted', must be one of Work"):
        begin(monkeypatch, wrong)


@pytest.mark.parametrize(
    ("make", "given"),
    [(lambda config: 3, "int"), (lambda config: Method, "type"), (lambda config: {}, "dict")],
)
def test_what_is_no_method_is_named(make: Any, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        PruneFLError, match=rf"run.method='own_wrong:make', must give a prunefl.methods.Method, gave {given}"
    ):
        begin(monkeypatch, make)


def no_statistic(self: Method, work: Work, local: Any) -> Update:
    return Update(local.state, 1.0)


WRONG_LATER = {
    "train gave dict, must give Update": answering(train=lambda self, work, local: {}),
    "train gave no statistic, must give one where work says report": answering(
        work=lambda self, *given: Work(report="importance"), train=no_statistic
    ),
    "train gave a statistic, must give one where": answering(
        train=lambda self, work, local: Update(local.state, 1.0, local.gradient(local.batches()))
    ),
    "combine gave SparseState, must give Combined": answering(
        combine=lambda self, work, start, updates, memory: start
    ),
    "cost gave NoneType, must give a list of Steps": answering(
        cost=lambda self, work, live, numbers: None, work=lambda self, *given: Work(own_masks=True)
    ),
    "next gave Masks, must give Chosen with Masks": answering(next=lambda self, seen: seen.state.masks),
    "work gave str, must give one of its": answering(
        work=lambda self, round, *given: Work() if round < 2 else "rest"
    ),
    r"cohort gave \[9\], must give some": answering(
        cohort=lambda self, round, clients: [0] if round < 2 else [9]
    ),
}


@pytest.mark.parametrize("rule", WRONG_LATER)
def test_a_wrong_answer_that_only_a_round_can_show_is_named_then(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PruneFLError, match=rf"^run.method='Wrong': {rule}") as caught:
        run(monkeypatch, WRONG_LATER[rule])
    assert "\n" not in str(caught.value)


def test_a_run_refused_by_its_method_leaves_no_config_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PruneFLError, match="first gave dict"):
        run(monkeypatch, answering(first=lambda self, network: {}), tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()
    assert not (tmp_path / "run" / "records.jsonl").exists()


def test_a_method_that_answers_everything_by_itself_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = answering(
        first=lambda self, network: Chosen(network.full_masks, Memory({"seen": 1.0}), network.first),
        cohort=lambda self, round, clients: (0, 2),
        work=lambda self, round, memory, time_model: Unlisted(),
        works=(Unlisted,),
        cost=lambda self, work, live, numbers: (Steps(1, live),),
        combine=lambda self, work, start, updates, memory: Combined(updates[0].state, memory),
        next=lambda self, seen, *more: Chosen(seen.state.masks, seen.memory),
    )
    finished = run(monkeypatch, right)
    assert finished.finished
    assert [record["clients"] for record in finished.records if record["kind"] == "round"] == [[0, 2]] * 2


@pytest.mark.parametrize("name", known())
def test_our_own_methods_can_be_called_as_the_round_calls_them(name: str) -> None:
    check_signatures(known()[name](small_config()))
