"""What a user sees in a terminal: one line for each mistake, a page beside a run, and a run watched from elsewhere."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.commands.panel import BLOCKS, Panel, layer_rows, sparkline
from prunefl.dashboard.serve import DashboardOptions, open_socket, serve_dashboard
from prunefl.system.locks import hold, is_held
from synthetic import LAYERS, SHAPES_OF_LAYERS, write_run
from tasks import small_config


def complaint(*words: str) -> str:
    """Return the message of the ValueError with which a command ends."""
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, ValueError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    assert "no runs found" in complaint("dashboard", str(tmp_path))
    assert "no such folder" in complaint("dashboard", str(tmp_path / "none"))
    assert "no run there" in complaint("watch", str(tmp_path))


def test_a_port_in_use_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words in (
            ["dashboard", str(tmp_path), "--port", port],
            ["run", "--out", str(tmp_path / "new"), "--dashboard", "--dashboard-port", port],
            [
                "server",
                "digits",
                "--insecure",
                "--out",
                str(tmp_path / "new"),
                "--dashboard",
                "--dashboard-port",
                port,
            ],
        ):
            assert f"127.0.0.1:{port}" in complaint(*words)
    assert not (tmp_path / "new" / "records.jsonl").exists()


def test_an_address_for_others_is_refused_without_tls_and_token(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    assert "--cert and --key for TLS" in complaint("dashboard", str(tmp_path), "--host", "0.0.0.0")
    assert "give --token" in complaint("dashboard", str(tmp_path), "--host", "0.0.0.0", "--proxy")
    assert "belong together" in complaint("dashboard", str(tmp_path), "--cert", "a.pem")


@pytest.mark.parametrize("text", ["short", "with a space in its middle", 'with"a"quote"in"its"middle', ""])
def test_a_token_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    (tmp_path / "token").write_text(text)
    assert "at least 16" in complaint("dashboard", str(tmp_path), "--token", str(tmp_path / "token"))


def test_a_token_is_made_for_this_user_alone(tmp_path: Path, monkeypatch) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    said: list[str] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    serve_dashboard(DashboardOptions((tmp_path,), port=0, token=tmp_path / "token"), said.append)
    token = (tmp_path / "token").read_text().strip()
    assert len(token) > 30
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0
    # a terminal's lines are kept and shown around
    assert token not in said[0]


def test_a_page_beside_a_run_is_there_while_it_trains_and_gone_afterwards(tmp_path: Path) -> None:
    with open_socket("127.0.0.1", 0) as found:
        port = found.getsockname()[1]
    code = (
        "import sys, time; from pathlib import Path; from prunefl.dashboard.beside import dashboard_beside\n"
        f"with dashboard_beside(Path({str(tmp_path / 'run')!r}), {port}): print(flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert "PruneFL dashboard" in read(f"http://127.0.0.1:{port}/", 30)
        process.kill()
        process.wait()
        # nobody told it to end: it sees that its parent is gone
        until = time.monotonic() + 15
        while answers(port):
            assert time.monotonic() < until, "the dashboard has outlived its parent"
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def read(url: str, seconds: float) -> str:
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < until, f"{url} did not answer in {seconds} s"
            time.sleep(0.2)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_who_holds_a_folder_is_seen_without_touching_the_lock(tmp_path: Path) -> None:
    assert is_held(tmp_path) is False
    with hold(tmp_path / "a"):
        assert is_held(tmp_path / "a") is True
        assert is_held(tmp_path) is False
    assert is_held(tmp_path / "a") is False


def test_watching_shows_what_the_run_itself_would_have_shown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20)
    result = CliRunner().invoke(app, ["watch", str(folder)])
    assert result.exit_code == 0, result.output
    last = json.loads((folder / "records.jsonl").read_text().splitlines()[-2])
    assert f"round {last['round']}  accuracy {last['accuracy']:.2%}" in result.output
    assert f"watching {folder}" in result.output


def test_a_watched_run_that_nobody_works_on_is_said_to_be_stopped(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20, end=False)
    result = CliRunner().invoke(app, ["watch", str(folder)])
    assert f"nobody is at work in {folder}" in result.output


def test_a_run_elsewhere_is_watched_until_it_ends(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20)
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:11]))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with hold(folder):
        process = subprocess.Popen(
            [sys.executable, "-m", "prunefl", "watch", str(folder)],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stderr is not None
        seen = ""
        while "round 10" not in seen:
            seen = process.stderr.readline()
            assert seen
        (folder / "records.jsonl").write_text("".join(lines))
        rest = process.stderr.read()
    assert process.wait(30) == 0
    process.stderr.close()
    assert "round 20" in rest


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == f"{BLOCKS[0]}{BLOCKS[4]}{BLOCKS[7]}"
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == BLOCKS[0] * 2
    long = sparkline([float(n) for n in range(1000)], 32)
    assert len(long) == 32
    assert list(long) == sorted(long)
    assert long[-1] == BLOCKS[-1]


def test_layers_have_bars_and_of_many_the_largest_are_shown() -> None:
    header = {"layers": LAYERS, "shapes": SHAPES_OF_LAYERS}
    live = {name: size // 2 for name, size in LAYERS.items()}
    rows = layer_rows(header, live)
    assert [row[0] for row in rows][:2] == ["0, Conv2d 32×1×5×5", "3, Conv2d 64×32×5×5"]
    assert {row[2] for row in rows} == {"50.0%"}
    assert all(row[1].startswith("━" * 10 + "[dim]") for row in rows)
    many = {f"{n}.weight": 100 - n for n in range(30)}
    rows = layer_rows({"layers": many}, many)
    assert [row[0] for row in rows] == [*map(str, range(12)), "and 18 smaller layers"]


def test_the_panel_shows_density_by_layer_and_a_sparkline(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20)
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    panel = Panel(small_config(run={"rounds": 20}), console, folder)
    live: dict[str, int] = {}
    for line in (folder / "records.jsonl").read_text().splitlines()[1:-1]:
        record = json.loads(line)
        live = record.get("live", live)
        panel.show({**record, "live": live})
    console.print(panel.live.renderable)
    text = console.export_text()
    console.file.close()
    assert "7, Linear 2048×3136" in text
    assert f"{live['7.weight'] / LAYERS['7.weight']:.1%}" in text
    assert BLOCKS[-1] in text
    assert "left" in text


def test_ctrl_c_ends_the_dashboard_in_peace(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    process = subprocess.Popen(
        [sys.executable, "-m", "prunefl", "dashboard", str(tmp_path), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("dashboard: http://127.0.0.1:")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.wait(20)
    process.stderr.close()
    assert "Traceback" not in rest
