"""The Fisher guard against every possible choice of P, and the whole reconfiguration against every subset."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from method_cases import make
from torch.utils.data import TensorDataset

from choice_oracle import exhaustive
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.core.time_model import LinearTime
from prunefl.methods.prunefl import PruneFL
from prunefl.methods.prunefl_fisher import FisherPruneFL
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

Weight = tuple[str, bool, int, int]
"""Layer, whether it lives, value, importance."""

weights = st.lists(
    st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(-3, 3), st.integers(0, 4)), max_size=8
)


def cheapest_to_lose(live: list[Weight], cost: dict[str, int], count: int) -> set[int]:
    """Return which `count` weights cost the least loss a second, by trying all sets; of equals the earliest."""

    def price(number: int) -> tuple[int, Fraction]:
        layer, _, value, z = live[number]
        # what saves no time is never cheaper than what does
        return (0, Fraction(value**2 * z, cost[layer])) if cost[layer] else (1, Fraction(0))

    def total(chosen: tuple[int, ...]) -> tuple[int, Fraction, tuple[int, ...]]:
        prices = [price(number) for number in chosen]
        return sum(free for free, _ in prices), sum((p for _, p in prices), Fraction(0)), chosen

    return set(min(itertools.combinations(range(len(live)), count), key=total))


def by_hand(
    given: list[Weight], cost: dict[str, int], fraction: float, constant: int, fixed: int, lenience: int = 1
) -> list[bool]:
    """Return which weights live next, in the order given; f(0) is 0.5."""
    now = constant + sum(cost[layer] for layer, alive, *_ in given if alive)
    more = Fraction(lenience - 1) * max(Fraction(0), 1 - Fraction(fraction) / Fraction(1, 2)) * now
    live = [number for number, weight in enumerate(given) if weight[1]]
    chosen = cheapest_to_lose([given[number] for number in live], cost, round(fraction * len(live)))
    kept = [number for place, number in enumerate(live) if place not in chosen]
    rest = [number for number in range(len(given)) if number not in kept]
    taken = exhaustive(
        [given[number][3] for number in rest],
        [cost[given[number][0]] for number in rest],
        fixed + sum(given[number][3] for number in kept),
        constant + more + sum(cost[given[number][0]] for number in kept),
    )
    return [number in kept or taken[rest.index(number)] for number in range(len(given))]


def ours(
    given: list[Weight], cost: dict[str, int], fraction: float, constant: int, fixed: int, lenience: int = 1
) -> list[bool]:
    layers = {name: [weight for weight in given if weight[0] == name] for name in "ab"}
    masks = Masks({n: np.array([live for _, live, _, _ in own], np.bool_) for n, own in layers.items()})
    dense = {n: np.array([value for _, _, value, _ in own], np.float32) for n, own in layers.items()}
    mean = {n: np.array([z for *_, z in own], np.float32) for n, own in layers.items()}
    settings = ["run.method=prunefl-fisher", "pruning.fraction=0.5", f"pruning.lenience={lenience}"]
    method = make(*settings)
    assert isinstance(method, FisherPruneFL)
    time = LinearTime(float(constant), {name: float(one) for name, one in cost.items()})
    state = SparseState.from_dense(dense, masks)
    found = method.choose(state, mean | {"bias": np.array([fixed], np.float32)}, time, fraction, None)
    return [bool(one) for name in "ab" for one in found[name]]


@given(
    weights,
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.data(),
)
def test_a_reconfiguration_is_the_best_of_all_choices(
    drawn: list[Weight], cost: tuple[int, int], fraction: float, data: st.DataObject
) -> None:
    assume(any(z for *_, z in drawn))
    given = sorted(drawn, key=lambda weight: weight[0])  # a layer after the other, as the model has them
    costs = dict(zip("ab", cost, strict=True))
    case = given, costs, fraction, data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    lenience = data.draw(st.sampled_from([1, 3, 9]))
    assert ours(*case, lenience) == by_hand(*case, lenience)


def test_as_less_may_go_more_comes_back_but_not_at_first() -> None:
    # a round of 4 + 1 s and Γ = 10/5 = 2; where a tenth of f(0) is left it counts 1 + 9 · 0.9 times, and Γ is 10/45.5
    given: list[Weight] = [("a", True, 9, 10), ("a", False, 0, 3), ("a", False, 0, 1), ("a", False, 0, 0)]
    assert ours(given, {"a": 1, "b": 1}, 0.5, 4, 0, lenience=1) == [True, True, False, False]
    assert ours(given, {"a": 1, "b": 1}, 0.5, 4, 0, lenience=10) == [True, True, False, False]
    assert ours(given, {"a": 1, "b": 1}, 0.05, 4, 0, lenience=10) == [True, True, True, False]


def test_where_nothing_may_ever_go_a_round_counts_as_long_as_it_is() -> None:
    method = make("run.method=prunefl-fisher", "pruning.fraction=0.0", "pruning.lenience=8")
    assert isinstance(method, FisherPruneFL)
    assert method.times_as_long(0.0) == 1


def test_a_small_weight_that_matters_stays_and_a_large_one_that_does_not_goes() -> None:
    # importance 9 at |w| = 1, none at |w| = 3; a constant so small that nothing is worth adding back
    given: list[Weight] = [("a", True, 1, 9), ("a", True, 3, 0), ("b", True, 2, 9), ("b", True, 2, 9)]
    cost = {"a": 1, "b": 1}
    assert ours(given, cost, 0.25, 0, 9) == by_hand(given, cost, 0.25, 0, 9) == [True, False, True, True]


def test_where_a_second_costs_less_loss_is_cut_first() -> None:
    # the same weights; those of b take thrice the time, so a second there is bought for a third of the loss
    given: list[Weight] = [("a", True, 2, 1), ("a", True, 2, 1), ("b", True, 2, 1), ("b", True, 2, 1)]
    assert ours(given, {"a": 1, "b": 3}, 0.5, 0, 99) == [True, True, False, False]


def test_a_limit_cuts_what_costs_the_least_loss_a_second() -> None:
    method = make("run.method=prunefl-fisher")
    assert isinstance(method, FisherPruneFL)
    values, mean = np.array([1, 4, 3, 2], np.float32), np.array([9, 0, 2, 1], np.float32)
    state = SparseState({"a": values}, Masks({"a": np.ones(4, np.bool_)}))
    found = method.choose(state, {"a": mean}, LinearTime(1.0, {"a": 1.0}), 0.0, 0.5)
    assert found["a"].tolist() == [True, False, True, False]  # w²z = 9, 0, 18, 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("limit", [1.0, 0.01])
def test_importance_that_cannot_be_is_refused_with_and_without_a_limit(bad: float, limit: float) -> None:
    method = make("run.method=prunefl-fisher")
    assert isinstance(method, FisherPruneFL)
    state = SparseState({"a": np.ones(4, np.float32)}, Masks({"a": np.ones(4, np.bool_)}))
    with pytest.raises(ValueError, match=r"importance of a must be finite and not negative"):
        method.choose(
            state, {"a": np.array([1, 1, bad, 1], np.float32)}, LinearTime(1.0, {"a": 1.0}), 0.4, limit
        )


@pytest.mark.parametrize(("limit", "left"), [(None, 2), (0.5, 2), (0.25, 1)])
def test_without_any_importance_the_masks_stay_unless_they_are_too_large(
    limit: float | None, left: int
) -> None:
    method = make("run.method=prunefl-fisher")
    assert isinstance(method, FisherPruneFL)
    state = SparseState({"a": np.ones(2, np.float32)}, Masks({"a": np.array([True, False, True, False])}))
    found = method.choose(state, {"a": np.zeros(4, np.float32)}, LinearTime(1.0, {"a": 1.0}), 0.4, limit)
    assert found.counts == {"a": left}
    assert not (found["a"] & ~state.masks["a"]).any()


def test_all_else_is_the_papers() -> None:
    own = {name for name in vars(FisherPruneFL) if not name.startswith("_")}
    assert own == {"name", "label", "colours", "dash", "place", "choose", "times_as_long"}
    assert issubclass(FisherPruneFL, PruneFL)


@pytest.mark.parametrize("method", ["prunefl", "prunefl-fisher"])
def test_samples_of_one_class_start_nothing_and_are_pruned_once_at_the_end(method: str) -> None:
    clients = [TensorDataset(d.tensors[0], torch.full_like(d.tensors[1], 2)) for d in small_clients()]
    config = small_config(run={"method": method, "rounds": 2})
    finished = train(small_model(), clients, test=small_data(40, 99), config=config)
    initial = finished.records[1]
    assert [segment["passes"] for segment in initial["segments"]] == [12]
    assert initial["ended_by"] == "max_passes"
    assert initial["density"] > 1 - config.pruning.fraction - 0.01
