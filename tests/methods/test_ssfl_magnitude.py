"""SSFL's scores and stage before training, and the plain control's schedule, against a count by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from method_cases import look, make, weights_of

from prunefl.core import schedule
from prunefl.core.network import Network
from prunefl.methods.ssfl import Score
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model


def test_a_client_scores_every_weight_and_sends_none(network: Network) -> None:
    rng = np.random.default_rng(0)
    gradient = {name: rng.standard_normal(shape) for name, shape in network.template.parameters.items()}
    local = SimpleNamespace(
        batches=list, received=network.first, gradient=lambda batches: gradient, loss=lambda batches: 0.5
    )
    update = make("run.method=ssfl", "pruning.density=0.1").train(Score(report="importance"), local)
    assert update.state.masks.density == 0
    assert update.statistic is not None
    for name, score in update.statistic.items():
        expected = np.abs(gradient[name] * network.first.dense(name)) if name in network.full_masks else 0
        assert np.array_equal(score, np.broadcast_to(expected, score.shape))


def test_the_best_of_the_mean_score_live_from_the_first_round_to_the_last() -> None:
    config = small_config(run={"method": "ssfl", "rounds": 4}, pruning={"density": 0.25})
    finished = train(small_model(), small_clients(), test=small_data(80, 99), config=config)
    first, *rounds = [r for r in finished.records if r["kind"] in ("initial", "round")]
    assert first["kind"] == "initial"
    assert [r["density"] for r in (first, *rounds)] == pytest.approx([0.25] * 5, rel=0.01)
    # scores go up alone, in place of a model
    assert first["bytes_up"] < 1.1 * first["bytes_down"]


def test_the_control_drops_what_prunefl_may_prune_until_it_has_its_density(network: Network) -> None:
    method = make("run.method=magnitude", "run.rounds=40", "pruning.density=0.2", "pruning.interval=10")
    weights, chosen = weights_of(network), method.first(network)
    live = network.full_masks.size
    for round in range(1, 41):
        chosen = method.next(look(method, chosen, weights, round))
        if round in (10, 20, 30):
            allowed = live - int(schedule.fraction(round, method.config) * live)
            live = max(round_half(0.2 * network.full_masks.size), allowed)
        assert sum(chosen.masks.counts.values()) == live
    kept = np.concatenate([np.abs(weights[name])[mask].ravel() for name, mask in chosen.masks.items()])
    gone = np.concatenate([np.abs(weights[name])[~mask].ravel() for name, mask in chosen.masks.items()])
    assert kept.min() >= gone.max()


def round_half(number: float) -> int:
    return max(1, round(number))
