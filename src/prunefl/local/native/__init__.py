"""Training by plan: a network as known operations with shapes, run by our own C++, without torch."""

from prunefl.local.native.decode import decode_plan
from prunefl.local.native.encode import encode_plan
from prunefl.local.native.plan import Node, Plan, PlanError

__all__ = ["Node", "Plan", "PlanError", "decode_plan", "encode_plan"]
