"""privacy.secure and privacy.noise together: the server learns a noised sum, and who is gone breaks no promise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_secure_rounds import Lost, config_of, largest_difference, run

from prunefl.engines.simulator import Simulator
from prunefl.methods import Update, Work
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Layout
from prunefl.privacy.noise_shares import Noising
from prunefl.rounds.accounting import epsilon_of
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import Order
from prunefl.rounds.noised_vectors import lay_out_noised, make_noised_vector, noise_vector, refuse_other_noise
from prunefl.rounds.private import make_private
from prunefl.rounds.server import ServerState, start
from prunefl.system.errors import PruneFLError
from tasks import same_bits, small_federation, small_network, small_setup

LITTLE = 1e-6
"""Noise that does not show, to compare with."""
CLIP = 50.0
"""More than any change here."""


def noised_run(folder: Path, noise: float, lost: Lost | None = None, secure: bool = True, **sections: Any):
    privacy = {"noise": noise, "clip": CLIP, "delta": 1e-2, **sections.pop("privacy", {})}
    training = {"weighting": "uniform", **sections.pop("training", {})}
    return run(folder, lost, secure, privacy=privacy, training=training, **sections)


def difference(one: ServerState, other: ServerState) -> np.ndarray:
    return np.concatenate(
        [(one.sparse.values[n] - other.sparse.values[n]).ravel() for n in one.sparse.values]
    )


ONE_ROUND = {"run": {"method": "conventional", "rounds": 1}}


@pytest.mark.parametrize("gone", [None, 2])
def test_the_sum_has_the_promised_noise_with_and_without_one_that_drops_out(gone, tmp_path: Path) -> None:
    """Of four, three must remain: three shares are what is promised, four are more."""

    def lost(client: int, step: str, before: int) -> bool:
        return client == gone and step == "mask"

    noised, (outcome,), _ = noised_run(tmp_path / "noised", 0.01, lost, **ONE_ROUND)
    plain, _, _ = noised_run(tmp_path / "plain", LITTLE, lost, **ONE_ROUND)
    assert outcome.secure.clients == (4 if gone is None else 3)
    assert outcome.loss is None
    found = difference(noised, plain)
    promised = 0.01 * CLIP / 4
    wanted = promised * np.sqrt(outcome.secure.clients / 3)
    assert found.std() == pytest.approx(wanted, rel=4 / np.sqrt(2 * found.size))
    assert abs(found.mean()) < 4 * wanted / np.sqrt(found.size)


def test_with_hardly_any_noise_it_is_the_run_without_secure_sums(tmp_path: Path) -> None:
    sections = {"run": {"method": "further-only", "rounds": 7}}
    both, outcomes, _ = noised_run(tmp_path / "both", LITTLE, **sections)
    alone, alone_outcomes, _ = noised_run(tmp_path / "alone", LITTLE, secure=False, **sections)
    found, wanted = ([o.round for o in some if o.reconfigured] for some in (outcomes, alone_outcomes))
    assert found == wanted == [3, 6]
    # where importance is next to nothing, noise of two runs chooses differently
    one, other = both.sparse, alone.sparse
    dense = [np.concatenate([s.dense(n).ravel() for n in s.values]) for s in (one, other)]
    assert np.mean((dense[0] != 0) != (dense[1] != 0)) < 0.05
    assert np.median(np.abs(dense[0] - dense[1])) < 1e-3
    assert both.spent.ledger == alone.spent.ledger
    assert [outcome.secure.exchanges for outcome in outcomes] == [3, 2, 2, 2, 2, 2, 2]


def test_without_masks_to_choose_the_two_are_as_near_as_their_noise(tmp_path: Path) -> None:
    sections = {"run": {"method": "conventional", "rounds": 5}}
    both, _, _ = noised_run(tmp_path / "both", LITTLE, **sections)
    alone, _, _ = noised_run(tmp_path / "alone", LITTLE, secure=False, **sections)
    assert largest_difference(both, alone) < 1e-3


def test_the_clip_follows_the_quantile_by_a_secure_sum_too(tmp_path: Path) -> None:
    sections = {"run": {"method": "conventional", "rounds": 5}, "privacy": {"quantile": 0.5}}
    both, _, _ = noised_run(tmp_path / "both", LITTLE, **sections)
    alone, _, _ = noised_run(tmp_path / "alone", LITTLE, secure=False, **sections)
    assert both.spent.clip == pytest.approx(alone.spent.clip, rel=1e-4)
    assert both.spent.clip < CLIP
    assert both.spent.ledger == alone.spent.ledger


def test_a_simulation_has_the_same_noise_each_time_and_in_a_repeated_round(tmp_path: Path) -> None:
    def lost(client: int, step: str, before: int) -> bool:
        return client in (1, 2) and step == "mask" and before == 0

    one, _, _ = noised_run(tmp_path / "one", 0.1)
    again, outcomes, _ = noised_run(tmp_path / "again", 0.1, lost)
    assert outcomes[0].secure.repeats == 1
    assert same_bits(one.sparse.values, again.sparse.values)


def test_the_run_ends_before_the_budget_is_exceeded_where_rounds_were_planned_for_less(
    tmp_path: Path,
) -> None:
    config = config_of(
        True,
        run={"method": "conventional", "rounds": 4},
        privacy={"noise": 4.0, "delta": 1e-2, "epsilon": 1.0},
        training={"weighting": "uniform"},
    )
    federation = small_federation()
    setup = small_setup(federation, config)
    with Simulator(setup, federation.clients, tmp_path) as engine:
        states = [state for state, _ in run_rounds(setup, start(setup), engine)]
    spent = [epsilon_of(state.spent.ledger, 1e-2) for state in states]
    assert 0 < len(states) < 4
    assert spent == sorted(spent)
    assert spent[-1] <= 1.0


def noising_of(noise: float = 0.5, clip: float = 1.0) -> Noising:
    return Noising(noise, clip, 3)


def private_config(**privacy: Any):
    return config_of(True, privacy={"noise": 0.5, **privacy}, training={"weighting": "uniform"})


def order_of(clip: float) -> Order:
    return Order(1, 0.1, b"", Work(), clip=clip)


@pytest.mark.parametrize(
    ("noising", "clip", "why"),
    [
        (None, 1.0, "a sum with noise of 0, but privacy.noise=0.5"),
        (noising_of(0.1), 1.0, "a sum with noise of 0.1, but privacy.noise=0.5"),
        (noising_of(), 7.0, "noise for a clip of 1, but changes are clipped to 7"),
    ],
)
def test_a_client_refuses_other_noise_than_it_was_told_when_it_joined(noising, clip: float, why: str) -> None:
    with pytest.raises(Refused) as caught:
        refuse_other_noise(private_config(), order_of(clip), noising)
    assert why in str(caught.value)
    refuse_other_noise(private_config(), order_of(1.0), noising_of())


def test_a_vector_tells_neither_loss_nor_weight_nor_more_than_the_clip(rng) -> None:
    network, config, noising = small_network(), private_config(quantile=0.5), noising_of(clip=2.0)
    begun = network.first
    moved = {
        name: value + rng.normal(0, 9, value.shape).astype(np.float32) for name, value in begun.values.items()
    }
    statistic = {
        n: np.abs(rng.normal(0, 1, s)).astype(np.float32) for n, s in network.template.parameters.items()
    }
    made = make_private(config, Update(replace(begun, values=moved), 0.7, statistic), begun, 2.0)
    work = Work(report="importance")
    segments = lay_out_noised(begun, network.template, work, noising, True)
    layout = Layout(segments, 4)
    vector = make_noised_vector(made, begun, layout, 2.0)
    assert {name.partition("/")[0] for name in vector} == {"weights", "statistic", "within_clip"}
    for prefix, most in (("weights/", 2.0), ("statistic/", 1.0)):
        norm = np.sqrt(sum(np.square(part).sum() for name, part in vector.items() if name.startswith(prefix)))
        assert most * 0.999 < norm <= most * (1 + 1e-12)
    assert vector["within_clip"].tolist() == [0.0]
    noise_vector(vector, noising, layout, rng.standard_normal)


def test_noise_that_32_bits_cannot_hold_is_refused_before_the_run() -> None:
    with pytest.raises(PruneFLError, match=r"privacy.noise=1e-09, must be >= \S+ with privacy.secure=true"):
        small_setup(
            small_federation(),
            config_of(True, privacy={"noise": 1e-9, "delta": 1e-2}, training={"weighting": "uniform"}),
        )
