"""Initial pruning: when it starts, when it stops, what it may not exceed, what the server believes of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from method_cases import make

from prunefl import wire
from prunefl.config import Config
from prunefl.config.sections import InitialSettings
from prunefl.core.masks import Masks
from prunefl.core.time_model import LinearTime, to_json
from prunefl.data.samples import Samples, Tensors
from prunefl.methods import BadUpdate
from prunefl.methods.base import Numbers
from prunefl.methods.initial import Watch, ended_by, start_threshold
from prunefl.methods.prunefl import Collect, PruneFirst
from prunefl.rounds.client import ClientState, handle
from prunefl.rounds.messages import Order, Reply
from tasks import CLASSES, small_client, small_config, small_network

PLAN = InitialSettings(samples=40, interval=3, start_factor=1.5, tolerance=0.1, patience=2, max_passes=40)
EVERY_THIRD = {"interval": 3, "tolerance": 0.0, "patience": 99}


def a_config(initial: dict[str, object], **sections: dict[str, object]) -> Config:
    usual = {
        "samples": 40,
        "interval": 3,
        "start_factor": 1.5,
        "patience": 2,
        "max_passes": 40,
        "warmup_passes": 0,
    }
    return small_config(initial={**usual, **initial}, **sections)


def prune(config: Config, per_weight: float = 1e-3, samples: Samples | None = None) -> tuple[Reply, Masks]:
    client = small_client(config)
    client = replace(client, samples=samples or client.samples)
    layers = client.network.template.layers
    time_model = to_json(LinearTime(1.0, dict.fromkeys(layers, per_weight)))
    work = PruneFirst(own_masks=True, time_model=time_model)
    reply, _ = handle(Order(0, 0.1, wire.pack(client.network.first), work), client, ClientState())
    client.method.check(work, reply.numbers, client.network.full_masks)
    return reply, wire.unpack(reply.model, client.network.template, {}).masks


def column(reply: Reply, name: str) -> list[float]:
    found = reply.numbers[name]
    assert isinstance(found, list)
    return found


def test_reconfiguration_waits_until_the_model_beats_chance() -> None:
    watch = Watch().after_pass(1.5 / CLASSES, 1.5 / CLASSES, PLAN)
    assert not watch.due(PLAN)
    watch = watch.after_pass(1.5 / CLASSES + 0.01, 1.5 / CLASSES, PLAN)
    assert watch.due(PLAN)


@pytest.mark.parametrize(
    ("labels", "threshold"),
    [
        ([0, 1, 2, 3], 1.5 / 4),  # chance is the higher of the two
        ([3, 3, 3, 1], 3 / 4),  # who always says 3 has learned nothing
        ([2, 2, 2, 2], 1.0),  # of one class nothing can be learned: no accuracy exceeds 1
    ],
)
def test_what_the_commonest_class_gives_is_not_learned_either(labels: list[int], threshold: float) -> None:
    halves = [(np.zeros((2, 1), np.float32), np.array(labels[at : at + 2])) for at in (0, 2)]
    assert start_threshold(halves, 4, 1.5) == threshold


@pytest.mark.parametrize("seed", range(4))
def test_fresh_samples_with_more_of_the_commonest_class_are_no_sign_of_learning(seed: int) -> None:
    """Four of five samples are of one class, and nothing tells which: of some passes more, of others less."""
    source = np.random.default_rng(seed)
    labels = np.where(source.random(240) < 0.8, 1, source.integers(0, CLASSES, 240))
    images = np.zeros((240, 1, 8, 8), np.float32)
    config = a_config({**EVERY_THIRD, "samples": 20, "max_passes": 12}, training={"learning_rate": 1.0})
    reply, _ = prune(config, samples=Tensors(images, labels))
    assert column(reply, "passes") == [12]


def test_after_the_first_it_comes_every_interval() -> None:
    watch = Watch().after_pass(1.0, 0.5, PLAN).after_reconfiguration(1.0, 0.5, PLAN)
    due = []
    for _ in range(3):
        watch = watch.after_pass(0.0, 0.5, PLAN)
        due.append(watch.due(PLAN))
    assert due == [False, False, True]


def test_only_consecutive_stable_reconfigurations_count() -> None:
    watch = Watch()
    for before, after, stable in [(1.0, 0.95, 1), (0.95, 0.5, 0), (0.5, 0.46, 1), (0.46, 0.46, 2)]:
        watch = watch.after_reconfiguration(before, after, PLAN)
        assert watch.stable == stable


def test_the_model_shrinks_and_every_step_is_accounted_for() -> None:
    reply, masks = prune(a_config({}))
    assert masks.density < 0.9
    passes = column(reply, "passes")
    assert column(reply, "steps") == [2 * count for count in passes]
    assert 0 < sum(passes) <= PLAN.max_passes
    # a stretch is charged by the masks that it was trained under: the first by those of the whole model
    sizes = small_network().full_masks.sizes
    assert [column(reply, f"live.{name}")[0] for name in sizes] == list(sizes.values())
    assert reply.loss == column(reply, "loss")[-1]


@pytest.mark.parametrize(
    ("window", "collecting"), [(1, [2, 5, 7]), (2, [1, 2, 4, 5, 6, 7]), ("all", range(8))]
)
def test_importance_is_collected_in_the_last_passes_before_each_reconfiguration(
    window: int | str, collecting: list[int]
) -> None:
    """Every third pass reconfigures, and so does the last of eight; before the start any pass may be the one."""
    plan = InitialSettings(samples=40, max_passes=8, start_factor=1.5, **EVERY_THIRD)  # type: ignore[arg-type]
    watch, found = Watch(), []
    assert watch.collects(0, plan, window)
    watch = Watch(started=True)
    for done in range(8):
        found += [done] if watch.collects(done, plan, window) else []
        watch = watch.after_pass(1.0, 0.5, plan)
        watch = watch.after_reconfiguration(1.0, 1.0, plan) if watch.due(plan) else watch
    assert found == list(collecting)


def test_steps_that_collect_are_told_apart() -> None:
    initial = {**EVERY_THIRD, "start_factor": 0.0, "max_passes": 7}
    narrow, wide = (prune(a_config(initial, importance={"window": window}))[0] for window in (1, "all"))
    assert column(narrow, "steps") == [2, 6, 6]
    assert column(narrow, "full_steps") == [2, 2, 2]
    assert column(wide, "full_steps") == column(wide, "steps") == [2, 6, 6]


@pytest.mark.parametrize("fresh", [True, False])
def test_each_pass_takes_other_samples_or_the_same_again(
    fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 samples, 20 in a pass: three passes see them all, or the first 20 three times."""
    seen: list[bytes] = []
    backend = type(small_client(a_config({})).backend)
    steps = backend.steps

    def watched(self: Any, batches: Any, *given: Any) -> Any:
        seen.extend(row.tobytes() for inputs, _ in batches for row in np.asarray(inputs))
        return steps(self, batches, *given)

    monkeypatch.setattr(backend, "steps", watched)
    prune(a_config({**EVERY_THIRD, "samples": 20, "max_passes": 3, "fresh": fresh}))
    assert len(seen) == 60
    assert len(set(seen)) == (60 if fresh else 20)
    assert (seen[:20] == seen[20:40]) != fresh


