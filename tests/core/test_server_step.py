"""The server's optimisers against their papers' formulas on dense arrays that are masked again."""

import numpy as np
import pytest

from prunefl.config.optimiser import ServerOptimiserSettings
from prunefl.core.masks import Masks
from prunefl.core.moments import Moments
from prunefl.core.network import Template
from prunefl.core.server_step import take_step
from prunefl.core.state import SparseState

TEMPLATE = Template(("w", "b", "mean"), ((6, 5), (6,), (6,)), frozenset({"w"}), frozenset({"mean"}))
SETTINGS = {
    name: ServerOptimiserSettings(name, rate=0.5, momentum=0.8, **own)
    for name, own in {
        "fedavgm": {},
        "fedadam": {"beta2": 0.9, "tau": 0.01},
        "fedyogi": {"beta2": 0.9, "tau": 0.01},
    }.items()
}


def by_formula(settings, change, m, v):
    """Return step, m and v of Hsu et al. 2019 (FedAvgM) and of Reddi et al. 2021, Algorithm 2."""
    if settings.name == "fedavgm":
        m = settings.momentum * m + change
        return settings.rate * m, m, v
    m = settings.momentum * m + (1 - settings.momentum) * change
    if settings.name == "fedadam":
        v = settings.beta2 * v + (1 - settings.beta2) * change**2
    else:
        v = v - (1 - settings.beta2) * change**2 * np.sign(v - change**2)
    return settings.rate * m / (np.sqrt(v) + settings.tau), m, v


def random_state(rng, masks):
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in TEMPLATE.shape_of.items()}
    return SparseState.from_dense(arrays, masks)


@pytest.mark.parametrize("name", SETTINGS)
def test_six_rounds_and_new_masks_in_between_are_the_papers(name, rng):
    settings, moments = SETTINGS[name], Moments()
    masks = Masks({"w": rng.random((6, 5)) < 0.6})
    state = random_state(rng, masks)
    dense = {n: state.dense(n).astype(np.float64) for n in state.values}
    m, v = ({n: np.zeros_like(value) for n, value in dense.items()} for _ in range(2))
    for round in range(6):
        mean = random_state(rng, masks)
        state, moments = take_step(settings, TEMPLATE, state, mean, moments)
        for n in ("w", "b"):
            step, m[n], v[n] = by_formula(settings, mean.dense(n) - dense[n], m[n], v[n])
            dense[n] = dense[n] + step
        dense["mean"] = mean.dense("mean")
        if round == 2:
            masks = Masks({"w": rng.random((6, 5)) < 0.6})
            assert (masks["w"] & ~state.masks["w"]).any()
            state, moments = state.remask(masks), moments.remask(masks)
            for array in (dense, m, v):
                array["w"] = array["w"] * masks["w"]
        for n in dense:
            np.testing.assert_allclose(state.dense(n), dense[n], rtol=1e-4, atol=1e-5, err_msg=n)
    assert moments.steps == 6


def test_a_plain_average_is_the_mean_itself(rng):
    masks = Masks.full({"w": (6, 5)})
    start, mean = random_state(rng, masks), random_state(rng, masks)
    assert take_step(ServerOptimiserSettings(), TEMPLATE, start, mean, Moments()) == (mean, Moments())


def test_clients_that_grew_weights_step_from_zero_there(rng):
    """As in FedDST, whose updates live under the union of the clients' masks."""
    few, more = (Masks({"w": rng.random((6, 5)) < share}) for share in (0.5, 1.0))
    start, mean = random_state(rng, few), random_state(rng, more)
    after, moments = take_step(SETTINGS["fedavgm"], TEMPLATE, start, mean, Moments())
    new = ~few["w"]
    assert after.masks == more == moments.slots["momentum"].masks
    np.testing.assert_allclose(after.dense("w")[new], 0.5 * mean.dense("w")[new], rtol=1e-6)
