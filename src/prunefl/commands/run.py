"""`prunefl run`: one run, with its progress on the screen."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from prunefl.commands.options import PORT, Dashboard, DashboardPort
from prunefl.system.errors import PruneFLError

Record = dict[str, Any]


def run(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG] [SECTION.KEY=VALUE]...",
            help="a TOML file or the name of a preset (see `prunefl presets`), then settings to change",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder for what the run leaves [default: runs/NAME-METHOD-SEED, or the next number]"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    seed: Annotated[int | None, typer.Option(help="short for run.seed=N")] = None,
    dashboard: Dashboard = False,
    dashboard_port: DashboardPort = PORT,
) -> None:
    """Train one model, pruning it on the way, on simulated clients.

    Examples:
      prunefl run                            # the demo's setting: 5,000 digits
      prunefl run femnist scale=0.1          # a tenth of the rounds
      prunefl run my.toml --out runs/first   # Ctrl-C stops it after the round ...
      prunefl run --out runs/first --resume  # ... and this goes on
      prunefl run --out runs/first --resume run.rounds=600   # for more rounds
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.numbered import free_folder, last_folder
    from prunefl.commands.panel import show_progress
    from prunefl.dashboard.beside import dashboard_beside
    from prunefl.local.measured import read_measured
    from prunefl.report.picture import draw_run
    from prunefl.runs.api import run_config

    config, name = resolve(arguments or [], seed, out if resume else None)
    # the config of another run's folder: what was measured for that run counts here, too, so that bits repeat
    source = Path(arguments[0]) if arguments else Path()
    measured = read_measured(source.parent) if source.name == "config.toml" else {}
    usual = Path("runs") / f"{name}-{config.run.method}-{config.run.seed}"
    folder = out or (last_folder(usual) if resume else free_folder(usual))
    if resume and not (folder / "config.toml").exists():
        raise PruneFLError(
            f"--resume: there is no run to resume in {folder} (no config.toml); leave --resume out"
        )
    page = dashboard_beside(folder, dashboard_port) if dashboard else nullcontext()
    with page, stop_on_interrupt() as interrupted, show_progress(config, folder) as progress:

        def on_record(record: Record) -> bool:
            progress.show(record)
            return bool(interrupted.is_set())

        finished = run_config(
            config, folder, resume, on_record, progress.show_pass, progress.show_begin, measured
        )
    for complaint in finished.complaints:
        print(f"skipped: {complaint}", file=sys.stderr)
    draw_run(finished.records, folder)
    if not finished.finished:
        print(f"stopped after a whole round; go on with: prunefl run --out {folder} --resume")
        raise typer.Exit(130)
    progress.summary(finished.records)


@contextmanager
def stop_on_interrupt() -> Iterator[Any]:
    """Yield an event that Ctrl-C sets; a second Ctrl-C ends at once."""
    from threading import Event

    event = Event()

    def once(signum: int, frame: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print(
            "\nstopping after this round, or after initial pruning (Ctrl-C again: at once)", file=sys.stderr
        )

    before = signal.signal(signal.SIGINT, once)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
