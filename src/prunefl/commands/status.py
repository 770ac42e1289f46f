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
    """Show round, density, bytes, and for every node when it was last heard of and its accuracy on its own samples.

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
        f"density {content['density']:.4f}, {_accuracy(content)}{_describe_accuracy(content)}"
        f"{_megabytes(content['bytes_up'])} up, {_megabytes(content['bytes_down'])} down, "
        f"{now - content['updated']:.0f} s ago"
    )
    evaluated = any(node.get("held_out") for node in content["nodes"])
    personal = any(node.get("personal") is not None for node in content["nodes"])
    column = (f" {'accuracy':>8}" if evaluated else "") + (f" {'personal':>8}" if personal else "")
    rows = [
        f"{'client':>6}  {'state':<8} {'last heard':>11} {'samples':>8}{column} {'left out':>8}  last refusal"
    ]
    for node in content["nodes"]:
        last = max(node["last_seen"], node.get("last_heard", 0.0))
        heard = f"{now - last:.0f} s ago" if last else "never"
        column = _cell(node.get("accuracy")) if evaluated else ""
        column += _cell(node.get("personal")) if personal else ""
        rows.append(
            f"{node['client']:>6}  {_state(node):<8} {heard:>11} {node['samples']:>8}{column} {node['left_out']:>8}  "
            f"{node['refusal']}".rstrip()
        )
    return [head, *rows]


def _cell(accuracy: float | None) -> str:
    return f" {'-' if accuracy is None else format(accuracy, '.4f'):>8}"


def _describe_accuracy(content: dict[str, Any]) -> str:
    """Return the last accuracy at the clients, by samples, and of the worst tenth of them; "" before the first."""
    if content.get("clients_accuracy") is None:
        return ""
    return f"accuracy at the clients {content['clients_accuracy']:.4f} (worst tenth {content['worst_tenth']:.4f}), "


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
