"""`prunefl data get`, `check` and `describe`: bring data into a folder, see what is in it, tell a server what it is."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.commands.plain_help import App

if TYPE_CHECKING:
    from prunefl.data.check import Cut, Part
    from prunefl.data.download import Progress
    from prunefl.data.federation import Federation

app = App(help="Fetch data sets, and see what a data folder holds.")


@app.command()
def get(
    name: Annotated[
        str, typer.Argument(help="which data set: mnist, femnist, cifar10, celeba or imagenet100")
    ],
    dir: Annotated[Path, typer.Option(help="folder to put it into; made if it is not there")],
    writers: Annotated[
        int, typer.Option(min=0, help="FEMNIST: how many writers to keep, drawn once and for all; 0: all")
    ] = 193,
) -> None:
    """Fetch a data set from its official source; a broken download goes on where it stopped.

    Examples:
      prunefl data get cifar10 --dir data/cifar10
      prunefl data get femnist --dir data/femnist --writers 193
    """
    from prunefl.data.get import BY_HAND
    from prunefl.data.get import get as get_data

    with _progress() as progress:
        message = get_data(name, dir, progress, writers)
    print(message)
    if name in BY_HAND:
        raise typer.Exit(1)


@app.command()
def check(
    dir: Annotated[Path, typer.Argument(help="the folder (or .csv or .npz file) to look into")],
    name: Annotated[
        str, typer.Option(help="which data set it is, as data.name; found out when not given")
    ] = "",
    partition: Annotated[str, typer.Option(help="as data.partition; the data set's own when not given")] = "",
    clients: Annotated[int, typer.Option(min=0, help="as data.clients; the data set's own number if 0")] = 0,
    alpha: Annotated[float, typer.Option(help="as data.alpha, for partition dirichlet")] = 0.5,
    shards: Annotated[int, typer.Option(min=1, help="as data.shards, for partition shards")] = 2,
    size: Annotated[
        int, typer.Option(min=0, help="as data.size: own images are resized to this side; 0: as they are")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="seed that a partition is drawn from, as run.seed")] = 0,
    cache: Annotated[
        Path | None, typer.Option(help="folder in which decoded images are kept, as data.cache")
    ] = None,
) -> None:
    """Say what is in a data folder, what is missing, and how clients are cut.

    Reads and checks everything, as a run would before its first round.

    Examples:
      prunefl data check data/femnist --clients 10
      prunefl data check data/mine --partition dirichlet --alpha 0.1 --clients 20
    """
    from prunefl.data import load
    from prunefl.data.check import cut_of, parts_of, recognise

    name = name or recognise(dir)
    print(f"{name} in {dir}")
    _print_parts(parts_of(name, dir))
    federation = load(
        name,
        dir,
        partition=partition,
        clients=clients,
        alpha=alpha,
        shards=shards,
        seed=seed,
        size=size,
        cache=cache,
    )
    _print_cut(cut_of(federation))
    samples = sum(len(client) for client in federation.clients)
    shape = "×".join(map(str, federation.input_shape))
    tested = "no" if federation.test is None else f"{len(federation.test):,}"
    sizes = f"{samples:,} training and {tested} test samples"
    print(f"{sizes} of {shape}, {federation.classes} classes")
    for line in class_lines(federation):
        print(line)
    print(f"cut: {federation.cut}")


@app.command()
def describe(
    path: Annotated[Path, typer.Argument(help="a client's folder, CSV index or .npz file")],
    clients: Annotated[
        int, typer.Option(min=0, help="how many clients will take part; 0: to be filled in by hand")
    ] = 0,
    size: Annotated[
        int, typer.Option(min=0, help="as data.size: images are resized to this side; 0: as they are")
    ] = 0,
) -> None:
    """Print the data section of a server's config, from the data of one client that has every class.

    Reads all of it, as a client would. Classes that only other clients have are to be added by hand.

    Example:
      prunefl data describe ~/images --clients 5 > task.toml
    """
    from prunefl.data.describe import describe_task

    print(describe_task(path, clients, size), end="")


def _print_parts(parts: "list[Part]") -> None:
    """Show the official files, there or missing."""
    if not parts:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "", "")
    for part in parts:
        table.add_row(part.name, "there" if part.there else "missing", part.detail)
    Console().print(table)


def _print_cut(cut: "Cut") -> None:
    """Show how samples and labels lie with the clients."""
    from rich.console import Console
    from rich.table import Table

    table = Table("clients", "a client has", "fewest", "median", "most")
    table.add_row(str(cut.clients), "samples", str(cut.fewest), str(cut.median), str(cut.most))
    if cut.labels:
        table.add_row("", "labels", *map(str, cut.labels))
    Console().print(table)


def class_lines(federation: "Federation") -> list[str]:
    """Return the names of the classes, each with its training samples where they are known, in lines of 80."""
    from prunefl.data.check import count_labels

    counts = count_labels(federation)
    named = [
        name if counts is None else f"{name} ({counts[number]:,})"
        for number, name in enumerate(federation.names)
    ]
    return textwrap.wrap(f"classes: {', '.join(named)}", 80, subsequent_indent="  ", break_on_hyphens=False)


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Yield a function that shows how far each file is."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    name, left = TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(name, BarColumn(), TaskProgressColumn(), left) as bars:
        tasks = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file)
            bars.update(tasks[file], completed=done, total=total or None)

        yield show
