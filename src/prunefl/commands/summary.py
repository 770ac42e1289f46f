"""What finished runs came to, beside each other: a column each, so that the figures fit a terminal of 80 columns."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

Record = dict[str, Any]


def spoken_seconds(seconds: float) -> str:
    """Return a duration as a person says it: 4.2 s, 3:05, 2:10:00."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def spoken_bytes(count: float) -> str:
    """Return a size as a person says it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def spoken_percent(share: float | None) -> str:
    """Return a share as a person says it, or a dash."""
    return "-" if share is None else f"{share:.2%}"


def summary_table(runs: Sequence[tuple[str, list[Record]]], target: float) -> Table:
    """Return accuracy, density, bytes and times of finished runs side by side."""
    figures = [(name, summary_figures(records, target)) for name, records in runs]
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("")
    for name, _ in figures:
        table.add_column(name, justify="right", overflow="fold")
    for row in dict.fromkeys(row for _, found in figures for row in found):
        table.add_row(row, *(found.get(row, "-") for _, found in figures))
    return table


def summary_figures(records: list[Record], target: float) -> dict[str, str]:
    """Return what one run came to, by name, in words."""
    from prunefl.runs.records import final_score, metric_of

    last, end = next(record for record in reversed(records) if record["kind"] == "round"), records[-1]
    total, score, found = last["total"], final_score(records), _last_evaluation(records)
    at_clients, metric = (
        {"at the clients": "accuracy", "worst tenth": "worst_tenth"} if found else {},
        metric_of(records),
    )
    return {
        metric.words: "no test set" if score is None else metric.spoken(score),
        **{name: spoken_percent(found.get(key)) for name, key in at_clients.items()},
        **(
            {f"best (round {end['best_round']})": metric.spoken(end["best_score"])}
            if "best_round" in end
            else {}
        ),
        "density": f"{last['density']:.1%}",
        "sent": spoken_bytes(total["bytes_up"] + total["bytes_down"]),
        "simulated time": spoken_seconds(total["seconds"]),
        "wall time": spoken_seconds(total["wall_seconds"]),
        **(_until(records, target) if target else {}),
    }


def _until(records: list[Record], target: float) -> dict[str, str]:
    """Return what it took to reach the target, of accuracy or of the task's own metric."""
    from prunefl.runs.records import cost_to_reach, metric_of

    metric = metric_of(records)
    reached = cost_to_reach(records, target, metric)
    goal = f"{target:.0%}" if metric.percent else f"{metric.words} {target:g}"
    return {
        f"{name} to {goal}": spoken_seconds(reached["total"][key]) if reached else "not reached"
        for name, key in (("simulated", "seconds"), ("wall", "wall_seconds"))
    }


def _last_evaluation(records: list[Record]) -> Record:
    """Return the last evaluation at clients, or nothing."""
    return next((record["evaluation"] for record in reversed(records) if "evaluation" in record), {})
