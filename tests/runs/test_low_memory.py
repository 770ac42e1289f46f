"""The paper's low-power case, as the example shows it: dense dies, sparse trains."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "low_memory.py"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on address space is Linux's")
def test_a_step_that_dies_dense_trains_sparse() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300, check=True
    )
    dense, sparse = done.stdout.splitlines()
    assert dense.startswith("dense: dies within 48 MB")
    assert "DefaultCPUAllocator" in dense
    assert sparse.startswith("sparse: 5 steps, loss")
