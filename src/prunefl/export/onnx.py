"""A pruned model as an ONNX graph whose weights are live values and mask bits. onnx's one home."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn

from prunefl.system.errors import PruneFLError

OPSET = 18
OVERHEAD_BYTES = 700
"""About what the nodes that put a weight together add to the file."""


def onnx_bytes(model: nn.Module, input_shape: tuple[int, ...], *, plain: bool = False) -> bytes:
    """Return the network as an ONNX file: `input` (batch, *input_shape) -> `logits` (batch, classes).

    Unless `plain`, a weight with many zeros is stored as its live values and one bit a position, and put
    together by standard operators of constants, which a runtime does once, when it loads the file.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise PruneFLError("export to ONNX needs onnx and onnxscript: pip install 'prunefl[onnx]'") from error
    example = (torch.zeros(2, *input_shape),)
    with _quiet():
        program = torch.onnx.export(
            model.eval(),
            example,
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=["input"],
            output_names=["logits"],
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    proto.producer_name = "prunefl"
    if not plain:
        _compact_in_place(proto)
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content


def _compact_in_place(proto: Any) -> None:
    """Replace each initialiser that is mostly zeros by nodes that make it."""
    from onnx import numpy_helper

    graph, nodes = proto.graph, []
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    small = {name: array for name, array in tensors.items() if _saves(array)}
    if not small:
        return
    kept = [tensor for tensor in graph.initializer if tensor.name not in small]
    constants = {"prunefl.shifts": np.arange(8, dtype=np.uint8), "prunefl.one": np.array([1], np.uint8)}
    constants |= {"prunefl.flat": np.array([-1], np.int64)}
    for name, array in small.items():
        parts, chain = _packed(name, array)
        constants |= parts
        nodes += chain
    packed = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph.ClearField("initializer")
    graph.initializer.extend([*kept, *packed])
    nodes += list(graph.node)
    graph.ClearField("node")
    graph.node.extend(nodes)


def _saves(array: Any) -> bool:
    """Return whether live values and bits take less room than the array."""
    live = np.count_nonzero(array)
    return bool(array.dtype == np.float32 and 4 * live + array.size / 8 + OVERHEAD_BYTES < array.nbytes)


def _packed(name: str, array: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the constants a weight is made of, and the nodes that make it."""
    from onnx import TensorProto, helper

    bits = np.packbits(array.reshape(-1) != 0, bitorder="little").reshape(-1, 1)
    constants = {
        f"{name}.bits": bits,
        f"{name}.values": array[array != 0],
        f"{name}.size": np.array([prod(array.shape)], np.int64),
        f"{name}.shape": np.array(array.shape, np.int64),
    }
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
    return constants, [
        helper.make_node(
            "BitShift", [f"{name}.bits", "prunefl.shifts"], [f"{name}.shifted"], direction="RIGHT"
        ),
        helper.make_node("BitwiseAnd", [f"{name}.shifted", "prunefl.one"], [f"{name}.each"]),
        helper.make_node("Reshape", [f"{name}.each", "prunefl.flat"], [f"{name}.mask"]),
        helper.make_node("NonZero", [f"{name}.mask"], [f"{name}.row"]),
        helper.make_node("Transpose", [f"{name}.row"], [f"{name}.places"], perm=[1, 0]),
        helper.make_node("ConstantOfShape", [f"{name}.size"], [f"{name}.zeros"], value=zero),
        helper.make_node(
            "ScatterND", [f"{name}.zeros", f"{name}.places", f"{name}.values"], [f"{name}.full"]
        ),
        helper.make_node("Reshape", [f"{name}.full", f"{name}.shape"], [name]),
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about itself to itself: missing torchvision, deprecated calls of its own."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
