"""A plain control: the smallest weights go, as often and as many at a time as PruneFL may prune, down to a density."""

from prunefl.core import schedule
from prunefl.core.select import keep_largest, magnitudes, target_count
from prunefl.methods.base import Chosen, Method, Seen


class Magnitude(Method):
    """Whatever PruneFL gains over this, it gains by importance, time and weights that come back."""

    name = "magnitude"
    label = "Magnitude pruning"
    colours, dash, place = ("#9c4f7a", "#d690b8"), "3 2 8 2", 16
    needs_density = True

    def next(self, seen: Seen) -> Chosen:
        masks, goal = seen.state.masks, target_count(self.config.pruning.density, seen.state.masks.size)
        live = sum(masks.counts.values())
        if live <= goal or not schedule.reconfigures(seen.round, self.config):
            return Chosen(masks, seen.memory)
        stays = max(goal, live - int(schedule.fraction(seen.round, self.config) * live))
        return Chosen(keep_largest(masks, magnitudes(seen.state.values, masks), stays), seen.memory)
