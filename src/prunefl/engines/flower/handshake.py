"""What both sides must have in common, compared before the first round instead of failing in it.

Classes and shape travel in the config: a client compares them with its data before it builds the network.
"""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prunefl.config import Config
from prunefl.config.optimiser import PLAIN_AVERAGE
from prunefl.config.sections import TimeSettings
from prunefl.config.server import ServerSettings
from prunefl.core.network import Template
from prunefl.system.version import VERSION
from prunefl.wire.format import VERSION as WIRE_VERSION

if TYPE_CHECKING:
    from prunefl.data import Federation

Facts = dict[str, Any]


def with_task(config: Config, federation: "Federation") -> Config:
    """Return the config as clients get it: it says classes, shape and number of clients, whatever the server's did."""
    classes, shape, clients = federation.names, federation.input_shape, len(federation.clients)
    return replace(config, data=replace(config.data, classes=classes, shape=shape, clients=clients))


def without_servers_own(config: Config) -> Config:
    """Return the config without what is the server's own affair: its folders, devices, terms and loggers."""
    data, server = config.data, config.server
    # whether there is a test set decides how a share is cut; where it lies does not
    own_data = replace(data, dir="", cache="", test=data.test and "at the server")
    told = ServerSettings(clients=server.clients, deadline=server.deadline)
    if config.privacy.hides:
        # a client refuses a config in which they would look at single updates
        told = replace(told, max_change=0.0, max_opposition=0.0, max_statistic=0.0)
    # that the server prunes first decides what clients are asked for; on which samples does not
    privacy = replace(config.privacy, public=config.privacy.public and "at the server")
    return replace(
        config,
        privacy=privacy,
        run=replace(config.run, loggers=()),
        data=own_data,
        pruning=replace(config.pruning, masks=""),
        time=TimeSettings(),
        server=told,
        server_optimiser=PLAIN_AVERAGE,
        fleet=(),
    )


def collect_facts(template: Template) -> Facts:
    """Return what has to be equal at server and client beside the classes and the shape of samples."""
    prunable = " ".join(sorted(template.prunable)).encode()
    return {
        "wire": WIRE_VERSION,
        "network": hashlib.blake2b(template.digest + prunable, digest_size=8).hexdigest(),
        "prunefl": VERSION,
    }


def find_difference(theirs: Any, ours: Facts) -> str:
    """Return one line that says what differs and what to do, or ""."""
    if not isinstance(theirs, dict):
        return "the server did not say what it runs; are both sides of the same version?"
    for name in ("wire", "network"):
        if theirs.get(name) != ours[name]:
            return (
                f"{name} differs: the server has {theirs.get(name)}, this client {ours[name]}; "
                f"install the same version of prunefl on both "
                f"(prunefl {theirs.get('prunefl')} there, {ours['prunefl']} here)"
            )
    return ""
