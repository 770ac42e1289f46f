"""A private round: what one client can move, what is noised, what is not said, and what is refused by name."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.config import Config
from prunefl.core.ledger import SENSITIVITY
from prunefl.core.masks import Masks
from prunefl.core.randomness import SystemStream, seeded_normal
from prunefl.core.state import SparseState
from prunefl.engines.simulator import Simulator
from prunefl.methods import Update
from prunefl.methods.prunefl import PruneFL
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.private import (
    WITHIN,
    Mechanism,
    make_private,
    next_clip,
    refuse_broken_promise,
    release_state,
    release_statistic,
)
from prunefl.rounds.server import start
from prunefl.system.errors import PruneFLError
from tasks import small_config, small_federation, small_setup

NEEDED = {
    "training": {"weighting": "uniform"},
    "server": {"max_change": 0, "max_opposition": 0, "max_statistic": 0},
}


def private_config(noise_given=0.5, **sections) -> Config:
    tables = {"privacy": {"noise": noise_given}, **NEEDED}
    for name, table in sections.items():
        tables[name] = tables.get(name, {}) | table
    return small_config(**tables)


def silent(count: int):
    return np.zeros(count)


def state_of(values) -> SparseState:
    return SparseState({"weight": np.asarray(values, np.float32)}, Masks({}))


vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)


@given(st.lists(vectors, min_size=1, max_size=5), vectors, vectors, st.floats(1e-3, 1e3))
def test_replacing_one_client_moves_the_sum_by_at_most_twice_the_clip(others, one, another, clip):
    start_state, mechanism = state_of([0, 0, 0]), Mechanism(1.0, clip, 1, silent)
    moved = [
        release_state(mechanism, start_state, [state_of(v) for v in [*others, last]]).values["weight"]
        for last in (one, another)
    ]
    apart = float(np.linalg.norm(np.subtract(*moved, dtype=np.float64)))
    rounding = 1e-6 * clip * (len(others) + 1)
    assert apart <= SENSITIVITY["change"] * clip + rounding


@given(
    st.lists(st.floats(0, 1e6, width=32), min_size=4, max_size=4),
    st.lists(st.floats(0, 1e6, width=32), min_size=4, max_size=4),
)
def test_replacing_one_client_s_importance_moves_the_sum_by_at_most_a_right_angle(one, another):
    mechanism, shapes = Mechanism(1.0, 1.0, 1, silent), {"w": (4,)}
    moved = [
        release_statistic(mechanism, "importance", [{"w": np.asarray(v, np.float32)}], shapes)["w"]
        for v in (one, another)
    ]
    assert float(np.linalg.norm(np.subtract(*moved, dtype=np.float64))) <= SENSITIVITY["importance"] + 1e-6


def test_both_bounds_are_reached():
    mechanism, zero = Mechanism(1.0, 3.0, 1, silent), state_of([0, 0])
    there, back = (release_state(mechanism, zero, [state_of(v)]).values["weight"] for v in ([9, 0], [-9, 0]))
    assert np.linalg.norm(there - back) == pytest.approx(2 * 3.0)
    one, another = (
        release_statistic(mechanism, "importance", [{"w": np.float32(v)}], {"w": (2,)})["w"]
        for v in ([5, 0], [0, 5])
    )
    assert np.linalg.norm(one - another) == pytest.approx(np.sqrt(2))


def test_a_client_that_is_missing_is_not_divided_by():
    mechanism, zero = Mechanism(1.0, 10.0, 4, silent), state_of([1, 1])
    two = release_state(mechanism, zero, [state_of([3, 1]), state_of([1, 5])])
    assert two.values["weight"].tolist() == [1 + 2 / 4, 1 + 4 / 4]


@pytest.mark.parametrize(
    "normal", [seeded_normal(3, "test"), SystemStream().normal], ids=["seeded", "system"]
)
def test_the_noise_on_the_mean_has_the_size_that_is_accounted_for(normal):
    count, mechanism = 40_000, Mechanism(0.5, 3.0, 10, normal)
    zero = state_of(np.zeros(count))
    found = release_state(mechanism, zero, [zero] * 3).values["weight"]
    # 0.5 · 3 on the sum, a tenth of it on the mean; four standard errors
    assert found.std() == pytest.approx(0.15, rel=4 / np.sqrt(2 * count))
    assert abs(found.mean()) < 4 * 0.15 / np.sqrt(count)
    statistic = release_statistic(mechanism, "gradient", [], {"w": (count,)})["w"]
    assert statistic.std() == pytest.approx(0.05, rel=4 / np.sqrt(2 * count))


def test_system_noise_cannot_be_drawn_again():
    assert not np.array_equal(SystemStream().normal(8), SystemStream().normal(8))
    assert np.array_equal(seeded_normal(1, "x", 2)(8), seeded_normal(1, "x", 2)(8))


def test_noise_does_not_make_a_variance_negative():
    masks, normal = Masks({}), seeded_normal(0, "test")
    values = {name: np.ones(1000, np.float32) for name in ("bn.running_mean", "bn.running_var")}
    state = SparseState(values, masks)
    found = release_state(Mechanism(5.0, 1.0, 1, normal), state, [state])
    assert found.values["bn.running_mean"].min() < 0 <= found.values["bn.running_var"].min()


def test_a_client_sends_its_clipped_change_and_neither_loss_nor_memory():
    config = private_config()
    begun, trained = state_of([1, 1]), state_of([4, 5])
    sent = make_private(config, Update(trained, 0.7, {"w": np.float32([0, 8])}), begun, 2.5)
    assert sent.state.values["weight"].tolist() == [2.5, 3.0]
    assert sent.statistic["w"].tolist() == [0, 1]
    assert (sent.loss, sent.numbers) == (0.0, {})
    assert not sent.memory.arrays


def test_a_change_that_is_not_finite_is_none():
    begun = state_of([1, 1])
    sent = make_private(private_config(), Update(state_of([np.nan, 5]), np.nan), begun, 1.0)
    assert sent.state.values["weight"].tolist() == [1, 1]
    assert sent.loss == 0.0


def test_the_clip_follows_the_quantile_of_the_norms():
    config = private_config(privacy={"noise": 0.01, "quantile": 0.5})
    norms, clip = np.random.default_rng(0).lognormal(1.0, 0.5, 41), 100.0
    for round in range(150):
        told = [{WITHIN: float(norm <= clip)} for norm in norms]
        clip = next_clip(config, Mechanism(0.01, clip, len(norms), seeded_normal(0, "t", round)), told)
    assert clip == pytest.approx(np.median(norms), rel=0.15)


METHODS = {
    "feddst": "masks of their own",
    "dpf": "other masks",
    "online": "losses of single clients",
    "ssfl": "single clients",
    "initial-only": "would prune by no data at all",
    "ticket": "masks come from another run",
} | dict.fromkeys(("feddip", "fedmef", "fedrts", "fedtiny", "sparsyfed"), "masks of their own")


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_look_at_single_clients_are_refused_by_name(method):
    config = private_config(run={"method": method}, pruning={"density": 0.5})
    with pytest.raises(PruneFLError, match=f"run.method='{method}'.*{METHODS[method]}"):
        small_setup(small_federation(), config)


@pytest.mark.parametrize("privacy", [{"noise": 0.5}, {"noise": 0.0, "secure": True}])
def test_a_method_that_begins_at_single_clients_is_refused(monkeypatch, privacy):
    monkeypatch.setattr(PruneFL, "prunes_first", True)
    config = private_config(privacy=privacy)
    with pytest.raises(
        PruneFLError, match=r"run.method='prunefl-fisher' begins at single clients.*with privacy\."
    ):
        small_setup(small_federation(), config)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"server": {"aggregate": "median"}}, "server.aggregate=mean.*median"),
        ({"server": {"aggregate": "trimmed_mean"}}, "server.aggregate=mean"),
        ({"server": {"max_change": 5.0}}, "server.max_change=0.*cohort's median"),
        ({"server": {"max_opposition": 0.35}}, "server.max_opposition=0.*tells of them"),
        ({"server": {"clip_norm": 1.0}}, "server.clip_norm=0"),
        ({"training": {"weighting": "samples"}}, "training.weighting=uniform.*no bound"),
        ({"importance": {"window": "all"}}, "importance.window=1"),
        ({"optimiser": {"name": "adam", "keep": True}}, "optimiser.keep=false"),
        ({"wire": {"precision": "int8"}}, "wire.precision=float32"),
        ({"evaluation": {"share": 0.2}}, "evaluation.share=0"),
        ({"time": {"refit": True}}, "time.refit=false"),
        (
            {"privacy": {"secure": True}, "evaluation": {"share": 0.2}},
            "privacy.noise=0.5 needs evaluation.share=0",
        ),
        ({"privacy": {"clip": 0.0}}, "privacy.clip=0.0, must be > 0"),
        ({"privacy": {"delta": 0.0}}, "privacy.delta=0.0, must be > 0"),
        ({"privacy": {"noise": 0.0, "epsilon": 8.0}}, "privacy.epsilon=8.0 needs privacy.noise > 0"),
        ({"privacy": {"noise": 0.0, "clip": 2.0}}, "privacy.clip=2.0 needs privacy.noise > 0"),
    ],
)
def test_settings_that_break_the_promise_are_refused_by_name(sections, words):
    with pytest.raises(PruneFLError, match=words):
        private_config(**sections)


def test_a_budget_that_the_rounds_cannot_keep_is_refused_with_a_noise_that_would():
    config = private_config(privacy={"noise": 1.0, "epsilon": 4.0})
    setup = small_setup(small_federation(), config)
    with pytest.raises(
        PruneFLError, match=r"privacy.epsilon=4: 8 rounds .* come to .*; privacy.noise=(\S+)"
    ) as error:
        refuse_broken_promise(setup, start(setup))
    enough = float(
        str(error.value).partition("privacy.noise=1 ")[2].partition("privacy.noise=")[2].split()[0]
    )
    kept = dataclasses.replace(config, privacy=dataclasses.replace(config.privacy, noise=enough * 1.001))
    setup = small_setup(small_federation(), kept)
    refuse_broken_promise(setup, start(setup))


def test_a_delta_that_lets_one_client_be_told_of_is_refused():
    setup = small_setup(small_federation(), private_config(privacy={"delta": 0.3}))
    with pytest.raises(PruneFLError, match=r"privacy.delta=0.3, must be < 1/4"):
        refuse_broken_promise(setup, start(setup))


def test_a_round_that_would_exceed_the_budget_is_not_begun(tmp_path: Path):
    federation, config = small_federation(), private_config(privacy={"noise": 20.0})
    setup = small_setup(federation, config)
    with Simulator(setup, federation.clients, tmp_path) as engine:
        states = [state for state, _ in run_rounds(setup, start(setup), engine)]
    from prunefl.rounds.accounting import epsilon_of

    spent = [epsilon_of(state.spent.ledger, config.privacy.delta) for state in states]
    assert len(spent) == 8
    assert all(before < after for before, after in itertools.pairwise(spent))
    # as if rounds had been done twice: a budget for five and a half
    limited = dataclasses.replace(
        config, privacy=dataclasses.replace(config.privacy, epsilon=(spent[4] + spent[5]) / 2)
    )
    setup = small_setup(federation, limited)
    with Simulator(setup, federation.clients, tmp_path / "again") as engine:
        states = [state for state, _ in run_rounds(setup, start(setup), engine)]
    assert len(states) == 5
    assert epsilon_of(states[-1].spent.ledger, config.privacy.delta) <= limited.privacy.epsilon


@pytest.mark.parametrize(
    "method", ["conventional", "prunefl", "prunefl-fisher", "snip", "rigl", "prunetrain", "iterative"]
)
def test_methods_go_by_noised_sums_alone(tmp_path: Path, method):
    federation = small_federation()
    config = private_config(
        privacy={"noise": 0.01},
        run={"method": method},
        pruning={"density": 0.5}
        if method not in ("conventional", "prunefl", "prunefl-fisher", "prunetrain")
        else {},
    )
    setup = small_setup(federation, config)
    seen = []
    wrapped = type(setup.method).next

    def watched(self, found):
        seen.append([(update.client, update.share) for update in found.updates])
        return wrapped(self, found)

    with pytest.MonkeyPatch.context() as patch, Simulator(setup, federation.clients, tmp_path) as engine:
        patch.setattr(type(setup.method), "next", watched)
        outcomes = [outcome for _, outcome in run_rounds(setup, start(setup), engine)]
    assert [outcome.round for outcome in outcomes] == list(range(1, 9))
    assert all(outcome.loss is None and not outcome.bounded for outcome in outcomes)
    assert seen == [[(-1, 1.0)]] * 8


def test_a_secret_cohort_is_drawn_anew_and_evenly():
    config = private_config(training={"participants": 2})
    setup = dataclasses.replace(small_setup(small_federation(), config), secret=True)
    drawn = [tuple(setup.choose_cohort(1)) for _ in range(1200)]
    assert len(set(drawn)) == 6
    assert all(150 < drawn.count(cohort) < 250 for cohort in set(drawn))
