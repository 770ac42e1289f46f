"""What both sides must have in common, compared before the first round instead of failing in it."""

import hashlib
from typing import TYPE_CHECKING, Any

from prunefl.core.network import Template
from prunefl.system.version import VERSION
from prunefl.wire.format import VERSION as WIRE_VERSION

if TYPE_CHECKING:
    from prunefl.data import Federation

Facts = dict[str, Any]


def collect_facts(federation: "Federation", template: Template) -> Facts:
    """Return what has to be equal at server and client."""
    prunable = " ".join(sorted(template.prunable)).encode()
    return {
        "wire": WIRE_VERSION,
        "classes": federation.classes,
        "input_shape": list(federation.input_shape),
        "network": hashlib.blake2b(template.digest + prunable, digest_size=8).hexdigest(),
        "prunefl": VERSION,
    }


def find_difference(theirs: Any, ours: Facts) -> str:
    """Return one line that says what differs and what to do, or ""."""
    if not isinstance(theirs, dict):
        return "the server did not say what it runs; are both sides of the same version?"
    for name in ("wire", "network", "classes", "input_shape"):
        if theirs.get(name) != ours[name]:
            return (
                f"{name} differs: the server has {theirs.get(name)}, this client {ours[name]}; "
                f"{_suggest_remedy(name)} (prunefl {theirs.get('prunefl')} there, {ours['prunefl']} here)"
            )
    return ""


def _suggest_remedy(name: str) -> str:
    if name in ("classes", "input_shape"):
        return "give --data the same data set that the server's config names"
    return "install the same version of prunefl on both"
