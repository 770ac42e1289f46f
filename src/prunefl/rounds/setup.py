"""From a config, a network and the clients' sizes to all that a run needs to know before its first round."""

from collections.abc import MutableMapping, Sequence
from dataclasses import replace

from prunefl import config as settings
from prunefl import devices
from prunefl.config import Config
from prunefl.core.network import Network
from prunefl.core.time_model import TimeModel
from prunefl.local.batches import with_steps
from prunefl.local.held_out import count_held_out
from prunefl.methods import build_method
from prunefl.privacy.errors import require_packages
from prunefl.rounds.answers import check_cohort, check_signatures
from prunefl.rounds.noised_vectors import refuse_small_noise
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
    members = config.server.clients or range(len(sizes))
    taking_part = [fleet[client] for client in members]
    config = _within_memory(config, taking_part)
    method = build_method(config)
    check_signatures(method)
    made: MutableMapping[str, float] = {} if measured is None else measured
    held_out = {client: count_held_out(sizes[client], client, config) for client in members}
    num_samples = [size - held_out.get(client, 0) for client, size in enumerate(sizes)]
    time_model = _round_time(config, fleet, members, num_samples)
    setup = Setup(config, network, method, num_samples, fleet, time_model, cut, made)
    if config.privacy.secure:
        require_packages()
        refuse_small_noise(config, config.training.participants or len(members))
    check_cohort(method, method.cohort(method.first_round, setup.clients), members)
    return setup


def with_sizes(setup: Setup, num_samples: Sequence[int]) -> Setup:
    """Return the setup with D_n as clients report it."""
    time_model = _round_time(setup.config, setup.devices, setup.members, num_samples)
    return replace(setup, num_samples=num_samples, time_model=time_model)


def _round_time(
    config: Config, fleet: Sequence[devices.Device], members: Sequence[int], num_samples: Sequence[int]
) -> TimeModel:
    """Return T of those that take part; with epochs a round waits for whoever has most samples."""
    most = max(num_samples[client] for client in members)
    return devices.round_time([fleet[client] for client in members], with_steps(config, most))


def _within_memory(config: Config, fleet: Sequence[devices.Device]) -> Config:
    """Return the config with time.memory_limit turned into a density limit that every device can hold."""
    limit = devices.memory_density(fleet, config.time.memory_limit) if config.time.memory_limit else None
    if limit is None:
        return config
    limit = min(limit, config.pruning.density_limit or 1.0)
    return replace(config, pruning=replace(config.pruning, density_limit=limit))
