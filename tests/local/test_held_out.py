"""What a client holds out: so many of its samples, chosen once, and never trained on."""

import numpy as np
import pytest
import torch

from prunefl import data
from prunefl.core.randomness import derived_seed
from prunefl.local.held_out import count_held_out, split_samples
from prunefl.system.errors import PruneFLError
from tasks import small_config, small_data


def holding(share: float, seed: int = 0):
    return small_config(run={"seed": seed}, evaluation={"share": share})


@pytest.mark.parametrize(("client", "seed"), [(0, 0), (3, 0), (3, 5)])
def test_held_out_are_the_first_of_a_permutation_that_seed_and_client_choose(client, seed):
    samples = data.wrap(small_data(57, seed=1))
    source = torch.Generator().manual_seed(derived_seed(seed, "evaluation", client))
    # 0.2 of 57 is 11.4
    expected = sorted(torch.randperm(57, generator=source)[:11].tolist())
    split = split_samples(samples, client, holding(0.2, seed))
    assert split.held_out.rows.tolist() == expected
    assert split.train.rows.tolist() == [row for row in range(57) if row not in expected]
    inputs, labels = split.held_out.batch(np.array([0, 10]))
    wanted = samples.batch(np.array([expected[0], expected[10]]))
    assert np.array_equal(inputs, wanted[0])
    assert np.array_equal(labels, wanted[1])


def test_without_a_share_the_samples_stay_as_they_are():
    samples = data.wrap(small_data(5, seed=1))
    split = split_samples(samples, 0, holding(0.0))
    assert split.train is samples
    assert split.held_out is None
    assert split.num_held_out == 0


@pytest.mark.parametrize(
    ("size", "share", "count"), [(2, 0.01, 1), (10, 0.1, 1), (57, 0.2, 11), (60, 0.99, 59)]
)
def test_a_share_is_rounded_but_one_sample_at_least(size, share, count):
    assert count_held_out(size, 0, holding(share)) == count


@pytest.mark.parametrize(("size", "share", "count"), [(1, 0.1, 1), (10, 0.96, 10)])
def test_a_share_that_leaves_nothing_to_train_on_is_refused_by_name(size, share, count):
    words = rf"client 3 has {size} samples and would hold out {count} \(evaluation.share={share}\).*lower"
    with pytest.raises(PruneFLError, match=words):
        count_held_out(size, 3, holding(share))
