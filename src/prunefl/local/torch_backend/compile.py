"""From a torch module to a plan: traced once, where torch is; what has no operation like it is named."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native import Node, Plan, PlanError
from prunefl.local.native.operations import (
    Add,
    Attention,
    AveragePool,
    Concatenate,
    Flatten,
    MeanToken,
    Operation,
    Places,
)
from prunefl.local.native.shapes import infer_shape
from prunefl.local.torch_backend.moves import FUNCTIONS as FUNCTIONS_THAT_MOVE
from prunefl.local.torch_backend.moves import LAYERS, METHODS, SAMPLES, Seen, first_feature
from prunefl.local.torch_backend.translate import FUNCTIONS, OF_TWO, translate_layer
from prunefl.models.dropout import SeededDropout


def compile_plan(module: nn.Module, template: Template, input_shape: Shape, tokens: bool = False) -> Plan:
    """Return the network as a plan; PlanError names the first operation that cannot be part of one.

    Args:
        tokens: whether samples are whole numbers.
    """
    _refuse_unusual(module)
    model = copy.deepcopy(module)
    traced = _trace(model.train())
    if _trace(model.eval()).code != traced.code:
        raise PlanError("the network computes another thing in training than in use")
    results = _Results(traced)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        results.run(torch.zeros(SAMPLES, *input_shape, dtype=torch.int64 if tokens else torch.float32))
    return _Compilation(traced, results.found, template).plan(tuple(input_shape))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, SeededDropout) or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module) -> fx.GraphModule:
    try:
        graph = _Tracer().trace(model)
    # a network of the user's own may raise anything
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise PlanError(f"the network cannot be traced: {reason}") from error
    traced = fx.GraphModule(model, graph)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced


def _refuse_unusual(module: nn.Module) -> None:
    for path, layer in module.named_modules():
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
            raise PlanError(f"layer {path or 'model'} has hooks")
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise PlanError(f"{name} is frozen")
        if parameter.dtype != torch.float32:
            raise PlanError(f"{name} is {parameter.dtype}, must be float32")


class _Results(fx.Interpreter):
    """Notes what every node makes: the shapes of tensors, and other things as they are."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.found: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.found[n] = _Made(tuple(result.shape)) if isinstance(result, Tensor) else result
        return result


@dataclass(frozen=True)
class _Made:
    shape: Shape


