"""Attacks on a server's memory and time, by a member and by strangers; `make drills` runs them."""

import os
import time
from statistics import median

import httpx
import pytest
from attackers import Flood, Insider, memory, rush
from drilled import config, drill, go_on, start, took_part
from realm import realm


@drill
def test_a_member_cannot_fill_the_servers_memory(tmp_path):
    with realm(tmp_path / "r", config()) as town:
        start(town)
        before = memory(town)
        with Insider(town, 2) as insider:
            for number in range(300):
                with pytest.raises(httpx.HTTPStatusError, match="403"):
                    insider.push_object(f"{number:064d}", os.urandom(4 << 20))
        assert memory(town) - before < 100 << 20
        assert took_part(go_on(town), 0)


@drill
def test_two_thousand_connections_cost_little_time_and_memory(tmp_path):
    with realm(tmp_path / "r", config(rounds=5000)) as town:
        start(town, 4)
        calm = go_on(town, 20)
        before = memory(town)
        mark, flood, most = town.round(), Flood(town, 2000, a_second=100, threads=16), 0
        while not flood.is_over:
            most = max(most, memory(town))
            time.sleep(0.5)
        attacked = [record for record in town.rounds() if record["round"] > mark]
        flood.close()
        describe(f"{flood.opened} connections, 100 a second", calm, attacked, most - before)
        assert most - before < 100 << 20
        assert attacked
        assert all(took_part(attacked, client) for client in range(3))


@drill
def test_two_thousand_connections_at_once_cost_little_time_and_memory(tmp_path):
    with realm(tmp_path / "r", config(rounds=5000)) as town:
        start(town, 4)
        calm = go_on(town, 20)
        before = memory(town)
        mark, most, lines = town.round(), 0, []
        # all that there are, again and again: those of strangers are ended after some seconds
        for _ in range(5):
            for line in lines:
                line.close()
            lines = rush(town, 2000)
            until = time.monotonic() + 4
            while time.monotonic() < until:
                most = max(most, memory(town))
                time.sleep(0.5)
        attacked = [record for record in town.rounds() if record["round"] > mark]
        for line in lines:
            line.close()
        describe("5 times 2000 connections at once", calm, attacked, most - before)
        assert most - before < 100 << 20
        assert attacked
        assert all(took_part(attacked, client) for client in range(3))
        assert took_part(go_on(town), 0)


def describe(what: str, calm: list[dict], attacked: list[dict], more: int) -> None:
    """Print what an attack costs."""
    seconds = [[record["wall_seconds"] for record in records] for records in (calm, attacked)]
    print(
        f"\n{what}: {median(seconds[0]):.2f} s a round, {median(seconds[1]):.2f} s attacked "
        f"(median of {len(attacked)}, longest {max(seconds[1]):.2f} s, before {max(seconds[0]):.2f} s), "
        f"{more / 1e6:.0f} MB more"
    )
