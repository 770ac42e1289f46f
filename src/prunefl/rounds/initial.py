"""Initial pruning: one client trains and reconfigures on its own samples before the first round (SPEC 8)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from prunefl import wire
from prunefl.config import Config
from prunefl.core import importance, schedule
from prunefl.core.masks import DenseView, Masks, density, live_counts, remask
from prunefl.core.randomness import stream
from prunefl.core.reconfigure import reconfigure
from prunefl.core.time_json import from_json
from prunefl.core.time_model import TimeModel
from prunefl.data import Samples
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.losses import LOSSES
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.messages import InitialPlan, Order, Reply, Segment, State

Batches = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Watch:
    """When to reconfigure and when to stop."""

    started: bool = False
    passes_since: int = 0
    stable: int = 0

    def after_pass(self, accuracy: float, classes: int, plan: InitialPlan) -> "Watch":
        """Return the watch one pass later; reconfiguration starts once the model beats chance clearly."""
        started = self.started or accuracy > plan.start_factor / classes
        first = started and not self.started
        return Watch(started, plan.interval if first else self.passes_since + 1, self.stable)

    def due(self, plan: InitialPlan) -> bool:
        return self.started and self.passes_since >= plan.interval

    def collects(self, done: int, plan: InitialPlan, window: int | str) -> bool:
        """Return whether the pass after `done` others collects importance; before the start any may have to."""
        until = min(plan.interval - self.passes_since, plan.max_passes - done)
        return window == "all" or not self.started or until <= int(window)

    def after_reconfiguration(self, before: float, after: float, plan: InitialPlan) -> "Watch":
        """Return the watch with one more stable reconfiguration, or none."""
        change = abs(after - before) / before if before else 0.0
        return Watch(True, 0, self.stable + 1 if change < plan.tolerance else 0)


def initial_pruning(
    order: Order, client: int, data: Samples, trainer: Trainer, values: State, masks: Masks, config: Config
) -> Reply:
    """Return the pruned model with its masks, and what each stretch of the way cost."""
    plan, time_model = order.initial, from_json(order.time_model)
    assert plan is not None
    batches = fixed_batches(data, plan, config, client)
    model = trainer.load(values, masks)
    received, watch, segments = masks, Watch(), []
    sums, passes, collected = importance.empty_sums(trainer.parameter_shapes), 0, 0
    for done in range(1, plan.max_passes + 1):
        collects = watch.collects(done - 1, plan, config.importance.window)
        accuracy, loss = one_pass(model, batches, order.learning_rate, sums if collects else None, config)
        passes, collected = passes + 1, collected + collects
        trainer.on_pass(done, plan.max_passes, density(masks))
        watch = watch.after_pass(accuracy, trainer.classes, plan)
        if watch.due(plan) or done == plan.max_passes:
            steps, full = passes * len(batches), collected * len(batches)
            segments.append(Segment(passes, steps, full, live_counts(masks), accuracy, loss))
            state, chosen = choose(model, sums, full, masks, time_model, config)
            watch = watch.after_reconfiguration(density(masks), density(chosen), plan)
            masks, model, passes, collected = chosen, trainer.load(state, chosen), 0, 0
            sums = importance.empty_sums(trainer.parameter_shapes)
            if watch.stable >= plan.patience:
                break
    packed = wire.pack(sparse.state_of(model), masks, known=received)
    return Reply(client, order.round, len(data), segments[-1].loss, packed, segments=tuple(segments))


def fixed_batches(data: Samples, plan: InitialPlan, config: Config, client: int) -> Batches:
    """Return the samples that initial pruning uses, in mini-batches that stay the same."""
    source = stream(config.run.seed, "initial", client)
    chosen, size = source.permutation(len(data), first=plan.samples), config.training.batch_size
    parts = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    if len(parts) > 1 and len(parts[-1]) == 1:
        # BatchNorm has nothing to say about a single sample
        parts[-2:] = [np.concatenate(parts[-2:])]
    batches = [data.batch(indices, source) for indices in parts]
    return [(torch.from_numpy(inputs), torch.from_numpy(labels)) for inputs, labels in batches]


def one_pass(
    model: nn.Module, batches: Batches, learning_rate: float, sums: State | None, config: Config
) -> tuple[float, float]:
    """Train once over the batches; with sums, compute full gradients and add g*g to them in place.

    Returns:
        The share of samples that were classified right on the way, and the mean loss.
    """
    criterion = LOSSES[config.training.loss]
    optimizer = sparse.SGD(model.parameters(), lr=learning_rate)
    right, total, loss_sum = 0, 0, 0.0
    model.train()
    with sparse.collect_gradients(model, sums, mode="square"):
        for inputs, labels in batches:
            optimizer.zero_grad()
            logits = model(inputs)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
            right += int((logits.detach().argmax(1) == labels).sum())
            total += len(labels)
            loss_sum += float(loss.detach())
    return right / total, loss_sum / len(batches)


def choose(
    model: nn.Module, sums: State, steps: int, masks: Masks, time_model: TimeModel, config: Config
) -> tuple[State, Masks]:
    """Return the live values and masks after one reconfiguration."""
    weights = DenseView(sparse.state_of(model), masks)
    mean = importance.mean(sums, steps)
    chosen = reconfigure(
        weights,
        mean,
        masks,
        time_model,
        fraction=schedule.fraction(0, config),
        scope=config.pruning.scope,
        fixed_gain=importance.fixed_gain(mean, masks),
        max_density=schedule.max_density(0, config),
    )
    return remask(weights, masks, chosen, *schedule.regrowth(config, 0)), chosen
