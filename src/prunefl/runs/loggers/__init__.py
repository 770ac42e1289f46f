"""Send a run's records to the tools people watch runs with. Each is an extra, loaded only when it is asked for."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from prunefl.config.settings import flat
from prunefl.system.errors import PruneFLError

Record = Mapping[str, Any]
NAMES = ("tensorboard", "mlflow", "wandb")


class Logger(Protocol):
    """Something that is told of every round."""

    def round(self, record: Record) -> None:
        """Log one record; those that are not of a round are left out."""

    def close(self) -> None:
        """Write what is left and let go."""


def open(name: str, folder: Path, config: Mapping[str, Any]) -> Logger:
    """Return a logger that writes below `folder`, or say how to install it.

    Args:
        name: tensorboard, mlflow or wandb.
        config: the run's settings as tables, logged once.
    """
    if name not in NAMES:
        raise PruneFLError(f"run.loggers holds {name!r}, must be one of {', '.join(NAMES)}")
    try:
        module = importlib.import_module(f"prunefl.runs.loggers.to_{name}")
        logger: Logger = module.open(folder, config)
    except ImportError as error:
        raise PruneFLError(
            f"run.loggers holds {name!r}, which is not installed ({error}): pip install 'prunefl[{name}]'"
        ) from error
    return logger


@contextmanager
def told(
    names: Sequence[str], folder: Path, config: Mapping[str, Any], on_record: Callable[[Any], bool | None]
) -> Iterator[Callable[[Any], bool | None]]:
    """Yield `on_record` with these loggers in front of it; they are closed at the end, however it comes."""
    with ExitStack() as stack:
        opened = []
        for name in names:
            opened.append(open(name, folder, config))
            stack.callback(opened[-1].close)

        def tell(record: Any) -> bool | None:
            for logger in opened:
                logger.round(record)
            return on_record(record)

        yield tell


def scalars(record: Record) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a round under names that group well: train/loss, total/seconds, live/0.weight."""
    names = {
        "loss": "train/loss",
        "accuracy": "test/accuracy",
        "score": "test/score",
        "test_loss": "test/loss",
        "density": "model/density",
    }
    for key, name in names.items():
        if record.get(key) is not None:
            yield name, float(record[key])
    if "privacy" in record:
        yield "privacy/epsilon", float(record["privacy"]["epsilon"])
    for key in ("accuracy", "client_accuracy", "worst_tenth", "loss"):
        if key in record.get("evaluation", {}):
            yield f"clients/{key}", float(record["evaluation"][key])
    for group in ("seconds", "total", "live"):
        for key, value in record.get(group, {}).items():
            yield f"{group}/{key}", float(value)


def run_name(folder: Path) -> str:
    """Return what a run is called: its folder, and in a comparison, where that is only the seed, its variant's too."""
    return f"{folder.parent.name}/{folder.name}" if folder.name.startswith("seed-") else folder.name


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the config as section.key -> text."""
    return {key: str(value) for key, value in flat(config).items()}
