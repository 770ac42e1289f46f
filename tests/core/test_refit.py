"""A wrong profile corrects itself from the round times that are seen."""

import numpy as np
import pytest

from prunefl.core.refit import Evidence, fitted, observe
from prunefl.core.time_model import KinkedTime, LinearTime

TRUE = LinearTime(6.0, {"a": 4e-5, "b": 3e-6})


def shrinking(rounds: int, rng: np.random.Generator) -> list[dict[str, int]]:
    """Return live counts of a model that changes every fifty rounds."""
    changes = [
        {"a": int(n), "b": int(m)}
        for n, m in zip(rng.integers(1e4, 1e5, 40), rng.integers(1e5, 5e6, 40), strict=True)
    ]
    return [changes[k // 50] for k in range(rounds)]


@pytest.mark.parametrize(
    "profile",
    [LinearTime(3.0, {"a": 8e-5, "b": 3e-6}), LinearTime(20.0, {"a": 1e-5, "b": 1e-5}), TRUE],
)
def test_round_times_that_are_seen_correct_the_profile(profile: LinearTime, rng: np.random.Generator) -> None:
    state = Evidence()
    for counts in shrinking(2000, rng):
        state = observe(state, profile, counts, TRUE.seconds(counts) * rng.lognormal(0, 0.02))
    found = fitted(state, profile)
    for counts in shrinking(2000, rng)[::50]:
        assert found.seconds(counts) == pytest.approx(TRUE.seconds(counts), rel=0.06)
        assert abs(found.seconds(counts) - TRUE.seconds(counts)) <= 1.2 * abs(
            profile.seconds(counts) - TRUE.seconds(counts)
        ) + 0.05 * TRUE.seconds(counts)


def test_one_size_alone_corrects_the_sum_and_keeps_the_proportions() -> None:
    profile = LinearTime(3.0, {"a": 2e-5, "b": 1.5e-6})
    state = Evidence()
    counts = {"a": 50_000, "b": 1_000_000}
    for _ in range(100):
        state = observe(state, profile, counts, 2 * profile.seconds(counts))
    found = fitted(state, profile)
    assert found.seconds(counts) == pytest.approx(2 * profile.seconds(counts), rel=0.01)
    assert all(t > 1.1 * profile.per_weight[n] for n, t in found.per_weight.items())


def test_nothing_seen_leaves_the_profile_as_it_is() -> None:
    assert fitted(Evidence(), TRUE) == TRUE


def test_kinks_stay_where_they_are() -> None:
    # not fresh inputs: where all of ten sizes lie on one side of the kink, the profile's pull is seen beyond it
    rng = np.random.default_rng(0)
    profile = KinkedTime(1.0, {"a": ((0.0, 1e-5), (0.5, 0.0)), "b": ((0.1, 1e-6),)})
    state = Evidence()
    for counts in shrinking(500, rng):
        state = observe(state, profile, counts, 3 * profile.seconds(counts))
    found = fitted(state, profile)
    assert isinstance(found, KinkedTime)
    (a, b), (c, d) = found.ways["a"]
    assert c / b == pytest.approx(0.5 / 1e-5)
    assert a == d == 0.0
    assert found.seconds({"a": 10**5, "b": 10**6}) == pytest.approx(
        3 * profile.seconds({"a": 10**5, "b": 10**6}), rel=0.02
    )


def test_no_factor_becomes_negative_and_bad_times_are_refused(rng: np.random.Generator) -> None:
    state = Evidence()
    for k, counts in enumerate(shrinking(300, rng)):
        state = observe(state, TRUE, counts, 1.0 if k % 2 else 50.0)
    found = fitted(state, TRUE)
    assert found.constant >= 0
    assert min(found.per_weight.values()) >= 0
    with pytest.raises(ValueError, match=r"seconds=0.0, must be finite and > 0"):
        observe(state, TRUE, {"a": 1, "b": 1}, 0.0)
