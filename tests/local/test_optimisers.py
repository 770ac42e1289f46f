"""Optimisers on live weights against torch.optim: on all weights, and on masks against dense torch that re-masks."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from dense_oracle import assert_close, load_densely
from prunefl import data
from prunefl.config.optimiser import OptimiserSettings
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.local import Backend, Batch
from prunefl.local.native.backend import NativeBackend
from prunefl.local.torch_backend.adam import make_optimiser
from prunefl.local.torch_backend.backend import TorchBackend
from prunefl.local.torch_backend.compile import compile_plan
from tasks import BATCH_SHAPE, Usual, random_masks, same_bits, small_data, small_network

NETWORK = small_network()
"""Without BatchNorm: Adam would make steps of the noise that is the gradient of a bias before it."""

SETTINGS = {
    "weight decay": OptimiserSettings(weight_decay=0.01),
    "momentum": OptimiserSettings(momentum=0.9),
    "nesterov": OptimiserSettings(momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": OptimiserSettings("adam"),
    "adam with decay": OptimiserSettings("adam", weight_decay=0.01, beta1=0.8, beta2=0.99, epsilon=1e-6),
    "adamw": OptimiserSettings("adamw", weight_decay=0.1),
}
REMEMBERING = [name for name, settings in SETTINGS.items() if settings.slots]


def torchs(settings: OptimiserSettings, parameters, rate: float) -> torch.optim.Optimizer:
    """Return torch's own optimiser of these settings."""
    decay = settings.weight_decay
    if settings.name == "sgd":
        return torch.optim.SGD(
            parameters, rate, momentum=settings.momentum, nesterov=settings.nesterov, weight_decay=decay
        )
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    betas = (settings.beta1, settings.beta2)
    return kind(parameters, rate, betas=betas, eps=settings.epsilon, weight_decay=decay)


def batches(count: int) -> list[Batch]:
    samples = data.wrap(small_data(20 * count, seed=1))
    return [samples.batch(np.arange(20 * k, 20 * (k + 1))) for k in range(count)]


Make = Callable[[OptimiserSettings], Backend]


@pytest.fixture(params=["torch", "native"])
def a_backend(request: pytest.FixtureRequest) -> Make:
    """What makes either backend with an optimiser."""
    plan = compile_plan(NETWORK.module, NETWORK.template, NETWORK.input_shape)

    def make(settings: OptimiserSettings) -> Backend:
        if request.param == "native":
            return NativeBackend(plan, "cross_entropy", 1, settings)
        return TorchBackend(NETWORK.module, NETWORK.template, "cross_entropy", BATCH_SHAPE, Usual(), settings)

    return make


def mixed_masks(seed: int = 5) -> Masks:
    """Return masks under which one layer is dense, one masked and one sparse."""
    source, shares = np.random.default_rng(seed), (1.0, 0.9, 0.3)
    shapes = NETWORK.template.layers
    return Masks({n: source.random(s) < share for (n, s), share in zip(shapes.items(), shares, strict=True)})


def trained_densely(settings, state, given, rate, changes=None, clip=0.0, pull=0.0):
    """Return dense weights that torch.optim trains, gradients, weights and moments multiplied by the masks.

    Args:
        changes: step -> masks from then on.
    """
    model, masks = load_densely(NETWORK.module, state), dict(state.masks)
    parameters = dict(model.named_parameters())
    start = {name: p.detach().clone() for name, p in parameters.items()}
    optimiser = torchs(settings, list(parameters.values()), rate)
    for step, (inputs, labels) in enumerate(given):
        if step in (changes or {}):
            masks = dict(changes[step])
            for name, mask in masks.items():
                live = torch.tensor(mask)
                parameters[name].data *= live
                for moment in optimiser.state[parameters[name]].values():
                    if moment.shape == live.shape:
                        moment *= live
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(inputs)), torch.from_numpy(labels))
        if pull:
            loss = loss + pull / 2 * sum(((p - start[n]) ** 2).sum() for n, p in parameters.items())
        loss.backward()
        for name, mask in masks.items():
            parameters[name].grad *= torch.tensor(mask)
        if clip:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
        optimiser.step()
    return {name: t.numpy() for name, t in model.state_dict().items() if name in state.values}


def dense(state: SparseState) -> dict[str, np.ndarray]:
    return {name: state.dense(name) for name in state.values}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", ["float32", "float64", "transposed"])
def test_a_hundred_steps_are_torchs_to_a_millionth(name: str, kind: str, rng: np.random.Generator) -> None:
    """Also with what the kernels do not hold."""
    sizes = [(300, 40), (70,), (5000,)]
    first = [torch.tensor(rng.normal(size=size) * 0.1, dtype=torch.float32) for size in sizes]

    def made(value: torch.Tensor) -> nn.Parameter:
        if kind == "transposed" and value.dim() == 2:
            return nn.Parameter(value.t().contiguous().t().clone(memory_format=torch.preserve_format))
        return nn.Parameter(value.clone().to(torch.float64 if kind == "float64" else torch.float32))

    ours, theirs = [made(value) for value in first], [made(value) for value in first]
    settings = SETTINGS[name]
    one, other = make_optimiser(settings, ours, 0.01), torchs(settings, theirs, 0.01)
    for _ in range(100):
        for mine, reference in zip(ours, theirs, strict=True):
            # weights stay within two: at four, a hundred roundings of float32 come to a millionth by themselves
            gradient = torch.tensor(rng.normal(size=mine.shape) / 2, dtype=mine.dtype)
            mine.grad, reference.grad = gradient, gradient.clone()
        one.step()
        other.step()
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), reference.detach().numpy(), rtol=0, atol=1e-6)


