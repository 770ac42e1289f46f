"""A smoke test of the wheel for aarch64 under qemu, where there is no torch: bytes there and back, and kernels."""

import platform

import numpy as np

from prunefl import _kernels, wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

rng = np.random.default_rng(0)
mask = rng.random((30, 40)) < 0.2
values = rng.normal(size=int(mask.sum())).astype(np.float32)
state = SparseState({"a.weight": values}, Masks({"a.weight": mask}))
template = Template(("a.weight",), ((30, 40),), frozenset({"a.weight"}))
back = wire.unpack(wire.pack(state), template)
assert np.array_equal(back.values["a.weight"], values)
assert np.array_equal(back.masks["a.weight"], mask)
assert platform.machine() == "aarch64"
print("aarch64:", *_kernels.paths(), "- a packed state comes back whole")
