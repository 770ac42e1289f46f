"""`prunefl leaderboard`: results as files that anyone can check, and the table made of them."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.plain_help import App
from prunefl.system.errors import PruneFLError

app = App(help="Results as small files, signed by a hash; a table of them, tasks × methods.")

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="folders of finished runs, one a seed")]
ResultFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="a result file, as `prunefl leaderboard result` writes it")
]


@app.command()
def result(
    runs: Runs,
    task: Annotated[str, typer.Option(help="name of the task, the same for all methods, such as a preset's")],
    command: Annotated[str, typer.Option(help="what makes these runs, with S for the seed")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="the result file to write")],
    target: Annotated[list[float], typer.Option(help="accuracy whose cost is given; may be repeated")],
    shared: Annotated[
        bool, typer.Option("--shared", help="other work ran on the machine: leave wall times out")
    ] = False,
) -> None:
    """Write the result of one method on one task, from its runs.

    Example:
      prunefl leaderboard result runs/snip-* --task femnist-fast \\
        --target 0.8 --out results/snip.json \\
        --command "prunefl run femnist-fast run.method=snip run.seed=S"
    """
    from prunefl.report.result_file import make_result, write_result

    for wanted in target:
        if not 0 < wanted < 1:
            raise PruneFLError(f"--target {wanted:g}, must be an accuracy > 0 and < 1")
    made = make_result(runs, task, target, command, alone=not shared)
    write_result(made, out)
    typer.echo(f"{out}: {made['method']} on {task}, seeds {', '.join(made['seeds'])}")


@app.command()
def check(file: ResultFile, runs: Runs) -> None:
    """Compute a result again from the records of its runs, and say whether it is theirs."""
    from prunefl.report.result_file import compare_with_records, read_result

    compare_with_records(read_result(file), runs, str(file))
    typer.echo(f"{file}: its records give its numbers")


@app.command()
def table(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR...", help="result files, or folders of them")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the page to write, Markdown; without it, it is printed"),
    ] = None,
) -> None:
    """Make the leaderboard: a table a task, made of result files."""
    from prunefl.report.leaderboard import find_results, write_leaderboard
    from prunefl.system.files import write_atomically

    results = find_results(files)
    page = write_leaderboard(results, f"prunefl leaderboard table {' '.join(map(str, files))}")
    if out is None:
        typer.echo(page, nl=False)
        return
    write_atomically(out, page.encode())
    typer.echo(f"{out}: {len(results)} results")
