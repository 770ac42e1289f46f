"""What is opened where: a client its own samples and nobody else's, a server none, and no library that reads images."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from realm import realm

Image = pytest.importorskip("PIL.Image")

WRITERS = 193
CONFIG = f"""
[run]
method = "conventional"
rounds = 1
workers = 1
[data]
name = "at-clients"
clients = {WRITERS}
classes = ["a", "b"]
shape = [1, 8, 8]
scaling = "unit"
[model]
name = "lenet300100"
[training]
local_steps = 1
[evaluation]
share = 0.25
[server]
clients = [0]
"""
WATCH = """
import os, sys
def start(log):
    line = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    def note(event, arguments):
        if event in ("open", "import"):
            try:
                os.write(line, f"{event} {os.fsdecode(arguments[0])}\\n".encode())
            except (OSError, TypeError):
                pass
    sys.addaudithook(note)
start(os.environ["OPENED"])
"""
"""As `sitecustomize`, tells of every file that a Python process opens and of every module that it imports."""


def can_trace() -> bool:
    """Return whether strace is installed, and allowed to do its work here."""
    strace = shutil.which("strace")
    return bool(strace) and subprocess.run([strace, "-o", "/dev/null", "true"], check=False).returncode == 0


def test_client_0_of_193_writers_opens_its_own_images_and_the_server_none(tmp_path, monkeypatch):
    fleet = tmp_path / "fleet"
    for writer in range(WRITERS):
        for label in "ab":
            (fleet / f"writer-{writer:03d}" / label).mkdir(parents=True)
            for i in range(2):
                pixels = np.full((8, 8), writer + 10 * i, np.uint8)
                Image.fromarray(pixels).save(fleet / f"writer-{writer:03d}" / label / f"{i}.png")
    own = fleet / "writer-000"
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    monkeypatch.syspath_prepend(tmp_path / "watch")
    traced = can_trace()
    with realm(tmp_path / "r", CONFIG, clients=1) as town:

        def trace(name):
            monkeypatch.setenv("OPENED", str(tmp_path / f"{name}.opened"))
            options = [
                "-f",
                "--seccomp-bpf",
                "-e",
                "trace=open,openat",
                "-o",
                str(tmp_path / f"{name}.trace"),
            ]
            return ["strace", *options] if traced else []

        town.start_server(before=trace("server"))
        town.start_client(0, data=own, before=trace("client-0"))
        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the client's end", lambda: town.processes["client-0"].poll() == 0, 60)
        assert "joined run" in town.said("client-0")

    for kind in ("opened", "trace") if traced else ("opened",):
        touched = {name: data_files(tmp_path / f"{name}.{kind}", fleet) for name in ("server", "client-0")}
        assert touched["server"] == set()
        assert {path for path in touched["client-0"] if not path.startswith(f"{own}/")} <= {str(own)}
        images = {str(path) for path in own.rglob("*.png")}
        assert len(images & touched["client-0"]) == 4
    imported = {name: (tmp_path / f"{name}.opened").read_text() for name in ("server", "client-0")}
    assert "import PIL.Image\n" in imported["client-0"]
    for library in ("PIL", "torchvision", "cv2", "imageio", "skimage", "matplotlib"):
        assert f"import {library}\n" not in imported["server"]
        assert f"import {library}." not in imported["server"]


def data_files(log: Path, fleet: Path) -> set[str]:
    """Return the paths in and below the fleet's folder that a log names."""
    found = re.findall(re.escape(str(fleet)) + r"[^\"\n]*", log.read_text(errors="replace"))
    assert os.path.getsize(log) > 1000
    return set(found)
