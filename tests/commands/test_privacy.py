"""`prunefl privacy` says what a run would say at its end, and refuses what a run would refuse."""

import json

import pytest

from prunefl.commands.configs import resolve
from prunefl.commands.privacy import lines, privacy
from prunefl.core.ledger import Ledger, Release, multiplier_of
from prunefl.rounds.accounting import epsilon_of
from prunefl.runs.promise import describe_promise
from prunefl.system.errors import PruneFLError

PRIVATE = [
    "femnist-select-fast",
    "privacy.noise=4",
    "privacy.delta=1e-3",
    "training.weighting=uniform",
    "server.max_change=0",
    "server.max_opposition=0",
    "server.max_statistic=0",
]


def test_epsilon_is_that_of_the_planned_rounds(capsys):
    privacy([*PRIVATE, "run.rounds=50"], as_json=True)
    found = json.loads(capsys.readouterr().out)
    # importance is reported before the reconfigurations after rounds 20 and 40
    plain, reporting = multiplier_of(4.0, ["change"]), multiplier_of(4.0, ["change", "importance"])
    expected = Ledger().plus([Release(193, 10, plain, 48), Release(193, 10, reporting, 2)])
    assert found["epsilon"] == pytest.approx(epsilon_of(expected, 1e-3))
    assert (found["rounds_with_importance"], found["clients"], found["cohort"]) == (2, 193, 10)
    assert "trusted" in found["who_sees"]["the server"]


def test_without_noise_nothing_is_promised():
    found = describe_promise(resolve(["digits"], None)[0])
    assert found["epsilon"] is None
    assert lines(found)[0] == "no differential privacy: privacy.noise=0"
    assert any("as they are" in line for line in lines(found))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["privacy.epsilon=0.5"], r"privacy.epsilon=0.5: 300 rounds .*privacy.noise=\S+ would keep it"),
        (["privacy.delta=0.1"], "privacy.delta=0.1, must be < 1/193"),
        (["run.method=feddst", "pruning.density=0.1"], "feddst"),
        (["data.name=digits"], "data.clients=0, must be given"),
    ],
)
def test_what_a_run_would_refuse_is_refused(words, said):
    with pytest.raises(PruneFLError, match=said):
        describe_promise(resolve([*PRIVATE, *words], None)[0])
