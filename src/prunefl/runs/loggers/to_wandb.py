"""Weights & Biases: offline files in FOLDER/wandb, unless $WANDB_MODE says "online"; `wandb sync` sends them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from prunefl.runs.loggers import Record, run_name, scalars, settings


class WandB:
    """One W&B run of the project 'prunefl' for one run of ours."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "prunefl"),
            name=run_name(folder),
            dir=str(folder),
            # data stays where it is unless somebody asks for it to be sent
            mode="online" if os.environ.get("WANDB_MODE") == "online" else "offline",
            config=settings(config),
            reinit="create_new",
            settings=wandb.Settings(silent=True, disable_git=True, console="off", x_disable_stats=True),
        )

    def round(self, record: Record) -> None:
        """Log a round."""
        if record.get("kind") == "round":
            self._run.log(dict(scalars(record)), step=int(record["round"]))

    def close(self) -> None:
        """Finish the run's file."""
        self._run.finish()


def open(folder: Path, config: Mapping[str, Any]) -> WandB:
    """Return a logger that writes to Weights & Biases."""
    return WandB(folder, config)
