"""Every record fits its type exactly, and docs/records.md names exactly the fields of the types."""

import re
from pathlib import Path
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from prunefl.methods import known
from prunefl.runs.api import train
from prunefl.runs.record_types import (
    EndRecord,
    EvaluationRecord,
    InitialRecord,
    LayerChange,
    PrivacyRecord,
    Reconfiguration,
    RoundRecord,
    RoundSeconds,
    RunRecord,
    RunTotals,
    SecureRecord,
    Segment,
)
from prunefl.runs.records import read_records
from prunefl.runs.runner import Run
from tasks import small_clients, small_config, small_data, small_model

PAGE = Path(__file__).parents[2] / "docs" / "records.md"

SCHEMA: dict[str, type] = {
    "run": RunRecord,
    "initial": InitialRecord,
    "round": RoundRecord,
    "end": EndRecord,
    "secure sum": SecureRecord,
    "evaluation": EvaluationRecord,
    "privacy": PrivacyRecord,
    "seconds": RoundSeconds,
    "total": RunTotals,
    "segment": Segment,
    "reconfiguration": Reconfiguration,
    "layer change": LayerChange,
}
"""Heading of docs/records.md -> type; the first four are kinds of records."""

WORDS: dict[str, Any] = {
    "text": str,
    "integer": int,
    "number": float,
    "true, false": bool,
    "number or null": float | None,
    "list of texts": list[str],
    "list of integers": list[int],
    "layer → integer": dict[str, int],
    "layer → integers": dict[str, list[int]],
    "device → text": dict[str, str],
    "client → text": dict[str, str],
    "client → two integers": dict[str, list[int]],
    "evaluation": EvaluationRecord,
    "secure sum": SecureRecord,
    "privacy": PrivacyRecord,
    "list of segments": list[Segment],
    "reconfiguration": Reconfiguration,
    "layer → layer change": dict[str, LayerChange],
    "seconds": RoundSeconds,
    "totals": RunTotals,
}
"""How docs/records.md says a type."""


def misfits(value: Any, expected: Any, where: str) -> list[str]:
    """Return how a value differs from a type, as texts; nothing if it fits. An integer is no float here, nor a bool."""
    if is_typeddict(expected):
        return _misfits_of_fields(value, expected, where)
    origin, parts = get_origin(expected), get_args(expected)
    if origin is NotRequired:
        return misfits(value, parts[0], where)
    if origin is Literal:
        return [] if value in parts else [f"{where}={value!r}, not {expected}"]
    if origin is dict:
        assert parts[0] is str
        return [m for key in value for m in misfits(value[key], parts[1], f"{where}.{key}")]
    if origin is list:
        return [m for n, item in enumerate(value) for m in misfits(item, parts[0], f"{where}[{n}]")]
    return [] if type(value) in (parts or (expected,)) else [f"{where}={value!r}, not {expected}"]


def _misfits_of_fields(value: Any, expected: Any, where: str) -> list[str]:
    hints = get_type_hints(expected, include_extras=True)
    found = [f"{where}.{name} is missing" for name in expected.__required_keys__ - value.keys()]
    found += [f"{where}.{name} is in no schema" for name in value.keys() - hints.keys()]
    shared = [name for name in hints if name in value]
    return found + [m for name in shared for m in misfits(value[name], hints[name], f"{where}.{name}")]


def run(method: str, out: Path, **pruning: Any) -> Run:
    config = small_config(run={"method": method, "rounds": 6}, pruning={"interval": 2, **pruning})
    return train(small_model(), small_clients(), test=small_data(80, 99), config=config, out=out)


def finished_run(method: str, folder: Path) -> Run:
    """Return a short run of any method of ours, with what it needs."""
    if method == "ticket":
        run("snip", folder / "parent", density=0.2)
        return run(method, folder / "ticket", masks=str(folder / "parent"))
    return run(method, folder, **({"density": 0.3} if known()[method].needs_density else {}))


@pytest.mark.parametrize("method", known())
def test_every_record_of_every_method_fits_its_type(method: str, tmp_path: Path) -> None:
    finished = finished_run(method, tmp_path)
    first = ["initial"] if method in ("prunefl", "prunefl-fisher", "initial-only", "ssfl", "fedtiny") else []
    assert [record["kind"] for record in finished.records] == ["run", *first, *["round"] * 6, "end"]
    for record in finished.records:
        assert misfits(record, SCHEMA[record["kind"]], record["kind"]) == []
    assert finished.records == read_records(finished.folder / "records.jsonl")


def test_what_is_there_only_sometimes_is_there_when_the_page_says_so(tmp_path: Path) -> None:
    _, initial, *rounds, end = run("prunefl", tmp_path).records
    assert initial["segments"]
    assert initial["ended_by"] in ("stable", "max_passes")
    assert [r["round"] for r in rounds if "reconfiguration" in r] == [2, 4]
    assert [r["round"] for r in rounds if "accuracy" in r] == [2, 4, 6]
    assert all(("accuracy" in r) == ("test_loss" in r) for r in rounds)
    # left out where they are those of the line before: here only reconfigurations change them
    assert [r["round"] for r in rounds if "live" in r] == [r["round"] for r in rounds if r["reconfigured"]]
    assert any(r["reconfigured"] for r in rounds)
    assert end["accuracy"] == rounds[-1]["accuracy"]


