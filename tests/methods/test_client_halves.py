"""What each method's clients do beside plain training, against dense autograd."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dense_oracle import assert_close, gradient_densely, load_densely, train_densely
from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.local import Batch
from prunefl.local.batches import draw_batches, fixed_batches
from prunefl.methods import Work
from prunefl.methods.feddst import Swap
from prunefl.methods.online import Probe
from prunefl.methods.prunefl import Collect
from prunefl.methods.prunetrain import Lasso
from prunefl.rounds.client import ClientState, handle
from prunefl.rounds.messages import Order, Reply
from tasks import random_masks, same_bits, small_client, small_config, small_network

NETWORK = small_network()
MASKS = random_masks(NETWORK, 0.5)
START = NETWORK.first.remask(MASKS)
REPORT = Collect(collect=True, report="importance")


def answer(
    method: str,
    work: Work,
    state: SparseState = START,
    before: ClientState | None = None,
    **sections: dict[str, object],
) -> tuple[Reply, ClientState, SparseState, list[Batch]]:
    """Return a client's reply, its state afterwards, the model it sent, and what it trained on."""
    config = small_config(run={"method": method}, pruning={"density": 0.5}, **sections)
    client = small_client(config, NETWORK)
    reply, after = handle(Order(1, 0.1, wire.pack(state), work), client, before or ClientState())
    trained = wire.unpack(reply.model, NETWORK.template, {state.masks.digest: state.masks})
    return reply, after, trained, draw_batches(client.samples, 1, 2, config)


def dense(state: SparseState) -> dict[str, np.ndarray]:
    return {name: state.dense(name) for name in state.values}


def test_importance_is_the_mean_of_squares_at_all_positions_not_the_square_of_the_mean() -> None:
    reply, after, trained, batches = answer("prunefl", REPORT)
    expected = train_densely(NETWORK.module, START, batches, rate=0.1)
    found = wire.unpack_importance(reply.statistic, NETWORK.template)
    assert_close(found, {name: total / 3 for name, total in expected.squares.items()}, rtol=1e-3)
    assert_close(dense(trained), expected.values)
    assert not after.memory.arrays
    assert after.memory.number("steps") == 0


def test_importance_is_kept_until_it_is_reported() -> None:
    _, first, _, _ = answer("prunefl", Collect(collect=True))
    assert first.memory.number("steps") == 3
    before = {name: total.copy() for name, total in first.memory.arrays.items()}
    reply, _, _, _ = answer("prunefl", REPORT, before=first)
    # Both rounds used the same weights and batches here, so the mean over six steps is the mean over three.
    found = wire.unpack_importance(reply.statistic, NETWORK.template)
    assert_close(found, {name: total / 3 for name, total in before.items()})
    assert same_bits(first.memory.arrays, before)


def test_importance_of_masks_that_are_gone_is_forgotten() -> None:
    other = START.remask(random_masks(NETWORK, 0.4))
    _, state, _, _ = answer("prunefl", Collect(collect=True))
    assert state.memory.number("steps") == 3
    _, state, _, _ = answer("prunefl", Collect(collect=True), other, state)
    _, fresh, _, _ = answer("prunefl", Collect(collect=True), other)
    assert state.memory.number("steps") == 3
    assert same_bits(state.memory.arrays, fresh.memory.arrays)


def test_a_round_that_collects_nothing_keeps_what_was_collected() -> None:
    _, first, _, _ = answer("prunefl", Collect(collect=True))
    _, second, _, _ = answer("prunefl", Collect(), before=first)
    assert second.memory.number("steps") == 3
    assert same_bits(second.memory.arrays, first.memory.arrays)


@pytest.mark.parametrize("method", ["snip", "rigl"])
def test_the_gradient_is_taken_at_the_received_weights(method: str) -> None:
    reply, _, trained, batches = answer(method, Work(report="gradient"))
    expected, _ = gradient_densely(NETWORK.module, START, batches)
    found = wire.unpack_importance(reply.statistic, NETWORK.template, signed=True)
    assert_close(found, expected, rtol=1e-3)
    assert_close(dense(trained), train_densely(NETWORK.module, START, batches, rate=0.1).values)


def test_a_swap_trades_the_smallest_weights_for_the_steepest_places_and_trains_them() -> None:
    _, _, trained, batches = answer("feddst", Swap(own_masks=True, share=0.2))
    slope, _ = gradient_densely(NETWORK.module, START, batches[:1])
    for name, mask in MASKS.items():
        own = trained.masks[name]
        gone, grown, size = mask & ~own, own & ~mask, np.abs(START.dense(name))
        assert np.count_nonzero(gone) == np.count_nonzero(grown) == int(0.2 * MASKS.counts[name]) > 0
        assert size[gone].max() <= size[mask & own].min()
        assert np.abs(slope[name])[grown].min() >= np.abs(slope[name])[~own & ~mask].max()
        # a new weight starts from zero; the server chooses among them by what they have learned
        assert trained.dense(name)[grown].any()
    expected = train_densely(NETWORK.module, START.remask(trained.masks), batches, rate=0.1)
    assert_close(dense(trained), expected.values)


