"""The report's tables of what clients found on samples of their own."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import estimate, spoken
from prunefl.report.study import Study
from prunefl.report.tables import SEEDS, Table, several


def clients_table(study: Study) -> Table | None:
    """Return how the last evaluation at clients spread over them, or None where no variant has one."""
    rows = []
    for variant in study.variants:
        last = [found for run in variant.runs if (found := _last_evaluation(run))]
        if not last:
            continue
        spreads = [_spread(found) for found in last]
        cells = [
            spoken(estimate(known)) if (known := [100 * s[place] for s in spreads if len(s) > place]) else "–"
            for place in range(5)
        ]
        counts = [spoken(estimate([float(f[key]) for f in last]), 0) for key in ("clients", "samples")]
        rows.append((variant.label, *counts, *cells))
    if not rows:
        return None
    return Table(
        "clients",
        "Accuracy at the clients",
        "The last evaluation on samples that clients hold out and never train on. The worst tenth is the average over "
        f"the tenth of the clients at which accuracy is lowest. {SEEDS if several(study) else ''}".strip(),
        (
            "Method",
            "Clients",
            "Samples",
            "By samples (%)",
            "By client (%)",
            "Worst tenth (%)",
            "Median client (%)",
            "Best client (%)",
        ),
        tuple(rows),
    )


def personal_table(study: Study) -> Table | None:
    """Return by client how the final model does and how its own does, or None where no client has one."""
    before: dict[tuple[str, int], list[float]] = {}
    after: dict[tuple[str, int], list[float]] = {}
    for variant in study.variants:
        for found in filter(None, map(_last_evaluation, variant.runs)):
            for client, (right, samples) in found.get("personal", {}).items():
                first, of = found["by_client"][client]
                before.setdefault((variant.key, int(client)), []).append(100 * first / of)
                after.setdefault((variant.key, int(client)), []).append(100 * right / samples)
    shown = [variant for variant in study.variants if any(key == variant.key for key, _ in after)]
    rows = []
    for client in sorted({client for _, client in after}):
        pairs = [(before.get((v.key, client)), after.get((v.key, client))) for v in shown]
        cells = [spoken(estimate(values)) if values else "–" for pair in pairs for values in pair]
        rows.append((str(client), *cells))
    if not rows:
        return None
    return Table(
        "personal",
        "Personal models",
        "Accuracy (%) on each client's held-out samples: of the final model, and of the client's own, trained on from "
        "it for some steps on that client's samples under the same masks.",
        ("Client", *(f"{v.label}, {when}" for v in shown for when in ("before", "after"))),
        tuple(rows),
    )


def _last_evaluation(run: RecordedRun) -> Mapping[str, Any] | None:
    return next((record["evaluation"] for record in reversed(run.rounds) if "evaluation" in record), None)


def _spread(found: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the mean by samples, by client, of the worst tenth, the median and the best client.

    Of a secure sum the first two alone: it does not tell how single clients do.
    """
    if not found["by_client"]:
        return found["accuracy"], found["client_accuracy"]
    each = sorted(right / samples for right, samples in found["by_client"].values())
    return found["accuracy"], found["client_accuracy"], found["worst_tenth"], median(each), each[-1]
