"""What clients are to do crosses the line as flags, numbers and texts, and nothing else."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from prunefl.methods import Method, Work, known
from prunefl.rounds.messages import describe_work, parse_work
from tasks import small_config


@dataclass(frozen=True)
class Fancy(Work):
    """Work with a field of every type that can travel."""

    often: int = 2
    share: float = 0.5
    whole: bool = False
    words: str = "so"


class Own(Method):
    works = (Work, Fancy)


OWN = Own(small_config())
SENT = {"kind": "Fancy", **asdict(Fancy())}


def work_of_ours() -> list[tuple[Method, Work]]:
    """Return every kind of work that a method of ours gives out."""
    methods = [kind(small_config()) for kind in known().values()]
    return [(method, work()) for method in methods for work in method.works]


@pytest.mark.parametrize(("method", "work"), [(OWN, Fancy(report="gradient", share=0.1)), *work_of_ours()])
def test_work_crosses_the_line_unchanged(method: Method, work: Work) -> None:
    found = parse_work(method, json.loads(json.dumps(describe_work(work))))
    assert found == work
    assert type(found) is type(work)


def test_a_whole_number_may_stand_for_a_float() -> None:
    assert parse_work(OWN, {**SENT, "share": 1}) == Fancy(share=1.0)


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        (None, "work: must be a table"),
        ("Fancy", "work: must be a table"),
        ([SENT], "work: must be a table"),
        ({}, "work of kind None, must be one of Work, Fancy"),
        ({**SENT, "kind": "Collect"}, "work of kind 'Collect', must be one of Work, Fancy"),
        ({**SENT, "kind": ["Fancy"]}, "must be one of Work, Fancy"),
        ({name: value for name, value in SENT.items() if name != "share"}, "Fancy: must have .*share"),
        ({**SENT, "more": 1}, "Fancy: must have report, own_masks, often, .*same version"),
        ({**SENT, "kind": "Work"}, "Work: must have report, own_masks"),
        ({**SENT, "share": True}, "Fancy.share=True, must be float"),
        ({**SENT, "share": "0.5"}, "Fancy.share='0.5', must be float"),
        ({**SENT, "often": 2.0}, "Fancy.often=2.0, must be int"),
        ({**SENT, "often": False}, "Fancy.often=False, must be int"),
        ({**SENT, "whole": 1}, "Fancy.whole=1, must be bool"),
        ({**SENT, "words": None}, "Fancy.words=None, must be str"),
        ({**SENT, "own_masks": 0}, "Fancy.own_masks=0, must be bool"),
    ],
)
def test_work_that_is_not_exactly_of_its_kind_is_refused(entry: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_work(OWN, entry)
