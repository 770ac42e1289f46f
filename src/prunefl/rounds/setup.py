"""From a config, a network and the clients' sizes to all that a run needs to know before its first round."""

from collections.abc import MutableMapping, Sequence
from dataclasses import replace

from prunefl import config as settings
from prunefl import devices
from prunefl.config import Config
from prunefl.core.network import Network
from prunefl.local.batches import with_steps
from prunefl.local.held_out import count_held_out
from prunefl.methods import build_method
from prunefl.rounds.answers import check_cohort, check_signatures
from prunefl.rounds.server import Setup


def prepare(
    network: Network,
    sizes: Sequence[int],
    config: Config,
    cut: str = "",
    measured: MutableMapping[str, float] | None = None,
) -> Setup:
    """Return the setup; what cannot be run is refused here, before anything is written.

    Args:
        sizes: how many samples each client has, those that it holds out included.
        measured: break-even densities to go by.
    """
    # the run keeps the config as it was given; only its devices need to know how many clients there are
    fleet = devices.fleet(settings.settled(config, len(sizes)), network)
    config = _within_memory(config, fleet)
    method = build_method(config)
    check_signatures(method)
    made: MutableMapping[str, float] = {} if measured is None else measured
    num_samples = [size - count_held_out(size, client, config) for client, size in enumerate(sizes)]
    # with epochs a round waits for whoever has most samples
    time_model = devices.round_time(fleet, with_steps(config, max(num_samples)))
    setup = Setup(config, network, method, num_samples, fleet, time_model, cut, made)
    check_cohort(method, method.cohort(method.first_round, setup.clients), len(num_samples))
    return setup


def _within_memory(config: Config, fleet: Sequence[devices.Device]) -> Config:
    """Return the config with time.memory_limit turned into a density limit that every device can hold."""
    limit = devices.memory_density(fleet, config.time.memory_limit) if config.time.memory_limit else None
    if limit is None:
        return config
    limit = min(limit, config.pruning.density_limit or 1.0)
    return replace(config, pruning=replace(config.pruning, density_limit=limit))