@pytest.mark.usefixtures("every_path")
@pytest.mark.parametrize("name", SETTINGS)
def test_steps_under_masks_are_those_of_dense_torch_that_masks_again(a_backend: Make, name: str) -> None:
    state = NETWORK.first.remask(mixed_masks())
    backend, rate = a_backend(SETTINGS[name]), 0.05 if SETTINGS[name].name == "sgd" else 0.003
    backend.begin()
    backend.load(state)
    given = batches(8)
    backend.steps(given[:3], rate)
    # moments last from call to call
    backend.steps(given[3:], rate)
    assert_close(dense(backend.state()), trained_densely(SETTINGS[name], state, given, rate), atol=1e-4)


@pytest.mark.parametrize("name", REMEMBERING)
def test_moments_follow_the_masks_survivors_keep_them_and_new_weights_have_none(
    a_backend: Make, name: str
) -> None:
    """As initial pruning does it: steps, other masks, steps."""
    settings, rate = SETTINGS[name], 0.05 if SETTINGS[name].name == "sgd" else 0.003
    before, after = mixed_masks(), random_masks(NETWORK, 0.5)
    assert any((after[n] & ~before[n]).any() and (after[n] & before[n]).any() for n in before)
    state, backend, given = NETWORK.first.remask(before), a_backend(settings), batches(8)
    backend.begin()
    backend.load(state)
    backend.steps(given[:4], rate)
    backend.load(backend.state().remask(after))
    for slot in backend.moments().slots.values():
        for layer, mask in after.items():
            assert not slot.dense(layer)[mask & ~before[layer]].any()
            assert slot.dense(layer)[mask & before[layer]].any()
    backend.steps(given[4:], rate)
    expected = trained_densely(settings, state, given, rate, changes={4: after})
    assert_close(dense(backend.state()), expected, atol=1e-4)


def test_a_client_that_begins_anew_remembers_nothing_and_one_that_goes_on_takes_the_same_steps(
    a_backend: Make,
) -> None:
    settings, state = SETTINGS["adamw"], NETWORK.first.remask(mixed_masks())
    backend, given = a_backend(settings), batches(6)
    backend.begin()
    backend.load(state)
    backend.steps(given[:3], 0.01)
    half, moments = backend.state(), backend.moments()
    backend.steps(given[3:], 0.01)
    whole = backend.state()
    backend.begin(moments)
    backend.load(half)
    backend.steps(given[3:], 0.01)
    assert same_bits(backend.state().values, whole.values)
    backend.begin()
    backend.load(half)
    assert not backend.moments().slots
    backend.steps(given[3:], 0.01)
    assert not same_bits(backend.state().values, whole.values)


@pytest.mark.usefixtures("every_path")
@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_clipping_is_torchs_on_the_live_gradient(a_backend: Make, clip: float) -> None:
    state = NETWORK.first.remask(mixed_masks())
    backend, given = a_backend(OptimiserSettings(momentum=0.9, clip_norm=clip)), batches(4)
    backend.begin()
    backend.load(state)
    backend.steps(given, 0.1)
    expected = trained_densely(SETTINGS["momentum"], state, given, 0.1, clip=clip)
    assert_close(dense(backend.state()), expected, atol=1e-5)


@pytest.mark.usefixtures("every_path")
def test_fedprox_pulls_as_a_term_of_the_loss_does(a_backend: Make) -> None:
    state = NETWORK.first.remask(mixed_masks())
    given = batches(5)
    backend = a_backend(OptimiserSettings(proximal=0.7))
    backend.begin(anchor=state)
    backend.load(state)
    backend.steps(given, 0.1)
    pulled = dense(backend.state())
    assert_close(pulled, trained_densely(OptimiserSettings(), state, given, 0.1, pull=0.7), atol=1e-5)
    backend.begin()
    backend.load(state)
    backend.steps(given, 0.1)
    assert_close(dense(backend.state()), trained_densely(OptimiserSettings(), state, given, 0.1), atol=1e-5)
    assert any(np.abs(pulled[n] - value).max() > 1e-4 for n, value in dense(backend.state()).items())


@pytest.mark.parametrize("name", SETTINGS)
def test_the_bits_of_a_large_layer_do_not_depend_on_the_threads(name: str, rng: np.random.Generator) -> None:
    first, gradient = (torch.tensor(rng.normal(size=200_003), dtype=torch.float32) for _ in range(2))
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            weight = nn.Parameter(first.clone())
            optimiser = make_optimiser(SETTINGS[name], [weight], 0.01)
            optimiser.clip_norm = 1.0
            for _ in range(3):
                weight.grad = gradient.clone()
                optimiser.step()
            found.append(weight.detach().numpy())
        finally:
            torch.set_num_threads(1)
    assert same_bits({"w": found[0]}, {"w": found[1]})
