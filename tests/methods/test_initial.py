"""Initial pruning: when it starts, when it stops, what it may not exceed."""

from dataclasses import replace

import pytest
import torch

from prunefl import data, wire
from prunefl.core.masks import density, full_masks, prunable_names
from prunefl.core.time_json import from_json, to_json
from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.initial import Watch, fixed_batches, initial_pruning
from prunefl.rounds.messages import InitialPlan, Order
from tasks import BATCH_SHAPE, CLASSES, small_config, small_data, small_model

PLAN = InitialPlan(samples=40, interval=3, start_factor=1.5, tolerance=0.1, patience=2, max_passes=40)


def prune(plan=PLAN, per_weight=1e-3, **sections):
    model = small_model()
    names = prunable_names(model)
    trainer = Trainer(model, wire.Template.of(model, names), CLASSES, BATCH_SHAPE)
    masks = full_masks(model, names)
    order = Order(
        0, 0.1, b"", initial=plan, time_model=to_json(LinearTime(1.0, dict.fromkeys(names, per_weight)))
    )
    share = data.wrap(small_data(60, seed=1))
    reply = initial_pruning(order, 0, share, trainer, sparse.state_of(model), masks, small_config(**sections))
    return reply, wire.unpack(reply.model, trainer.template)[1]


def test_reconfiguration_waits_until_the_model_beats_chance():
    watch = Watch().after_pass(1.5 / CLASSES, CLASSES, PLAN)
    assert not watch.due(PLAN)
    watch = watch.after_pass(1.5 / CLASSES + 0.01, CLASSES, PLAN)
    assert watch.due(PLAN)


def test_after_the_first_it_comes_every_interval():
    watch = Watch().after_pass(1.0, CLASSES, PLAN).after_reconfiguration(1.0, 0.5, PLAN)
    due = []
    for _ in range(3):
        watch = watch.after_pass(0.0, CLASSES, PLAN)
        due.append(watch.due(PLAN))
    assert due == [False, False, True]


def test_only_consecutive_stable_reconfigurations_count():
    watch = Watch()
    for before, after, stable in [(1.0, 0.95, 1), (0.95, 0.5, 0), (0.5, 0.46, 1), (0.46, 0.46, 2)]:
        watch = watch.after_reconfiguration(before, after, PLAN)
        assert watch.stable == stable


def test_the_model_shrinks_and_every_step_is_accounted_for():
    reply, masks = prune()
    assert density(masks) < 0.9
    assert all(segment.steps == 2 * segment.passes for segment in reply.segments)
    assert sum(segment.passes for segment in reply.segments) <= PLAN.max_passes


@pytest.mark.parametrize(
    ("window", "collecting"), [(1, [2, 5, 7]), (2, [1, 2, 4, 5, 6, 7]), ("all", range(8))]
)
def test_importance_is_collected_in_the_last_passes_before_each_reconfiguration(window, collecting):
    """Every third pass reconfigures, and so does the last of eight; before the start any pass may be the one."""
    plan = InitialPlan(40, 3, 1.5, 0.0, 99, 8)
    watch, found = Watch(), []
    assert watch.collects(0, plan, window)
    watch = Watch(started=True)
    for done in range(8):
        found += [done] if watch.collects(done, plan, window) else []
        watch = watch.after_pass(1.0, CLASSES, plan)
        watch = watch.after_reconfiguration(1.0, 1.0, plan) if watch.due(plan) else watch
    assert found == list(collecting)


def test_steps_that_collect_are_told_apart():
    plan = InitialPlan(40, 3, 0.0, 0.0, 99, 7)
    narrow, wide = (prune(plan, importance={"window": window})[0].segments for window in (1, "all"))
    assert [segment.steps for segment in narrow] == [2, 6, 6]
    assert [segment.full_steps for segment in narrow] == [2, 2, 2]
    assert all(segment.full_steps == segment.steps for segment in wide)


def test_it_ends_at_the_maximum_number_of_passes():
    plan = InitialPlan(40, 3, 1.5, 0.0, 99, 8)
    reply, _ = prune(plan)
    assert sum(segment.passes for segment in reply.segments) == 8


@pytest.mark.parametrize("limit", [0.3, 0.05])
def test_it_obeys_the_density_limit(limit):
    _, masks = prune(per_weight=0.0, pruning={"density_limit": limit})
    assert density(masks) <= limit


def test_the_batches_are_fixed():
    share, config = data.wrap(small_data(60, seed=1)), small_config()
    first, again = (fixed_batches(share, PLAN, config, 0) for _ in range(2))
    assert [len(labels) for _, labels in first] == [20, 20]
    assert all(torch.equal(a[0], b[0]) for a, b in zip(first, again, strict=True))


def test_no_batch_is_a_single_sample():
    share, config = data.wrap(small_data(60, seed=1)), small_config()
    batches = fixed_batches(share, replace(PLAN, samples=41), config, 0)
    assert [len(labels) for _, labels in batches] == [20, 21]


def test_time_models_cross_the_wire_unchanged():
    linear = LinearTime(1.5, {"a": 0.25, "b": 0.1})
    kinked = KinkedTime(0.5, {"a": ((0.0, 0.1), (2.0, 0.01)), "b": ((0.0, 0.1),)})
    for model in (linear, kinked, FleetTime((linear, kinked))):
        assert from_json(to_json(model)) == model
