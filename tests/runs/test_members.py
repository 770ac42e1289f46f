"""Runs in which only some of the clients take part: the others leave no trace."""

from typing import Any

import pytest

from prunefl.methods import Method
from prunefl.runs.api import train
from prunefl.runs.runner import Run
from tasks import same_bits, small_clients, small_config, small_data, small_model


def run(stranger: int, **sections: Any) -> Run:
    """Run four clients, of which client 1 has other samples for each `stranger`."""
    clients = small_clients()
    clients[1] = small_data(100, seed=stranger)
    sections = {"evaluation": {"share": 0.2}, "run": {"rounds": 5, "eval_every": 2}, **sections}
    return train(small_model(), clients, test=small_data(40, 99), config=small_config(**sections))


def bits(finished: Run) -> tuple[bytes, dict[str, bytes]]:
    return finished.state.masks.digest, {n: v.tobytes() for n, v in finished.state.values.items()}


@pytest.mark.parametrize("participants", [0, 2])
def test_the_data_of_a_client_that_does_not_take_part_changes_no_bit(participants: int) -> None:
    chosen = {"server": {"clients": [0, 2, 3]}, "training": {"participants": participants}}
    one, other = run(50, **chosen), run(51, **chosen)
    assert one.state.masks == other.state.masks
    assert same_bits(one.state.values, other.state.values)
    assert bits(run(50)) != bits(run(51))
    for record in one.records:
        assert 1 not in record.get("clients", []) if record["kind"] == "round" else True
    last = [record for record in one.records if record["kind"] == "round"][-1]
    assert list(last["evaluation"]["by_client"]) == ["0", "2", "3"]


def test_the_fastest_client_that_takes_part_prunes_first() -> None:
    # client 3 alone has enough samples beside client 1, which does not take part
    sizes = {"initial": {"samples": 62}, "server": {"clients": [0, 2, 3]}}
    first = next(record for record in run(50, **sizes).records if record["kind"] == "initial")
    assert first["client"] == 3


class Deaf(Method):
    """Asks everybody, whoever takes part."""

    name = "deaf"

    def cohort(self, round: int, clients: Any) -> Any:
        return range(len(clients.num_samples))


def test_a_method_that_asks_others_is_refused_in_one_line() -> None:
    with pytest.raises(
        ValueError, match=r"cohort gave range\(0, 4\), must give some of the clients 0, 2, each"
    ):
        run(50, server={"clients": [0, 2]}, run={"method": f"{__name__}:Deaf", "rounds": 1})
