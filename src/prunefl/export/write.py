"""Write a pruned model as ONNX, safetensors or a torch program, for use without prunefl."""

import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

from prunefl.export.inference import load, model_file
from prunefl.export.onnx import onnx_bytes
from prunefl.local import torch_backend as sparse
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically
from prunefl.wire.model_file import load_model

Writer = Callable[[nn.Module, tuple[int, ...], Path, bool], None]
"""Dense network, shape of a sample, where to, and whether weights are to be stored plainly."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        num_bytes: of the exported file.
        kept_bytes: of the run's own model.safetensors: live values and mask bits.
        dense_bytes: of the weights of the unpruned network, four a number.
    """

    path: Path
    num_bytes: int
    kept_bytes: int
    dense_bytes: int


def export(
    run: str | Path, to: str, out: Path | None = None, *, plain: bool = False, model: nn.Module | None = None
) -> Exported:
    """Write the run's final model in another format.

    Args:
        run: a run's folder, or its model.safetensors.
        to: one of FORMATS.
        out: the file to write; beside the run's model when not given.
        plain: store ONNX weights as they are, zeros included, for runtimes that do not fold constants.
        model: the untrained network, where it was the user's own.
    """
    if to not in FORMATS:
        raise PruneFLError(f"--to {to}, must be one of {', '.join(FORMATS)}")
    name, write = FORMATS[to]
    if plain and to != "onnx":
        raise PruneFLError(f"--plain is for --to onnx, {to} always stores zeros too: leave it out")
    if out is not None and out.is_dir():
        raise PruneFLError(f"--out {out}: a folder, must be the file to write, such as {out / name}")
    file = model_file(run)
    _, about = load_model(file)
    dense = sparse.densify(load(file, model, choose="dense")).eval()
    path = out or file.with_name(name)
    if path.resolve() == file.resolve():
        raise PruneFLError(f"--out {path}: is the run's own model, must be another file")
    write(dense, about.input_shape, path, plain)
    num_bytes = sum(tensor.nbytes for tensor in dense.state_dict().values())
    return Exported(path, path.stat().st_size, file.stat().st_size, num_bytes)


def _write_onnx(model: nn.Module, input_shape: tuple[int, ...], path: Path, plain: bool) -> None:
    write_atomically(path, onnx_bytes(model, input_shape, plain=plain))


def _write_safetensors(model: nn.Module, input_shape: tuple[int, ...], path: Path, plain: bool) -> None:
    """Write the state dict under its usual names, zeros included: any program with safetensors reads it."""
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(path, safetensors.torch.save(state, {"format": "pt"}))


def _write_torch(model: nn.Module, input_shape: tuple[int, ...], path: Path, plain: bool) -> None:
    """Write a program that `torch.export.load` runs without the code of the model."""
    example = (torch.zeros(2, *input_shape),)
    with warnings.catch_warnings():
        # torch warns of its own deprecated calls
        warnings.simplefilter("ignore")
        batch = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(model, example, dynamic_shapes=batch, strict=False)
        content = io.BytesIO()
        torch.export.save(program, content)
    write_atomically(path, content.getvalue())


FORMATS: Mapping[str, tuple[str, Writer]] = {
    "onnx": ("model.onnx", _write_onnx),
    "safetensors": ("model.dense.safetensors", _write_safetensors),
    "torch": ("model.pt2", _write_torch),
}
"""Format -> the file's usual name, and its writer."""
