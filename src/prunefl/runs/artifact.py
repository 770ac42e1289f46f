"""The final model on disk: live values and mask bits in one safetensors file that needs no run folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from prunefl.core.masks import Masks
from prunefl.runs.checkpoint import bits_of, mask_of
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

MASK = "mask:"


@dataclass(frozen=True)
class About:
    """What one has to know to use the tensors: which network, for which samples."""

    model: str
    classes: int
    input_shape: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]


def save_model(path: Path, values: Mapping[str, Tensor], masks: Masks, about: About) -> None:
    """Write live values and masks."""
    tensors = {name: value.contiguous() for name, value in values.items()}
    tensors |= {MASK + name: bits_of(mask) for name, mask in masks.items()}
    write_atomically(path, safetensors.torch.save(tensors, {"prunefl": json.dumps(asdict(about))}))


def load_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], About]:
    """Return live values, masks and what they are of."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        fields = json.loads(metadata["prunefl"])
        shapes = {name: tuple(shape) for name, shape in fields["shapes"].items()}
        about = About(fields["model"], fields["classes"], tuple(fields["input_shape"]), shapes)
        masks = {name: mask_of(tensors.pop(MASK + name), shape) for name, shape in shapes.items()}
        return tensors, masks, about
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise PruneFLError(f"{path}: not a model that prunefl wrote: {error}") from None
