"""A short run of benchmarks/fuzz_wire.py; docs/wire-format.md tells of the long one."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from prunefl import wire


@pytest.fixture(name="fuzz_wire", scope="module")
def _fuzz_wire() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "fuzz_wire.py"
    spec = importlib.util.spec_from_file_location("fuzz_wire", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_wire"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", [11, 12])
def test_mutated_messages_are_refused_or_right(fuzz_wire: ModuleType, seed: int, part: int) -> None:
    outcomes = fuzz_wire.fuzz(10_000, seed + part)
    assert outcomes.total() == 10_000
    # every way of being wrong was met, or the mutations do not reach the checks
    assert set(outcomes) >= {"accepted", *wire.errors.REASONS} - {"argument"}


def test_an_accepted_corruption_would_be_found(
    fuzz_wire: ModuleType, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunefl.wire.format._coding.checksum", lambda data: 0)
    monkeypatch.setattr("prunefl.wire.format._stored_checksum", lambda view: 0)
    with pytest.raises(AssertionError, match="accepted corruption"):
        fuzz_wire.fuzz(2_000, seed + 13)
