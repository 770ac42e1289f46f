"""`prunefl status`: how far a real federation is, and who takes part; on the server or from anywhere."""

import json
import shutil
import sys
import textwrap
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from prunefl.system.errors import PruneFLError

FEW = 8
"""Up to so many classes are counted one by one."""


def status(
    folder: Annotated[
        Path | None,
        typer.Argument(help="the folder of a run that `prunefl server` started", show_default="runs/server"),
    ] = None,
    server: Annotated[str, typer.Option(help="HOST:PORT of a server, to ask it from another machine")] = "",
    keys: Annotated[
        Path | None, typer.Option(help="for --server: the viewer folder made by `prunefl keys`")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print all that is known as JSON, for programs")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="show it again every two seconds")] = False,
) -> None:
    """Show round, density, bytes, and of every client when it was last heard of, its samples, accuracy and refusals.

    Examples:
      prunefl status runs/pis --watch
      prunefl status --server pi-server.local:9092 --keys viewer --json
    """
    if server and folder is not None:
        raise PruneFLError(f"{folder} and --server {server}: give the run's folder or its server, not both")
    if bool(server) != (keys is not None):
        raise PruneFLError("--server HOST:PORT and --keys VIEWER belong together; give both or neither")
    while True:
        content = _find(folder or Path("runs/server"), server, keys)
        if as_json:
            typer.echo(json.dumps(content, indent=1))
        else:
            typer.echo("\n".join(fitted(lines(content, time.time()))))
        if not watch:
            return
        time.sleep(2.0)
        typer.echo("")


def fitted(said: list[str]) -> list[str]:
    """Return lines broken between words where the terminal ends; as they are for pipes and files."""
    if not sys.stdout.isatty():
        return said
    columns = shutil.get_terminal_size().columns
    broken = [textwrap.wrap(line, columns, subsequent_indent="  ", break_on_hyphens=False) for line in said]
    return [line for lines_of_one in broken for line in lines_of_one]


def _find(folder: Path, server: str, keys: Path | None) -> dict[str, Any]:
    if keys is None:
        from prunefl.engines.flower.status import read_status

        return read_status(folder)
    from prunefl.engines.flower import require_flower

    require_flower()
    from prunefl.engines.flower.status_view import fetch_status

    return fetch_status(server, keys)


def lines(content: dict[str, Any], now: float) -> list[str]:
    """Return the status as lines of text."""
    head = (
        f"{content['phase']}: round {content['round']} of {content['rounds']}, "
        f"density {content['density']:.4f}, {_privacy(content)}{_accuracy(content)}{_describe_accuracy(content)}"
        f"{_megabytes(content['bytes_up'])} up, {_megabytes(content['bytes_down'])} down, "
        f"{now - content['updated']:.0f} s ago"
    )
    nodes, classes = content["nodes"], content.get("classes") or []
    counted = [node for node in nodes if len(node.get("by_class") or []) == len(classes) > 0]
    columns = {
        "accuracy": any(node.get("held_out") for node in nodes),
        "personal": any(node.get("personal") is not None for node in nodes),
    }
    shown = [name for name, wanted in columns.items() if wanted]
    title = "".join(f" {name:>8}" for name in shown) + (f" {_class_title(classes):>12}" if counted else "")
    rows = [f"{'client':>6}  {'state':<8} {'last heard':>11} {'samples':>8}{title} {'left out':>8}"]
    for node in nodes:
        last = max(node["last_seen"], node.get("last_heard") or 0.0)
        heard = f"{now - last:.0f} s ago" if last else "never"
        cells = "".join(_cell(node.get(name)) for name in shown)
        cells += f" {_describe_classes(node.get('by_class')):>12}" if counted else ""
        rows.append(
            f"{node['client']:>6}  {_state(node):<8} {heard:>11} {_samples(node):>8}{cells} {node['left_out']:>8}"
        )
    # below the table: a reason is a sentence, and would make its row wider than a terminal
    refused = [f"last refusal of client {n['client']}: {n['refusal']}" for n in nodes if n["refusal"]]
    away = [f"turned away: client {c}: {why}" for c, why in (content.get("turned_away") or {}).items()]
    found = [head, *rows, *_balance(classes, [node["by_class"] for node in counted]), *refused, *away]
    # clients have a say in some of it: no commands to a terminal
    return ["".join(c if c.isprintable() else "?" for c in line) for line in found]


def _samples(node: dict[str, Any]) -> str:
    """Return how many samples a client counts for, and how many it says it has where that is more."""
    said, counted = node["samples"], round(node.get("counts_for") or node["samples"])
    return str(said) if counted == said else f"{counted} of {said}"


def _class_title(classes: list[str]) -> str:
    return "by class" if len(classes) <= FEW else "classes"


def _describe_classes(counts: list[int] | None) -> str:
    """Return how many samples of each class a client has; of many classes, how many of them it has."""
    if not counts:
        return "-"
    return "/".join(map(str, counts)) if len(counts) <= FEW else f"{sum(map(bool, counts))} of {len(counts)}"


def _balance(classes: list[str], counted: list[list[int]]) -> list[str]:
    """Return a line about the samples of each class at all clients that tell; no line where none does."""
    if not counted:
        return []
    totals = dict(zip(classes, map(sum, zip(*counted, strict=True)), strict=True))
    ordered = sorted(totals, key=lambda name: -totals[name])
    named = list(totals) if len(totals) <= FEW else [*ordered[:3], *ordered[-3:]]
    most, fewest = totals[ordered[0]], totals[ordered[-1]]
    spread = f"of {ordered[0]} there are {most / fewest:.1f} times as many" if fewest else "there are none"
    gap = ", ..." if len(named) < len(totals) else ""
    said = ", ".join(f"{name} {totals[name]}" for name in named)
    return [f"samples by class: {said}{gap}; {spread} {'as ' if fewest else ''}of {ordered[-1]}"]


def _cell(accuracy: float | None) -> str:
    return f" {'-' if accuracy is None else format(accuracy, '.4f'):>8}"


def _describe_accuracy(content: dict[str, Any]) -> str:
    """Return the last accuracy at the clients, by samples, and of the worst tenth of them; "" before the first."""
    if content.get("clients_accuracy") is None or content.get("worst_tenth") is None:
        return ""
    return f"accuracy at the clients {content['clients_accuracy']:.4f} (worst tenth {content['worst_tenth']:.4f}), "


def _state(node: dict[str, Any]) -> str:
    if node.get("barred"):
        return "left out" if node["online"] else "refused"
    return "overdue" if node["overdue"] else "there" if node["online"] else "away"


def _accuracy(content: dict[str, Any]) -> str:
    """Return the last accuracy on the server's test set, in words."""
    if not content.get("has_test", True):
        return "no test set at the server, "
    accuracy = content.get("accuracy")
    return "" if accuracy is None else f"accuracy {accuracy:.4f}, "


def _privacy(content: dict[str, Any]) -> str:
    """Return what has been spent of the privacy budget, in words; "" where there is none."""
    spent = content.get("privacy")
    return f"epsilon {spent['epsilon']:.4g} at delta {spent['delta']:g}, " if spent else ""


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
