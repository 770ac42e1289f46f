"""Which samples a client trains on: without replacement, repeatable, never one alone where it matters."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prunefl import data
from prunefl.core.randomness import derived_seed
from prunefl.data.transform import FlipAndCrop, to_unit
from prunefl.local.batches import count_steps, draw_batches, fixed_batches, fresh_batches
from tasks import small_config, small_data

SHARE = data.wrap(small_data(60, seed=1))


def test_a_small_client_trains_with_smaller_batches_and_starts_over() -> None:
    share = data.wrap(small_data(7, seed=1))
    assert [len(labels) for _, labels in draw_batches(share, 1, 0, small_config())] == [7, 7, 7]
    config = small_config(training={"batch_size": 5})
    assert [len(labels) for _, labels in draw_batches(share, 1, 0, config)] == [5, 5, 5]


def test_batches_differ_by_round_and_client_and_repeat() -> None:
    drawn = [draw_batches(SHARE, *who, small_config())[0][0] for who in ((1, 2), (1, 2), (2, 2), (1, 3))]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], drawn[3])


@pytest.mark.parametrize(("steps", "size", "samples"), [(3, 20, 60), (5, 20, 33), (4, 20, 7), (1, 60, 60)])
def test_batches_are_those_that_torch_draws(steps: int, size: int, samples: int) -> None:
    """One shuffle after another while the samples last, and then the augmentation of one batch after another."""
    config = small_config(training={"local_steps": steps, "batch_size": size})
    pixels = np.arange(samples * 48, dtype=np.uint8).reshape(samples, 3, 4, 4)
    share = data.Images.whole(pixels, np.arange(samples), to_unit, FlipAndCrop(1))
    source = torch.Generator().manual_seed(derived_seed(0, "batches", 6, 2))
    size = min(size, samples)
    shuffles = [torch.randperm(samples, generator=source) for _ in range(-(-steps * size // samples))]
    order = torch.cat(shuffles)[: steps * size]
    found = draw_batches(share, 6, 2, config)
    assert len(found) == steps
    for chosen, (inputs, labels) in zip(order.split(size), found, strict=True):
        assert labels.tolist() == chosen.tolist()
        shift = torch.randint(3, (2, size), generator=source)
        mirrored = torch.randint(2, (size,), generator=source).bool()
        for i, row in enumerate(chosen):
            padded = F.pad(torch.from_numpy(pixels[row]), (1, 1, 1, 1))
            expected = padded[:, shift[0, i] :, shift[1, i] :][:, :4, :4]
            expected = (expected.flip(2) if mirrored[i] else expected).float()
            assert torch.equal(torch.from_numpy(inputs[i]) * 255, expected)


def test_the_batches_of_initial_pruning_are_fixed() -> None:
    first, again = (fixed_batches(SHARE, 40, 0, small_config()) for _ in range(2))
    assert [len(labels) for _, labels in first] == [20, 20]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0][0], fixed_batches(SHARE, 40, 1, small_config())[0][0])


@pytest.mark.parametrize(("held", "count"), [(60, 20), (60, 60), (50, 20), (45, 41), (30, 40)])
def test_a_fresh_sample_comes_again_only_after_all_others(held: int, count: int) -> None:
    share = data.Images.whole(np.zeros((held, 1, 2, 2), np.uint8), np.arange(held), to_unit)
    turns = [fresh_batches(share, count, turn, 3, small_config()) for turn in range(7)]
    seen = np.concatenate([labels for batches in turns for _, labels in batches])
    assert seen.size == 7 * min(count, held)
    for first in range(0, seen.size - held + 1, held):
        assert sorted(seen[first : first + held]) == list(range(held))
        # the same order round and round, which is drawn and not the samples' own
        assert np.array_equal(seen[first : first + held], seen[:held])
    assert not np.array_equal(seen[:held], np.arange(held))
    other = fresh_batches(share, count, 0, 4, small_config())
    assert not np.array_equal(other[0][1], turns[0][0][1])


def test_no_batch_of_initial_pruning_is_a_single_sample() -> None:
    for batches in (
        fixed_batches(SHARE, 41, 0, small_config()),
        fresh_batches(SHARE, 41, 1, 0, small_config()),
    ):
        assert [len(labels) for _, labels in batches] == [20, 21]


@pytest.mark.parametrize(
    ("samples", "sizes"), [(60, [20, 20, 20]), (50, [20, 20, 10]), (41, [20, 21]), (7, [7])]
)
def test_an_epoch_is_every_sample_once_and_no_batch_of_one(samples: int, sizes: list[int]) -> None:
    config = small_config(training={"local_epochs": 2, "local_steps": 5})
    inputs = np.arange(samples, dtype=np.float32)
    drawn = draw_batches(data.Tensors(inputs, np.zeros(samples, np.int64)), 1, 0, config)
    assert [len(labels) for _, labels in drawn] == 2 * sizes
    assert count_steps(samples, config) == len(drawn)
    half = len(sizes)
    for epoch in (drawn[:half], drawn[half:]):
        assert sorted(np.concatenate([x for x, _ in epoch])) == inputs.tolist()
    assert not np.array_equal(drawn[0][0], drawn[half][0])