def test_it_ends_at_the_maximum_number_of_passes() -> None:
    reply, _ = prune(a_config({**EVERY_THIRD, "max_passes": 8}))
    assert sum(column(reply, "passes")) == 8


@pytest.mark.parametrize("limit", [0.3, 0.05])
def test_it_ends_within_the_density_limit_and_comes_down_to_it_by_its_own_steps(limit: float) -> None:
    pruning = {"density_limit": limit, "fraction": 0.4}
    reply, masks = prune(a_config({"interval": 1}, pruning=pruning), per_weight=0.0)
    assert 0 < masks.density <= limit
    live = np.sum([column(reply, f"live.{name}") for name in masks], axis=0)
    # weights that cost nothing would all stay: only the limit brings the model down, by at most what may be pruned
    kept = live[1:] / live[:-1]
    assert (kept > 0.59).all()
    assert (kept[:2] < 0.61).all()


def test_a_limit_that_its_steps_do_not_reach_is_met_at_the_end() -> None:
    config = a_config({"interval": 1, "max_passes": 2}, pruning={"density_limit": 0.01})
    _, masks = prune(config, per_weight=0.0)
    assert 0 < masks.density <= 0.01


@pytest.mark.parametrize(("tolerance", "rule"), [(1.0, "stable"), (0.0, "max_passes")])
def test_the_account_says_which_rule_ended_it(tolerance: float, rule: str) -> None:
    config = a_config({"interval": 1, "tolerance": tolerance, "max_passes": 9, "start_factor": 0.0})
    reply, _ = prune(config)
    assert ended_by(reply.numbers, config.initial) == rule
    assert sum(column(reply, "passes")) == (9 if rule == "max_passes" else column(reply, "passes")[0] + 1)


