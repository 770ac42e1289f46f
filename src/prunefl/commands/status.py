"""`prunefl status`: how far a real federation is, and who takes part."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer


def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a run that `prunefl server` started.")] = Path(
        "runs/server"
    ),
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds.")] = False,
) -> None:
    """Show round, density, bytes, and for every node when it was last heard of.

    Example: prunefl status runs/pis --watch
    """
    from prunefl.engines.flower.status import read_status

    while True:
        typer.echo("\n".join(lines(read_status(folder), time.time())))
        if not watch:
            return
        time.sleep(2.0)
        typer.echo("")


def lines(content: dict[str, Any], now: float) -> list[str]:
    """Return the status as lines of text."""
    head = (
        f"{content['phase']}: round {content['round']} of {content['rounds']}, "
        f"density {content['density']:.4f}, {_accuracy(content)}"
        f"{_megabytes(content['bytes_up'])} up, {_megabytes(content['bytes_down'])} down, "
        f"{now - content['updated']:.0f} s ago"
    )
    rows = [f"{'client':>6}  {'state':<8} {'last heard':>11} {'samples':>8} {'left out':>8}  last refusal"]
    for node in content["nodes"]:
        heard = f"{now - node['last_seen']:.0f} s ago" if node["last_seen"] else "never"
        rows.append(
            f"{node['client']:>6}  {_state(node):<8} {heard:>11} {node['samples']:>8} {node['left_out']:>8}  "
            f"{node['refusal']}".rstrip()
        )
    return [head, *rows]


def _state(node: dict[str, Any]) -> str:
    if node.get("barred") and not node["online"]:
        return "refused"
    return "overdue" if node["overdue"] else "there" if node["online"] else "away"


def _accuracy(content: dict[str, Any]) -> str:
    """Return the last accuracy on the server's test set, in words."""
    if not content.get("has_test", True):
        return "no test set at the server, "
    accuracy = content.get("accuracy")
    return "" if accuracy is None else f"accuracy {accuracy:.4f}, "


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
