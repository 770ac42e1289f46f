"""Opposition against its definition, and what it says of clients that are honest, turned round, or alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.agreement import compare_changes, measure_opposition, remember
from prunefl.core.masks import Masks
from prunefl.core.outliers import measure_change
from prunefl.core.state import SparseState

START = SparseState({"w": np.arange(20, dtype=np.float32) / 7}, Masks({}))


def moved(change: np.ndarray) -> SparseState:
    return SparseState({"w": (START.values["w"] + change).astype(np.float32)}, Masks({}))


def cosines_of(changes: list[np.ndarray]) -> dict[tuple[int, int], float]:
    states = {client: moved(change) for client, change in enumerate(changes)}
    return dict(
        compare_changes(states, {client: measure_change(state, START) for client, state in states.items()})
    )


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_cosines_are_those_of_the_changes(count: int, seed: int):
    rng = np.random.default_rng(seed)
    changes = [rng.standard_normal(20) * 10.0 ** rng.integers(-2, 3) for _ in range(count)]
    found = cosines_of(changes)
    exact = [(moved(change).values["w"].astype(float) - START.values["w"]) for change in changes]
    assert list(found) == list(itertools.combinations(range(count), 2))
    for (a, b), cosine in found.items():
        expected = exact[a] @ exact[b] / np.linalg.norm(exact[a]) / np.linalg.norm(exact[b])
        assert cosine == pytest.approx(expected, abs=1e-6)


def test_who_has_not_moved_agrees_and_disagrees_with_nobody():
    assert cosines_of([np.ones(20), np.zeros(20), -np.ones(20)])[0, 1] == 0.0


def test_each_of_many_is_compared_with_twenty_others():
    found = cosines_of([np.eye(20)[n % 20] for n in range(50)])
    assert all(sum(client in pair for pair in found) == 20 for client in range(50))
    assert len(cosines_of([np.eye(20)[n] for n in range(20)])) == 190


def test_one_that_turns_its_change_round_opposes_and_nobody_else_does():
    rng = np.random.default_rng(3)
    shared = rng.standard_normal(20)
    changes = [shared + rng.standard_normal(20) for _ in range(5)]
    found = measure_opposition(cosines_of([-changes[0], *changes[1:]]))
    assert found[0] > 0.3
    assert all(found[client] < 0 for client in range(1, 5))
    assert all(value < 0 for value in measure_opposition(cosines_of(changes)).values())


@pytest.mark.parametrize("count", [3, 5, 10])
def test_clients_that_all_pull_apart_alike_oppose_nobody(count: int):
    apart = np.eye(20)[:count] - np.eye(20)[:count].mean(axis=0)
    found = measure_opposition(cosines_of(list(apart)))
    assert list(found.values()) == pytest.approx([0.0] * count, abs=1e-6)


def test_of_two_nobody_opposes():
    assert measure_opposition(cosines_of([np.ones(20), -np.ones(20)])) == {}
    assert measure_opposition({}) == {}


def test_what_is_remembered_is_of_the_rounds_in_which_a_client_took_part():
    known = remember({0: 0.5, 1: 0.1}, {1: 0.6, 2: -1.0})
    assert known == pytest.approx({0: 0.5, 1: 0.2, 2: -0.2})
