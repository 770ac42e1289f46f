"""Records in the few words and numbers that the page shows of them."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from prunefl.core.objectives import METRICS, Metric
from prunefl.runs.records import metric_of
from prunefl.system.version import VERSION


def known_metric(header: Mapping[str, Any]) -> Metric:
    """Return the metric of the task; accuracy where a newer version names one that is not known."""
    try:
        return metric_of([header] if header else [])
    except KeyError:
        return METRICS["accuracy"]


def tell_change(change: Mapping[str, Any] | None, sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """Return what the last reconfiguration did, layer by layer in the model's order."""
    if change is None:
        return None
    before, after = change["before"], change["after"]
    return {
        "round": change["round"],
        "seconds": [change["seconds_before"], change["seconds_after"]],
        "layers": [[before.get(name, size), after.get(name, 0), size] for name, size in sizes.items()],
    }


def tell_initial(initial: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what initial pruning came to."""
    if initial is None:
        return None
    segments = initial.get("segments") or []
    return {
        "client": initial.get("client"),
        "steps": sum(segment["steps"] for segment in segments),
        "density": initial.get("density"),
        "seconds": (initial.get("seconds") or {}).get("total"),
    }


def tell_privacy(last: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is spent of the privacy budget, and the budget, 0 if there is none; None for a run without noise."""
    spent = last.get("privacy")
    if not spent:
        return None
    budget = (config.get("privacy") or {}).get("epsilon", 0.0)
    return {"epsilon": spent.get("epsilon"), "delta": spent.get("delta"), "budget": budget}


def is_newer(version: str) -> bool:
    """Return whether a version is newer than this one."""
    parts = [
        tuple(int(part) for part in text.split(".")[:2] if part.isdigit()) for text in (version, VERSION)
    ]
    return any(a > b for a, b in pairwise(parts))