class _Compilation:
    """Turns the traced nodes into those of a plan."""

    def __init__(self, traced: fx.GraphModule, results: Mapping[fx.Node, Any], template: Template) -> None:
        self._traced, self._results, self._template = traced, results, template
        self._layers = dict(traced.named_modules())
        self._seen: dict[fx.Node, Any] = {}
        self._nodes: list[Node] = []
        self._shapes: list[Shape] = []
        self._views: dict[tuple[int, Operation], int] = {}

    def plan(self, input_shape: Shape) -> Plan:
        for node in self._traced.graph.nodes:
            if node.op == "placeholder":
                if self._shapes:
                    raise PlanError("the network has more than one input")
                self._shapes.append(input_shape)
                self._seen[node] = Seen(0, input_shape)
            elif node.op == "output":
                if not isinstance(node.args[0], fx.Node) or self._read(node.args[0]) != len(self._nodes):
                    raise PlanError("the network's output is not what it computes last")
            elif node.op == "get_attr":
                self._seen[node] = self._parameter(str(node.target))
            elif self._has_tensors(node):
                self._seen[node] = self._made(node)
        return Plan(input_shape, tuple(self._nodes), self._template)

    def _has_tensors(self, node: fx.Node) -> bool:
        """Return whether a node makes tensors: what a shape is reckoned by needs no operation."""
        result = self._results[node]
        return isinstance(result, _Made) or (
            isinstance(result, tuple | list) and isinstance(result[0], Tensor)
        )

    def _parameter(self, name: str) -> Seen:
        shape = self._template.shape_of.get(name)
        if shape is None:
            raise PlanError(f"{name}: a tensor that is no sample's")
        return Seen(name, shape)

    def _made(self, node: fx.Node) -> Any:
        """Return what a traced node makes."""
        target, layer = node.target, self._layers.get(str(node.target)) if node.op == "call_module" else None
        first = self._seen.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if first is not None and isinstance(layer, LAYERS):
            return first.moved(layer)
        if first is not None and layer is None and (target in METHODS or target in FUNCTIONS_THAT_MOVE):
            return self._moved(first, node)
        if target is functional.scaled_dot_product_attention:
            return self._attended(node)
        return self._computed(node, layer)

    def _moved(self, first: Any, node: fx.Node) -> Any:
        arguments: Any = fx.node.map_arg(node.args[1:], lambda each: self._results[each])
        options: Any = fx.node.map_arg(node.kwargs, lambda each: self._results[each])
        if isinstance(first, tuple):
            return first[arguments[0]]
        if node.op == "call_method":
            return first.moved(lambda places: getattr(places, str(node.target))(*arguments, **options))
        function: Any = node.target
        return first.moved(lambda places: function(places, *arguments, **options))

    def _read(self, node: fx.Node) -> int:
        """Return the value that a tensor of the trace is."""
        seen = self._seen.get(node)
        if not isinstance(seen, Seen) or isinstance(seen.source, str):
            raise PlanError(f"{_name(node)}: a tensor that is no sample's")
        return self._value_of(seen)

    def _value_of(self, seen: Seen) -> int:
        assert isinstance(seen.source, int)
        view = seen.view()
        if view is None:
            return seen.source
        if (seen.source, view) not in self._views:
            self._views[seen.source, view] = self._add(view, seen.source)
        return self._views[seen.source, view]

    def _add(self, operation: Operation, *values: int) -> int:
        """Return the value that an operation makes of others."""
        self._shapes.append(infer_shape(operation, [self._shapes[value] for value in values], self._template))
        self._nodes.append(Node(operation, values))
        return len(self._nodes)

    def _computed(self, node: fx.Node, layer: nn.Module | None) -> Seen:
        operands = self._operands(node)
        if not operands:
            raise PlanError(f"{_name(node)}: reads nothing that is known")
        places = [self._seen[each] for each in operands if isinstance(self._seen[each].source, str)]
        values = [self._read(each) for each in operands if self._seen[each] not in places]
        if places:
            operations: list[Operation] = [_places(node, places, values)]
        else:
            operations = self._operations(node, layer, self._shapes[values[0]], len(operands))
        for operation in operations:
            values = [self._add(operation, *values)]
        seen = Seen(values[0], self._shapes[values[0]])
        if (SAMPLES, *seen.shape) != self._results[node].shape:
            raise PlanError(
                f"{_name(node)}: makes shape {self._results[node].shape[1:]}, a plan {seen.shape}"
            )
        return seen

    def _operands(self, node: fx.Node) -> list[fx.Node]:
        """Return the tensors that a node reads, one that is read twice twice."""
        given: Any = node.args[0] if node.target is torch.cat else node.args
        return [
            each for each in given if isinstance(each, fx.Node) and isinstance(self._seen.get(each), Seen)
        ]

    def _operations(
        self, node: fx.Node, layer: nn.Module | None, before: Shape, operands: int
    ) -> list[Operation]:
        """Return what a traced node is made of; nothing where it changes nothing."""
        target = node.target
        if layer is not None:
            return _listed(translate_layer(str(target), layer, before))
        if target in OF_TWO:
            if operands != 2 or node.kwargs:
                raise PlanError(f"{_name(node)}: of a number and a tensor")
            return [OF_TWO[target]]
        if target in FUNCTIONS:
            return _listed(
                translate_layer(_name(node), FUNCTIONS[target](*node.args[1:], **node.kwargs), before)
            )
        if target is torch.cat and _joins_channels(node, before):
            return [Concatenate()]
        if target in ("mean", torch.mean):
            return _means(node, before, self._results[node].shape[1:])
        raise PlanError(f"there is no operation like {_name(node)}")

    def _attended(self, node: fx.Node) -> Seen:
        """Return softmax attention, whose queries, keys and values are parts of tokens."""
        parts: list[Any] = [self._seen.get(each) for each in node.args[:3] if isinstance(each, fx.Node)]
        heads, each = self._results[node].shape[1], self._results[node].shape[-1]
        options = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, **node.kwargs}
        causal = bool(options.pop("is_causal"))
        if len(node.args) != 3 or options != {"attn_mask": None, "dropout_p": 0.0}:
            raise PlanError(f"{_name(node)}: with a mask, dropout or a scale")
        firsts = [first_feature(part, heads) if isinstance(part, Seen) else None for part in parts]
        width = heads * each
        whole = {part.source for part in parts if isinstance(part, Seen) and part.shape[-1] == 3 * width}
        if firsts == [0, width, 2 * width] and len(whole) == 1:
            joined = int(whole.pop())
        elif firsts == [0, 0, 0] and all(part.shape[-1] == width for part in parts):
            joined = self._add(Concatenate(), *(part.source for part in parts))
        else:
            raise PlanError(f"{_name(node)}: queries, keys and values must be the features of tokens")
        made = self._add(Attention(heads, causal), joined)
        seen = Seen(made, self._shapes[made])
        return seen.moved(lambda places: places.unflatten(2, (heads, each)).transpose(1, 2))  # type: ignore[no-any-return]


def _places(node: fx.Node, places: list[Seen], values: list[int]) -> Operation:
    """Return the sum of a value and a parameter that has a number for each token and feature."""
    if OF_TWO.get(node.target) != Add() or node.kwargs or len(places) != 1 or len(values) != 1:
        raise PlanError(f"{_name(node)}: of {places[0].source}, a parameter of no known layer")
    if places[0].places is not None and not places[0].lies_as(places[0].whole):
        raise PlanError(f"{_name(node)}: of a part of {places[0].source}")
    return Places(str(places[0].source))


def _joins_channels(node: fx.Node, before: Shape) -> bool:
    along = (node.args[1:] or (node.kwargs.get("dim", 0),))[0]
    return along in ((2, -1) if len(before) == 2 else (1,))


def _means(node: fx.Node, before: Shape, after: Shape) -> list[Operation]:
    """Return the mean over pixels, or over tokens."""
    if len(before) == 3 and _over(node, {2, 3}, 4):
        pool: Operation = AveragePool(before[1:], before[1:], (0, 0), padding_counts=False)
        return [pool] if len(after) == 3 else [pool, Flatten()]
    if len(before) == 2 and _over(node, {1}, 3) and len(after) == 1:
        return [MeanToken()]
    raise PlanError(f"there is no operation like {_name(node)} of shape {before}")


def _listed(operation: Operation | None) -> list[Operation]:
    return [] if operation is None else [operation]


def _over(node: fx.Node, sides: set[int], dimensions: int) -> bool:
    """Return whether a mean is that over these sides."""
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    listed = given if isinstance(given, tuple | list) else (given,)
    return all(isinstance(side, int) for side in listed) and {side % dimensions for side in listed} == sides


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
