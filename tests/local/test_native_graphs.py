"""The executor against dense autograd on networks that are drawn at random: outputs, gradients, steps, statistics."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dense_oracle import assert_close, gradient_densely, train_densely
from drawn_networks import Drawn, drawn_network, random_batches
from prunefl.core.importance import empty_sums
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.local import Sums
from prunefl.local.native import decode_plan, encode_plan
from prunefl.local.native.backend import NativeBackend
from prunefl.local.native.lower import lower
from prunefl.local.torch_backend.backend import module_with
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of

pytestmark = pytest.mark.usefixtures("every_path")


def native(network: Network, threads: int = 1) -> NativeBackend:
    plan = compile_plan(network.module, network.template, network.input_shape, network.example is not None)
    # through the format: what a client gets
    return NativeBackend(decode_plan(encode_plan(plan)), "cross_entropy", threads)


def pruned(network: Network, density: float, seed: int) -> SparseState:
    source = np.random.default_rng(seed)
    masks = Masks({n: source.random(s) < density for n, s in network.template.layers.items()})
    state = network.first.remask(masks)
    used = {n: source.random(state.values[n].shape, np.float32) + 0.5 for n in network.template.buffers}
    return SparseState({**state.values, **used}, masks)


def dense(state: SparseState) -> dict[str, np.ndarray]:
    return {name: state.dense(name) for name in state.values}


DRAWN = settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))


@DRAWN
@given(
    drawn=drawn_network(),
    batch=st.integers(1, 67),
    density=st.sampled_from([0.0, 0.1, 0.7, 1.0]),
    threads=st.sampled_from([1, 2]),
)
def test_a_drawn_network_trains_as_dense_autograd_does(
    drawn: Drawn, batch: int, density: float, threads: int
) -> None:
    network = drawn.network
    state, batches = pruned(network, density, drawn.seed), random_batches(drawn, max(batch, drawn.fewest))
    backend, sums = native(network, threads), empty_sums(network.template.parameters)
    backend.load(state)
    expected, _ = gradient_densely(drawn.module, state, batches)
    scale = max(float(np.abs(g).max()) for g in expected.values())
    found = backend.gradient(batches, list(network.template.parameters))
    assert_close(found, expected, rtol=2e-3, atol=3e-5 * max(1.0, scale))
    trained = backend.steps(batches, 0.05, Sums(sums))
    by_hand = train_densely(drawn.module, state, batches, rate=0.05)
    assert trained.loss == pytest.approx(by_hand.loss, rel=1e-3, abs=1e-5)
    assert_close(dense(backend.state()), by_hand.values, rtol=5e-3, atol=2e-4 * max(1.0, scale))


@DRAWN
@given(drawn=drawn_network(), batch=st.integers(1, 67), density=st.sampled_from([0.1, 1.0]))
def test_a_drawn_network_evaluates_as_dense_torch_does(drawn: Drawn, batch: int, density: float) -> None:
    network = drawn.network
    state, (inputs, labels) = pruned(network, density, drawn.seed), random_batches(drawn, batch)[0]
    backend = native(network)
    backend.load(state)
    right, loss = backend.evaluate((inputs, labels))
    with torch.no_grad():
        logits = module_with(drawn.module, state).eval()(torch.from_numpy(inputs))
    expected = float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)))
    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)
    two = logits.topk(2, dim=1).values
    clear = (two[:, 0] - two[:, 1] > 1e-4).numpy()
    surely = int((logits.argmax(1).numpy() == labels)[clear].sum())
    assert surely <= right <= surely + int((~clear).sum())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [3, 20, 67])
def test_layers_of_many_blocks_train_densely_as_dense_autograd_does(
    batch: int, threads: int, seed: int
) -> None:
    """Wider than what the dense kernels treat at a time, in every direction."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (
            torch.nn.Conv2d(3, 23, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(23, 13, 3, stride=2),
            torch.nn.Flatten(),
            torch.nn.Linear(208, 150),
            torch.nn.ReLU(),
            torch.nn.Linear(150, 5),
        )
        drawn = Drawn(torch.nn.Sequential(*layers), (3, 9, 9), 5, seed)
    network = network_of(drawn.module, drawn.input_shape, drawn.classes)
    state, batches = pruned(network, 0.8, seed), random_batches(drawn, batch)
    backend = native(network, threads)
    backend.load(state)
    found = backend.gradient(batches, list(network.template.parameters))
    assert_close(found, gradient_densely(drawn.module, state, batches)[0], rtol=2e-3, atol=1e-5)
    backend.steps(batches, 0.05)
    assert_close(
        dense(backend.state()),
        train_densely(drawn.module, state, batches, rate=0.05).values,
        rtol=1e-3,
        atol=1e-5,
    )


@pytest.mark.parametrize("density", [0.0, 0.7, 1.0])
def test_what_a_strided_convolution_leaves_out_is_there_for_others(density: float) -> None:
    """Row 6 of 7 is not read by the second layer, but by the gate of the ReLU before it."""
    layers = [
        torch.nn.Conv2d(4, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU6(),
        torch.nn.Conv2d(4, 1, 2, 2),
    ]
    module = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(18, 5))
    network = network_of(module, (4, 7, 12), 5, exclude=())
    state, source = pruned(network, density, seed=0), np.random.default_rng(0)
    batches = [(source.standard_normal((18, 4, 7, 12), np.float32), source.integers(0, 5, 18))]
    backend = native(network)
    backend.load(state)
    expected, _ = gradient_densely(module, state, batches)
    assert_close(backend.gradient(batches, list(network.template.parameters)), expected, rtol=2e-3, atol=3e-5)


class Shortcut(torch.nn.Module):
    """A residual block that halves its planes, one of whose ways reads a quarter of the pixels."""

    def __init__(self, stride: tuple[int, int]) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 9, 3, padding=1)
        self.main = torch.nn.Conv2d(9, 11, 3, stride, padding=1)
        self.short = torch.nn.Conv2d(9, 11, 1, stride)
        self.out = torch.nn.LazyLinear(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        return self.out(torch.relu(self.main(x) + self.short(x)).flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("density", [0.3, 1.0])
@pytest.mark.parametrize("stride", [(2, 2), (1, 3), (3, 1)])
def test_a_strided_shortcut_takes_its_pixels_out_first(
    stride: tuple[int, int], density: float, seed: int
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Shortcut(stride)
        module(torch.zeros(1, 3, 7, 10))
    network = network_of(module, (3, 7, 10), 5, exclude=())
    state, source = pruned(network, density, seed), np.random.default_rng(seed)
    batches = [(source.standard_normal((20, 3, 7, 10), np.float32), source.integers(0, 5, 20))]
    plan = compile_plan(module, network.template, network.input_shape)
    assert [kind for kind, *_ in lower(plan).operations].count("average_pool") == 1
    backend = native(network)
    backend.load(state)
    expected, _ = gradient_densely(module, state, batches)
    assert_close(backend.gradient(batches, list(network.template.parameters)), expected, rtol=2e-3, atol=3e-5)
