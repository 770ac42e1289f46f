"""A sparse model's state as clients and servers exchange it: live values in row-major order."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunefl.local.torch_backend.convert import pruned_layers
from prunefl.system.errors import PruneFLError


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of all parameters and float buffers by name, in the model's order.

    A pruned layer's weight comes as its live values in row-major order, shape (live,).
    """
    layers = pruned_layers(model)
    return {
        name: layers[name].live_values() if name in layers else tensor.detach().clone()
        for name, tensor in _tensors(model).items()
    }


def load_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Take over all parameters and float buffers, in place.

    Args:
        state: name -> tensor of the dense shape; a pruned layer's weight may be its live values instead.
    """
    layers, tensors = pruned_layers(model), _tensors(model)
    if state.keys() != tensors.keys():
        wrong = sorted(state.keys() ^ tensors.keys())
        raise PruneFLError(f"state has other names than the model: {', '.join(wrong[:3])}")
    with torch.no_grad():
        for name, target in tensors.items():
            if name in layers:
                layers[name].load_values(state[name])
            elif state[name].shape != target.shape:
                shapes = f"{tuple(state[name].shape)}, must be {tuple(target.shape)}"
                raise PruneFLError(f"state[{name!r}] has shape {shapes}")
            else:
                target.copy_(state[name])


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's own parameters and float buffers; counters are not exchanged, nor what torch does not save."""
    unsaved = {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in module._non_persistent_buffers_set
    }
    buffers = {
        name: buffer
        for name, buffer in model.named_buffers()
        if buffer.is_floating_point() and name not in unsaved
    }
    return {**dict(model.named_parameters()), **buffers}
