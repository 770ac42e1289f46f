"""What methods share whose clients answer under masks of their own.

Clients say where to grow without sending a whole gradient: they mark the few steepest pruned places, beside the model.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prunefl.core import average
from prunefl.core.masks import Counts, Masks
from prunefl.core.select import Scores, keep_largest_by_layer, largest, magnitudes
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.methods.base import Received


def count_share(masks: Masks, share: float) -> dict[str, int]:
    """Return this share of each layer's live weights, in whole numbers."""
    return {name: int(share * count) for name, count in masks.counts.items()}


def mark_steepest(state: SparseState, gradient: Arrays, counts: Counts) -> SparseState:
    """Return the state with so many pruned places of each layer added, those of largest |g|, which hold g.

    Args:
        gradient: of the layers in `counts`, in their own shapes.
    """
    masks, values = dict(state.masks.items()), dict(state.values)
    for name, count in counts.items():
        live = state.masks[name].reshape(-1)
        steep = np.abs(gradient[name]).reshape(-1)[~live]
        marked = live.copy()
        marked[~live] = largest(steep, min(count, int(np.count_nonzero(steep))))
        masks[name] = marked.reshape(state.masks[name].shape)
        whole: Array = np.where(state.masks[name], state.dense(name), gradient[name])
        values[name] = whole.reshape(-1)[marked]
    return SparseState(values, Masks(masks))


def mean_under(masks: Masks, updates: Sequence[Received]) -> SparseState:
    """Return the p_n-weighted mean of what lives under the server's masks; what clients marked is left out."""
    states = [update.state.remask(masks) for update in updates]
    return average.combine_states(states, [update.share for update in updates], average.weighted_mean)


def mean_under_union(updates: Sequence[Received]) -> SparseState:
    """Return the p_n-weighted mean of the weights, zero where a client has pruned, under the union of all masks."""
    own = [update.state.masks for update in updates]
    union = Masks({name: np.logical_or.reduce([masks[name] for masks in own]) for name in own[0]})
    return mean_under(union, updates)


def mean_marked(masks: Masks, updates: Sequence[Received]) -> dict[str, Array]:
    """Return the p_n-weighted mean of the gradients marked, by layer; zero at live places and where nobody marked."""
    total = {name: np.zeros(shape, np.float32) for name, shape in masks.shapes.items()}
    for update in updates:
        for name, mask in masks.items():
            if update.state.masks.counts[name] > masks.counts[name]:
                total[name] += np.float32(update.share) * np.where(mask, 0, update.state.dense(name))
    return total


def trade(state: SparseState, growth: Mapping[str, Scores], counts: Counts) -> Masks:
    """Return masks in which so many of each layer's smallest |w| made room for the places with the best growth.

    Places without any growth are not taken: then fewer are traded, and the layer's count stays.
    """
    room = {
        name: min(counts.get(name, 0), int(np.count_nonzero(growth[name].reshape(-1)[~mask.reshape(-1)])))
        for name, mask in state.masks.items()
    }
    stays = {name: count - room[name] for name, count in state.masks.counts.items()}
    kept = keep_largest_by_layer(state.masks, magnitudes(state.values, state.masks), stays)
    grown = {}
    for name, mask in kept.items():
        before, flat = state.masks[name].reshape(-1), mask.reshape(-1).copy()
        flat[~before] = largest(growth[name].reshape(-1)[~before], room[name])
        grown[name] = flat.reshape(mask.shape)
    return Masks(grown)
