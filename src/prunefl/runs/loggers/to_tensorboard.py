"""TensorBoard event files in FOLDER/tensorboard: `tensorboard --logdir FOLDER`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from prunefl.runs.loggers import Record, scalars, settings


class TensorBoard:
    """One scalar for each number of a round, at the round's step."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._writer = SummaryWriter(folder / "tensorboard")
        rows = "\n".join(f"| {key} | {value} |" for key, value in settings(config).items())
        self._writer.add_text("config", f"| setting | value |\n|---|---|\n{rows}")

    def round(self, record: Record) -> None:
        """Log a round."""
        if record.get("kind") == "round":
            for name, value in scalars(record):
                self._writer.add_scalar(name, value, record["round"])

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


def open(folder: Path, config: Mapping[str, Any]) -> TensorBoard:
    """Return a logger that writes event files."""
    return TensorBoard(folder, config)
