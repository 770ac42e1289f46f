"""From many updates to one."""

import pytest
import torch

from prunefl.rounds import aggregate


def test_shares_are_proportional_to_samples_or_uniform():
    assert aggregate.shares([1, 3], "samples") == [0.25, 0.75]
    assert aggregate.shares([1, 3], "uniform") == [0.5, 0.5]


def test_one_liar_moves_the_mean_but_not_the_median_or_the_trimmed_mean():
    tensors = [torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([1e9])]
    weights = [0.25] * 4
    assert aggregate.weighted_mean(tensors, weights) > 1e8
    assert aggregate.median(tensors, weights).item() == 2.5
    assert aggregate.trimmed_mean(0.25)(tensors, weights).item() == 2.5
    assert aggregate.trimmed_mean(0.1)(tensors, weights).item() == 2.5
    assert aggregate.trimmed_mean(0.1)(tensors[1:], weights[1:]).item() == 3.0
    assert aggregate.trimmed_mean(0.0)(tensors[:3], weights[:3]).item() == 2.0


def test_a_trimmed_mean_leaves_out_its_share_and_no_more():
    tensors = [torch.tensor([float(n)]) for n in range(30)]
    tensors[27:] = [torch.tensor([1e9])] * 3
    assert aggregate.trimmed_mean(0.1)(tensors, [1 / 30] * 30).item() == 14.5


def test_a_weight_is_averaged_over_the_clients_that_hold_it():
    states = [{"w": torch.tensor([2.0, 4.0, 0.0])}, {"w": torch.tensor([6.0, 0.0, 0.0])}]
    masks = [{"w": torch.tensor([True, True, False])}, {"w": torch.tensor([True, False, False])}]
    mean = aggregate.mean_over_holders(states, masks, [0.25, 0.75])
    assert mean["w"].tolist() == [0.25 * 2 + 0.75 * 6, 4.0, 0.0]


@pytest.mark.parametrize(("limit", "expected"), [(10.0, [3.0, 4.0]), (2.5, [1.5, 2.0])])
def test_a_change_is_clipped_to_its_norm(limit, expected):
    start = {"w": torch.zeros(2)}
    assert aggregate.clip_change({"w": torch.tensor([3.0, 4.0])}, start, limit)["w"].tolist() == expected
