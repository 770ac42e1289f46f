"""What clients are told of the server's config: what they need, and nothing of its machine."""

from dataclasses import replace

import pytest

from prunefl import config as settings
from prunefl.engines.flower.handshake import without_servers_own

TABLES = {
    "run": {"loggers": ["tensorboard"], "seed": 3, "method": "feddst"},
    "data": {"dir": "/srv/images", "cache": "/srv/cache", "test": "/srv/test", "clients": 2, "alpha": 0.1},
    "pruning": {"masks": "/srv/other-run", "density": 0.3},
    "training": {"local_steps": 7},
    "initial": {"samples": 50},
    "time": {"device": "/srv/device.toml", "refit": True},
    "server": {"clients": [0, 1], "deadline": 9.0, "max_change": 7.0, "quorum": 0.9},
    "server_optimiser": {"name": "fedadam"},
    "fleet": [{"device": "/srv/one.toml", "count": 2}],
}


def test_clients_are_told_nothing_of_the_servers_machine_and_all_that_decides_their_bits():
    given = settings.from_tables(TABLES)
    told = settings.from_tables(settings.tomllib.loads(settings.dump(without_servers_own(given))))
    assert "/srv" not in settings.dump(told)
    for section in ("model", "training", "optimiser", "initial", "importance", "evaluation", "wire"):
        assert getattr(told, section) == getattr(given, section)
    assert replace(told.run, loggers=given.run.loggers) == given.run
    assert replace(told.pruning, masks=given.pruning.masks) == given.pruning
    places = {"dir": given.data.dir, "cache": given.data.cache, "test": given.data.test}
    assert replace(told.data, **places) == given.data
    assert (told.server.clients, told.server.deadline) == ((0, 1), 9.0)
    # a share is cut otherwise where there is a test set
    assert told.data.test
    assert not without_servers_own(replace(given, data=replace(given.data, test=""))).data.test


@pytest.mark.parametrize("privacy", [{"secure": True}, {"noise": 1.0}, {"secure": True, "noise": 1.0}])
def test_what_clients_are_told_of_a_private_run_is_a_config_that_they_accept(privacy):
    unbound = {"max_change": 0, "max_opposition": 0, "max_statistic": 0}
    given = settings.from_tables(
        {"privacy": privacy, "training": {"weighting": "uniform"}, "server": unbound}
    )
    told = settings.from_tables(settings.tomllib.loads(settings.dump(without_servers_own(given))))
    assert told.privacy == given.privacy
