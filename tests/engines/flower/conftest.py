"""Flower reports nothing to anybody while it is tested, and its own deprecations are not our failures."""

import os
import warnings

import pytest

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.app
    import flwr.clientapp
    import flwr.serverapp  # noqa: F401


@pytest.fixture
def clock(monkeypatch):
    """Return the time of engine and membership, which passes only when somebody sleeps."""
    from fake_mailbox import Clock

    clock = Clock()
    monkeypatch.setattr("prunefl.engines.flower.engine.time", clock)
    monkeypatch.setattr("prunefl.engines.flower.membership.time", clock)
    return clock
