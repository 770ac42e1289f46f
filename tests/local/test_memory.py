"""A sparse model really is sparse: what it holds, and what a training step adds in a fresh process."""

import subprocess
import sys

import pytest
import torch

from prunefl import models
from prunefl.local.torch_backend import SGD, sparsify
from prunefl.local.torch_backend.network import prunable_names

DENSITY = 0.1

PEAK = """
import ctypes, gc, re, sys, torch
from pathlib import Path
from torch.nn import functional
from prunefl import models
from prunefl.local.torch_backend.network import prunable_names
from prunefl.local.torch_backend import SGD, sparsify

def kilobytes(line):
    return int(re.search(line + r":\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

torch.set_num_threads(1)
torch.manual_seed(0)
warm = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 26 * 26, 3))
functional.cross_entropy(warm(torch.randn(2, 1, 28, 28)), torch.tensor([0, 1])).backward()
model = models.conv2()
if sys.argv[1] == "sparse":
    shapes = {name: model.get_parameter(name).shape for name in prunable_names(model)}
    model = sparsify(model, {name: torch.rand(shape) < 0.1 for name, shape in shapes.items()})
optimiser = SGD(model.parameters(), 0.1)
images, labels = torch.randn(20, 1, 28, 28), torch.randint(0, 62, (20,))
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
before = kilobytes("VmRSS")
for _ in range(3):
    optimiser.zero_grad()
    functional.cross_entropy(model(images), labels).backward()
    optimiser.step()
print(kilobytes("VmHWM") - before)
"""


BY_PLAN = """
import ctypes, gc, re
from pathlib import Path
import numpy as np
from prunefl import models
from prunefl.core.masks import Masks
from prunefl.local.native.backend import NativeBackend
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of

def kilobytes(line):
    return int(re.search(line + r":\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

source, shape = np.random.default_rng(0), (1, 28, 28)
network = network_of(models.conv2(), shape, 62)
masks = Masks({name: source.random(each) < 0.1 for name, each in network.template.layers.items()})
state = network.first.remask(masks)
backend = NativeBackend(compile_plan(network.module, network.template, shape), "cross_entropy", 1)
backend.load(state)
batch = source.standard_normal((20, *shape), np.float32), source.integers(0, 62, 20)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
backend.steps([batch] * 3, 0.1)
gradients = sum(value.nbytes for value in state.values.values())  # which have their place since `load`
print(kilobytes("VmHWM") - before + gradients // 1024)
"""


WITHOUT_MASKS = (
    BY_PLAN.partition("backend = ")[0]
    + """
plan = compile_plan(network.module, network.template, shape)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
backend = NativeBackend(plan, "cross_entropy", 1)
made = kilobytes("VmHWM") - before
backend.load(state)
print(made)
"""
)


def test_no_dense_tensor_stays_in_a_sparse_model() -> None:
    model = models.conv2()
    generator = torch.Generator().manual_seed(0)
    masks = {
        name: torch.rand(model.get_parameter(name).shape, generator=generator) < DENSITY
        for name in prunable_names(model)
    }
    sparse = sparsify(model, masks)
    optimiser = SGD(sparse.parameters(), 0.1)
    sparse(torch.randn(4, 1, 28, 28)).sum().backward()
    optimiser.step()
    for name, mask in masks.items():
        parameter = sparse.get_parameter(name)
        assert parameter.numel() == int(mask.sum())
        assert parameter.grad is not None
        assert parameter.grad.numel() == int(mask.sum())
    held = [value for module in sparse.modules() for value in vars(module).values()]
    assert not [value for value in held if isinstance(value, torch.Tensor)]


def added_kilobytes(kind: str) -> int:
    """Return by how much three training steps, or making a network, raise the peak, in a process of their own."""
    code = {"by plan": BY_PLAN, "without masks": WITHOUT_MASKS}.get(kind, PEAK)
    command = [sys.executable, "-c", code, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_training_adds_less_than_a_third_of_denses_memory() -> None:
    dense = added_kilobytes("dense")
    assert added_kilobytes("sparse") <= 0.3 * dense
    assert added_kilobytes("by plan") <= 0.2 * dense


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_plans_weights_take_no_room_before_they_have_masks() -> None:
    whole = sum(tensor.numel() for tensor in models.conv2().parameters()) * 4 // 1024
    assert added_kilobytes("without masks") <= 0.2 * whole
