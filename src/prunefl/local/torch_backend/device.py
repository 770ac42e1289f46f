"""Where torch computes: the CPU, on our kernels, or another device, where pruned layers are dense under their mask."""

from typing import Any

import torch
from torch import Tensor

from prunefl.local.torch_backend.inputs import TorchInputs
from prunefl.system.errors import PruneFLError

CPU = torch.device("cpu")


def find_device(name: str) -> torch.device:
    """Return the device that run.device names; refuse one that torch does not have here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    # a build of torch without CUDA asserts, a missing driver is a RuntimeError, "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).strip().splitlines()[0]
        raise PruneFLError(f"run.device={name!r}, torch cannot compute on it here: {why}") from error
    return device


def has_kernels(device: torch.device) -> bool:
    """Return whether our kernels compute there."""
    return device.type == "cpu"


def moved(inputs: TorchInputs, device: torch.device) -> TorchInputs:
    """Return what a network is called with, on the device."""
    if isinstance(inputs, dict):
        return {name: part.to(device) for name, part in inputs.items()}
    return tuple(part.to(device) for part in inputs) if isinstance(inputs, tuple) else inputs.to(device)


def as_array(tensor: Tensor) -> Any:
    """Return a tensor of any device as an array, memory shared where it can be."""
    return tensor.detach().cpu().numpy()
