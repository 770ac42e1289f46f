"""State, wire, methods and rounds need numpy and the standard library: they run where torch cannot."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys

package = importlib.import_module(sys.argv[1])
modules = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in modules:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{name} imports torch")
print(len(modules))
"""


@pytest.mark.parametrize("room", ["core", "wire", "methods", "rounds"])
def test_no_file_of_the_core_rooms_imports_torch(room: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"prunefl.{room}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 8


def test_a_file_that_does_would_be_found() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "prunefl.models"], capture_output=True, text=True, check=False
    )
    assert "imports torch" in done.stderr