def test_a_dense_update_brings_the_gradients_sum_where_nothing_lives() -> None:
    _, _, sent, batches = answer("dpf", Work(own_masks=True))
    assert sent.masks.density == 1
    expected = train_densely(NETWORK.module, START, batches, rate=0.1)
    for name, mask in MASKS.items():
        wanted = np.where(mask, expected.values[name], -0.1 * expected.sums[name])
        np.testing.assert_allclose(sent.dense(name), wanted, rtol=1e-3, atol=1e-6)
        assert sent.dense(name)[~mask].any()


def lasso(parameters: dict[str, Tensor], names: list[str]) -> Tensor:
    """Return 0.3 of the summed norms of the input and the output channels of these layers."""
    weights = [parameters[name].reshape(*parameters[name].shape[:2], -1) for name in names]
    return 0.3 * sum(w.norm(dim=(0, 2)).sum() + w.norm(dim=(1, 2)).sum() for w in weights)  # type: ignore[return-value]


def test_the_group_lasso_pulls_every_channel_of_every_layer_also_one_that_lost_some() -> None:
    """Three steps with the norms in the loss, in dense torch."""
    full = NETWORK.full_masks
    kept = np.ones_like(full["4.weight"])
    kept[1], kept[:, 2] = False, False
    state = NETWORK.first.remask(Masks({**full, "4.weight": kept}))
    _, _, trained, batches = answer("prunetrain", Lasso(strength=0.3), state)
    names = ["0.weight", "4.weight", "6.weight"]
    expected = train_densely(
        NETWORK.module, state, batches, rate=0.1, penalty=lambda given: lasso(dict(given), names)
    )
    assert_close(dense(trained), expected.values)
    without = train_densely(NETWORK.module, state, batches, rate=0.1)
    assert np.abs(trained.dense("4.weight") - without.values["4.weight"]).max() > 1e-3


def probe_losses(state: SparseState, few: list[Batch]) -> list[float]:
    """Return the losses without and with all but the largest twentieth of each layer set to zero, in dense torch."""
    losses = []
    for smaller in (False, True):
        model = load_densely(NETWORK.module, state).eval()
        for name in MASKS if smaller else []:
            weight = model.get_parameter(name).data
            least = weight.abs().flatten().sort(descending=True).values[round(0.05 * weight.numel()) - 1]
            weight[weight.abs() < least] = 0
        with torch.no_grad():
            ((x, y),) = few
            losses.append(
                float(torch.nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y)))
            )
    return losses


@pytest.mark.parametrize("density", [0.5, 1.0])
def test_a_probe_reports_three_losses_on_the_same_five_samples(density: float) -> None:
    state = NETWORK.first.remask(random_masks(NETWORK, density) if density < 1 else NETWORK.full_masks)
    config = small_config(run={"method": "online"}, pruning={"density": 0.5})
    few = fixed_batches(small_client(config, NETWORK).samples, 5, 2, config)
    assert [len(labels) for _, labels in few] == [5]
    reply, after, trained, batches = answer("online", Probe(density=0.05), state)
    loss, probe_loss = probe_losses(state, few)
    assert loss != probe_loss
    assert reply.numbers == {
        "previous_loss": 0.0,
        "loss": pytest.approx(loss, rel=1e-5),
        "probe_loss": pytest.approx(probe_loss, rel=1e-5),
    }
    # and the model received is what is trained, not the smaller one
    assert_close(dense(trained), train_densely(NETWORK.module, state, batches, rate=0.1).values)
    again, _, _, _ = answer("online", Probe(density=0.05), trained, before=after)
    loss_then, probe_loss_then = probe_losses(trained, few)
    assert again.numbers == {
        "previous_loss": pytest.approx(loss, rel=1e-5),
        "loss": pytest.approx(loss_then, rel=1e-5),
        "probe_loss": pytest.approx(probe_loss_then, rel=1e-5),
    }


@pytest.mark.parametrize("method", ["conventional", "synflow", "erk", "set", "iterative"])
def test_methods_without_work_of_their_own_train_plainly(method: str) -> None:
    _, _, trained, batches = answer(method, Work())
    assert_close(dense(trained), train_densely(NETWORK.module, START, batches, rate=0.1).values)
