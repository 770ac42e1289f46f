"""A plan as text (docs/plan-format.md)."""

import json
from dataclasses import asdict
from typing import Any

from prunefl.core.network import Template
from prunefl.local.native.operations import NAMES
from prunefl.local.native.plan import Node, Plan

VERSION = 1


def encode_plan(plan: Plan) -> str:
    """Return the plan as JSON; `decode_plan` gives it back."""
    return json.dumps(
        {
            "plan": VERSION,
            "input": plan.input_shape,
            "tensors": [_tensor(plan.template, name) for name in plan.template.names],
            "operations": [_operation(node) for node in plan.nodes],
        },
        separators=(",", ":"),
    )


def _tensor(template: Template, name: str) -> list[Any]:
    kind = "pruned" if name in template.prunable else "buffer" if name in template.buffers else "trained"
    return [name, list(template.shape_of[name]), kind]


def _operation(node: Node) -> dict[str, Any]:
    return {"do": NAMES[type(node.operation)], "of": list(node.inputs), **asdict(node.operation)}
