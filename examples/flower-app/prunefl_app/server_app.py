"""The server's half: settings from this app's pyproject.toml, rounds from prunefl."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from prunefl import config as settings
from prunefl.config import Config
from prunefl.engines.flower.server_app import RunOptions
from prunefl.runs.federation import run

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds on the grid and leave a run's folder; nodes of Flower's own have no keys of prunefl's."""
    folder = Path.home() / str(context.run_config["out"]) / time.strftime("%Y-%m-%d-%H%M%S")
    # the config is given as it is: no file is read
    options = RunOptions(folder / "config.toml", folder, nodes={}, keys=None, resume=False)
    run(grid, config_of(context.run_config), options)


def config_of(given: Mapping[str, Any]) -> Config:
    """Return the settings that Flower hands over, section.key -> value; all but the folder are prunefl's."""
    words = [f"{key}={json.dumps(value)}" for key, value in given.items() if key != "out"]
    return settings.override(Config(), words)
