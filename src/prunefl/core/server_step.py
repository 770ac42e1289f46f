"""The server's own step: the clients' mean change as a gradient (Hsu et al. 2019; Reddi et al. 2021)."""

from collections.abc import Callable, Mapping

import numpy as np

from prunefl.config.optimiser import ServerOptimiserSettings
from prunefl.core.moments import Moments
from prunefl.core.network import Template
from prunefl.core.state import Array, SparseState

Step = Callable[[ServerOptimiserSettings, Array, dict[str, Array]], Array]
"""Settings, mean change and moments of one parameter -> its step; the moments are replaced."""


def take_step(
    settings: ServerOptimiserSettings,
    template: Template,
    start: SparseState,
    mean: SparseState,
    moments: Moments,
) -> tuple[SparseState, Moments]:
    """Return the server's weights after a round, and what its optimiser remembers; both under the masks of `mean`.

    What is not trained, such as BatchNorm's statistics, is the clients' mean.

    Args:
        start: what the clients were sent.
        mean: what the method's combine made of their updates.
    """
    if settings.name == "average":
        return mean, moments
    start, moments = start.remask(mean.masks), moments.remask(mean.masks)
    values, after = dict(mean.values), {slot: dict[str, Array]() for slot in settings.slots}
    for name in template.parameters:
        before = {slot: _moment(moments, slot, name, mean.values[name]) for slot in settings.slots}
        step = RULES[settings.name](settings, mean.values[name] - start.values[name], before)
        values[name] = start.values[name] + step
        for slot in settings.slots:
            after[slot][name] = before[slot]
    kept = {slot: SparseState(arrays, mean.masks) for slot, arrays in after.items()}
    return SparseState(values, mean.masks), Moments(moments.steps + 1, kept)


def _moment(moments: Moments, slot: str, name: str, like: Array) -> Array:
    return moments.slots[slot].values[name] if moments.slots else np.zeros_like(like)


def _fedavgm(settings: ServerOptimiserSettings, change: Array, moments: dict[str, Array]) -> Array:
    moments["momentum"] = np.float32(settings.momentum) * moments["momentum"] + change
    return np.float32(settings.rate) * moments["momentum"]


def _fedadam(settings: ServerOptimiserSettings, change: Array, moments: dict[str, Array]) -> Array:
    beta2, rest = np.float32(settings.beta2), np.float32(1 - settings.beta2)
    grown: Array = beta2 * moments["second"] + rest * change * change
    moments["second"] = grown
    return _adaptive(settings, change, moments)


def _fedyogi(settings: ServerOptimiserSettings, change: Array, moments: dict[str, Array]) -> Array:
    rest, square, second = np.float32(1 - settings.beta2), np.square(change), moments["second"]
    grown: Array = second - rest * square * np.sign(second - square).astype(np.float32)
    moments["second"] = grown
    return _adaptive(settings, change, moments)


def _adaptive(settings: ServerOptimiserSettings, change: Array, moments: dict[str, Array]) -> Array:
    """Return the step where the second moment is known already; without correction of the bias, as in the paper."""
    beta1 = np.float32(settings.momentum)
    moments["first"] = beta1 * moments["first"] + np.float32(1 - settings.momentum) * change
    scale = np.sqrt(moments["second"]) + np.float32(settings.tau)
    return np.float32(settings.rate) * moments["first"] / scale


RULES: Mapping[str, Step] = {"fedavgm": _fedavgm, "fedadam": _fedadam, "fedyogi": _fedyogi}
