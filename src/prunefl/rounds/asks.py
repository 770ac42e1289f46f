"""What a pruner may ask of a client beside training. Only other methods than PruneFL need these."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from prunefl import wire
from prunefl.core import importance
from prunefl.core.masks import DenseView, Masks
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.losses import Loss
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.messages import Ask, Order, Reply, State

Batches = Sequence[tuple[Tensor, Tensor]]


def before_training(
    reply: Reply, ask: Ask, trainer: Trainer, values: State, masks: Masks, batches: Batches, criterion: Loss
) -> Reply:
    """Return the reply with what is asked about the received model: its gradient, its loss when pruned."""
    if ask.report == "gradient":
        gradient = gradient_at(trainer.load(values, masks), batches, criterion, trainer.parameter_shapes)
        reply = replace(reply, statistic=wire.pack_importance(gradient, precision="float32"))
    if ask.probe_density:
        # the smaller model is this one with more zeros in it
        probe = {**values, **magnitude_pruned(values, masks, ask.probe_density)}
        reply = replace(
            reply,
            start_loss=_loss(trainer.load(values, masks), batches, criterion),
            probe_loss=_loss(trainer.load(probe, masks), batches, criterion),
        )
    return reply


def own_model(
    ask: Ask, trainer: Trainer, values: State, masks: Masks, batches: Batches, criterion: Loss
) -> tuple[State, Masks]:
    """Return the state and masks to train: those received, or with weights exchanged where that is asked.

    It happens before training, so that a new weight has a value when the server chooses by magnitude.
    """
    if not ask.swap:
        return values, masks
    shapes = {name: mask.shape for name, mask in masks.items()}
    gradient = gradient_at(trainer.load(values, masks), batches[:1], criterion, shapes)
    return exchanged(values, masks, gradient, ask.swap)


def gradient_at(
    model: nn.Module, batches: Batches, criterion: Loss, shapes: Mapping[str, torch.Size]
) -> State:
    """Return the mean gradient over the batches at the model's weights, at all positions."""
    sums = importance.empty_sums(shapes)
    model.train()
    with sparse.collect_gradients(model, sums, mode="plain"):
        for inputs, labels in batches:
            model.zero_grad()
            criterion(model(inputs), labels).backward()
    return importance.mean(sums, len(batches))


def magnitude_pruned(values: State, masks: Masks, density: float) -> State:
    """Return each layer's live values with only the largest |w| left, `density` of all its weights."""
    pruned = {}
    for name, mask in masks.items():
        size = values[name].abs()
        dropped = size.numel() - max(1, round(density * mask.numel()))
        if dropped > 0:
            # numpy: topk of as many takes torch eight times as long
            border = float(np.partition(size.numpy(), dropped)[dropped])
            pruned[name] = torch.where(size >= border, values[name], 0.0)
        else:
            pruned[name] = values[name]
    return pruned


def _loss(model: nn.Module, batches: Batches, criterion: Loss) -> float:
    model.eval()
    with torch.no_grad():
        return float(torch.stack([criterion(model(inputs), labels) for inputs, labels in batches]).mean())


def mode(ask: Ask) -> str:
    """Return how full gradients are summed: squared for importance, plain for a dense update."""
    return "square" if ask.collect else "plain"


def empty_gradients(ask: Ask, masks: Masks) -> State | None:
    """Return where to sum the gradient at all positions, or None where nobody asked."""
    if not ask.dense_update:
        return None
    return importance.empty_sums({name: mask.shape for name, mask in masks.items()})


def after_training(order: Order, model: nn.Module, masks: Masks, gradients: State) -> tuple[State, Masks]:
    """Return the trained values and the masks they live under, filled up where that is asked."""
    trained = sparse.state_of(model)
    if not order.ask.dense_update:
        return trained, masks
    weights = DenseView(trained, masks)
    full = {n: torch.where(masks[n], weights[n], -order.learning_rate * gradients[n]) for n in masks}
    return {**trained, **full}, {name: torch.ones_like(mask) for name, mask in masks.items()}


def exchanged(values: State, masks: Masks, gradient: State, share: float) -> tuple[State, Masks]:
    """Return the state with each layer's smallest live |w| exchanged for the largest pruned |g| (RigL)."""
    new_masks = {}
    state = dict(values)
    for name, mask in masks.items():
        weight = DenseView(values, masks)[name].flatten()
        live = mask.flatten()
        count = min(int(share * int(live.sum())), int((~live).sum()))
        dropped = weight.abs().masked_fill(~live, torch.inf).topk(count, largest=False).indices
        grown = gradient[name].abs().flatten().masked_fill(live, -1.0).topk(count).indices
        new = live.clone()
        new[dropped] = False
        new[grown] = True
        new_masks[name] = new.view(mask.shape)
        state[name] = torch.where(live & new, weight, 0.0)[new]
    return state, new_masks


def group_lasso(model: nn.Module, ask: Ask, masks: Masks) -> Tensor | float:
    """Return the penalty of PruneTrain over the prunable layers that have lost no channel yet."""
    if not ask.group_lasso:
        return 0.0
    layers = (model.get_submodule(name.removesuffix(".weight")) for name in masks)
    whole = [layer.weight for layer in layers if isinstance(layer, nn.Linear | nn.Conv2d)]
    return ask.group_lasso * sum(map(channel_norms, whole))


def channel_norms(weight: Tensor) -> Tensor:
    """Return the sum of the Euclidean norms of a layer's output channels and of its input channels."""
    squares = weight.square().reshape(*weight.shape[:2], -1).sum(2)
    # the norm has no gradient at 0: a channel that is gone must not turn the others into NaN
    norms = [squares.sum(side).clamp_min(1e-24).sqrt().sum() for side in (0, 1)]
    return norms[0] + norms[1]
