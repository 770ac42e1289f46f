"""The benchmark commands print what they promise; how fast is not for a test to say."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.measure.bench.layers import bench_layers
from prunefl.measure.bench.step import bench_step


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path))


def test_bench_step_prints_one_object() -> None:
    arguments = ["bench", "step", "--model", "lenet", "--density", "0.1", "--seconds", "0.05", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert found["speedup"] == pytest.approx(found["dense_ms"] / found["sparse_ms"], rel=0.01)
    assert found["dense_low_ms"] <= found["dense_ms"] <= found["dense_high_ms"]
    assert found["importance_ms"] > 0


def test_bench_step_compares_threads_in_the_same_run() -> None:
    found = bench_step("lenet", 0.1, threads=2, seconds=0.05)
    ratio = found["sparse_one_thread_ms"] / found["sparse_ms"]  # type: ignore[operator]
    # both sides are rounded to a thousandth, and two threads on one core may make the ratio small
    assert found["thread_speedup"] == pytest.approx(ratio, rel=0.01, abs=1e-3)


def test_bench_layers_names_every_layer_of_the_model() -> None:
    rows = bench_layers("lenet", 0.1, seconds=0.01)
    assert [row["layer"] for row in rows] == ["1", "3", "5"]
    assert rows[0]["input"] == [20, 784]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "resnet50", "density": 0.1},
            "--model='resnet50', must be one of .*did you mean 'resnet18'",
        ),
        ({"model": "lenet", "density": 0.0}, "--density 0.0, must be above 0"),
        ({"model": "lenet", "density": 0.1, "threads": 0}, "--threads 0, must be >= 1"),
        ({"model": "lenet", "density": 0.1, "batch": 0}, "--batch 0, must be >= 1"),
    ],
)
def test_bench_refuses_what_it_cannot_measure(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bench_step(**settings)  # type: ignore[arg-type]


def test_every_optimiser_is_timed_beside_plain_sgd() -> None:
    arguments = ["bench", "step", "--model", "lenet", "--seconds", "0.05", "--optimisers", "--json"]
    rows = json.loads(CliRunner().invoke(app, arguments).stdout)["optimisers"]
    ms = {(row["backend"], row["optimiser"]): row["ms"] for row in rows}
    for backend in ("torch", "native"):
        named = {optimiser for kind, optimiser in ms if kind == backend}
        assert {"sgd", "momentum", "nesterov", "adam", "adamw", "fedprox"} <= named
    for row in rows:
        sgd = ms[row["backend"], "sgd"]
        assert row["over_sgd"] == pytest.approx(row["ms"] / sgd - 1, abs=2e-2)
