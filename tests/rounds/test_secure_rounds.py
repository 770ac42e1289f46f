"""Rounds with privacy.secure: the same model as without, but for the grid; who is gone costs its own update alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunefl.engines.simulator import Simulator
from prunefl.privacy.errors import Refused
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.secure_client import Vault, introduce_ahead
from prunefl.rounds.server import Outcome, ServerState, start
from prunefl.rounds.updates import RoundFailed
from prunefl.system.errors import PruneFLError
from tasks import same_bits, small_config, small_federation, small_setup

UNBOUND = {"max_change": 0, "max_opposition": 0, "max_statistic": 0}
Lost = Callable[[int, str, int], bool]
"""Of a client, a step and how often it was asked for that before: whether its answer is lost."""


def step_of(order: Order) -> str:
    if isinstance(order.work, SecureWork):
        return order.work.step
    return "evaluate" if isinstance(order.work, EvaluationWork) else "mask"


class Lossy(Simulator):
    """Loses answers; `carried` has the steps that were asked for, with how many clients."""

    lost: Lost = staticmethod(lambda client, step, before: False)
    joining: Sequence[int] = ()

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        self.carried = getattr(self, "carried", [])
        step = step_of(next(iter(orders.values())))
        before = sum(one == step for one, _ in self.carried)
        self.carried.append((step, len(orders)))
        for reply in self._reply(state, orders):
            if not self.lost(reply.client, step, before):
                yield reply

    def _reply(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        """Yield what comes of each order; a client that refuses its own does not answer."""
        for client, order in orders.items():
            with suppress(Refused):
                yield from super().carry(state, {client: order})

    def take_keys(self, epoch: int) -> Mapping[int, tuple[int, bytes]]:
        found = dict(super().take_keys(epoch))
        for client in self.joining:
            vault = self._secure._vaults[client]
            self._secure._vaults[client], key = introduce_ahead(vault, self._secure._member(client), epoch)
            found[client] = (epoch, key)
        self.joining = []
        return {client: one for client, one in found.items() if not self.lost(client, "join", 0)}

    def restart(self, client: int) -> None:
        """Lose all that a client has in memory."""
        self._secure._vaults[client] = Vault()


def config_of(secure: bool, **sections: Any):
    privacy = {"secure": secure, **sections.pop("privacy", {})}
    server = UNBOUND | sections.pop("server", {})
    return small_config(privacy=privacy, server=server, **sections)


def run(folder: Path, lost: Lost | None = None, secure: bool = True, **sections: Any):
    """Return the final state, the outcomes, and the steps that were carried."""
    config = config_of(secure, **{"run": {"method": "further-only", "rounds": 4}, **sections})
    federation = small_federation()
    setup = small_setup(federation, config)
    folder.mkdir()
    with Lossy(setup, federation.clients, folder) as engine:
        if lost is not None:
            engine.lost = lost
        found: list[tuple[ServerState, Outcome]] = list(run_rounds(setup, start(setup), engine))
    return found[-1][0], [outcome for _, outcome in found], engine.carried


def largest_difference(one: ServerState, other: ServerState) -> float:
    assert one.sparse.masks == other.sparse.masks
    return max(float(np.abs(one.sparse.values[n] - other.sparse.values[n]).max()) for n in one.sparse.values)


@pytest.mark.parametrize("method", ["further-only", "conventional", "iterative", "snip"])
def test_a_secure_run_comes_to_the_open_runs_model_but_for_the_grid(method: str, tmp_path: Path) -> None:
    pruning = {"density": 0.4} if method in ("iterative", "snip") else {}
    sections = {"run": {"method": method, "rounds": 4}, "pruning": pruning}
    secret, outcomes, _ = run(tmp_path / "secret", **sections)
    plain, plain_outcomes, _ = run(tmp_path / "plain", secure=False, **sections)
    assert largest_difference(secret, plain) < 2e-6
    losses = ([outcome.loss for outcome in some] for some in (outcomes, plain_outcomes))
    assert np.allclose(*losses, atol=1e-5)
    assert any(outcome.reconfigured for outcome in outcomes) == (method != "conventional")


def test_masks_are_random_and_the_run_is_not(tmp_path: Path) -> None:
    one, other = (run(tmp_path / name)[0] for name in ("one", "other"))
    assert same_bits(one.sparse.values, other.sparse.values)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_16_bits_carry_what_they_keep_back_to_the_next_round(precision: str, tmp_path: Path) -> None:
    sections = {"run": {"method": "conventional", "rounds": 8}}
    narrow, outcomes, _ = run(tmp_path / "narrow", wire={"precision": precision}, **sections)
    wide, _, _ = run(tmp_path / "wide", **sections)
    assert largest_difference(narrow, wide) < 0.02
    # the first round does not know yet what is usual
    assert outcomes[-1].charge.bytes_up < 0.6 * outcomes[0].charge.bytes_up


@pytest.mark.parametrize("step", ["join", "share", "mask", "unmask"])
def test_a_client_that_is_gone_at_any_step_costs_its_own_update_alone(step: str, tmp_path: Path) -> None:
    """Of four, three must remain. Before it has sent its vector, the rest is the mean of the others."""
    one_round = {"run": {"method": "conventional", "rounds": 1}}
    state, (outcome,), _ = run(
        tmp_path / "run", lambda client, at, before: client == 2 and at == step, **one_round
    )
    if step == "unmask":
        whole, _, _ = run(tmp_path / "whole", **one_round)
        assert same_bits(state.sparse.values, whole.sparse.values)
        assert outcome.secure.clients == 4
        return
    others, _, _ = run(tmp_path / "others", secure=False, server={"clients": [0, 1, 3]}, **one_round)
    assert largest_difference(state, others) < 1e-6
    assert (outcome.secure.clients, outcome.secure.repeats, list(outcome.refused)) == (3, 0, [2])


@pytest.mark.parametrize("step", ["share", "mask", "unmask"])
def test_below_the_threshold_the_round_is_repeated_and_comes_to_the_same(step: str, tmp_path: Path) -> None:
    def lost(client: int, at: str, before: int) -> bool:
        return client in (1, 2) and at == step and before == 0

    sections = {"run": {"method": "further-only", "rounds": 4}, "optimiser": {"momentum": 0.5, "keep": True}}
    state, outcomes, _ = run(tmp_path / "run", lost, **sections)
    whole, _, _ = run(tmp_path / "whole", **sections)
    assert [outcome.secure.repeats for outcome in outcomes] == [1, 0, 0, 0]
    assert same_bits(state.sparse.values, whole.sparse.values)


@pytest.mark.parametrize("again", [False, True])
def test_where_too_few_have_come_with_a_key_all_are_asked_for_one(again: bool, tmp_path: Path) -> None:
    def lost(client: int, at: str, before: int) -> bool:
        return client in (1, 2) and (at == "join" or (again and at == "introduce" and before == 0))

    sections = {"run": {"method": "conventional", "rounds": 2}}
    state, outcomes, carried = run(tmp_path / "run", lost, **sections)
    whole, _, _ = run(tmp_path / "whole", **sections)
    assert [outcome.secure.repeats for outcome in outcomes] == [int(again), 0]
    assert [step for step, _ in carried].count("introduce") == 1 + again
    assert same_bits(state.sparse.values, whole.sparse.values)


def test_a_round_that_lacks_clients_again_and_again_ends_in_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        RoundFailed, match=r"round 1: tried 3 times.*privacy.threshold=0.66.*2 of 4 clients are left"
    ):
        run(tmp_path / "run", lambda client, at, before: client in (1, 2) and at == "mask")


def test_clients_evaluate_in_a_sum_too(tmp_path: Path) -> None:
    sections = {
        "run": {"method": "conventional", "rounds": 2},
        "evaluation": {"share": 0.25, "personal_steps": 2},
        "training": {"weight_cap": 0},
    }
    _, secret, _ = run(tmp_path / "secret", **sections)
    _, plain, _ = run(tmp_path / "plain", secure=False, **sections)
    for name in ("clients", "samples"):
        assert getattr(secret[-1].evaluation, name) == getattr(plain[-1].evaluation, name)
    for name in ("accuracy", "client_accuracy"):
        assert getattr(secret[-1].evaluation, name) == pytest.approx(
            getattr(plain[-1].evaluation, name), abs=1e-3
        )
    assert secret[-1].evaluation.loss == pytest.approx(plain[-1].evaluation.loss, abs=1e-3)
    assert secret[-1].evaluation.scores == {}
    assert secret[-1].evaluation.worst_tenth is None
    assert secret[-1].evaluation.summed_personal.clients == 4


def test_the_clock_charges_every_byte_and_exchange(tmp_path: Path) -> None:
    sections = {"run": {"method": "conventional", "rounds": 2}, "fleet": [{"count": 4, "latency": 100.0}]}
    _, secret, _ = run(tmp_path / "secret", **sections)
    _, plain, _ = run(tmp_path / "plain", secure=False, **sections)
    # the first takes keys that came with the clients, and has them shared; the second is one exchange more
    more = [
        one.charge.seconds.total - other.charge.seconds.total
        for one, other in zip(secret, plain, strict=True)
    ]
    assert 500 < more[0] < 501
    assert 200 < more[1] < 201
    assert secret[1].charge.bytes_up > plain[1].charge.bytes_up


def test_initial_pruning_is_skipped_or_done_in_the_first_rounds(tmp_path: Path) -> None:
    common = {"pruning": {"interval": 6}, "initial": {"interval": 2, "max_passes": 4, "samples": 40}}
    skipped = run(tmp_path / "skipped", run={"method": "prunefl", "rounds": 8}, **common)[1]
    early = run(
        tmp_path / "early", run={"method": "prunefl", "rounds": 8}, privacy={"initial": "rounds"}, **common
    )[1]
    assert [o.round for o in skipped if "reconfiguration" in o.notes] == [6]
    assert [o.round for o in early if "reconfiguration" in o.notes] == [2, 4, 6]


@pytest.mark.parametrize(
    ("sections", "rule"),
    [
        ({"server": {"aggregate": "median"}}, "server.aggregate='median' looks at single updates"),
        (
            {"server": {"aggregate": "trimmed_mean"}},
            "server.aggregate='trimmed_mean' looks at single updates",
        ),
        ({"server": {"clip_norm": 1.0}}, "server.clip_norm=1 looks at single updates"),
        ({"server": {"max_change": 5.0}}, "server.max_change=5 looks at single updates, must be 0"),
        (
            {"server": {"max_opposition": 0.35}},
            "server.max_opposition=0.35 looks at single updates, must be 0",
        ),
        ({"server": {"max_statistic": 10.0}}, "server.max_statistic=10 looks at single updates, must be 0"),
        ({"data": {"clients": 2}}, "data.clients=2, must be >= 3 with privacy.secure=true"),
        ({"training": {"participants": 2}}, "training.participants=2, must be >= 3"),
        ({"server": {"clients": [0, 1]}}, "number of clients=2, must be >= 3"),
        ({"privacy": {"threshold": 0.5}}, "privacy.threshold=0.5, must be > 0.5"),
        ({"privacy": {"threshold": 1.1}}, "privacy.threshold=1.1, must be > 0.5 and <= 1"),
        ({"privacy": {"neighbours": 3}}, "privacy.neighbours=3, must be 0 or an even number >= 4"),
        ({"privacy": {"neighbours": 4}}, "privacy.neighbours=4, must be < 4"),
        ({"privacy": {"initial": "one"}}, "privacy.initial='one', must be one of skip, rounds"),
        (
            {"run": {"method": "feddst"}, "pruning": {"density": 0.5}},
            "run.method='feddst' needs each client's own",
        ),
        ({"run": {"method": "dpf"}, "pruning": {"density": 0.5}}, "run.method='dpf' needs each client's own"),
        ({"run": {"method": "online"}}, "run.method='online' needs each client's own"),
        (
            {"run": {"method": "ssfl"}, "pruning": {"density": 0.5}},
            "run.method='ssfl' needs each client's own",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(sections: dict[str, Any], rule: str) -> None:
    with pytest.raises(PruneFLError) as caught:
        small_setup(small_federation(), config_of(True, **sections))
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"neighbours": 4}, {"initial": "rounds"}])
def test_settings_of_secure_sums_are_refused_without_them(setting: dict[str, Any]) -> None:
    with pytest.raises(PruneFLError, match=r"needs privacy.secure=true"):
        config_of(False, privacy=setting)
