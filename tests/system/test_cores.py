"""A process that may use fewer cores than the machine has counts those alone."""

import os

import pytest

from prunefl.system.cores import cores, count_workers


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be taken away here")
def test_only_the_cores_we_may_use_count() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cores() == count_workers(0) == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_number_asked_for_is_taken() -> None:
    assert count_workers(7) == 7
