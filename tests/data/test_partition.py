"""Every sample belongs to one client, every client has some, and the same seed cuts the same way."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl.core.randomness import Ints, Stream
from prunefl.data import partition as cuts

LABELS = np.arange(2000) % 10
SEEDS = st.integers(0, 2**63 - 1)


def is_a_cut(shares: list[Ints], samples: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(shares)), np.arange(samples)) and all(map(len, shares))


def are_equal(shares: list[Ints], others: list[Ints]) -> bool:
    return all(map(np.array_equal, shares, others)) and len(shares) == len(others)


@given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_iid_shares_differ_by_one_at_most(clients: int, more: int, seed: int) -> None:
    samples = clients + more
    shares = cuts.iid(samples, clients, Stream(seed))
    sizes = [len(rows) for rows in shares]
    assert is_a_cut(shares, samples)
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_groups_stay_whole_and_the_last_client_takes_the_rest(clients: int, more: int) -> None:
    groups = clients + more
    group_of = np.tile(np.arange(groups), 3)
    shares = cuts.by_group(group_of, clients)
    assert is_a_cut(shares, len(group_of))
    held = [np.unique(group_of[rows]).tolist() for rows in shares]
    each = groups // clients
    assert held[:-1] == [list(range(i * each, (i + 1) * each)) for i in range(clients - 1)]
    assert held[-1] == list(range((clients - 1) * each, groups))


def test_the_papers_groupings_come_out() -> None:
    def sizes(groups: int, clients: int) -> tuple[int, int, int]:
        held = [len(rows) for rows in cuts.by_group(np.arange(groups), clients)]
        assert len(set(held[:-1])) == 1
        return len(held), held[0], held[-1]

    assert sizes(193, 10) == (10, 19, 22)
    assert sizes(193, 0) == (193, 1, 1)
    assert sizes(9343, 10) == (10, 934, 937)
    assert sizes(9343, 934) == (934, 10, 13)


def test_dirichlet_is_a_cut_and_small_alpha_means_unequal_mixes() -> None:
    def mean_largest_class(alpha: float) -> float:
        shares = cuts.dirichlet(LABELS, 10, alpha, Stream(0))
        assert is_a_cut(shares, len(LABELS))
        return float(np.mean([np.bincount(LABELS[rows]).max() / len(rows) for rows in shares]))

    # an even mix has a tenth of each class
    assert mean_largest_class(0.1) > 0.4 > mean_largest_class(1.0) > 0.2 > mean_largest_class(100.0) > 0.1


def test_dirichlet_proportions_have_the_right_mean_and_spread() -> None:
    labels = np.zeros(10_000, np.int64)
    drawn = [
        [len(rows) / 1e4 for rows in cuts.dirichlet(labels, 4, 2.0, Stream(seed))] for seed in range(200)
    ]
    shares = np.array(drawn)
    # Dirichlet(2, 2, 2, 2): mean 1/4, variance (1/4)(3/4)/9
    assert shares.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.03)
    assert shares.var(0).tolist() == pytest.approx([0.25 * 0.75 / 9] * 4, rel=0.35)


def test_shards_give_each_client_few_labels() -> None:
    shares = cuts.shards(LABELS, 50, 2, Stream(0))
    assert is_a_cut(shares, len(LABELS))
    assert max(len(np.unique(LABELS[rows])) for rows in shares) <= 2
    assert {len(rows) for rows in shares} == {40}


def test_the_same_seed_cuts_the_same_way_and_another_does_not() -> None:
    for cut in (
        lambda g: cuts.iid(2000, 7, g),
        lambda g: cuts.dirichlet(LABELS, 7, 0.5, g),
        lambda g: cuts.shards(LABELS, 7, 3, g),
    ):
        first, again, other = cut(Stream(1)), cut(Stream(1)), cut(Stream(2))
        assert are_equal(first, again)
        assert not are_equal(first, other)


@given(SEEDS, st.lists(st.integers(0, 4), min_size=30, max_size=90), st.integers(1, 10))
@settings(deadline=None)
def test_a_seed_cuts_as_it_did_when_torch_drew_the_numbers(
    seed: int, labels: list[int], clients: int
) -> None:
    def torchs() -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    order = torch.randperm(len(labels), generator=torchs())
    expected = [rows.sort().values.numpy() for rows in order.tensor_split(clients)]
    assert are_equal(cuts.iid(len(labels), clients, Stream(seed)), expected)

    source, classes = torchs(), torch.tensor(labels)
    order = torch.randperm(len(labels), generator=source)
    pieces = order[classes[order].argsort(stable=True)].tensor_split(clients * 3)
    hands = torch.randperm(len(pieces), generator=source).view(clients, 3).tolist()
    expected = [torch.cat([pieces[i] for i in hand]).sort().values.numpy() for hand in hands]
    assert are_equal(cuts.shards(np.array(labels), clients, 3, Stream(seed)), expected)


@given(SEEDS, st.integers(1, 5))
@settings(deadline=None)
def test_a_dirichlet_cut_is_seeded_with_torchs_number(seed: int, clients: int) -> None:
    first = torch.randint(2**62, (1,), generator=torch.Generator().manual_seed(seed))
    random, client_of = np.random.default_rng(int(first)), np.empty(len(LABELS), int)
    for label in range(10):
        rows = random.permutation(np.flatnonzero(label == LABELS))
        ends = np.cumsum(random.dirichlet([10.0] * clients))[:-1] * len(rows)
        client_of[rows] = [sum(i >= int(end) for end in ends) for i in range(len(rows))]
    expected = [np.flatnonzero(client_of == client) for client in range(clients)]
    assert are_equal(cuts.dirichlet(LABELS, clients, 10.0, Stream(seed)), expected)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda: cuts.iid(5, 6, Stream(0)), r"data\.clients=6, must be in 1\.\.5"),
        (
            lambda: cuts.by_group(np.arange(5), 6, "writer"),
            r"data\.clients=6, must be in 1\.\.5.*5 writers",
        ),
        (lambda: cuts.dirichlet(LABELS, 7, 0.0, Stream(0)), r"data\.alpha=0\.0, must be > 0"),
        (lambda: cuts.dirichlet(LABELS, 1000, 0.001, Stream(0)), r"data\.alpha=0\.001, leaves client"),
        (lambda: cuts.shards(LABELS, 7, 0, Stream(0)), r"data\.shards=0, must be >= 1"),
        (lambda: cuts.shards(LABELS, 1000, 3, Stream(0)), r"data\.shards=3, must be <= 2"),
        (lambda: cuts.by_group(np.array([0, 2]), 3, "writer"), "leaves client 1 without samples"),
    ],
)
def test_an_impossible_cut_names_its_setting(cut: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut()  # type: ignore[operator]
