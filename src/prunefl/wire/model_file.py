"""The final model on disk: live values and mask bits in one safetensors file that needs no run folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError, safe_open

from prunefl.core.masks import Masks, unpack_mask
from prunefl.core.state import SparseState
from prunefl.system.errors import PruneFLError
from prunefl.system.files import NOT_UNDERSTOOD, write_atomically

MASK = "mask:"


@dataclass(frozen=True)
class About:
    """What one has to know to use the arrays: which network, for which samples."""

    model: str
    classes: int
    input_shape: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]


def save_model(path: Path, state: SparseState, about: About) -> None:
    """Write live values and masks."""
    arrays: dict[str, Any] = {
        **state.values,
        **{MASK + name: bits for name, bits in state.masks.packed.items()},
    }
    write_atomically(path, safetensors.numpy.save(arrays, {"prunefl": json.dumps(asdict(about))}))


def load_model(path: Path) -> tuple[SparseState, About]:
    """Return the state and what it is of."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        fields = json.loads(metadata["prunefl"])
        shapes = {name: tuple(shape) for name, shape in fields["shapes"].items()}
        about = About(fields["model"], fields["classes"], tuple(fields["input_shape"]), shapes)
        masks = Masks({name: unpack_mask(arrays.pop(MASK + name), shape) for name, shape in shapes.items()})
        flat = {name: value.reshape(-1) if name in masks else value for name, value in arrays.items()}
        return SparseState(flat, masks), about
    except (OSError, *NOT_UNDERSTOOD, SafetensorError) as error:
        raise PruneFLError(f"{path}: not a model that prunefl wrote: {error}") from None
