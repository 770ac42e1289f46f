"""Numbers for Prometheus, in its text format. The only home of prometheus_client."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from prunefl.dashboard.run_view import RunView

CONTENT_TYPE = CONTENT_TYPE_LATEST
LABELS = ("run", "method", "seed")
STATES = ("starting", "waiting", "training", "finished", "stopped", "silent")

# name, meaning, where a run's summary has it
GAUGES = (
    ("prunefl_round", "last round that is recorded", "round"),
    ("prunefl_rounds_planned", "rounds that the run is to have", "rounds"),
    ("prunefl_clients_accuracy", "accuracy at the clients by samples, last evaluation", "clients_accuracy"),
    ("prunefl_epsilon", "privacy: epsilon of all rounds so far", "epsilon"),
    ("prunefl_loss", "mean training loss of the last round", "loss"),
    ("prunefl_density", "live share of the prunable weights", "density"),
    ("prunefl_round_wall_seconds", "real seconds of a round, mean of the last twenty", "pace"),
    ("prunefl_updated_timestamp_seconds", "when the run last wrote records or status", "updated"),
)
COUNTERS = (
    ("prunefl_simulated_seconds", "simulated time since the start", "seconds"),
    ("prunefl_wall_seconds", "real time since the start", "wall"),
    ("prunefl_bytes_up", "bytes that clients have sent", "bytes_up"),
    ("prunefl_bytes_down", "bytes that clients were sent", "bytes_down"),
)
# name, meaning, place in a lane
CLIENT_GAUGES = (
    ("prunefl_client_last_heard_timestamp_seconds", "when the client was last heard of", 3),
    ("prunefl_client_samples", "samples that the client trains on", 6),
    ("prunefl_client_accuracy", "accuracy on the client's own held-out samples", 7),
)


def render_metrics(views: Sequence[RunView]) -> bytes:
    """Return the metrics of all runs."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Runs(views))
    return generate_latest(registry)


class _Runs(Collector):
    def __init__(self, views: Sequence[RunView]) -> None:
        self.views = views

    def collect(self) -> Iterable[Metric]:
        """Yield every family once, with a sample for each run, and for each client of a federation."""
        told = [(view, view.summary()) for view in self.views]
        names = [[str(summary[label]) for label in ("name", "method", "seed")] for _, summary in told]
        for name, meaning, key in GAUGES:
            family: Metric = GaugeMetricFamily(name, meaning, labels=LABELS)
            yield _filled(family, ((n, s[key]) for n, (_, s) in zip(names, told, strict=True)))
        for name, meaning, key in COUNTERS:
            family = CounterMetricFamily(name, meaning, labels=LABELS)
            yield _filled(family, ((n, s[key]) for n, (_, s) in zip(names, told, strict=True)))
        yield from _judged(list(zip(names, (summary for _, summary in told), strict=True)))
        written = GaugeMetricFamily(
            "prunefl_round_timestamp_seconds", "when the last round was recorded", labels=LABELS
        )
        yield _filled(
            written, ((n, view.changed() or None) for n, (view, _) in zip(names, told, strict=True))
        )
        states = GaugeMetricFamily(
            "prunefl_state", "1 for the state that the run is in", labels=(*LABELS, "state")
        )
        for n, (_, summary) in zip(names, told, strict=True):
            for state in STATES:
                states.add_metric([*n, state], float(summary["state"] == state))
        yield states
        yield from _clients(list(zip(names, self.views, strict=True)))


def _judged(told: Sequence[tuple[list[str], dict[str, Any]]]) -> Iterator[Metric]:
    """Yield accuracy, and apart from it the metrics of other tasks: of some of them less is better."""
    accuracy = GaugeMetricFamily(
        "prunefl_accuracy", "accuracy on the test set, last evaluation", labels=LABELS
    )
    score = GaugeMetricFamily(
        "prunefl_score", "the task's own metric on the test set, last evaluation", labels=(*LABELS, "metric")
    )
    named = [(names, summary["metric"]["name"], summary["accuracy"]) for names, summary in told]
    yield _filled(accuracy, ((n, value) for n, metric, value in named if metric == "accuracy"))
    yield _filled(score, (([*n, metric], value) for n, metric, value in named if metric != "accuracy"))


def _filled(family: Metric, samples: Iterable[tuple[list[str], float | None]]) -> Metric:
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, float(value))  # type: ignore[attr-defined]
    return family


def _clients(views: Sequence[tuple[list[str], RunView]]) -> Iterator[Metric]:
    labels = (*LABELS, "client")
    lanes = [
        ([*names, str(row[0])], row)
        for names, view in views
        if view.status is not None
        for row in view.lanes.rows(view.status, view.state() in ("training", "waiting", "starting"))
    ]
    up = GaugeMetricFamily("prunefl_client_up", "1 if the client is there and answers", labels=labels)
    yield _filled(up, ((n, float(row[1] in ("training", "waiting"))) for n, row in lanes))
    for name, meaning, place in CLIENT_GAUGES:
        yield _filled(GaugeMetricFamily(name, meaning, labels=labels), ((n, row[place]) for n, row in lanes))
    refused = CounterMetricFamily(
        "prunefl_client_refused", "updates of the client that were left out", labels=labels
    )
    yield _filled(refused, ((n, row[9]) for n, row in lanes))
