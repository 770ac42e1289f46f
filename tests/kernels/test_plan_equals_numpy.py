"""Training by plan against plain numpy, and a client that does so: it needs no torch, so that it runs on any device."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy_layers import Conv, Floats, Pool

from prunefl import config as all_settings
from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.data.samples import Batch, Ints, Stream
from prunefl.local import make_backend
from prunefl.local.batches import draw_batches
from prunefl.local.native import Plan, decode_plan, encode_plan
from prunefl.local.native.backend import NativeBackend
from prunefl.methods import Work, build_method
from prunefl.rounds.client import Client, ClientState, handle
from prunefl.rounds.messages import Order

pytestmark = pytest.mark.usefixtures("every_path")

CLASSES, RATE = 4, 0.5


@dataclass(frozen=True)
class Net:
    """Convolution, ReLU, max-pooling, linear layer."""

    conv: Conv
    pool: Pool
    side: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        inside = np.zeros((1, 1, *self.conv.out_size(self.side, self.side)))
        features = self.conv.outputs * self.pool.forward(inside)[0, 0].size
        return {
            "conv.weight": self.conv.weight_shape,
            "conv.bias": (self.conv.outputs,),
            "head.weight": (CLASSES, features),
            "head.bias": (CLASSES,),
        }

    def plan(self) -> Plan:
        """The network as it comes over the wire."""
        conv, pool = self.conv, self.pool
        given = {
            "plan": 1,
            "input": [conv.inputs, self.side, self.side],
            "tensors": [
                [name, list(shape), "pruned" if "weight" in name else "trained"]
                for name, shape in self.shapes.items()
            ],
            "operations": [
                {"do": "conv", "of": [0], "weight": "conv.weight", "bias": "conv.bias", "groups": conv.groups}
                | {"stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation},
                {"do": "activation", "of": [1], "function": "relu"},
                {
                    "do": "max_pool",
                    "of": [2],
                    "kernel": pool.kernel,
                    "stride": pool.stride,
                    "padding": pool.pad,
                },
                {"do": "flatten", "of": [3]},
                {"do": "linear", "of": [4], "weight": "head.weight", "bias": "head.bias"},
            ],
        }
        return decode_plan(json.dumps(given))

    def gradients(self, w: dict[str, Floats], x: Floats, labels: Ints) -> dict[str, Floats]:
        """Of the mean cross-entropy, in float64."""
        z = self.conv.forward(x, w["conv.weight"], w["conv.bias"])
        a = np.maximum(z, 0)
        p = self.pool.forward(a)
        logits = p.reshape(len(x), -1) @ w["head.weight"].T + w["head.bias"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        g = (odds / odds.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]) / len(x)
        dp = (g @ w["head.weight"]).reshape(p.shape)
        dz = self.pool.backward(a, dp) * (z > 0)
        _, dw, db = self.conv.backward(x, w["conv.weight"], dz)
        head = g.T @ p.reshape(len(x), -1)
        return {"conv.weight": dw, "conv.bias": db, "head.weight": head, "head.bias": g.sum(axis=0)}


def state_of(net: Net, rng: np.random.Generator, density: float) -> SparseState:
    """Random weights of which a part lives."""
    masks = Masks(
        {name: rng.random(shape) < density for name, shape in net.shapes.items() if "weight" in name}
    )
    values = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in net.shapes.items()
    }
    return SparseState({n: v[masks[n]] if n in masks else v for n, v in values.items()}, masks)


def in_float64(state: SparseState, net: Net) -> dict[str, Floats]:
    return {name: state.dense(name).astype(np.float64) for name in net.shapes}


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """Small planes, on which much of what a kernel reads is padding."""
    channels, kernel = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 5]))
    conv = Conv(
        channels,
        draw(st.integers(1, 6)),
        (kernel, kernel),
        (draw(st.integers(1, 2)),) * 2,
        (draw(st.integers(1, 2)),) * 2,
        tuple(draw(st.integers(0, 3)) for _ in range(4)),  # type: ignore[arg-type]
    )
    net = Net(conv, draw(st.sampled_from([Pool((2, 2), (2, 2)), Pool((3, 3), (2, 2), (1, 1))])), draw(SIDES))
    fits = min(conv.out_size(net.side, net.side)) >= 3
    return net if fits else Net(Conv(channels, 3, (3, 3), padding=(1, 1, 1, 1)), net.pool, 4)


SIDES = st.integers(2, 9)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    net=nets(),
    batch=st.integers(1, 40),
    density=st.sampled_from([0.1, 0.4, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    threads=st.sampled_from([1, 2]),
)
def test_a_plans_gradients_are_numpys_at_all_positions(
    net: Net, batch: int, density: float, seed: int, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    state = state_of(net, rng, density)
    x = rng.standard_normal((batch, net.conv.inputs, net.side, net.side)).astype(np.float32)
    labels = rng.integers(0, CLASSES, batch)
    backend = NativeBackend(net.plan(), "cross_entropy", threads)
    backend.load(state)
    found = backend.gradient([(x, labels)], list(net.shapes))
    for name, wanted in net.gradients(in_float64(state, net), x.astype(np.float64), labels).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)


@dataclass(frozen=True)
class Share:
    """A client's samples."""

    x: np.ndarray
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        return self.x[indices], self.labels[indices]


def test_a_clients_round_by_plan_is_masked_sgd(rng: np.random.Generator) -> None:
    net = Net(Conv(1, 5, (3, 3), padding=(1, 1, 1, 1)), Pool((2, 2), (2, 2)), 8)
    plan = decode_plan(encode_plan(net.plan()))
    config = all_settings.from_tables(
        {
            "run": {"method": "conventional", "backend": "native"},
            "training": {"batch_size": 20, "local_steps": 3},
        }
    )
    network = Network(plan.template, SparseState({}, Masks({})), {}, plan.input_shape, CLASSES, plan=plan)
    share = Share(
        rng.standard_normal((50, 1, 8, 8)).astype(np.float32), rng.integers(0, CLASSES, 50).astype(np.int64)
    )
    state = state_of(net, rng, 0.3)
    client = Client(0, share, network, make_backend(network, config, {}), build_method(config), config)
    reply, _ = handle(Order(1, RATE, wire.pack(state), Work()), client, ClientState())
    found = wire.unpack(reply.model, plan.template, {state.masks.digest: state.masks})

    w = in_float64(state, net)
    for x, labels in draw_batches(client.split.train, 1, 0, config):
        for name, g in net.gradients(w, np.asarray(x, np.float64), labels).items():
            w[name] -= RATE * g * state.masks.get(name, 1)
    for name, wanted in w.items():
        np.testing.assert_allclose(found.dense(name), wanted, rtol=1e-4, atol=1e-5, err_msg=name)
