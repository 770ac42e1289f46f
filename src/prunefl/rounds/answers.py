"""What a method must answer: checked in one line that names the method, the answer and the rule."""

import inspect
import json
from collections.abc import Sequence
from typing import Any

from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import Chosen, Combined, Method, Steps, Update, Work
from prunefl.rounds.messages import describe_work, parse_work
from prunefl.system.errors import PruneFLError

ANSWERS = ("first", "cohort", "work", "train", "cost", "check", "combine", "next")
REPORTS = ("", "importance", "gradient")


def check_signatures(method: Method) -> None:
    """Refuse a method one of whose answers cannot be called as the round calls it."""
    for answer in ANSWERS:
        own, ours = getattr(type(method), answer), getattr(Method, answer)
        needed = len(inspect.signature(ours).parameters)
        try:
            inspect.signature(own).bind(*[None] * needed)
        except (TypeError, ValueError):
            names = ", ".join(list(inspect.signature(ours).parameters)[1:])
            raise _wrong(method, answer, f"must take ({names})") from None


def check_chosen(method: Method, answer: str, chosen: Any, network: Network) -> None:
    """Refuse masks that are not this network's."""
    if not isinstance(chosen, Chosen) or not isinstance(chosen.masks, Masks):
        raise _wrong(method, answer, f"gave {_kind(chosen)}, must give Chosen with Masks")
    if not isinstance(chosen.memory, Memory):
        raise _wrong(method, answer, f"gave a memory of type {_kind(chosen.memory)}, must be Memory")
    wanted = dict(network.template.layers)
    if list(chosen.masks.shapes) != list(wanted):
        raise _wrong(method, answer, f"gave masks for {list(chosen.masks)}, must be for {list(wanted)}")
    for name, shape in chosen.masks.shapes.items():
        if shape != wanted[name]:
            rule = f"gave for {name} a mask of shape {shape}, must be {wanted[name]}"
            raise _wrong(method, answer, rule)
    if chosen.state is not None:
        if not isinstance(chosen.state, SparseState) or chosen.state.masks != chosen.masks:
            raise _wrong(method, answer, "gave a state under other masks than it chose")
        if list(chosen.state.values) != list(network.template.names):
            raise _wrong(method, answer, "gave a state with other names than the network's")


def check_work(method: Method, work: Any, live: Counts) -> None:
    """Refuse work that could not travel, or whose cost is not known."""
    if not isinstance(work, method.works):
        kinds = ", ".join(kind.__name__ for kind in method.works)
        raise _wrong(method, "work", f"gave {_kind(work)}, must give one of its `works`: {kinds}")
    assert isinstance(work, Work)
    if work.report not in REPORTS:
        raise _wrong(
            method, "work", f"gave report={work.report!r}, must be one of {', '.join(map(repr, REPORTS))}"
        )
    try:
        parse_work(method, json.loads(json.dumps(describe_work(work))))
    except (TypeError, ValueError) as error:
        raise _wrong(method, "work", f"gave what cannot be sent: {error}") from None
    if not work.own_masks:
        # what other work costs may depend on what comes back
        check_cost(method, method.cost(work, live, {}))


def check_cost(method: Method, cost: Any) -> Sequence[Steps]:
    """Return the cost; refuse what the clock could not charge."""
    if not isinstance(cost, list | tuple) or not all(isinstance(steps, Steps) for steps in cost):
        raise _wrong(method, "cost", f"gave {_kind(cost)}, must give a list of Steps")
    return cost


def check_cohort(method: Method, cohort: Any, members: Sequence[int]) -> Sequence[int]:
    """Return who takes part in a round; refuse clients that there are not, or that the run does without."""
    numbers = list(cohort) if isinstance(cohort, Sequence) else []
    if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(members):
        said = f"0 to {len(members) - 1}" if isinstance(members, range) else ", ".join(map(str, members))
        rule = f"must give some of the clients {said}, each once"
        raise _wrong(method, "cohort", f"gave {str(cohort)[:50]}, {rule}")
    return numbers


def check_update(method: Method, work: Work, update: Any) -> Update:
    """Return what a client half made; refuse what is not what its own server half asked for."""
    if not isinstance(update, Update) or not isinstance(update.state, SparseState):
        raise _wrong(method, "train", f"gave {_kind(update)}, must give Update with a SparseState")
    if (update.statistic is None) != (not work.report):
        given = "no" if update.statistic is None else "a"
        raise _wrong(method, "train", f"gave {given} statistic, must give one where work says report")
    return update


def check_combined(method: Method, combined: Any) -> Combined:
    """Return one update made of many; refuse what is none."""
    if not isinstance(combined, Combined) or not isinstance(combined.state, SparseState):
        raise _wrong(method, "combine", f"gave {_kind(combined)}, must give Combined with a SparseState")
    return combined


def _wrong(method: Method, answer: str, rule: str) -> PruneFLError:
    return PruneFLError(f"run.method={method.name or type(method).__name__!r}: {answer} {rule}")


def _kind(value: Any) -> str:
    return type(value).__name__
