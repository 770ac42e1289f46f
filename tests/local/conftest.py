"""Every set of instructions that this machine has, one after another."""

from collections.abc import Iterator

import pytest

from prunefl import _kernels


@pytest.fixture(params=_kernels.paths())
def every_path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute by one of the kernels' instruction paths; see tests/local/test_paths.py for how one is chosen."""
    before = _kernels.path()
    _kernels.use_path(request.param)
    assert _kernels.path() == request.param
    yield request.param
    _kernels.use_path(before)