def test_a_diverged_one_says_so() -> None:
    client = small_client(a_config({}))
    time_model = to_json(LinearTime(1.0, dict.fromkeys(client.network.template.layers, 1e-3)))
    order = Order(0, 1e9, wire.pack(client.network.first), PruneFirst(own_masks=True, time_model=time_model))
    said = r"training diverged in initial pruning, pass \d+, rate 1e\+09; lower training.learning_rate"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=said):
        handle(order, client, ClientState())


@pytest.mark.parametrize("samples", [1, 5])
def test_fewer_samples_than_a_batch_are_one_batch(samples: int) -> None:
    reply, masks = prune(a_config({"samples": samples, "interval": 1, "max_passes": 4}))
    assert column(reply, "steps") == column(reply, "passes")
    assert 0 < masks.density <= 1


@pytest.mark.parametrize(("threads", "used"), [(0, 1), (2, 2)])
def test_the_first_client_prunes_with_its_own_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int, used: int
) -> None:
    seen = []
    config = a_config({"threads": threads, "max_passes": 1})
    client = small_client(config)
    steps = client.backend.steps

    def watched(*given: Any) -> Any:
        seen.append(torch.get_num_threads())
        return steps(*given)

    monkeypatch.setattr(client.backend, "steps", watched)
    time_model = to_json(LinearTime(1.0, dict.fromkeys(client.network.template.layers, 1e-3)))
    order = Order(0, 0.1, wire.pack(client.network.first), PruneFirst(own_masks=True, time_model=time_model))
    handle(order, client, ClientState())
    assert seen == [used]
    assert torch.get_num_threads() == 1


MASKS = small_network().full_masks
FIRST = next(iter(MASKS))


def an_account(**changes: float) -> dict[str, float | list[float]]:
    """Return an account of two stretches, the second with something changed."""
    stretch = {"passes": 1, "steps": 10, "full_steps": 10, "accuracy": 0.5, "loss": 1.0}
    stretch |= {"stable": 1, "gamma": 2.0, "lost": 0.1}
    stretch |= {f"live.{name}": size for name, size in MASKS.sizes.items()}
    return {name: [value, changes.get(name, value)] for name, value in stretch.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {f"live.{FIRST}": -1},
        {f"live.{FIRST}": MASKS.sizes[FIRST] + 1},
        {f"live.{FIRST}": 0.5},
        {f"live.{FIRST}": float("nan")},
        {f"live.{FIRST}": float("inf")},
        {"steps": 10**12},
        {"steps": float("nan")},
        {"full_steps": 11},
        {"full_steps": -1},
        {"passes": -1},
        {"passes": float("nan")},
        {"accuracy": 1.5},
        {"loss": float("nan")},
        {"passes": 0.5},
        {"stable": -1},
        {"stable": 0.5},
        {"stable": float("nan")},
        {"gamma": -1.0},
        {"gamma": float("inf")},
        {"lost": float("nan")},
    ],
)
def test_a_stretch_that_cannot_be_true_is_refused(changes: dict[str, float]) -> None:
    make().check(PruneFirst(), an_account(), MASKS)
    with pytest.raises(BadUpdate, match="a stretch"):
        make().check(PruneFirst(), an_account(**changes), MASKS)


def without(name: str) -> Numbers:
    return {other: value for other, value in an_account().items() if other != name}


@pytest.mark.parametrize(
    "account",
    [
        {},
        without("passes"),
        without(f"live.{FIRST}"),
        {**an_account(), "live.other": [1, 1]},
        {**an_account(), "steps": 10},
        {**an_account(), "steps": [10]},
        {name: [] for name in an_account()},
    ],
)
def test_what_is_not_an_account_is_refused(account: Numbers) -> None:
    with pytest.raises(BadUpdate, match="not an account of initial pruning"):
        make().check(PruneFirst(), account, MASKS)


def test_an_account_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(BadUpdate, match=r"numbers accuracy, .* which were not asked for"):
        make().check(Collect(), an_account(), MASKS)


def test_a_checked_account_is_what_the_clock_charges() -> None:
    method = make()
    costs = method.cost(PruneFirst(), MASKS.counts, an_account(full_steps=4))
    assert [(steps.count, steps.full_gradient) for steps in costs] == [
        (0, False),
        (6, False),
        (10, True),
        (4, True),
    ]
    assert all(steps.live == MASKS.sizes for steps in costs)
    assert np.isclose(sum(steps.count for steps in costs), 20)
