"""A lottery ticket: the final masks of another run, trained from the first weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from prunefl.core.masks import Masks, full_masks
from prunefl.methods import Pruner
from prunefl.methods.survivors import Fixed

if TYPE_CHECKING:
    from prunefl.config import Config


def final_masks(run: Path, model: nn.Module, names: Sequence[str]) -> Masks:
    """Return the masks that a run ended with, for a model like the one it trained."""
    path = run / "model.safetensors"
    if not path.is_file():
        raise ValueError(f"pruning.masks={str(run)!r}, must be the folder of a finished run: no {path.name}")
    try:
        with safe_open(path, framework="numpy") as file:
            stored = {name: file.get_tensor(f"mask:{name}") for name in names}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"pruning.masks={str(run)!r}, holds no masks of this model: {error}") from error
    return {name: _unpacked(run, stored[name], full) for name, full in full_masks(model, names).items()}


def _unpacked(run: Path, packed: np.ndarray, full: Tensor) -> Tensor:
    if packed.dtype != np.uint8 or packed.size != -(-full.numel() // 8):
        raise ValueError(f"pruning.masks={str(run)!r}, holds masks of a model with other layer sizes")
    bits = np.unpackbits(packed, count=full.numel(), bitorder="little")
    return torch.from_numpy(bits.astype(bool)).reshape(full.shape)


def ticket(config: "Config") -> Pruner:
    """Return training on the final masks of the run folder `pruning.masks`."""
    if not config.pruning.masks:
        raise ValueError("pruning.masks='', must be the folder of a finished run for run.method='ticket'")
    run = Path(config.pruning.masks)
    return Fixed(lambda model, names, shape: final_masks(run, model, names))
