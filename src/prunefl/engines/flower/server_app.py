"""The ServerApp: hands Flower's grid to whoever wires the run together, which is a floor above."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid.http_grid import HttpGrid

from prunefl import config as settings
from prunefl.config import Config
from prunefl.engines.flower.forks import die_with_parent
from prunefl.engines.flower.parcel import Parcels
from prunefl.engines.flower.processes import RUN_FILE, patch
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_private

__all__ = ["Grid", "RunOnGrid", "RunOptions", "make_server_app"]


@dataclass(frozen=True)
class RunOptions:
    """What a run is started with. It goes by a file of the server's own: Flower would tell it to every node.

    Attributes:
        config: file with the run's settings.
        folder: the run's folder.
        nodes: node -> client of the registered keys; empty where nodes are believed (--insecure).
        keys: folder that `prunefl keys` made, or None.
    """

    config: Path
    folder: Path
    nodes: Mapping[int, int]
    keys: Path | None
    resume: bool

    def write(self, path: Path) -> None:
        """Write the file, for this user alone."""
        content = {
            "config": str(self.config.resolve()),
            "folder": str(self.folder.resolve()),
            "nodes": {str(node): client for node, client in self.nodes.items()},
            "keys": str(self.keys.resolve()) if self.keys else "",
            "resume": self.resume,
        }
        write_private(path, json.dumps(content).encode())

    @classmethod
    def read(cls, path: Path) -> "RunOptions":
        """Return what was written."""
        content = json.loads(path.read_text())
        return cls(
            Path(content["config"]),
            Path(content["folder"]),
            {int(node): client for node, client in content["nodes"].items()},
            Path(content["keys"]) if content["keys"] else None,
            content["resume"],
        )


RunOnGrid = Callable[[Grid, Config, RunOptions], None]
"""Runs a config on a grid."""


def make_server_app(run: RunOnGrid) -> ServerApp:
    """Return the app that runs what the file says that `prunefl server` wrote."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        die_with_parent()
        send_in_parcels(grid)
        options = RunOptions.read(Path(os.environ[RUN_FILE]))
        config = settings.load(options.config)
        try:
            run(grid, config, options)
        except (PruneFLError, OSError):
            raise
        except Exception as error:
            # Flower logs the traceback, and tells `prunefl server` the words alone
            raise RuntimeError(f"internal error of the server: {type(error).__name__}: {error}") from error

    return app


def send_in_parcels(grid: Grid) -> None:
    """Let a run's messages go in parcels from now on; under Flower's simulation they go nowhere."""
    if not isinstance(grid, HttpGrid):
        return
    parcels, push = Parcels(), grid.push_messages
    parcels.join(grid._runtime_client)

    def carrying(messages: Sequence[Message]) -> Iterable[str]:
        with parcels.carry(messages):
            return push(messages)

    patch(grid, push_messages=carrying)
