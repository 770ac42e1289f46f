"""The shell blocks of the documentation are run, made small; what is not run is listed here, with the reason."""

import glob
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from test_docs import PAGES, ROOT, blocks, named

NOT_RUN = {
    r"make (demo|test|wheel|check-wheel)\b": "minutes: .ci/run has the first two, RELEASING.md the others",
    r"(venv/bin/)?pip install ": "changes the tests' own environment; tools/check-wheel.sh installs into fresh ones",
    r"sudo |git clone |python3 -m venv ": "changes the machine; tools/check-wheel.sh makes machines",
    r"prunefl data get ": "needs a network: tests/data/test_data_get.py fetches from loopback",
    r"prunefl (server|client) |prunefl status --server ": "processes at named hosts: tests/integration has them",
    r"prunefl (dashboard|run .* --dashboard|status .* --watch)": "end by Ctrl-C: tests/dashboard starts them",
    r"prunefl .*cifar10": "150 MB of images: tests/test_docs.py makes the configs, tests/data reads small batches",
    r"prunefl (lottery|sweep) ": "a dozen runs: tests/experiments/test_many_commands.py has both",
    r"(venv/bin/)?prunefl (profile|bench) ": "measure for a minute: tests/measure has them on small networks",
    r"python benchmarks/|1000000 inputs in": "hours of runs; .ci/run fuzzes 5,000 inputs",
    r"flwr run |python examples/flower/": "needs Ray or a SuperLink: tests/integration/test_flower_app.py",
    r"examples/factory/run.sh": "tests/integration/test_factory.py runs it",
}
"""What a line begins with (a pattern): why it is not run here."""

RECORDED = {
    "docs/results.md": "hours of runs behind published figures: tests/test_docs.py makes their configs"
}
"""Pages of which nothing is run, and why."""

SMALL = [
    *("run.rounds=4", "run.eval_every=2", "training.local_steps=1", "training.batch_size=4"),
    *("pruning.interval=2", "initial.samples=8", "initial.interval=1"),
    *("initial.max_passes=2", "initial.warmup_passes=0"),
]
TRAINS = ("run", "compare")


def lines_of(page: Path) -> Iterator[str]:
    """Yield the commands of a page's shell blocks, one a line."""
    for text in blocks(page, "", "sh"):
        if "─" in text:
            continue  # a picture
        yield from (line for line in text.replace("\\\n", " ").splitlines() if line.strip())


def reason_of(line: str) -> str:
    """Return why a line is not run; "" where it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, line)), "")


def make_small(words: list[str]) -> list[str]:
    """Return a command that trains, with two methods, one seed, few rounds of few steps, and a small network.

    A run that goes on keeps its settings; a preset's own network, or that of a device's measurements, stays.
    """
    if words[0] not in TRAINS:
        return words
    if "--resume" in words:
        return [re.sub(r"^run.rounds=.*", "run.rounds=6", word) for word in words]
    words = [re.sub(r"^scale=.*", "scale=0.5", word) for word in words]
    if "--methods" in words:
        place = words.index("--methods") + 1
        words[place] = ",".join(words[place].split(",")[:2])
    if "--seeds" in words:
        words[words.index("--seeds") + 1] = "1"
    keeps = any(re.match("model.name=|time.device=|digits-vit", word) for word in words)
    return [*words, *SMALL, *([] if keeps else ["model.name=lenet"])]


def type_in(line: str) -> None:
    """Do what a shell would do with the line, in the working folder; prunefl runs in this process."""
    words = shlex.split(line, comments=True)
    assert words.pop(0) == "prunefl", f"neither run nor listed in NOT_RUN: {line}"
    target = Path(words[words.index(">") + 1]) if ">" in words else None
    words = words[: words.index(">")] if target else words
    stand_ins = {"DIR": "data/femnist", "RUN": "runs/a-run", "METHOD": "feddst"}
    filled = [re.sub(r"\b(DIR|RUN|METHOD)$", lambda m: stand_ins[m[1]], word) for word in words]
    there = [place for word in filled for place in (sorted(glob.glob(os.path.expanduser(word))) or [word])]
    done = CliRunner().invoke(app, make_small(there))
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
    if target:
        target.write_text(done.stdout)


def write_femnist(folder: Path) -> None:
    """Write 193 writers of four drawings each, in LEAF's layout."""
    rng = np.random.default_rng(0)
    for kind, count in (("train", 3), ("test", 1)):
        users = [f"f{number:04d}" for number in range(193)]
        drawn = {
            user: {
                "x": rng.integers(0, 2, (count, 784)).tolist(),
                "y": rng.integers(0, 62, count).tolist(),
            }
            for user in users
        }
        (folder / kind).mkdir(parents=True)
        (folder / kind / "all.json").write_text(
            json.dumps({"users": users, "num_samples": [count] * len(users), "user_data": drawn})
        )


def write_plates(folder: Path) -> None:
    """Write pictures of metal plates, in a folder per class."""
    pytest.importorskip("PIL", reason="the images extra is not installed")
    from PIL import Image

    for number, name in enumerate(("crack", "dent", "ok")):
        (folder / name).mkdir(parents=True)
        for picture in range(4):
            Image.new("L", (20, 20), 40 * number + picture).save(folder / name / f"{picture}.png")


def prepare(page: Path) -> None:
    """Put into the working folder what the reader of a page has by then."""
    write_femnist(Path("data/femnist"))
    name = page.name
    if name == "federation.md":
        write_plates(Path("plates"))
    if name == "data.md":
        type_in("prunefl run digits --out runs/a-run")
    if name == "own-work.md":
        Path("once.py").write_text("import numpy as np\n" + blocks(page, "python")[-1])
    if name == "comparing.md":
        for seed in range(3):
            line = "prunefl run femnist-fast run.method=snip pruning.density=0.05"
            type_in(f"{line} run.seed={seed} --out runs/snip-s{seed}")
        shutil.copytree(ROOT / "docs/results/leaderboard", "docs/results/leaderboard")
    if name == "time.md":
        shutil.copy(next((ROOT / "src/prunefl/devices").rglob("x86.toml")), "here.toml")


WITH_LINES = [
    page
    for page in PAGES
    if named(page) not in RECORDED and any(not reason_of(line) for line in lines_of(page))
]


@pytest.mark.parametrize("page", WITH_LINES, ids=named)
def test_the_commands_of_a_page_do_their_work_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlxtend", reason="the demo extra is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)  # as the command itself does
    prepare(page)
    for line in lines_of(page):
        if not reason_of(line):
            type_in(line)
    if page.name == "comparing.md":
        # nothing in it is written by hand
        assert Path("docs/leaderboard.md").read_text() == (ROOT / "docs/leaderboard.md").read_text()


def test_no_reason_is_left_over() -> None:
    lines = [line for page in PAGES for line in lines_of(page)]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), f"nothing begins with {pattern}"
