"""Which backend trains a network: by plan where the network has one, through torch else."""

import logging
from collections.abc import MutableMapping
from dataclasses import replace

from prunefl.config import Config
from prunefl.config.optimiser import PLAIN_SGD
from prunefl.core.network import Network
from prunefl.core.objectives import loss_of
from prunefl.local.backend import Backend
from prunefl.local.native import Plan, PlanError
from prunefl.local.native.backend import LOSSES, NativeBackend
from prunefl.system.errors import PruneFLError

log = logging.getLogger(__name__)


def add_plan(network: Network, config: Config) -> Network:
    """Return the network with its plan, where `run.backend` wants one and the network can be compiled."""
    if config.run.backend == "torch" or network.plan is not None:
        return network
    try:
        return replace(network, plan=_compile(network, config))
    except PlanError as error:
        if config.run.backend == "native":
            raise PruneFLError(f"run.backend='native': {error}") from error
        log.info("torch trains this network: %s", error)
        return network


def _compile(network: Network, config: Config) -> Plan:
    if config.optimiser != PLAIN_SGD:
        raise PlanError("a plan trains by plain SGD, but [optimiser] says otherwise")
    if loss_of(config) not in LOSSES:
        raise PlanError(f"a plan trains by {' or '.join(loss.name for loss in LOSSES)}, judged by accuracy")
    if network.example is not None:
        raise PlanError("a plan takes one array of floats a sample, this network tokens or several parts")
    # torch is loaded where somebody brings a module, and nowhere else
    from prunefl.local.torch_backend.compile import compile_plan

    return compile_plan(network.module, network.template, network.input_shape)


def make_backend(network: Network, config: Config, measured: MutableMapping[str, float]) -> Backend:
    """Return what trains this network here.

    Args:
        measured: break-even densities that torch's backend goes by; what has to be measured is added.
    """
    if network.plan is not None:
        return NativeBackend(network.plan, config.training.loss, config.run.threads)
    from prunefl.local.torch_backend.backend import TorchBackend

    batch_shape = (config.training.batch_size, *network.input_shape)
    return TorchBackend(
        network.module,
        network.template,
        loss_of(config),
        batch_shape,
        measured,
        config.optimiser,
        network.example,
    )
