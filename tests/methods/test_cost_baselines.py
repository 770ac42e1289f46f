"""DPF keeps dense weights, PruneTrain removes dead channels, a ticket has another run's masks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from method_cases import NAMES, SECONDS, look, make, weights_of
from safetensors.numpy import save_file

from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.methods.prunetrain import STEP_SHARE, Lasso, channel_mask, channel_norms, lasso_gradient


def test_dpf_equals_dense_descent_with_gradients_at_the_pruned_weights(network: Network) -> None:
    method = make("run.method=dpf", "pruning.density=0.3", "run.rounds=8")
    dense, source = weights_of(network), rng()
    chosen = method.first(network)
    everywhere = network.full_masks
    assert chosen.masks.density == 1
    for round in range(1, 6):
        assert method.work(round, chosen.memory, SECONDS).own_masks
        change = {n: np.float32(0.1) * normal(source, w.shape) for n, w in dense.items()}
        received = {n: w * chosen.masks[n] if n in chosen.masks else w for n, w in dense.items()}
        uploaded = {name: received[name] + change[name] for name in dense}
        chosen = method.next(look(method, chosen, uploaded, round, masks=everywhere))
        dense = {name: w + change[name] for name, w in dense.items()}
        ranks = np.sort(np.concatenate([np.abs(dense[name]).ravel() for name in NAMES]))[::-1]
        # from all to 0.3 in four rounds: 1 - (1 - (1 - r/4)³)·0.7
        density = 1 - 0.7 * (1 - (1 - min(round, 4) / 4) ** 3)
        bound = ranks[int(np.rint(density * ranks.size)) - 1]
        assert chosen.state is not None
        for name in NAMES:
            assert np.array_equal(chosen.masks[name], np.abs(dense[name]) >= bound)
            expected = dense[name] * chosen.masks[name]
            np.testing.assert_allclose(chosen.state.dense(name), expected, rtol=1e-5, atol=1e-7)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def normal(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return source.normal(size=shape).astype(np.float32)


def test_prunetrain_lasso_is_the_sum_of_channel_norms_and_a_fifth_of_the_first_loss(network: Network) -> None:
    inputs, outputs = channel_norms(np.array([[3.0, 0.0], [4.0, 0.0]], np.float32))
    np.testing.assert_allclose(inputs, [5, 0], atol=1e-9)
    np.testing.assert_allclose(outputs, [3, 4])
    method = make("run.method=prunetrain")
    work = method.work(1, method.first(network).memory, SECONDS)
    assert isinstance(work, Lasso)
    norms = [channel_norms(network.first.dense(name)) for name in NAMES]
    penalty = work.strength * sum(float(one.sum()) for both in norms for one in both)
    assert penalty / (penalty + np.log(3)) == pytest.approx(0.2)
    assert work.share == STEP_SHARE


def test_the_lasso_is_charged_by_what_was_measured_of_each_network() -> None:
    counts = {"w": 7}
    for share in (STEP_SHARE, 0.14):
        (steps,) = make("run.method=prunetrain").cost(Lasso(share=share), counts, {})
        assert (steps.extra_share, steps.extra_flops) == (share, 8 * 7)


@pytest.mark.parametrize("shape", [(4, 1, 3, 3), (10, 64), (3, 10), (6, 5, 1, 2)])
def test_the_lassos_gradient_is_autograds(shape: tuple[int, ...]) -> None:
    weight = torch.tensor(normal(rng(), shape), requires_grad=True)
    channels = weight.reshape(*shape[:2], -1)
    (channels.norm(dim=(0, 2)).sum() + channels.norm(dim=(1, 2)).sum()).backward()
    assert weight.grad is not None
    found = lasso_gradient(weight.detach().numpy())
    np.testing.assert_allclose(found, weight.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_a_channel_that_is_gone_leaves_the_lassos_gradient_finite() -> None:
    weight = normal(rng(), (3, 4))
    weight[1] = 0
    found = lasso_gradient(weight)
    assert np.isfinite(found).all()
    assert not found[1].any()
    assert found[0].all()


def test_prunetrain_removes_channels_that_died_and_nothing_else(network: Network) -> None:
    method, weights = make("run.method=prunetrain", "pruning.interval=5"), weights_of(network)
    chosen = method.first(network)
    weights["3.weight"][2] = 1e-5
    weights["3.weight"][:, 7] = 0
    weights["3.weight"][0, 0] = 0
    assert method.next(look(method, chosen, weights, 4)).masks is chosen.masks
    after = method.next(look(method, chosen, weights, 5)).masks
    assert after.counts == {"0.weight": 36, "3.weight": 9 * 63, "5.weight": 30}
    assert after["3.weight"][0, 0]


def test_prunetrain_never_empties_a_layer() -> None:
    assert channel_mask(np.zeros((3, 4), np.float32)).any()
    tiny = np.array([[1e-9, 0.0], [0.0, 0.0]], np.float32)
    assert channel_mask(tiny).tolist() == [[True, False], [False, False]]


def test_ticket_reads_the_final_masks_of_a_run(network: Network, tmp_path: Path) -> None:
    masks = Masks({name: rng().random(shape) < 0.3 for name, shape in network.template.layers.items()})
    save_file({f"mask:{name}": bits for name, bits in masks.packed.items()}, tmp_path / "model.safetensors")
    assert make("run.method=ticket", f"pruning.masks={tmp_path}").first(network).masks == masks


def test_ticket_refuses_no_run_and_another_models_run(network: Network, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pruning.masks='', must be the folder"):
        make("run.method=ticket").first(network)
    method = make("run.method=ticket", f"pruning.masks={tmp_path}")
    with pytest.raises(ValueError, match=r"must be the folder of a finished run: no model.safetensors"):
        method.first(network)
    save_file({"mask:0.weight": np.zeros(1, np.uint8)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="holds no masks of this model"):
        method.first(network)
    save_file({f"mask:{name}": np.zeros(1, np.uint8) for name in NAMES}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="other layer sizes"):
        method.first(network)
