"""Who pulls against the others is left out of the run, for good and across a resume; the honest are not touched."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunefl import wire
from prunefl.config import Config
from prunefl.core.state import SparseState
from prunefl.engines.simulator import Simulator
from prunefl.methods import build_method
from prunefl.methods.prunefl import Collect
from prunefl.rounds.bounds import find_opponents
from prunefl.rounds.collected import Collected
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, begin_round, start
from prunefl.rounds.updates import RoundFailed, collect_updates
from prunefl.runs import api
from prunefl.runs.runner import Run
from tasks import (
    same_bits,
    small_clients,
    small_config,
    small_data,
    small_federation,
    small_model,
    small_network,
    small_setup,
)

NETWORK = small_network()
START = NETWORK.first
LIAR = 1


def moved(step: float, seed: int) -> SparseState:
    """Return the start, moved in a direction that all share and in one of its own."""
    shared, own = np.random.default_rng(0), np.random.default_rng(seed + 1)
    values = {
        name: value + step * (shared.standard_normal(value.shape) + own.standard_normal(value.shape))
        for name, value in START.values.items()
    }
    return SparseState({name: value.astype(np.float32) for name, value in values.items()}, START.masks)


def gather(
    states: list[SparseState], before: Mapping[int, float], members: int = 5, **server: Any
) -> Collected:
    replies = [Reply(n, 5, 10, 0.5, wire.pack(state, known=START.masks)) for n, state in enumerate(states)]
    orders = {n: Order(5, 0.1, b"", Collect()) for n in range(len(states))}
    method = build_method(small_config(server=server))
    return collect_updates(method, NETWORK.template, START, orders, replies, 0.0, before, members)


HONEST = [moved(0.01, n) for n in range(4)]
TURNED = moved(-0.01, 4)


def test_who_has_pulled_against_the_others_for_long_is_left_out_with_its_reason():
    got = gather([*HONEST, TURNED], {4: 0.4})
    assert got.refused == {
        4: "its changes pull against the others' (opposition 0.42, at most 0.35): left out of the run"
    }
    assert [update.client for update in got.updates] == [0, 1, 2, 3]
    assert sum(update.share for update in got.updates) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("before", "options"),
    [({4: 0.2}, {}), ({4: 0.4}, {"max_opposition": 0.0}), ({4: 0.4}, {"max_opposition": 0.5})],
)
def test_one_round_is_no_reason_and_neither_is_any_where_it_is_turned_off(before: Any, options: Any):
    got = gather([*HONEST, TURNED], before, **options)
    assert got.refused == {}
    assert got.opposition[4] == pytest.approx(0.8 * before[4] + 0.2 * 0.5, abs=0.01)
    assert all(got.opposition[client] < 0 for client in range(4))


def test_who_is_left_out_of_the_run_is_not_missed_by_the_quorum():
    assert len(gather([*HONEST, TURNED], {4: 0.4}, quorum=1.0).updates) == 4
    broken = SparseState({name: value * 1e30 for name, value in START.values.items()}, START.masks)
    with pytest.raises(RoundFailed, match="3 of 4 updates were good"):
        gather([*HONEST[:3], broken, TURNED], {4: 0.4}, quorum=1.0)


@pytest.mark.parametrize(("members", "most"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)])
def test_fewer_than_half_of_all_are_ever_left_out_the_worst_first(members: int, most: int):
    opposition = {client: 0.5 + client / 10 for client in range(members)}
    assert list(find_opponents(opposition, 0.35, members)) == list(range(members))[::-1][:most]


class Liars(Simulator):
    """One client turns its change round."""

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        begin = state.sparse
        for reply in super().carry(state, orders):
            if reply.round and reply.client == LIAR:
                sent = wire.unpack(
                    reply.model, self._setup.network.template, {begin.masks.digest: begin.masks}
                )
                turned = {name: 2 * begin.values[name] - value for name, value in sent.values.items()}
                reply = replace(reply, model=wire.pack(SparseState(turned, sent.masks), known=begin.masks))
            yield reply


def settings(most: float) -> Config:
    return small_config(server={"max_opposition": most}, run={"rounds": 12})


def go(most: float, out: Path | None = None, **options: Any) -> Run:
    test = small_data(100, seed=99)
    return api.train(small_model(), small_clients(), test=test, config=settings(most), out=out, **options)


def test_a_liar_is_left_out_for_good_and_a_resumed_run_knows_it(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(api, "Simulator", Liars)
    whole = go(0.35, tmp_path / "whole")
    rounds = [record for record in whole.records if record["kind"] == "round"]
    first = next(record["round"] for record in rounds if record["refused"])
    assert 1 < first < 10
    for record in rounds:
        assert (LIAR in record["clients"]) == (record["round"] <= first)
        assert list(record.get("left_out", {})) == ([str(LIAR)] if record["round"] >= first else [])
    for stop_after in (first - 1, first, first + 1):
        folder = tmp_path / str(stop_after)
        go(0.35, folder, on_record=lambda record, last=stop_after: record.get("round", 0) >= last)
        resumed = go(0.35, folder, resume=True)
        assert same_bits(whole.model.state_dict(), resumed.model.state_dict())


def test_an_honest_run_has_the_same_bits_whether_it_is_watched_or_not():
    one, other = go(0.35), go(0.0)
    assert same_bits(one.model.state_dict(), other.model.state_dict())
    assert not any(record.get("left_out") for record in one.records)


def test_nobody_who_is_left_out_is_asked_again():
    setup = small_setup(small_federation(), small_config())
    _, orders = begin_round(setup, replace(start(setup), round=3, opposition={2: 0.9, 0: -0.2}))
    assert sorted(orders) == [0, 1, 3]
