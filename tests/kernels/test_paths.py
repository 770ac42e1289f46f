"""Which instructions the kernels use: the fastest that the machine has, or those that PRUNEFL_KERNELS names."""

import os
import platform
import subprocess
import sys

import pytest

from prunefl import _kernels

ASK = "from prunefl import _kernels; print(_kernels.path())"


def ask(**environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a fresh process says that it computes by."""
    clean = {name: value for name, value in os.environ.items() if name != "PRUNEFL_KERNELS"}
    command = [sys.executable, "-c", ASK]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("path", _kernels.paths())
def test_the_environment_chooses_the_path(path: str) -> None:
    assert ask(PRUNEFL_KERNELS=path).stdout.strip() == path


@pytest.mark.parametrize("environment", [{}, {"PRUNEFL_KERNELS": ""}])
def test_without_a_choice_the_fastest_is_taken(environment: dict[str, str]) -> None:
    assert ask(**environment).stdout.strip() == _kernels.paths()[0]


def test_the_last_path_is_what_every_cpu_of_its_kind_has() -> None:
    assert _kernels.paths()[-1] == ("neon" if platform.machine() in ("aarch64", "arm64") else "plain")


def test_a_path_that_the_machine_has_not_is_refused_with_those_it_has() -> None:
    with pytest.raises(
        ValueError, match=f"PRUNEFL_KERNELS=sse9, this machine runs {', '.join(_kernels.paths())}"
    ):
        _kernels.use_path("sse9")
    failed = ask(PRUNEFL_KERNELS="sse9")
    assert failed.returncode != 0
    assert "PRUNEFL_KERNELS=sse9, this machine runs" in failed.stderr
