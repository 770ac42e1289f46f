"""The ServerApp: hands Flower's grid to whoever wires the run together, which is a floor above."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from prunefl import config as settings
from prunefl.config import Config
from prunefl.engines.flower.forks import die_with_parent
from prunefl.system.errors import PruneFLError

__all__ = ["Grid", "RunOnGrid", "make_server_app"]

RunOnGrid = Callable[[Grid, Config, Path, Mapping[int, int], bool], None]
"""Runs a config on a grid in a folder, with node -> client of the registered keys, perhaps resumed."""


def make_server_app(run: RunOnGrid) -> ServerApp:
    """Return the app that runs the config which the run's options name; see `prunefl server`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        die_with_parent()
        options = context.run_config
        config = settings.load(Path(str(options["config"])))
        nodes = json.loads(str(options["nodes"]) or "{}")
        keys = {int(node): int(client) for node, client in nodes.items()}
        try:
            run(grid, config, Path(str(options["folder"])), keys, bool(options["resume"]))
        except (PruneFLError, OSError):
            raise
        except Exception as error:
            # Flower logs the traceback, and tells `prunefl server` the words alone
            raise RuntimeError(f"internal error of the server: {type(error).__name__}: {error}") from error

    return app
