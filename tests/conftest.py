"""Make the tests' own modules importable; one thread of arithmetic, measurements and random inputs of their own.

Property tests and seeded loops draw new inputs in every run of CI (CI=true); their seed is printed, and
`--hypothesis-seed=N` repeats them. Elsewhere the loops draw from seed 0.
"""

import contextlib
import os
import secrets
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# Before the kernels, which then share its threads. Some rooms are also tested where there is none (`make test-arm64`).
with contextlib.suppress(ModuleNotFoundError):
    import torch

sys.path.insert(0, str(Path(__file__).parent))

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
FRESH = pytest.StashKey[int]()

# Hypothesis has a profile for CI that draws the same inputs in every run
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("ci"), derandomize=False, database=None, deadline=None
)
hypothesis.settings.load_profile("ci" if IN_CI else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before Hypothesis' own plugin looks for one."""
    if IN_CI and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    config.stash[FRESH] = int(config.option.hypothesis_seed or 0)


FAST_ROOMS = {"config", "core", "devices", "models", "system", "wire"}
"""Rooms whose tests are quick: `make test-fast`."""


LONG_ROOMS = ("integration", "engines", "report", "dashboard")
"""Rooms that take longest, in this order: they begin first, so that no core waits for another at the end."""


def room_of(path: Path) -> str:
    """Return the room that a test file is in."""
    return path.relative_to(Path(__file__).parent).parts[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of quick rooms, and put those of long ones first."""
    for item in items:
        if room_of(item.path) in FAST_ROOMS:
            item.add_marker(pytest.mark.fast)
    order = {room: place for place, room in enumerate(LONG_ROOMS)}
    items.sort(key=lambda item: order.get(room_of(item.path), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file to one worker, for what its tests share; and federations to two, lest they starve or last longest."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            if "integration/" not in file:
                return file
            return f"integration, secure: {'secure' in file or 'private' in file}"

    config.option.loadscopereorder = False
    return ByFile(config, log)


def how_to_repeat(config: pytest.Config) -> str:
    """Return what to type to draw the same inputs again."""
    return f"random inputs are of seed {config.stash[FRESH]}; again: --hypothesis-seed={config.stash[FRESH]}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say the seed at the start, however quiet pytest is: a run that hangs has no end."""
    if IN_CI and (reporter := session.config.pluginmanager.get_plugin("terminalreporter")):
        reporter.write_line(how_to_repeat(session.config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say the seed again beside what failed."""
    if IN_CI and (terminalreporter.stats.get("failed") or terminalreporter.stats.get("error")):
        terminalreporter.write_line(how_to_repeat(config))


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run's random inputs: another one in every run of CI."""
    return pytestconfig.stash[FRESH]


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of a test's own, whichever tests run beside it."""
    return np.random.default_rng([seed, zlib.crc32(request.node.name.encode())])


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    if "torch" in sys.modules:
        torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Leave out a file that needs torch, and say so, where there is none; elsewhere nothing can be missed by this."""
    report = yield
    if report.failed and "No module named 'torch'" in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, "needs torch")
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses `every_path` once for each set of instructions that this machine has."""
    if "every_path" in metafunc.fixturenames:
        from prunefl import _kernels

        metafunc.parametrize("every_path", _kernels.paths(), indirect=True)


@pytest.fixture
def every_path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute by one of the kernels' instruction paths; see tests/kernels/test_paths.py for how one is chosen."""
    from prunefl import _kernels

    before = _kernels.path()
    _kernels.use_path(request.param)
    assert _kernels.path() == request.param
    yield request.param
    _kernels.use_path(before)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither read nor write what was measured for the user of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRUNEFL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
