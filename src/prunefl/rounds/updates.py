"""From replies to one update: check each, refuse what is wrong, average the rest."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from prunefl import wire
from prunefl.config import Config
from prunefl.core.masks import DenseView, Masks, digest
from prunefl.rounds import aggregate
from prunefl.rounds.messages import Order, Reply, State

NO_REPLY = "no reply"
MOST_STEPS = 10**9
"""In one segment of initial pruning; nobody waits for more."""


class RoundFailed(ValueError):
    """Too few good replies to finish a round; `refused` says of every client that sent a bad one why."""

    def __init__(self, text: str, refused: Mapping[int, str]) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True)
class Collected:
    """One update made of many.

    Attributes:
        values: the averaged model, live values under `masks`.
        masks: the server's own, or the union where clients answered with masks of their own.
        statistic: p_n-weighted mean of what the clients reported, or None.
        loss: p_n-weighted mean of the training losses.
        replies: the good ones, in the clients' order, their models taken out.
        sent: client -> bytes of each message that came, refused ones too.
        refused: client -> why its reply was left out.
    """

    values: State
    masks: Masks
    statistic: State | None
    loss: float
    replies: Sequence[Reply]
    sent: Mapping[int, tuple[int, ...]]
    refused: Mapping[int, str]


@dataclass(frozen=True)
class _Good:
    reply: Reply
    values: State
    masks: Masks


def collect(
    config: Config,
    template: wire.Template,
    start: State,
    masks: Masks,
    orders: Mapping[int, Order],
    replies: Iterable[Reply],
) -> Collected:
    """Return the aggregate of the good replies: in the clients' order, whoever came first."""
    good, refused, sent = [], {}, {}
    for reply in replies:
        sent[reply.client] = tuple(len(part) for part in (reply.model, reply.statistic) if part)
        try:
            good.append(_checked(reply, orders, template, start, masks, config))
        except ValueError as error:
            refused[reply.client] = str(error)
    good.sort(key=lambda item: item.reply.client)
    refused |= {client: NO_REPLY for client in orders if client not in sent}
    _need_quorum(config, orders, good, refused)
    weights = aggregate.shares([item.reply.num_samples for item in good], config.training.weighting)
    values, union = _combined(good, weights, masks, config)
    return Collected(
        values,
        union,
        _statistic(good, weights, orders, template),
        sum(weight * item.reply.loss for weight, item in zip(weights, good, strict=True)),
        [replace(item.reply, statistic=b"") for item in good],
        sent,
        refused,
    )


def _checked(
    reply: Reply,
    orders: Mapping[int, Order],
    template: wire.Template,
    start: State,
    masks: Masks,
    config: Config,
) -> _Good:
    """Return the reply unpacked, or say what is wrong with it."""
    order = orders.get(reply.client)
    if order is None or reply.round != order.round:
        raise ValueError(f"reply for round {reply.round}, which this client was not asked for")
    if not math.isfinite(reply.loss):
        raise ValueError(f"loss turned {reply.loss}")
    if reply.num_samples < 1:
        raise ValueError(f"num_samples={reply.num_samples}, must be >= 1")
    values, own = wire.unpack(reply.model, template, {digest(masks): masks})
    free = order.initial is not None or order.ask.swap or order.ask.dense_update
    if own is not masks and not free and digest(own) != digest(masks):
        raise ValueError("update for other masks than the server's")
    if bool(reply.statistic) != bool(order.ask.report):
        raise ValueError(f"statistic {order.ask.report or 'none'!r} was asked for")
    if reply.statistic:
        # unpacked for good one by one, when all are known to be good: together they could fill the memory
        _statistic_of(reply, order, template)
    _check_segments(reply, order, masks)
    if config.server.clip_norm and not free:
        values = aggregate.clip_change(values, start, config.server.clip_norm)
    # A round of full models is heavy: the bytes go as soon as they are unpacked.
    return _Good(replace(reply, model=b""), values, own)


def _check_segments(reply: Reply, order: Order, masks: Masks) -> None:
    """Refuse an account of initial pruning that was not asked for, or that cannot be true."""
    if bool(reply.segments) != (order.initial is not None):
        raise ValueError(f"{len(reply.segments)} segments of initial pruning")
    sizes = {name: mask.numel() for name, mask in masks.items()}
    for segment in reply.segments:
        known = segment.live.keys() == sizes.keys()
        if not known or any(not 0 <= segment.live[name] <= size for name, size in sizes.items()):
            raise ValueError("a segment's live weights are not those of the model")
        if not 0 <= segment.full_steps <= segment.steps <= MOST_STEPS or segment.passes < 0:
            raise ValueError(f"a segment of {segment.passes} passes and {segment.steps} steps")


def _need_quorum(
    config: Config, orders: Mapping[int, Order], good: Sequence[_Good], refused: Mapping[int, str]
) -> None:
    need = max(1, math.ceil(config.server.quorum * len(orders)))
    if len(good) < need:
        first = min(refused)
        round = next(iter(orders.values())).round
        raise RoundFailed(
            f"round {round}: {len(good)} of {len(orders)} updates were good, {need} are needed "
            f"(server.quorum={config.server.quorum}); client {first}: {refused[first]}",
            {client: why for client, why in refused.items() if why != NO_REPLY},
        )


def _combined(
    good: Sequence[_Good], weights: Sequence[float], masks: Masks, config: Config
) -> tuple[State, Masks]:
    """Return the combined live values and the masks they live under."""
    if all(item.masks is masks or digest(item.masks) == digest(masks) for item in good):
        combine = {
            "mean": aggregate.weighted_mean,
            "median": aggregate.median,
            "trimmed_mean": aggregate.trimmed_mean(config.server.trim),
        }[config.server.aggregate]
        return aggregate.combine_states([item.values for item in good], weights, combine), masks
    dense = [DenseView(item.values, item.masks) for item in good]
    mean = aggregate.mean_over_holders(dense, [item.masks for item in good], weights)
    union = {name: torch.stack([item.masks[name] for item in good]).any(0) for name in masks}
    return {name: value[union[name]] if name in union else value for name, value in mean.items()}, union


def _statistic(
    good: Sequence[_Good], weights: Sequence[float], orders: Mapping[int, Order], template: wire.Template
) -> State | None:
    """Return the p_n-weighted mean of the reported statistics, one client after another to save memory."""
    total: dict[str, Tensor] = {}
    for item, weight in zip(good, weights, strict=True):
        if item.reply.statistic:
            found = _statistic_of(item.reply, orders[item.reply.client], template)
            for name, value in found.items():
                total[name] = total[name].add_(value, alpha=weight) if name in total else value * weight
    return total or None


def _statistic_of(reply: Reply, order: Order, template: wire.Template) -> State:
    return wire.unpack_importance(reply.statistic, template, signed=order.ask.report == "gradient")
