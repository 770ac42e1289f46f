"""From a plan to what the executor runs: layers with what follows them in one operation, shapes as pixels."""

from collections import Counter
from dataclasses import dataclass

from prunefl.core.masks import Shape
from prunefl.local.native.operations import (
    FUNCTIONS,
    Activation,
    Add,
    Attention,
    AveragePool,
    BatchNorm,
    Concatenate,
    Conv,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool,
    MeanToken,
    Multiply,
    Operation,
    Places,
    Tokens,
)
from prunefl.local.native.plan import Plan
from prunefl.local.native.shapes import pixels

Lowered = tuple[str, list[int], int, list[int], list[float], list[int]]
"""Kind, input values, output value, sizes, factors, tensors."""

Group = tuple[int, ...]
"""Numbers of the nodes that are computed together."""

RELU = Activation("relu")

OF_ONE_PIXEL = [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]
"""The sizes of a convolution that is a linear layer at every pixel."""


KERNEL, STRIDE, PADDING = 1, 3, 7
"""Where a convolution's sizes begin."""
NO_WINDOW, NO_PADDING = [1, 1], [0, 0]


@dataclass(frozen=True)
class Lowering:
    """What the executor is made with: shapes of values, and operations on them."""

    values: list[tuple[int, int, int]]
    operations: list[Lowered]


def lower(plan: Plan) -> Lowering:
    """Return the plan for the executor; tensors are numbered as the template names them."""
    tensor = {name: number for number, name in enumerate(plan.template.names)}
    number = {0: 0}
    values = [pixels(plan.input_shape)]
    operations: list[Lowered] = []
    for group in _groups(plan):
        inputs = [number[value] for value in _inputs(plan, group)]
        kind, sizes, factors, names = _describe(plan, group)
        if kind == "conv" and (stride := _thinning(sizes)):
            channels, height, width = values[inputs[0]]
            operations.append(
                ("average_pool", inputs, len(values), [*NO_WINDOW, *stride, *NO_PADDING, 0], [], [])
            )
            inputs = [len(values)]
            values.append((channels, -(-height // stride[0]), -(-width // stride[1])))
            sizes = [*sizes[:STRIDE], 1, 1, *sizes[STRIDE + 2 :]]
        number[group[-1] + 1] = len(values)
        tensors = [tensor[name] if name else -1 for name in names]
        operations.append((kind, inputs, len(values), sizes, factors, tensors))
        values.append(pixels(plan.shapes[group[-1] + 1]))
    return Lowering(values, operations)


def _thinning(sizes: list[int]) -> list[int]:
    """Return the stride of a 1x1 convolution, which reads so few pixels that they are taken out first; [] of others."""
    one_pixel = sizes[KERNEL : KERNEL + 2] == NO_WINDOW and not any(sizes[PADDING : PADDING + 4])
    stride = sizes[STRIDE : STRIDE + 2]
    return stride if one_pixel and stride != [1, 1] else []


def _groups(plan: Plan) -> list[Group]:
    """Return which nodes go together, in an order in which they can be computed."""
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(plan.nodes):
        for value in node.inputs:
            readers.setdefault(value, []).append(index)
    taken: set[int] = set()
    groups = []
    for first in range(len(plan.nodes)):
        if first in taken:
            continue
        group = [first]
        while len(after := readers.get(group[-1] + 1, [])) == 1 and after[0] not in taken:
            if not _goes_with([plan.nodes[i].operation for i in group], plan.nodes[after[0]].operation):
                break
            group.append(after[0])
        taken.update(group)
        groups.append(tuple(group))
    return sorted(groups, key=lambda group: group[-1])


def _goes_with(before: list[Operation], after: Operation) -> bool:
    """Return whether one operation computes all of these: a value in between is read by nobody else."""
    kinds = Counter(type(operation) for operation in before)
    match before[0]:
        case Conv():
            return (after == RELU and RELU not in before) or (
                isinstance(after, MaxPool) and not kinds[MaxPool] and _is_light(after)
            )
        case Linear():
            return after == RELU and len(before) == 1
        case BatchNorm() | Add():
            added = kinds[Add] or kinds[Activation]
            return (isinstance(after, Add) and not added) or (
                isinstance(after, Activation) and not kinds[Activation]
            )
        case _:
            return False


def _is_light(pool: MaxPool) -> bool:
    """Return whether windows do not overlap: those of a convolution's own pooling mostly do not."""
    return pool.kernel == pool.stride and pool.padding == (0, 0)


def _inputs(plan: Plan, group: Group) -> list[int]:
    """Return the values that a group reads from outside, the main one first."""
    made = {index + 1 for index in group[:-1]}
    return [value for index in group for value in plan.nodes[index].inputs if value not in made]


def _describe(plan: Plan, group: Group) -> tuple[str, list[int], list[float], list[str]]:
    """Return kind, sizes, factors and names of tensors, as src/kernels/step_*.cpp read them."""
    operations = [plan.nodes[index].operation for index in group]
    head = operations[0]
    match head:
        case Conv():
            kernel = plan.template.shape_of[head.weight][2:]
            sizes = [
                head.groups,
                *kernel,
                *head.stride,
                *head.dilation,
                *head.padding,
                int(RELU in operations),
            ]
            for pool in operations:
                if isinstance(pool, MaxPool):
                    sizes += [*pool.kernel, *pool.stride, *pool.padding]
            return "conv", sizes, [], [head.weight, head.bias]
        case Linear():
            relu = int(RELU in operations)
            if len(plan.shapes[group[0] + 1]) == 2:
                return "conv", [*OF_ONE_PIXEL, relu], [], [head.weight, head.bias]
            return "linear", [relu], [], [head.weight, head.bias]
        case BatchNorm() | Add() | Activation():
            functions = [each.function for each in operations if isinstance(each, Activation)]
            sizes = [FUNCTIONS.index((functions or ["none"])[0])]
            if isinstance(head, BatchNorm):
                names = [head.weight, head.bias, head.mean, head.variance]
                return "blend", sizes, [head.epsilon, head.momentum], names
            return "blend", sizes, [], []
        case MaxPool():
            return "max_pool", [*head.kernel, *head.stride, *head.padding], [], []
        case AveragePool():
            return (
                "average_pool",
                [*head.kernel, *head.stride, *head.padding, int(head.padding_counts)],
                [],
                [],
            )
        case Dropout():
            return "dropout", [int(head.by_channel)], [head.probability], []
        case Multiply():
            return "multiply", [], [], []
        case Concatenate():
            return "concat", [], [], []
        case Flatten() | Tokens():
            return "view", [], [], []
        case _:
            return _describe_tokens(head, plan.shapes[plan.nodes[group[0]].inputs[0]])


def _describe_tokens(
    head: GroupNorm | LayerNorm | Embedding | Places | Attention | MeanToken, shape: Shape
) -> tuple[str, list[int], list[float], list[str]]:
    """Return the same of an operation on tokens, or on samples by themselves; `shape` is of what it reads."""
    match head:
        case GroupNorm():
            return "sample_norm", [head.groups, 0], [head.epsilon], [head.weight, head.bias]
        case LayerNorm():
            return "sample_norm", [1, 1], [head.epsilon], [head.weight, head.bias]
        case Embedding():
            return "embedding", [], [], [head.weight]
        case Places():
            return "places", [], [], [head.weight]
        case Attention():
            return "attention", [head.heads, int(head.causal)], [], []
        case MeanToken():
            return "average_pool", [1, shape[0], 1, shape[0], 0, 0, 0], [], []
