"""From a torch module to a plan: traced once, where torch is; what has no operation like it is named."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native import Node, Plan, PlanError
from prunefl.local.native.operations import AveragePool, Concatenate, Flatten, Operation
from prunefl.local.torch_backend.translate import (
    FUNCTIONS,
    OF_TWO,
    RESHAPES,
    translate_layer,
    translate_reshape,
)
from prunefl.models.dropout import SeededDropout

SAMPLES = 2
"""Of the example by which shapes are found."""


def compile_plan(module: nn.Module, template: Template, input_shape: Shape) -> Plan:
    """Return the network as a plan; PlanError names the first operation that cannot be part of one."""
    _refuse_unusual(module)
    model = copy.deepcopy(module)
    traced = _trace(model.train())
    if _trace(model.eval()).code != traced.code:
        raise PlanError("the network computes another thing in training than in use")
    shapes = _Shapes(traced)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        shapes.run(torch.zeros(SAMPLES, *input_shape))
    return _Compilation(traced, shapes.found).plan(template, tuple(input_shape))


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


class _Shapes(fx.Interpreter):
    """Notes the shape of every tensor on the way, of one sample."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.found: dict[fx.Node, Shape] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor) and result.dim() > 1 and result.shape[0] == SAMPLES:
            self.found[n] = tuple(result.shape[1:])
        return result


class _Compilation:
    """Turns the traced nodes into those of a plan."""

    def __init__(self, traced: fx.GraphModule, shapes: Mapping[fx.Node, Shape]) -> None:
        self._traced, self._shapes = traced, shapes
        self._layers = dict(traced.named_modules())
        self._value: dict[fx.Node, int] = {}
        self._nodes: list[Node] = []

    def plan(self, template: Template, input_shape: Shape) -> Plan:
        for node in self._traced.graph.nodes:
            if node.op == "placeholder":
                if self._value:
                    raise PlanError("the network has more than one input")
                self._value[node] = 0
            elif node.op == "output":
                if self._value.get(node.args[0]) != len(self._nodes):
                    raise PlanError("the network's output is not what it computes last")
            elif node in self._shapes:
                self._value[node] = self._add(node)
            elif node.op != "call_method" and node.op != "call_function":
                raise PlanError(f"{node.op} {node.target}: a tensor that is no sample's")
        return Plan(input_shape, tuple(self._nodes), template)

    def _add(self, node: fx.Node) -> int:
        """Return the value that a traced node makes."""
        inputs = [each for each in node.all_input_nodes if each in self._value]
        if not inputs:
            raise PlanError(f"{_name(node)}: reads nothing that is known")
        made = self._operations(node, inputs)
        value = self._value[inputs[0]]
        for number, operation in enumerate(made):
            own = tuple(self._value[each] for each in self._operands(node)) if number == 0 else (value,)
            self._nodes.append(Node(operation, own))
            value = len(self._nodes)
        return value

    def _operands(self, node: fx.Node) -> list[fx.Node]:
        """Return the tensors that a node reads, one that is read twice twice."""
        given = node.args[0] if node.target is torch.cat else node.args
        return [each for each in given if isinstance(each, fx.Node) and each in self._value]  # type: ignore[union-attr]

    def _operations(self, node: fx.Node, inputs: list[fx.Node]) -> list[Operation]:
        """Return what a traced node is made of; nothing where it changes nothing."""
        before, after = self._shapes[inputs[0]], self._shapes[node]
        target = node.target
        if node.op == "call_module":
            return _listed(translate_layer(str(target), self._layers[str(target)], before))
        if target in OF_TWO:
            if len(self._operands(node)) != 2 or node.kwargs:
                raise PlanError(f"{_name(node)}: of a number and a tensor")
            return [OF_TWO[target]]
        if target in FUNCTIONS:
            layer = FUNCTIONS[target](*node.args[1:], **node.kwargs)
            return _listed(translate_layer(_name(node), layer, before))
        if target is torch.cat and (node.args[1:] or (node.kwargs.get("dim", 0),))[0] == 1:
            return [Concatenate()]
        if target in RESHAPES:
            return _listed(translate_reshape(before, after))
        if target in ("mean", torch.mean) and len(before) == 3 and _over_pixels(node):
            pool: Operation = AveragePool(before[1:], before[1:], (0, 0), padding_counts=False)
            return [pool] if len(after) == 3 else [pool, Flatten()]
        if target == "contiguous":
            return []
        raise PlanError(f"there is no operation like {_name(node)}")


def _listed(operation: Operation | None) -> list[Operation]:
    return [] if operation is None else [operation]


def _over_pixels(node: fx.Node) -> bool:
    """Return whether a mean is that of height and width."""
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return isinstance(given, tuple | list) and {int(str(side)) % 4 for side in given} == {2, 3}


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
