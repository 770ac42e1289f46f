"""Random inputs are new in every run of CI, and its seed brings them back."""

import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

DRAWING = """
from hypothesis import given, strategies as st

def test_that_fails(rng):
    assert rng.integers(2**60) < 0

@given(st.lists(st.integers(0, 2**60), min_size=3))
def test_of_hypothesis(numbers):
    print("drawn", numbers)
"""


def drawn(folder: Path, *options: str, **environment: str) -> tuple[str, list[str]]:
    """Return what pytest says of two tests that show what they draw, and what they drew."""
    (folder / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (folder / "test_drawing.py").write_text(DRAWING)
    shell = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=shell | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    return done.stdout, re.findall(r"^E .*assert \S+|^drawn .*|(?<=\.)drawn .*", done.stdout, re.MULTILINE)


def test_ci_draws_new_inputs_and_says_how_to_repeat_them(tmp_path: Path) -> None:
    said, first = drawn(tmp_path, CI="true")
    seeds = re.findall(r"--hypothesis-seed=(\d+)", said)
    assert len(seeds) == 2  # at the start, and beside the failure
    assert seeds[0] == seeds[1]
    assert said.index(f"--hypothesis-seed={seeds[0]}") < said.index("FAILURES")
    assert len(first) > 50
    assert drawn(tmp_path, f"--hypothesis-seed={seeds[0]}")[1] == first
    assert drawn(tmp_path, CI="true")[1] != first


def test_elsewhere_the_loops_draw_from_seed_zero(tmp_path: Path) -> None:
    said, found = drawn(tmp_path, CI="false")
    assert "--hypothesis-seed" not in said
    number = np.random.default_rng([0, zlib.crc32(b"test_that_fails")]).integers(2**60)
    assert [line.split()[-1] for line in found if line.startswith("E")] == [repr(number)]
