"""Training at a client: one protocol, and the backends that compute behind it."""

from prunefl.local.backend import Backend, Batch, Penalty, Sums, Trained
from prunefl.local.choose import Choice, choose_backend, make_backend
from prunefl.local.local import Local, OnPass

__all__ = [
    "Backend",
    "Batch",
    "Choice",
    "Local",
    "OnPass",
    "Penalty",
    "Sums",
    "Trained",
    "choose_backend",
    "make_backend",
]
