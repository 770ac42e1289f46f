"""The README's ten lines, run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_program_runs_as_printed():
    pytest.importorskip("mlxtend", reason="the demo extra is not installed")
    program = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    accuracy, density = (float(number) for number in re.findall(r"([\d.]+)%", done.stdout))
    assert accuracy > 85
    assert density < 100


def test_the_program_has_ten_lines():
    program = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    body = [line for line in program.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(body) <= 10
