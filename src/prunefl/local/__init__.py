"""Training at a client: one protocol, and the backends that compute behind it."""

from collections.abc import MutableMapping

from prunefl.config import Config
from prunefl.core.network import Network
from prunefl.core.objectives import loss_of
from prunefl.local.backend import Backend, Batch, Penalty, Sums, Trained
from prunefl.local.local import Local, OnPass

__all__ = ["Backend", "Batch", "Local", "OnPass", "Penalty", "Sums", "Trained", "make_backend"]


def make_backend(network: Network, config: Config, measured: MutableMapping[str, float]) -> Backend:
    """Return what trains this network here.

    Args:
        measured: break-even densities that the run goes by; what has to be measured is added.
    """
    # torch is loaded where somebody trains, and nowhere else
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
