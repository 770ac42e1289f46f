"""Show how far many runs are, and what came of them."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from prunefl.core.objectives import loss_of
from prunefl.experiments import Job, run_jobs
from prunefl.experiments import Progress as Step
from prunefl.system.errors import PruneFLError

LEFT_OUT = ("Less ", "Average over", "FLOPs", "Wall time")
"""Columns of the report's table that a terminal has no room for."""


def carry_out(
    jobs: Sequence[Job], at_once: int, out: Path, report: bool, targets: list[float] | None
) -> None:
    """Run what is missing of the jobs, their progress on the screen, and write the report if one is asked for.

    Runs that fail are named, left out of the report, and end the command with an error.
    """
    from prunefl.commands.report import report as write
    from prunefl.commands.run import stop_on_interrupt
    from prunefl.experiments.plan import refuse_other_runs
    from prunefl.report import check_targets, refuse_foreign_page

    check_targets(targets or (), loss_of(jobs[0].config).judged_by)
    if report:
        refuse_other_runs(jobs, out)
        refuse_foreign_page(out / "report")
    console = Console(stderr=True)
    screen = Bars(jobs, console) if console.is_terminal else Lines(len(jobs))
    with stop_on_interrupt() as interrupted, screen:
        results = run_jobs(jobs, at_once, screen.show, interrupted.is_set)
    for failure in results.failures():
        typer.echo(f"failed: {failure.job.name}: {failure.detail} ({failure.job.folder})", err=True)
    if interrupted.is_set():
        typer.echo("stopped after whole rounds; go on with the same command", err=True)
        raise typer.Exit(130)
    failed = len(results.failures())
    if failed < len(jobs):
        Console().print(tabulate([job.folder for job in jobs]))
    if report and failed < len(jobs):
        write([out], out=out / "report", target=targets)
    if failed:
        raise PruneFLError(f"{failed} of {len(jobs)} runs failed; the others are in {out}")


def tabulate(folders: Sequence[Path]) -> Table:
    """Return what the runs in these folders came to, a row for each variant, as narrow as a terminal."""
    from prunefl.report.runs import find_runs
    from prunefl.report.study import study
    from prunefl.report.tables import summary_table

    there = [folder for folder in folders if (folder / "records.jsonl").exists()]
    runs, notes = find_runs(there)
    found = summary_table(study(runs, (), notes))
    kept = [place for place, name in enumerate(found.columns) if not name.startswith(LEFT_OUT)]
    table = Table(
        box=None, header_style="bold", padding=(0, 2, 0, 0), title=found.title, title_justify="left"
    )
    for place in kept:
        table.add_column(found.columns[place], justify="right" if place else "left", overflow="fold")
    for number, row in enumerate(found.rows):
        # the best is marked as in the report
        cells = [f"[bold]{row[p]}[/]" if (number, p) in found.best else escape(row[p]) for p in kept]
        table.add_row(*cells)
    return table


class Lines:
    """One plain line when a run starts, at every tenth of it and when it ends, for logs and pipes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.said: dict[Path, tuple[str, int, str]] = {}

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *ended: object) -> None:
        pass

    def show(self, step: Step) -> None:
        """Say what changed."""
        rounds = step.job.config.run.rounds
        news = step.state, 10 * step.round // rounds, step.detail
        if self.said.get(step.job.folder) == news:
            return
        self.said[step.job.folder] = news
        ended = sum(state != "running" for state, *_ in self.said.values())
        where = f", round {step.round} of {rounds}" if step.state == "running" and step.round else ""
        where += f", {step.detail}" if step.state == "running" and step.detail else ""
        typer.echo(f"[{ended}/{self.total}] {step.job.name}: {step.state}{where}", err=True)


class Bars:
    """A bar for every run under way and one for all rounds of all runs."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn())
        self.each = Progress(*columns)
        self.all = Progress(*columns, TextColumn("left"), TimeRemainingColumn())
        rounds = sum(job.config.run.rounds for job in jobs)
        self.whole = self.all.add_task("[bold]all rounds", total=rounds)
        self.tasks: dict[Path, TaskID] = {}
        self.rounds: dict[Path, int] = {}
        self.live = Live(self._drawn(), console=console, refresh_per_second=4)

    def __enter__(self) -> "Bars":
        self.live.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        self.live.__exit__(None, None, None)

    def show(self, step: Step) -> None:
        """Move the bars; a run that has ended becomes a line above them."""
        folder = step.job.folder
        if folder not in self.tasks:
            self.tasks[folder] = self.each.add_task(step.job.name, total=step.job.config.run.rounds)
        self.rounds[folder] = step.round
        doing = f"{step.job.name} [dim]{escape(step.detail)}[/]"
        self.each.update(self.tasks[folder], completed=step.round, description=doing)
        self.all.update(self.whole, completed=sum(self.rounds.values()))
        if step.state != "running":
            self.each.update(self.tasks[folder], visible=False)
            line = f"{step.state:>8}  {step.job.name}  {step.detail}"
            # a detail may hold brackets that are not markup
            self.live.console.print(line, highlight=False, markup=False)

    def _drawn(self) -> Table:
        table = Table.grid(expand=True)
        table.add_row(self.each)
        table.add_row(self.all)
        return table
