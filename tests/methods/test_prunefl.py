"""PruneFL's two stages, alone and together, and the limits of size that they keep."""

import pytest
from method_cases import SECONDS, make, settings

from prunefl.core.limits import size_limit
from prunefl.core.memory import Memory
from prunefl.methods import Clients, build_method
from prunefl.methods.prunefl import Collect
from prunefl.runs.api import train
from prunefl.runs.runner import Run
from tasks import small_clients, small_config, small_data, small_model


def run(method: str, **pruning: float) -> Run:
    once = {"clients": 1}
    config = small_config(
        run={"method": method, "rounds": 9}, pruning={"interval": 2, **pruning}, initial=once
    )
    return train(small_model(), small_clients(), test=small_data(40, 99), config=config)


def densities(finished: Run) -> dict[str, list[float]]:
    kinds: dict[str, list[float]] = {}
    for record in finished.records:
        kinds.setdefault(record["kind"], []).append(record.get("density"))
    return kinds


@pytest.mark.parametrize("method", ["prunefl", "further-only"])
@pytest.mark.parametrize("limit", [0.1, 0.0])
def test_no_round_exceeds_the_limit_and_the_last_has_exactly_the_target(method: str, limit: float) -> None:
    finished = run(method, density_limit=limit, density_target=0.05)
    masks = finished.state.masks
    found = densities(finished)["round"]
    assert len(found) == 9
    for number, density in enumerate(found, start=1):
        allowed = size_limit(number, 9, limit or None, 0.05)
        assert allowed is not None
        assert round(density * masks.size) <= allowed * masks.size
    assert sum(masks.counts.values()) == int(0.05 * masks.size)


def test_each_stage_alone_does_only_its_part() -> None:
    first, later, both = (densities(run(method)) for method in ("initial-only", "further-only", "prunefl"))
    assert len(set(first["round"])) == 1
    assert first["round"][0] < 1
    assert first["initial"] == both["initial"]
    assert "initial" not in later
    # a record tells of the masks that were chosen after its round
    assert later["round"][0] == 1
    assert later["round"][1] < 1
    assert len(set(both["round"])) > 1


@pytest.mark.parametrize("window", ["1", "2", "all"])
def test_importance_is_collected_only_where_a_reconfiguration_will_use_it(window: str) -> None:
    method = make("run.rounds=10", "pruning.interval=5", f"importance.window={window}")
    given = {round: method.work(round, Memory(), SECONDS) for round in range(1, 11)}
    assert all(isinstance(work, Collect) for work in given.values())
    asked = [round for round, work in given.items() if isinstance(work, Collect) and work.collect]
    assert asked == {"1": [5], "2": [4, 5], "all": [1, 2, 3, 4, 5]}[window]
    assert [round for round, work in given.items() if work.report] == [5]


@pytest.mark.parametrize(("method", "rounds"), [("prunefl", [2, 4, 6, 8]), ("initial-only", [])])
def test_records_say_in_which_rounds_importance_was_collected(method: str, rounds: list[int]) -> None:
    told = [record for record in run(method).records if record["kind"] == "round"]
    assert [record["round"] for record in told if record["collected"]] == rounds


@pytest.mark.parametrize(
    ("method", "limit"),
    [("conventional", "limit=0.5"), ("feddst", "target=0.1"), ("initial-only", "target=0.1")],
)
def test_a_limit_that_a_method_would_not_keep_is_refused(method: str, limit: str) -> None:
    with pytest.raises(
        ValueError, match=rf"pruning.density_{limit}, which run.method='{method}' does not keep"
    ):
        build_method(settings(f"run.method={method}", "pruning.density=0.2", f"pruning.density_{limit}"))


@pytest.mark.parametrize("method", ["dpf", "feddst"])
@pytest.mark.parametrize("given", ['server.aggregate="median"', "server.clip_norm=1.0"])
def test_an_aggregation_that_a_method_would_not_use_is_refused(method: str, given: str) -> None:
    with pytest.raises(ValueError, match=rf"run.method='{method}' averages in its own way"):
        build_method(settings(f"run.method={method}", "pruning.density=0.2", given))
    build_method(settings("run.method=snip", "pruning.density=0.2", given))


def test_the_fastest_clients_with_enough_samples_prune_first_and_then_all_take_part() -> None:
    method, clients = make("initial.samples=40"), Clients([60, 30, 40, 60], [9.0, 1.0, 2.0, 2.0], range(4))
    assert list(method.cohort(0, clients)) == [2, 3, 0]
    assert list(make("initial.samples=40", "initial.clients=1").cohort(0, clients)) == [2]
    assert list(method.cohort(1, clients)) == [0, 1, 2, 3]
    assert list(make("initial.samples=40", "initial.client=3").cohort(0, clients)) == [3]
    assert method.first_round == 0
    assert make("run.method=further-only").first_round == 1


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("initial.samples=61",), r"initial.samples=61, must be <= 60, the most that a client has"),
        (("initial.samples=40", "initial.client=1"), r"must be <= 30, what initial.client=1 has"),
    ],
)
def test_more_samples_than_the_first_client_has_are_refused(given: tuple[str, ...], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        make(*given).cohort(0, Clients([60, 30, 40, 60], [9.0, 1.0, 2.0, 2.0], range(4)))
