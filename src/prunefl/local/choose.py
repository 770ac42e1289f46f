"""Which backend trains a network: by plan where that can be and is faster, through torch else."""

from collections.abc import MutableMapping
from dataclasses import dataclass, replace

import numpy as np

from prunefl.config import Config
from prunefl.core.network import Network
from prunefl.core.objectives import loss_of
from prunefl.local.backend import Backend
from prunefl.local.native import Plan, PlanError
from prunefl.local.native.backend import LOSSES, NativeBackend
from prunefl.local.native.operations import Conv
from prunefl.system.errors import PruneFLError

WIDE = 64
"""Channels of each group that a convolution reads."""


@dataclass(frozen=True)
class Choice:
    """What trains a run.

    Attributes:
        network: with its plan where it trains by one.
        config: whose `run.backend` is "torch" or "native": what a run's folder keeps.
        why: why it is torch, where that was left open; else "".
    """

    network: Network
    config: Config
    why: str = ""

    @property
    def spoken(self) -> str:
        """Which backend it is, in words."""
        return f"{self.config.run.backend} backend" + (f": {self.why}" if self.why else "")


def choose_backend(network: Network, config: Config, prunes: bool) -> Choice:
    """Return what trains this network: what `run.backend` says, or native where that can be and is faster.

    The choice depends on the network and the settings alone, not on the machine: it decides bits.

    Args:
        prunes: whether the network gets smaller in this run.
    """
    wanted = config.run.backend
    if wanted == "torch":
        return Choice(replace(network, plan=None), config)
    try:
        plan = _compile(network, config)
        if wanted == "auto" and not prunes:
            _refuse_wide_convolutions(plan)
    except PlanError as error:
        if wanted == "native":
            raise PruneFLError(f"run.backend='native': {error}") from error
        return Choice(replace(network, plan=None), _saying(config, "torch"), str(error))
    return Choice(replace(network, plan=plan), _saying(config, "native"))


def _saying(config: Config, backend: str) -> Config:
    return replace(config, run=replace(config.run, backend=backend))


def _compile(network: Network, config: Config) -> Plan:
    if config.run.device != "cpu":
        raise PlanError(f"a plan is computed by the CPU, but run.device={config.run.device!r}")
    if loss_of(config) not in LOSSES:
        raise PlanError(f"a plan trains by {' or '.join(loss.name for loss in LOSSES)}, judged by accuracy")
    if network.plan is not None:
        return network.plan  # type: ignore[no-any-return]
    example = network.example
    tokens = isinstance(example, np.ndarray) and example.dtype.kind == "i"
    if example is not None and not tokens:
        raise PlanError("a plan takes one array of floats or of tokens a sample, this network several parts")
    # torch is loaded where somebody brings a module, and nowhere else
    from prunefl.local.torch_backend.compile import compile_plan

    return compile_plan(network.module, network.template, network.input_shape, tokens)


def _refuse_wide_convolutions(plan: Plan) -> None:
    """Leave to torch what it computes faster: whole networks of wide convolutions (docs/kernels.md)."""
    for node in plan.nodes:
        if isinstance(node.operation, Conv):
            _, channels, *kernel = plan.template.shape_of[node.operation.weight]
            if channels >= WIDE and kernel != [1, 1]:
                raise PlanError(
                    f"the network stays whole, and torch is faster at convolutions of {WIDE} channels and more"
                )


def make_backend(network: Network, config: Config, measured: MutableMapping[str, float]) -> Backend:
    """Return what trains this network here.

    Args:
        measured: break-even densities that torch's backend goes by; what has to be measured is added.
    """
    if network.plan is not None:
        return NativeBackend(network.plan, config.training.loss, config.run.threads, config.optimiser)
    from prunefl.local.torch_backend.backend import TorchBackend
    from prunefl.local.torch_backend.device import find_device

    batch_shape = (config.training.batch_size, *network.input_shape)
    return TorchBackend(
        network.module,
        network.template,
        loss_of(config),
        batch_shape,
        measured,
        config.optimiser,
        network.example,
        find_device(config.run.device),
    )
