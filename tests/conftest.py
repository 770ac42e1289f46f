"""Make the tests' own modules importable; one thread of arithmetic, and measurements of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither read nor write what was measured for the user of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRUNEFL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