def test_the_records_of_a_resumed_and_extended_run_fit_too(tmp_path: Path) -> None:
    model, clients, options = small_model(), small_clients(), {"test": small_data(80, 99), "out": tmp_path}
    short, long = (small_config(run={"rounds": rounds}) for rounds in (4, 8))
    stopped = train(model, clients, config=short, on_record=lambda r: r.get("round") == 2, **options)
    assert not stopped.finished
    records = train(model, clients, config=long, resume=True, **options).records
    assert [r["round"] for r in records if r["kind"] == "round"] == list(range(1, 9))
    assert [m for record in records for m in misfits(record, SCHEMA[record["kind"]], "record")] == []


def test_the_records_of_a_run_that_clients_evaluate_fit_too(tmp_path: Path) -> None:
    config = small_config(run={"rounds": 3}, evaluation={"share": 0.2, "personal_steps": 2})
    records = train(
        small_model(), small_clients(), test=small_data(80, 99), config=config, out=tmp_path
    ).records
    assert [r["round"] for r in records if "evaluation" in r] == [2, 3]
    assert [r["round"] for r in records if "personal" in r.get("evaluation", {})] == [3]
    assert [m for record in records for m in misfits(record, SCHEMA[record["kind"]], "record")] == []


def test_the_record_of_a_refused_update_fits_too(tmp_path: Path) -> None:
    clients = small_clients()
    clients[2].tensors[0].fill_(1e38)
    config = small_config(run={"rounds": 1, "method": "conventional"})
    records = train(small_model(), clients, test=small_data(80, 99), config=config, out=tmp_path).records
    assert records[1]["refused"] == {"2": "loss turned nan"}
    assert misfits(records[1], RoundRecord, "round") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "end.extra is in no schema"),
        ({"rounds": 3.0}, "end.rounds=3.0, not <class 'int'>"),
        ({"rounds": True}, "end.rounds=True, not <class 'int'>"),
        ({"kind": "round"}, "end.kind='round', not typing.Literal['end']"),
        ({"density": None}, "end.density=None, not <class 'float'>"),
    ],
)
def test_what_does_not_fit_is_found(change: dict[str, Any], said: str) -> None:
    end = {"kind": "end", "rounds": 3, "accuracy": None, "density": 0.5}
    assert misfits(end, EndRecord, "end") == []
    assert misfits({**end, **change}, EndRecord, "end") == [said]
    assert misfits({"kind": "end", "rounds": 3, "accuracy": 0.5}, EndRecord, "end") == [
        "end.density is missing"
    ]


def documented() -> dict[str, dict[str, str]]:
    """Return heading -> field -> type in words, from the tables of the page."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    rows = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)
    return {section.split("\n")[0]: dict(rows.findall(section)) for section in sections}


def test_the_page_has_a_table_for_each_type() -> None:
    assert list(documented()) == list(SCHEMA)


@pytest.mark.parametrize("heading", SCHEMA)
def test_the_page_names_exactly_the_fields_of_the_schema_with_their_types(heading: str) -> None:
    hints = get_type_hints(SCHEMA[heading])
    plain = {name: str if get_origin(hint) is Literal else hint for name, hint in hints.items()}
    assert {name: WORDS[words] for name, words in documented()[heading].items()} == plain


def test_the_records_of_secure_rounds_fit_too(tmp_path: Path) -> None:
    config = small_config(
        run={"rounds": 3},
        evaluation={"share": 0.2, "personal_steps": 2},
        server={"max_change": 0, "max_opposition": 0, "max_statistic": 0},
        privacy={"secure": True},
    )
    records = train(
        small_model(), small_clients(), test=small_data(80, 99), config=config, out=tmp_path
    ).records
    assert [m for record in records for m in misfits(record, SCHEMA[record["kind"]], "record")] == []
    rounds = [record for record in records if record["kind"] == "round"]
    assert [record["secure"]["clients"] for record in rounds] == [4, 4, 4]
    assert "personal_accuracy" in rounds[-1]["evaluation"]


def test_the_records_of_a_private_run_fit_too(tmp_path: Path) -> None:
    config = small_config(
        privacy={"noise": 1.0},
        training={"weighting": "uniform"},
        server={"max_change": 0, "max_opposition": 0, "max_statistic": 0},
    )
    records = train(
        small_model(), small_clients(), test=small_data(80, 99), config=config, out=tmp_path
    ).records
    assert [m for record in records for m in misfits(record, SCHEMA[record["kind"]], "record")] == []
    assert all("privacy" in r and "loss" not in r for r in records if r["kind"] == "round")
    # one client's own pruning is left out
    assert [record["kind"] for record in records] == ["run", *["round"] * 8, "end"]
