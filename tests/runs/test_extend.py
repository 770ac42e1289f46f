"""A run that is given more rounds is, to the bit, one that had them from the start; or it is refused in one line."""

import json

import pytest

from prunefl.runs.api import train
from prunefl.system.errors import PruneFLError
from tasks import same_bits, small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)


def go(out, rounds, sections=None, **options):
    sections = {name: dict(table) for name, table in (sections or {}).items()}
    sections["run"] = {**sections.get("run", {}), "rounds": rounds}
    config = small_config(**sections)
    return train(small_model(), small_clients(), test=TEST, config=config, out=out, **options)


def numbers(run):
    """Return the records without what a clock on the wall says."""
    records = json.loads(json.dumps(run.records))
    for record in records:
        record.pop("wall_seconds", None)
        record.pop("started", None)
        record.get("total", {}).pop("wall_seconds", None)
    return records


EXACT = {
    "the last round is like any other": (8, {}),
    "the last round would have reconfigured": (6, {}),
    "the last round would not have been evaluated": (7, {}),
    "neither, by a round that went on collecting": (
        5,
        {"importance": {"window": 2}, "pruning": {"interval": 6}},
    ),
    "int8 with feedback": (6, {"wire": {"precision": "int8", "importance": "log8"}}),
    "client selection": (6, {"training": {"participants": 2}}),
    "conventional": (7, {"run": {"method": "conventional"}}),
    "initial-only": (7, {"run": {"method": "initial-only"}}),
    "online, which remembers": (7, {"run": {"method": "online"}}),
    "prunetrain, which remembers": (6, {"run": {"method": "prunetrain"}}),
    "snip, which asks in the first round": (6, {"run": {"method": "snip"}, "pruning": {"density": 0.3}}),
}


@pytest.mark.parametrize("case", EXACT)
def test_an_extended_run_is_one_that_had_all_rounds_from_the_start(tmp_path, case):
    first, sections = EXACT[case]
    whole = go(tmp_path / "whole", 12, sections)
    assert go(tmp_path / "x", first, sections).finished
    extended = go(tmp_path / "x", 12, sections, resume=True)
    assert same_bits(whole.model.state_dict(), extended.model.state_dict())
    assert numbers(whole) == numbers(extended)
    names = {path.name for path in (tmp_path / "x").iterdir()}
    assert names == {path.name for path in (tmp_path / "whole").iterdir()} | {f"model-{first}.safetensors"}


@pytest.mark.parametrize("stopped", [4, 6])
@pytest.mark.parametrize("rounds", [7, 30])
def test_an_unfinished_run_can_be_given_more_or_fewer_rounds(tmp_path, stopped, rounds):
    go(tmp_path / "x", 12, on_record=lambda record: record.get("round") == stopped)
    changed = go(tmp_path / "x", rounds, resume=True)
    whole = go(tmp_path / "whole", rounds)
    assert same_bits(whole.model.state_dict(), changed.model.state_dict())
    assert numbers(whole) == numbers(changed)


def test_a_run_can_be_extended_again_and_again_also_when_it_is_stopped_on_the_way(tmp_path):
    go(tmp_path / "x", 3)
    go(tmp_path / "x", 9, resume=True, on_record=lambda record: record["round"] == 5)
    go(tmp_path / "x", 9, resume=True)
    extended = go(tmp_path / "x", 12, resume=True)
    whole = go(tmp_path / "whole", 12)
    assert same_bits(whole.model.state_dict(), extended.model.state_dict())
    assert numbers(whole) == numbers(extended)


FIXED = {
    "iterative": r"run.method='iterative' prunes in the first half of all rounds",
    "dpf": r"run.method='dpf' prunes gradually in the first half of all rounds",
    "set": r"run.method='set' exchanges fewer and fewer weights until the last round",
    "rigl": r"run.method='rigl' exchanges fewer .*",
    "feddst": r"run.method='feddst' exchanges fewer .*",
    "prunefl": r"pruning.density_target=0.1 is the limit of the last round",
}


@pytest.mark.parametrize("method", FIXED)
def test_a_schedule_over_all_rounds_is_refused_and_nothing_is_changed(tmp_path, method):
    density = {"density_target": 0.1} if method == "prunefl" else {"density": 0.3}
    sections = {"run": {"method": method}, "pruning": density}
    go(tmp_path, 3, sections)
    refuse(tmp_path, sections, rf"run.rounds=6, but the run in .* has 3, and {FIXED[method]}; resume without")


def test_rounds_that_did_not_collect_what_a_longer_run_needs_are_refused(tmp_path):
    sections = {"importance": {"window": "all"}, "pruning": {"interval": 2}}
    go(tmp_path, 4, sections)
    refuse(
        tmp_path,
        sections,
        r"run.rounds=6, but after round 2 the run in .* did what only a run of 4 rounds does",
    )


def test_fewer_rounds_than_were_done_are_refused(tmp_path):
    go(tmp_path, 8)
    refuse(tmp_path, {}, r"run.rounds=6, but the run in .* has done 8 rounds, must be >= 8")


def refuse(folder, sections, message):
    """Check that six rounds are refused with this message, and that nothing in the folder is different then."""
    before = contents(folder)
    with pytest.raises(PruneFLError, match=message) as refused:
        go(folder, 6, sections, resume=True)
    assert "\n" not in str(refused.value)
    assert contents(folder) == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
