"""From a run's final model to a network that holds only its live weights, ready for inference."""

from math import prod
from pathlib import Path

import torch
from torch import nn

from prunefl import models
from prunefl.config.networks import SHORT
from prunefl.local import torch_backend as sparse
from prunefl.system.errors import PruneFLError
from prunefl.wire.model_file import About, load_model

FILE = "model.safetensors"
MAX_CLASSES = 1_000_000
MAX_INPUTS = 100_000_000


def load(path: str | Path, model: nn.Module | None = None, *, choose: str = "auto") -> nn.Module:
    """Return the sparse network, in eval mode.

    Args:
        path: a run's folder, or its model.safetensors.
        model: the untrained network, where it was the user's own; a file must not name code to run.
        choose: how pruned layers compute: "sparse", "dense", or "auto", whichever is faster here.
    """
    file = model_file(path)
    state, about = load_model(file)
    network = model if model is not None else _built(file, about)
    try:
        pruned = sparse.sparsify(network, state.masks, choose=choose)
        sparse.load_state(pruned, {name: torch.tensor(state.dense(name)) for name in state.values})
    except (ValueError, KeyError, RuntimeError) as error:
        raise PruneFLError(f"{file}: does not fit the model {about.model!r}: {error}") from error
    return pruned.eval()


def model_file(path: str | Path) -> Path:
    """Return the file of the final model, which must exist."""
    given = Path(path)
    file = given / FILE if given.is_dir() else given
    if not file.is_file():
        why = "the run is not finished (prunefl run --resume)" if given.is_dir() else "no such file"
        raise PruneFLError(f"{given}: no {FILE}: {why}")
    return file


def _built(file: Path, about: About) -> nn.Module:
    """Return one of our own networks for the file's samples."""
    if SHORT.get(about.model, about.model) not in models.BUILDERS:
        raise PruneFLError(f"{file}: is of the own model {about.model!r}: give that network too, as `model`")
    if not (1 <= about.classes <= MAX_CLASSES and 1 <= prod(about.input_shape) <= MAX_INPUTS):
        raise PruneFLError(
            f"{file}: {about.classes} classes, samples of {about.input_shape}: not a sound file"
        )
    return models.build(about.model, classes=about.classes, input_shape=about.input_shape, seed=0)
