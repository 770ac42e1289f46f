"""`prunefl inspect PATH`: what is inside a message, a model, a checkpoint or a run's folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.report.runs import RecordedRun


def inspect(
    path: Annotated[
        Path,
        typer.Argument(help="a run's folder, a message of the wire format, or a safetensors file"),
    ],
    round: Annotated[
        int | None, typer.Option("--round", help="of a run's folder: the checkpoint after this round")
    ] = None,
) -> None:
    """Show what a run came to, or what a file holds: its layers with their densities, and where its bytes are.

    Nothing in the file is run, and a damaged one is refused.

    Examples:
      prunefl inspect runs/demo/prunefl-fisher
      prunefl inspect runs/demo/prunefl-fisher --round 300
      prunefl inspect runs/demo/prunefl-fisher/model.safetensors
    """
    from rich.console import Console

    from prunefl.commands.inspect_file import file_table

    if path.is_dir() and round is None:
        _show_run(path)
    elif path.is_dir():
        Console().print(file_table(_checkpoint_after(path, round or 0)))
    elif round is not None:
        raise PruneFLError(f"--round {round} is for a run's folder, and {path} is none")
    else:
        Console().print(file_table(path))


def _checkpoint_after(folder: Path, round: int) -> Path:
    """Return the file of a round's checkpoint, of which a run keeps the last ones."""
    from prunefl.runs.checkpoint import kept

    found = kept(folder / "checkpoints")
    if round not in found:
        there = f"those after rounds {_listed(found)}" if found else "none"
        raise PruneFLError(f"--round {round}: {folder} has no checkpoint of that round; there are {there}")
    return found[round]


def _listed(rounds: dict[int, Path]) -> str:
    return ", ".join(map(str, sorted(rounds)))


def _show_run(folder: Path) -> None:
    from rich.console import Console

    from prunefl.commands.inspect_file import file_table
    from prunefl.commands.summary import summary_table
    from prunefl.report.runs import read_run
    from prunefl.runs.checkpoint import kept
    from prunefl.runs.resume import MODEL_FILE

    if not (folder / "records.jsonl").is_file():
        raise PruneFLError(f"{folder}: no run in it (no records.jsonl)")
    found, console = read_run(folder), Console()
    for line in _about(found):
        console.print(line, highlight=False, markup=False)
    if found.rounds:
        target = float(found.config.get("run", {}).get("target_accuracy", 0.0))
        console.print(summary_table([(found.method, [*map(dict, found.rounds)])], target))
    checkpoints = kept(folder / "checkpoints")
    if checkpoints:
        console.print(
            f"checkpoints after rounds {_listed(checkpoints)} (--round N shows one)", highlight=False
        )
    if (folder / MODEL_FILE).is_file():
        console.print(file_table(folder / MODEL_FILE))
    elif checkpoints:
        console.print(file_table(checkpoints[max(checkpoints)]))


def _about(found: "RecordedRun") -> list[str]:
    """Return in words which run it is and how far it came."""
    header, done = found.header, len(found.rounds)
    planned = found.config.get("run", {}).get("rounds", done)
    state = f"finished, {done} rounds" if found.finished else f"{done} of {planned} rounds"
    return [
        f"{found.folder}: {header.get('model')} on {header.get('data')} with {found.method}, seed {found.seed}",
        f"{state}, written by prunefl {header.get('version', 'of an unknown version')}",
        f"data: {header.get('cut')}",
        *(note for note in found.notes if not note.startswith("unfinished")),
    ]
