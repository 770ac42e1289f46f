"""Shares bring a secret back as the library itself does, fewer of them bring none."""

import pytest
import shamirs
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl.privacy.shares import PRIME, SECRET_BYTES, SHARE_BYTES, join, split


@st.composite
def splits(draw: st.DrawFn):
    count = draw(st.integers(2, 30))
    holders = sorted(draw(st.permutations(range(3 * count)))[:count])
    needed = draw(st.integers(2, count))
    return draw(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)), holders, needed


@settings(deadline=None)
@given(splits(), st.randoms())
def test_any_that_are_enough_bring_the_secret_back_as_the_library_does(drawn, random) -> None:
    secret, holders, needed = drawn
    made = split(secret, holders, needed)
    assert {len(share) for share in made.values()} == {SHARE_BYTES}
    some = random.sample(holders, needed)
    assert join({holder: made[holder] for holder in some}, holders, needed) == secret
    given_back = [
        shamirs.share(holders.index(holder) + 1, int.from_bytes(made[holder], "little"), PRIME)
        for holder in some
    ]
    assert shamirs.interpolate(given_back) == int.from_bytes(secret, "little")


@pytest.mark.parametrize("secret", [bytes(SECRET_BYTES), b"\xff" * SECRET_BYTES])
def test_the_smallest_and_the_largest_secret_come_back(secret: bytes) -> None:
    holders = [3, 5, 8, 13]
    assert join(split(secret, holders, 3), holders, 3) == secret


def test_one_too_few_or_one_that_is_wrong_bring_back_another(rng) -> None:
    secret, holders = rng.bytes(SECRET_BYTES), list(range(10))
    made = split(secret, holders, 7)
    six = {holder: made[holder] for holder in range(6)}
    assert join(six, holders, 6) != secret
    wrong = {**made, 2: bytes(SHARE_BYTES)}
    assert join(wrong, holders, 7) != secret


def test_shares_of_one_secret_are_new_each_time(rng) -> None:
    secret = rng.bytes(SECRET_BYTES)
    assert split(secret, [1, 2, 3], 2) != split(secret, [1, 2, 3], 2)
