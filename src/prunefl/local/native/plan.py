"""A network as a plan: known operations on numbered values, with the names and shapes of what they use."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native.operations import NAMES, Embedding, Operation, tensors_of
from prunefl.local.native.shapes import infer_shape
from prunefl.local.native.token_shapes import PlanError

MAX_NODES = 10_000
MAX_SIDE = 1 << 24
MAX_FLOATS = 1 << 30
"""Of all tensors together, and of all values of one sample together."""

__all__ = ["Node", "Plan", "PlanError"]


@dataclass(frozen=True)
class Node:
    """An operation on values; value 0 is the input, node i makes value i + 1."""

    operation: Operation
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A network; checked when it is made.

    Attributes:
        input_shape: of one sample: (channels, height, width), or (features,).
        nodes: in the order in which they are computed; the last one makes the logits.
        template: names and shapes of all parameters and float buffers, in the model's order.
    """

    input_shape: Shape
    nodes: tuple[Node, ...]
    template: Template

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_uses(self)
        if sum(math.prod(shape) for shape in self.shapes) > MAX_FLOATS:
            raise PlanError(f"plan: the values of one sample have more than {MAX_FLOATS:,} numbers")
        if len(self.shapes[-1]) != 1:
            raise PlanError(f"plan: it ends with shape {self.shapes[-1]}, must be one row of logits")

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every value of one sample."""
        found: list[Shape] = [self.input_shape]
        for number, node in enumerate(self.nodes):
            if any(not 0 <= value <= number for value in node.inputs):
                raise PlanError(f"plan: operation {number} reads a value that is not there yet")
            if isinstance(node.operation, Embedding) and node.inputs != (0,):
                raise PlanError(
                    f"plan: operation {number} (embedding): must read the input, which has the tokens"
                )
            inputs = [found[value] for value in node.inputs]
            try:
                found.append(infer_shape(node.operation, inputs, self.template))
            except PlanError as error:
                raise PlanError(
                    f"plan: operation {number} ({NAMES[type(node.operation)]}): {error}"
                ) from None
        return tuple(found)

    def least_bytes(self, batch: int) -> int:
        """Return what training takes at least: weights with their gradients, and the values of a batch."""
        weights = sum(math.prod(shape) for shape in self.template.shapes)
        return 4 * (2 * weights + batch * sum(math.prod(shape) for shape in self.shapes))

    @property
    def classes(self) -> int:
        """How many logits a sample gets."""
        return self.shapes[-1][0]


def _check_sizes(plan: Plan) -> None:
    if not 1 <= len(plan.nodes) <= MAX_NODES or len(plan.template.names) > MAX_NODES:
        raise PlanError(f"plan: {len(plan.nodes)} operations, must be 1 to {MAX_NODES:,}")
    if len(set(plan.template.names)) != len(plan.template.names):
        raise PlanError("plan: two tensors have one name")
    if len(plan.input_shape) not in (1, 3):
        raise PlanError(f"plan: samples of shape {plan.input_shape}, must have 1 or 3 dimensions")
    for shape in (plan.input_shape, *plan.template.shapes):
        if not 1 <= len(shape) <= 4 or any(not 1 <= side <= MAX_SIDE for side in shape):
            raise PlanError(f"plan: a shape of {shape}, sides must be 1 to {MAX_SIDE:,}")
    if sum(math.prod(shape) for shape in plan.template.shapes) > MAX_FLOATS:
        raise PlanError(f"plan: more than {MAX_FLOATS:,} weights")


def _check_uses(plan: Plan) -> None:
    """Refuse tensors that are used never or twice, and values that nobody reads."""
    uses = Counter(name for node in plan.nodes for name in tensors_of(node.operation))
    for name in plan.template.names:
        if uses[name] != 1:
            raise PlanError(f"plan: {name} is used {uses[name]} times, must be once")
    if unknown := uses.keys() - set(plan.template.names):
        raise PlanError(f"plan: there is no tensor {min(unknown)}")
    read = {value for node in plan.nodes for value in node.inputs}
    if missing := set(range(len(plan.nodes))) - read:
        raise PlanError(f"plan: nobody reads value {min(missing)}")
