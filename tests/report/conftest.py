"""One report for all tests of this folder: drawing it takes seconds."""

from pathlib import Path

import pytest

from prunefl.report import write_report
from prunefl.report.write import Written
from synthetic import write_comparison


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_comparison(tmp_path_factory.mktemp("comparison"), seeds=2, rounds=100)


@pytest.fixture(scope="session")
def written(comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_report([comparison], tmp_path_factory.mktemp("report"), targets=[0.5, 0.84], figures=["svg"])
