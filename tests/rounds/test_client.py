"""A client's half of the round, against dense autograd."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from prunefl.local.torch_backend.trainer import Trainer

from prunefl import data, wire
from prunefl.core.masks import DenseView, digest, full_masks, prunable_names
from prunefl.core.randomness import derived_seed
from prunefl.data.transform import FlipAndCrop, to_unit
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend import convert
from prunefl.rounds.client import ClientState, draw_batches, handle
from prunefl.rounds.messages import Ask, InitialPlan, Order, Reply
from tasks import BATCH_SHAPE, CLASSES, small_config, small_data, small_model

SHARE = data.wrap(small_data(60, seed=1))
MODEL = small_model()
NAMES = prunable_names(MODEL)
NOTHING = Ask()


def some_masks(density=0.5):
    source = torch.Generator().manual_seed(3)
    return {n: torch.rand(m.shape, generator=source) < density for n, m in full_masks(MODEL, NAMES).items()}


def masked_state(masks):
    state = sparse.state_of(MODEL)
    return {name: value * masks[name] if name in masks else value for name, value in state.items()}


def answer(masks, ask=NOTHING, state=None, known=None, config=None):
    trainer = Trainer(MODEL, wire.Template.of(MODEL, tuple(masks)), CLASSES, BATCH_SHAPE)
    order = Order(1, 0.1, wire.pack(masked_state(masks), masks, known=known), ask)
    reply, after = handle(order, 2, state or ClientState(), SHARE, trainer, config or small_config())
    values, own = wire.unpack(reply.model, trainer.template, {digest(masks): masks})
    return reply, after, DenseView(values, own), own, trainer


def by_autograd(masks, config, start=None):
    """Masked SGD in dense torch: trained weights and the sum of g*g at all positions."""
    model = small_model()
    model.load_state_dict(start or masked_state(masks))
    squares = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    for inputs, labels in draw_batches(SHARE, 1, 2, config):
        model.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        for name, parameter in model.named_parameters():
            squares[name] += parameter.grad**2
            parameter.data -= 0.1 * parameter.grad * masks.get(name, 1)
    return model, squares


def test_local_training_is_masked_sgd():
    masks = some_masks()
    _, _, trained, own, _ = answer(masks)
    expected, _ = by_autograd(masks, small_config())
    assert digest(own) == digest(masks)
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(trained[name], parameter.data, rtol=1e-4, atol=1e-6)


def test_layers_choose_by_what_batches_of_the_run_need(monkeypatch):
    asked = []
    monkeypatch.setattr(convert, "break_even", lambda spec, size: asked.append(size) or 0.9)
    answer(some_masks(0.8))
    assert (20, 1, 8, 8) in asked
    assert (20, 128) in asked


@pytest.mark.parametrize(("threads", "used"), [(0, 1), (2, 2)])
def test_the_first_client_prunes_with_its_own_number_of_threads(monkeypatch, threads, used):
    seen = []

    def pruned(order, client, *rest):
        seen.append(torch.get_num_threads())
        return Reply(client, 0, 60, loss=0.0, model=b"")

    monkeypatch.setattr("prunefl.rounds.client.initial_pruning", pruned)
    masks = full_masks(MODEL, NAMES)
    plan = InitialPlan(40, 3, 1.5, 0.1, 2, 40)
    order = Order(0, 0.1, wire.pack(masked_state(masks), masks), initial=plan)
    trainer = Trainer(MODEL, wire.Template.of(MODEL, NAMES), CLASSES, BATCH_SHAPE)
    handle(order, 0, ClientState(), SHARE, trainer, small_config(initial={"threads": threads}))
    assert seen == [used]


def test_importance_is_the_mean_of_squares_at_all_positions_not_the_square_of_the_mean():
    masks = some_masks()
    reply, after, *_, trainer = answer(masks, Ask(collect=True, report="importance"))
    _, squares = by_autograd(masks, small_config())
    found = wire.unpack_importance(reply.statistic, trainer.template)
    for name, total in squares.items():
        torch.testing.assert_close(found[name], total / 3, rtol=1e-3, atol=1e-8)
    assert not after.sums
    assert after.steps == 0


def test_importance_is_kept_until_it_is_reported():
    masks = some_masks()
    _, first, *_ = answer(masks, Ask(collect=True))
    assert first.steps == 3
    before = {name: total.clone() for name, total in first.sums.items()}
    reply, _, *_, trainer = answer(masks, Ask(collect=True, report="importance"), first)
    found = wire.unpack_importance(reply.statistic, trainer.template)
    # Both rounds used the same weights and batches here, so the mean over six steps is the mean over three.
    for name, total in before.items():
        torch.testing.assert_close(found[name], total / 3, rtol=1e-4, atol=1e-9)
        assert torch.equal(first.sums[name], total)


def test_importance_of_masks_that_are_gone_is_forgotten():
    first, second = some_masks(), some_masks(0.4)
    config = small_config(importance={"window": "all"})
    _, state, *_ = answer(first, Ask(collect=True), config=config)
    assert state.steps == 3
    _, state, *_ = answer(second, Ask(collect=True), state, config=config)
    _, fresh, *_ = answer(second, Ask(collect=True), config=config)
    assert state.steps == 3
    assert all(torch.equal(state.sums[name], fresh.sums[name]) for name in fresh.sums)


def test_values_only_orders_need_the_masks_they_speak_of():
    masks = some_masks()
    with pytest.raises(wire.WireError):
        answer(masks, known=masks)
    reply, *_ = answer(masks, known=masks, state=ClientState(masks))
    assert reply.num_samples == 60


def test_the_gradient_is_taken_at_the_received_weights():
    masks = some_masks()
    reply, *_, trainer = answer(masks, Ask(report="gradient"))
    model = small_model()
    model.load_state_dict(masked_state(masks))
    for inputs, labels in draw_batches(SHARE, 1, 2, small_config()):
        F.cross_entropy(model(inputs), labels).backward()
    found = wire.unpack_importance(reply.statistic, trainer.template, signed=True)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad / 3, rtol=1e-3, atol=1e-6)


def test_a_swap_trades_the_smallest_weights_for_the_steepest_places_and_trains_them():
    masks = some_masks()
    _, _, trained, own, _ = answer(masks, Ask(swap=0.2))
    model, start = small_model(), masked_state(masks)
    model.load_state_dict(start)
    inputs, labels = draw_batches(SHARE, 1, 2, small_config())[0]
    F.cross_entropy(model(inputs), labels).backward()
    for name, mask in masks.items():
        count = int(0.2 * int(mask.sum()))
        gone, grown = mask & ~own[name], own[name] & ~mask
        steepness = model.get_parameter(name).grad.abs()
        assert gone.sum() == grown.sum() == count
        assert start[name][gone].abs().max() <= start[name][mask & own[name]].abs().min()
        assert steepness[grown].min() >= steepness[~own[name] & ~mask].max()
    # a new weight starts from zero; the server chooses among them by what they have learned
    expected, _ = by_autograd(own, small_config(), {n: v * own.get(n, 1) for n, v in start.items()})
    for name in masks:
        torch.testing.assert_close(trained[name], expected.get_parameter(name).data, rtol=1e-4, atol=1e-6)
        assert trained[name][own[name] & ~masks[name]].count_nonzero() > 0


def test_a_dense_update_brings_the_gradient_where_nothing_lives():
    masks = some_masks()
    _, _, trained, own, _ = answer(masks, Ask(dense_update=True))
    assert all(mask.all() for mask in own.values())
    plain = answer(masks)[2]
    for name, mask in masks.items():
        torch.testing.assert_close(trained[name][mask], plain[name][mask])
        assert trained[name][~mask].abs().sum() > 0


def test_the_group_lasso_pulls_every_prunable_channel_by_its_norm():
    """w' = w - 0.1 (g + 0.3 (w / |row| + w / |column|)), in dense torch; a layer left out is not pulled."""
    masks = {name: mask for name, mask in full_masks(MODEL, NAMES).items() if name != "0.weight"}
    _, _, trained, *_ = answer(masks, Ask(group_lasso=0.3), config=small_config(training={"local_steps": 1}))
    model = small_model()
    inputs, labels = draw_batches(SHARE, 1, 2, small_config())[0]
    F.cross_entropy(model(inputs), labels).backward()
    for name in NAMES:
        weight, slope = model.get_parameter(name).data, model.get_parameter(name).grad
        if name in masks:
            slope = slope + 0.3 * (weight / weight.norm(dim=1, keepdim=True) + weight / weight.norm(dim=0))
        torch.testing.assert_close(trained[name], weight - 0.1 * slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("density", [0.5, 1.0])
def test_a_probe_reports_the_loss_of_the_model_and_of_a_smaller_one(density):
    """Without and with all but the largest twentieth of each layer set to zero, in dense torch."""
    masks = some_masks(density)
    reply, *_ = answer(masks, Ask(probe_density=0.05))
    model, losses = small_model().eval(), []
    model.load_state_dict(masked_state(masks))
    for smaller in (False, True):
        for name in NAMES if smaller else []:
            weight = model.get_parameter(name).data
            least = weight.abs().flatten().sort(descending=True).values[round(0.05 * weight.numel()) - 1]
            weight[weight.abs() < least] = 0
        batches = draw_batches(SHARE, 1, 2, small_config())
        with torch.no_grad():
            losses.append(sum(F.cross_entropy(model(inputs), labels) for inputs, labels in batches) / 3)
    assert reply.start_loss == pytest.approx(float(losses[0]), rel=1e-5)
    assert reply.probe_loss == pytest.approx(float(losses[1]), rel=1e-5)


def test_a_small_client_trains_with_smaller_batches_and_starts_over():
    share = data.wrap(small_data(7, seed=1))
    batches = draw_batches(share, 1, 0, small_config())
    assert [len(labels) for _, labels in batches] == [7, 7, 7]
    config = small_config()
    config = replace(config, training=replace(config.training, batch_size=5))
    assert [len(labels) for _, labels in draw_batches(share, 1, 0, config)] == [5, 5, 5]


@pytest.mark.parametrize(("steps", "size", "samples"), [(3, 20, 60), (5, 20, 33), (4, 20, 7), (1, 60, 60)])
def test_batches_are_those_that_torch_draws(steps, size, samples):
    """One shuffle after another while the samples last, and then the augmentation of one batch after another."""
    config = small_config(training={"local_steps": steps, "batch_size": size})
    pixels = np.arange(samples * 48, dtype=np.uint8).reshape(samples, 3, 4, 4)
    share = data.Images.whole(pixels, np.arange(samples), to_unit, FlipAndCrop(1))
    source = torch.Generator().manual_seed(derived_seed(0, "batches", 6, 2))
    size = min(size, samples)
    order = torch.cat([torch.randperm(samples, generator=source) for _ in range(-(-steps * size // samples))])
    found = draw_batches(share, 6, 2, config)
    assert len(found) == steps
    for chosen, (inputs, labels) in zip(order.split(size), found, strict=False):
        assert torch.equal(labels, chosen)
        shift = torch.randint(3, (2, size), generator=source)
        mirrored = torch.randint(2, (size,), generator=source).bool()
        for i, row in enumerate(chosen):
            padded = F.pad(torch.from_numpy(pixels[row]), (1, 1, 1, 1))
            expected = padded[:, shift[0, i] :, shift[1, i] :][:, :4, :4]
            assert torch.equal(inputs[i] * 255, (expected.flip(2) if mirrored[i] else expected).float())
