"""What a status says of samples, and one that somebody made up."""

import json

import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from odd_json import altered
from prunefl.commands.main import app
from prunefl.commands.status import lines
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status, parse_status, read_status
from prunefl.system.errors import PruneFLError


def test_the_status_shows_for_how_many_samples_a_client_counts(tmp_path):
    members = {n: Member(n, num_samples=samples) for n, samples in enumerate((100, 120, 80, 10**12, 0))}
    Status(tmp_path, 90, members, "training", weight_cap=3.0).write(now=True)
    shown = CliRunner().invoke(app, ["status", str(tmp_path)]).stdout.splitlines()
    # three times the median of those that have come, which is 110
    assert "330 of 1000000000000" in shown[5]
    assert [line.split()[3] for line in shown[2:5]] == ["100", "120", "80"]


def good_status(folder):
    members = {n: Member(n, num_samples=9, held_out=3, by_class=(4, 8), accuracy=0.5) for n in range(2)}
    Status(folder, 90, members, "training", classes=("a", "b")).write(now=True)
    content = read_status(folder)
    spent = {"epsilon": 3.5, "delta": 1e-5, "clip": 1.0}
    added = {"clients_accuracy": 0.5, "worst_tenth": 0.4, "turned_away": {"7": "no"}, "privacy": spent}
    return content | added


def test_a_status_that_somebody_made_up_is_refused_or_shown_without_commands_to_a_terminal(tmp_path):
    outcomes = set()

    @settings(deadline=None)
    @given(altered(good_status(tmp_path)))
    def check(crafted):
        try:
            said = lines(parse_status(json.dumps(crafted).encode(), "s.json"), 1e9)
            outcomes.add("shown")
        except PruneFLError as error:
            said = [str(error)]
            outcomes.add("refused")
        assert all(line.isprintable() for line in said)

    check()
    assert outcomes == {"refused", "shown"}


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[]", b"\xff", b" " * (17 << 20)])
def test_what_is_no_status_is_named_in_one_line(tmp_path, data):
    (tmp_path / "status.json").write_bytes(data)
    result = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert isinstance(result.exception, PruneFLError)
    assert str(tmp_path / "status.json") in str(result.exception)
    assert "\n" not in str(result.exception)
