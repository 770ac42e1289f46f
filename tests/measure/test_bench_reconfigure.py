"""The benchmark measures what it says, and refuses what it cannot."""

import json

import pytest

from prunefl.commands.bench_reconfigure import bench_reconfigure
from prunefl.measure.bench.reconfigure import measure


def test_the_json_object_has_both_times(capsys: pytest.CaptureFixture[str]) -> None:
    bench_reconfigure(weights=50_000, repeats=1, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == 50_000
    assert found["seconds"] > 0
    assert found["sort_seconds"] > 0


def test_an_impossible_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"weights=3, must be between 8 and"):
        measure(3)
