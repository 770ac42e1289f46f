"""Every sample belongs to one client, every client has some, and the same seed cuts the same way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from prunefl.data import partition as cuts

LABELS = torch.arange(2000) % 10


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def is_a_cut(shares: list[Tensor], samples: int) -> bool:
    return torch.equal(torch.cat(shares).sort().values, torch.arange(samples)) and all(map(len, shares))


@given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_iid_shares_differ_by_one_at_most(clients: int, more: int, seed: int) -> None:
    samples = clients + more
    shares = cuts.iid(samples, clients, generator(seed))
    sizes = [len(rows) for rows in shares]
    assert is_a_cut(shares, samples)
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_groups_stay_whole_and_the_last_client_takes_the_rest(clients: int, more: int) -> None:
    groups = clients + more
    group_of = torch.arange(groups).repeat(3)
    shares = cuts.by_group(group_of, clients)
    assert is_a_cut(shares, len(group_of))
    held = [group_of[rows].unique().tolist() for rows in shares]
    each = groups // clients
    assert held[:-1] == [list(range(i * each, (i + 1) * each)) for i in range(clients - 1)]
    assert held[-1] == list(range((clients - 1) * each, groups))


def test_the_papers_groupings_come_out() -> None:
    def sizes(groups: int, clients: int) -> tuple[int, int, int]:
        held = [len(rows) for rows in cuts.by_group(torch.arange(groups), clients)]
        assert len(set(held[:-1])) == 1
        return len(held), held[0], held[-1]

    assert sizes(193, 10) == (10, 19, 22)
    assert sizes(193, 0) == (193, 1, 1)
    assert sizes(9343, 10) == (10, 934, 937)
    assert sizes(9343, 934) == (934, 10, 13)


def test_dirichlet_is_a_cut_and_small_alpha_means_unequal_mixes() -> None:
    def mean_largest_class(alpha: float) -> float:
        shares = cuts.dirichlet(LABELS, 10, alpha, generator())
        assert is_a_cut(shares, len(LABELS))
        parts = [torch.bincount(LABELS[rows], minlength=10).amax() / len(rows) for rows in shares]
        return float(torch.stack(parts).mean())

    # an even mix has a tenth of each class
    assert mean_largest_class(0.1) > 0.4 > mean_largest_class(1.0) > 0.2 > mean_largest_class(100.0) > 0.1


def test_dirichlet_proportions_have_the_right_mean_and_spread() -> None:
    labels = torch.zeros(10_000, dtype=torch.int64)
    drawn = [
        [len(rows) / 1e4 for rows in cuts.dirichlet(labels, 4, 2.0, generator(seed))] for seed in range(200)
    ]
    shares = torch.tensor(drawn)
    # Dirichlet(2, 2, 2, 2): mean 1/4, variance (1/4)(3/4)/9
    assert shares.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.03)
    assert shares.var(0).tolist() == pytest.approx([0.25 * 0.75 / 9] * 4, rel=0.35)


def test_shards_give_each_client_few_labels() -> None:
    shares = cuts.shards(LABELS, 50, 2, generator())
    assert is_a_cut(shares, len(LABELS))
    assert max(len(LABELS[rows].unique()) for rows in shares) <= 2
    assert {len(rows) for rows in shares} == {40}


def test_the_same_seed_cuts_the_same_way_and_another_does_not() -> None:
    for cut in (
        lambda g: cuts.iid(2000, 7, g),
        lambda g: cuts.dirichlet(LABELS, 7, 0.5, g),
        lambda g: cuts.shards(LABELS, 7, 3, g),
    ):
        first, again, other = cut(generator(1)), cut(generator(1)), cut(generator(2))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
        assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda: cuts.iid(5, 6, generator()), r"data\.clients=6, must be in 1\.\.5"),
        (
            lambda: cuts.by_group(torch.arange(5), 6, "writer"),
            r"data\.clients=6, must be in 1\.\.5.*5 writers",
        ),
        (lambda: cuts.dirichlet(LABELS, 7, 0.0, generator()), r"data\.alpha=0\.0, must be > 0"),
        (lambda: cuts.dirichlet(LABELS, 1000, 0.001, generator()), r"data\.alpha=0\.001, leaves client"),
        (lambda: cuts.shards(LABELS, 7, 0, generator()), r"data\.shards=0, must be >= 1"),
        (lambda: cuts.shards(LABELS, 1000, 3, generator()), r"data\.shards=3, must be <= 2"),
        (lambda: cuts.by_group(torch.tensor([0, 2]), 3, "writer"), "leaves client 1 without samples"),
    ],
)
def test_an_impossible_cut_names_its_setting(cut: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut()  # type: ignore[operator]
