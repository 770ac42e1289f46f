"""Random numbers that torch's CPU generator would draw, without torch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.randomness import Stream, derived_seed, draw_clients, lots, stream

SEEDS = st.integers(0, 2**63 - 1)


@given(seed=SEEDS, size=st.integers(0, 300), first=st.integers(0, 300))
def test_a_permutation_is_torchs_and_so_is_what_is_drawn_after_it(seed, size, first):
    torch = pytest.importorskip("torch")
    ours, theirs = Stream(seed), torch.Generator().manual_seed(seed)
    expected = torch.randperm(size, generator=theirs).numpy()
    np.testing.assert_array_equal(ours.permutation(size, first), expected[:first])
    np.testing.assert_array_equal(ours.integers(7, (5,)), torch.randint(7, (5,), generator=theirs).numpy())


@given(seed=SEEDS, below=st.integers(1, 2**62))
def test_integers_are_torchs(seed, below):
    torch = pytest.importorskip("torch")
    expected = torch.randint(below, (3, 4), generator=torch.Generator().manual_seed(seed))
    np.testing.assert_array_equal(Stream(seed).integers(below, (3, 4)), expected.numpy())


@given(seed=SEEDS)
def test_uniform_and_normal_numbers_are_torchs(seed):
    torch = pytest.importorskip("torch")
    ours, theirs = Stream(seed), torch.Generator().manual_seed(seed)
    np.testing.assert_array_equal(ours.uniform((2, 9)), torch.rand(2, 9, generator=theirs).numpy())
    assert ours.normal(1)[0] == pytest.approx(float(torch.randn((), generator=theirs, dtype=torch.float64)))


def test_normal_numbers_have_mean_zero_and_variance_one():
    drawn = Stream(3).normal(100_001)
    assert drawn.shape == (100_001,)
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.var() - 1) < 0.02


def test_every_argument_of_a_derived_seed_counts():
    seeds = {derived_seed(0, "a"), derived_seed(1, "a"), derived_seed(0, "b"), derived_seed(0, "a", 1)}
    assert len(seeds) == 4


def test_a_cohort_is_drawn_without_replacement_and_anew_in_each_round():
    cohorts = [tuple(draw_clients(0, round, 20, 5)) for round in range(10)]
    assert all(len(set(cohort)) == 5 for cohort in cohorts)
    assert len(set(cohorts)) > 1
    assert draw_clients(0, 1, 4, 0) == [0, 1, 2, 3]


def test_lots_differ_by_word_and_repeat():
    draws = [lots("set", 1, r).uniform((3,)).tolist() for r in (1, 2, 1)]
    assert draws[0] == draws[2] != draws[1]


@given(seed=SEEDS, purpose=st.text(max_size=5), numbers=st.lists(st.integers(0, 9), max_size=3))
def test_a_stream_is_that_of_its_derived_seed(seed, purpose, numbers):
    expected = Stream(derived_seed(seed, purpose, *numbers)).uniform((4,))
    np.testing.assert_array_equal(stream(seed, purpose, *numbers).uniform((4,)), expected)
