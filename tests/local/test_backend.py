"""Training against dense autograd: through torch, whatever holds the weights, and by plan."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from dense_oracle import assert_close, gradient_densely, load_densely, train_densely
from prunefl import data
from prunefl.core.importance import empty_sums
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.state import Arrays, SparseState
from prunefl.local import Backend, Batch, Sums
from prunefl.local.native.backend import NativeBackend
from prunefl.local.torch_backend.backend import TorchBackend, module_with
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.convert import pruned_layers
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.masked import MaskedLayer
from tasks import BATCH_SHAPE, Usual, random_masks, same_bits, small_data, small_network

pytestmark = pytest.mark.usefixtures("every_path")

NETWORK = small_network(normalised=True)
"""Conv (0), BatchNorm (1), and two linear layers (5 and 7)."""

DENSITIES = {
    "full": {"0.weight": 1.0, "5.weight": 1.0, "7.weight": 1.0},
    "all sparse": {"0.weight": 0.3, "5.weight": 0.3, "7.weight": 0.3},
    "all masked": {"0.weight": 0.9, "5.weight": 0.9, "7.weight": 0.9},
    "plain, masked, sparse": {"0.weight": 1.0, "5.weight": 0.9, "7.weight": 0.3},
    "sparse, plain, masked": {"0.weight": 0.3, "5.weight": 1.0, "7.weight": 0.9},
    "one layer empty": {"0.weight": 0.3, "5.weight": 0.0, "7.weight": 0.9},
}
KINDS = {1.0: None, 0.9: MaskedLayer, 0.3: SparseLayer, 0.0: SparseLayer}


NOISE = 1e-5
"""A bias before BatchNorm has no gradient but what rounding leaves."""


def pruned(densities: dict[str, float], network: Network = NETWORK) -> SparseState:
    """Return the first weights under random masks of these densities, statistics of BatchNorm as after some use."""
    source = np.random.default_rng(5)
    masks = Masks({n: source.random(s) < densities[n] for n, s in network.template.layers.items()})
    state = network.first.remask(masks)
    used = {name: source.random(state.values[name].shape, np.float32) for name in network.template.buffers}
    return SparseState({**state.values, **used}, masks)


def a_backend(network: Network = NETWORK) -> TorchBackend:
    return TorchBackend(network.module, network.template, "cross_entropy", BATCH_SHAPE, Usual())


def a_native_backend(network: Network = NETWORK) -> NativeBackend:
    plan = compile_plan(network.module, network.template, network.input_shape)
    return NativeBackend(plan, "cross_entropy", threads=1)


Make = Callable[..., Backend]


@pytest.fixture(params=[a_backend, a_native_backend])
def make(request: pytest.FixtureRequest) -> Make:
    """Make a backend of either kind."""
    return request.param  # type: ignore[no-any-return]


def batches(count: int = 3) -> list[Batch]:
    samples = data.wrap(small_data(20 * count, seed=1))
    return [samples.batch(np.arange(20 * k, 20 * (k + 1))) for k in range(count)]


def dense(state: SparseState) -> dict[str, np.ndarray]:
    return {name: state.dense(name) for name in state.values}


@pytest.fixture(params=DENSITIES)
def state(request: pytest.FixtureRequest) -> SparseState:
    return pruned(DENSITIES[request.param])


@pytest.mark.parametrize("name", DENSITIES)
def test_the_cases_here_really_have_layers_of_these_kinds(name: str) -> None:
    backend = a_backend()
    backend.load(pruned(DENSITIES[name]))
    found = pruned_layers(backend.model)
    kinds = {layer: type(found[layer]) if layer in found else None for layer in DENSITIES[name]}
    assert kinds == {layer: KINDS[density] for layer, density in DENSITIES[name].items()}


def test_steps_are_masked_sgd_and_batchnorms_statistics_follow(state: SparseState, make: Make) -> None:
    backend = make()
    backend.load(state)
    trained = backend.steps(batches(), rate=0.1)
    expected = train_densely(NETWORK.module, state, batches(), rate=0.1)
    after = backend.state()
    assert after.masks is state.masks
    assert_close(dense(after), expected.values)
    assert trained.loss == pytest.approx(expected.loss, rel=1e-5)
    assert trained.samples == 60
    assert np.abs(after.values["1.running_mean"] - state.values["1.running_mean"]).max() > 1e-3


def test_right_answers_are_counted_before_each_step(state: SparseState, make: Make) -> None:
    backend = make()
    backend.load(state)
    trained = backend.steps(batches(1), rate=0.1)
    inputs, labels = batches(1)[0]
    logits = load_densely(NETWORK.module, state)(torch.from_numpy(inputs))
    assert trained.right == int((logits.argmax(1).numpy() == labels).sum())


@pytest.mark.parametrize("squared", [True, False])
def test_sums_hold_every_steps_gradient_at_all_positions(
    state: SparseState, squared: bool, make: Make
) -> None:
    backend, sums = make(), empty_sums(NETWORK.template.parameters)
    backend.load(state)
    backend.steps(batches(), 0.1, Sums(sums, squared))
    expected = train_densely(NETWORK.module, state, batches(), rate=0.1)
    assert_close(sums, expected.squares if squared else expected.sums, rtol=2e-3, atol=NOISE)
    # and the steps are the same as without
    assert_close(dense(backend.state()), expected.values)
    # what is there already stays, and after the steps nothing is added
    backend.load(state)
    backend.steps(batches(), 0.1, Sums(sums, squared))
    backend.steps(batches(), 0.1)
    twice = expected.squares if squared else expected.sums
    assert_close(sums, {name: 2 * total for name, total in twice.items()}, rtol=2e-3, atol=2 * NOISE)


def test_the_gradient_is_dense_autograds_at_pruned_positions_too_and_the_state_stays(
    state: SparseState, make: Make
) -> None:
    backend, names = make(), list(NETWORK.template.parameters)
    backend.load(state)
    found = backend.gradient(batches(), names)
    expected, _ = gradient_densely(NETWORK.module, state, batches())
    assert_close(found, expected, rtol=2e-3, atol=NOISE)
    # BatchNorm notes what goes through it, but this was not training
    assert same_bits(backend.state().values, state.values)
    some = backend.gradient(batches(), names[:2])
    assert same_bits(some, {name: found[name] for name in names[:2]})


def test_a_gradient_before_the_steps_does_not_change_them(state: SparseState, make: Make) -> None:
    backend = make()
    backend.load(state)
    backend.steps(batches(), rate=0.1)
    alone = backend.state()
    backend.load(state)
    backend.gradient(batches(), list(NETWORK.template.parameters))
    backend.steps(batches(), rate=0.1)
    assert same_bits(backend.state().values, alone.values)


def test_a_penaltys_gradient_is_added_in_layers_of_every_kind(state: SparseState, make: Make) -> None:
    """Half the sum of all squares, and a slope of 0.01: by autograd on one side, by its gradient on the other."""

    def by_hand(now: SparseState) -> Arrays:
        return {name: now.values[name] + np.float32(0.01) for name in NETWORK.template.parameters}

    def by_autograd(parameters: dict[str, Tensor]) -> Tensor:
        return sum(w.square().sum() / 2 + 0.01 * w.sum() for w in parameters.values())  # type: ignore[return-value]

    backend = make()
    backend.load(state)
    backend.steps(batches(), 0.1, penalty=by_hand)
    expected = train_densely(
        NETWORK.module, state, batches(), rate=0.1, penalty=lambda given: by_autograd(dict(given))
    )
    assert_close(dense(backend.state()), expected.values)


def test_a_penalty_sees_the_state_before_its_step(make: Make) -> None:
    state, seen = pruned(DENSITIES["plain, masked, sparse"]), []
    backend = make()
    backend.load(state)

    def watch(now: SparseState) -> Arrays:
        seen.append(now)
        return {}

    backend.steps(batches(2), 0.1, penalty=watch)
    assert len(seen) == 2
    weights = [name for name in state.values if name not in NETWORK.template.buffers]
    assert same_bits({n: seen[0].values[n] for n in weights}, {n: state.values[n] for n in weights})
    after_one = train_densely(NETWORK.module, state, batches(2)[:1], rate=0.1).values
    assert_close({n: seen[1].dense(n) for n in weights}, {n: after_one[n] for n in weights})


def test_evaluation_is_as_in_use_and_changes_nothing(state: SparseState, make: Make) -> None:
    backend = make()
    backend.load(state)
    inputs, labels = batches(1)[0]
    right, loss = backend.evaluate((inputs, labels))
    with torch.no_grad():
        logits = module_with(NETWORK.module, state).eval()(torch.from_numpy(inputs))
    assert right == int((logits.argmax(1).numpy() == labels).sum())
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    assert loss == pytest.approx(float(expected), rel=1e-5)
    assert same_bits(backend.state().values, state.values)


def test_a_state_comes_back_as_it_was_loaded_and_as_a_copy(state: SparseState, make: Make) -> None:
    backend = make()
    backend.load(state)
    found = backend.state()
    assert same_bits(found.values, state.values)
    before = {name: value.copy() for name, value in state.values.items()}
    backend.steps(batches(1), rate=0.1)
    assert same_bits(found.values, before)
    assert same_bits(state.values, before)


def test_the_network_is_rebuilt_for_other_masks_and_not_for_the_same() -> None:
    backend = a_backend()
    first, other = (NETWORK.first.remask(random_masks(NETWORK, density)) for density in (0.5, 0.4))
    backend.load(first)
    model = backend.model
    backend.load(SparseState(first.values, Masks(dict(first.masks))))
    assert backend.model is model
    backend.load(other)
    assert backend.model is not model
    assert same_bits(backend.state().values, other.values)


def test_a_state_loaded_with_another_number_of_threads_chooses_anew() -> None:
    """On one thread sparse layers pay up to 0.95, on two up to 0.65; which worker pruned first decides nothing."""

    class ByThreads(dict[str, float]):
        def __contains__(self, layer: object) -> bool:
            return True

        def __missing__(self, layer: str) -> float:
            return 0.95 if layer.endswith("; 1 threads") else 0.65

    backend = TorchBackend(NETWORK.module, NETWORK.template, "cross_entropy", BATCH_SHAPE, ByThreads())
    state = pruned({"0.weight": 0.8, "5.weight": 0.8, "7.weight": 0.8})

    def kinds() -> set[type]:
        return {type(layer) for layer in pruned_layers(backend.model).values()}

    backend.load(state)
    assert kinds() == {SparseLayer}
    with backend.threads(2):
        assert torch.get_num_threads() == 2
        backend.load(state)
        assert kinds() == {MaskedLayer}
    assert torch.get_num_threads() == 1
    backend.load(state)
    assert kinds() == {SparseLayer}
    assert same_bits(backend.state().values, state.values)


def test_dropout_begins_anew_with_its_seed(make: Make) -> None:
    network = small_network(dropout=True)
    backend, state = make(network), network.first.remask(random_masks(network, 0.5))
    losses = []
    for seed in (1, 1, 2):
        backend.seed(seed)
        backend.load(state)
        losses.append(backend.steps(batches(), rate=0.1).loss)
    assert losses[0] == losses[1] != losses[2]
