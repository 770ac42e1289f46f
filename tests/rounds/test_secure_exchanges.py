"""How many exchanges a secure round takes: one more than an open one, and never more than two."""

from pathlib import Path

import pytest
from test_secure_rounds import Lossy, config_of, run

from prunefl.rounds.loop import run_rounds
from prunefl.rounds.server import Outcome, start
from tasks import small_federation, small_setup


def count_exchanges(outcomes: list[Outcome]) -> list[int]:
    return [outcome.secure.exchanges for outcome in outcomes]


def test_a_round_takes_one_exchange_more_also_where_masks_change_and_the_first_one_two(
    tmp_path: Path,
) -> None:
    """Keys of the first epoch come with the clients, those of the next beside the sums before."""
    _, outcomes, carried = run(tmp_path / "run", run={"method": "further-only", "rounds": 7})
    assert [outcome.round for outcome in outcomes if outcome.reconfigured] == [3, 6]
    assert count_exchanges(outcomes) == [3, 2, 2, 2, 2, 2, 2]
    assert [step for step, _ in carried] == ["share", *["mask", "unmask"] * 7]
    made = [outcome.round for outcome in outcomes if outcome.secure.setup_bytes]
    # when all join, when the first epoch is under way, and when those of rounds 4 and 7 were begun
    assert made == [1, 3, 6]


def test_masks_that_change_unannounced_take_two_exchanges_more(tmp_path: Path) -> None:
    """No statistic is asked for before: keys are there, but shares of them are not."""
    sections = {"run": {"method": "iterative", "rounds": 8}, "pruning": {"density": 0.4}}
    _, outcomes, carried = run(tmp_path / "run", **sections)
    changed = [outcome.round + 1 for outcome in outcomes[:-1] if outcome.reconfigured]
    assert changed
    assert count_exchanges(outcomes) == [3 if o.round in (1, *changed) else 2 for o in outcomes]
    assert "introduce" not in {step for step, _ in carried}


@pytest.mark.parametrize("method", ["further-only", "iterative", "conventional"])
def test_no_round_of_any_cohort_takes_more_than_two_exchanges_more(method: str, tmp_path: Path) -> None:
    """Three of four, drawn anew for each round; and now and then an answer is lost."""
    pruning = {"density": 0.4} if method == "iterative" else {}
    sections = {"run": {"method": method, "rounds": 12}, "pruning": pruning}

    def lost(client: int, step: str, before: int) -> bool:
        return step == "unmask" and before % 3 == 0 and client == before % 4

    for name, more in (("cohorts", {"training": {"participants": 3}}), ("lost", {})):
        _, outcomes, _ = run(tmp_path / name, None if name == "cohorts" else lost, **sections, **more)
        assert max(count_exchanges(outcomes)) <= 3
        assert [outcome.secure.repeats for outcome in outcomes] == [0] * 12


def restart_after_round_two(folder: Path, rounds: int, joining: list[int]) -> list[tuple[int, int, int]]:
    """Return clients, exchanges and repeats of each round of a run in which client 1 loses its keys."""
    federation, config = small_federation(), config_of(True, run={"method": "conventional", "rounds": rounds})
    setup = small_setup(federation, config)
    with Lossy(setup, federation.clients, folder) as engine:
        outcomes = []
        for _, outcome in run_rounds(setup, start(setup), engine):
            outcomes.append(outcome)
            if outcome.round == 2:
                engine.restart(1)
                engine.joining = joining
    return [(o.secure.clients, o.secure.exchanges, o.secure.repeats) for o in outcomes]


def test_a_client_that_has_lost_its_keys_is_back_in_the_third_round_after(tmp_path: Path) -> None:
    """It says nothing of it, and refuses what it cannot do; no round takes more than two exchanges more for that."""
    assert restart_after_round_two(tmp_path, 6, joining=[]) == [
        (4, 3, 0),
        (4, 2, 0),
        (3, 2, 0),
        (3, 3, 0),
        (4, 3, 0),
        (4, 2, 0),
    ]


def test_who_joins_anew_with_a_key_is_in_the_very_next_round(tmp_path: Path) -> None:
    assert restart_after_round_two(tmp_path, 5, joining=[1]) == [
        (4, 3, 0),
        (4, 2, 0),
        (4, 3, 0),
        (4, 2, 0),
        (4, 2, 0),
    ]
