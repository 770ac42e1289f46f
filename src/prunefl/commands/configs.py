"""From command-line words to a checked config: presets, files, overrides."""

from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from prunefl import config as settings
from prunefl.config import Config
from prunefl.system.errors import PruneFLError
from prunefl.system.suggest import did_you_mean
from prunefl.system.version import VERSION


def preset_names() -> list[str]:
    """Return the presets that come with the package."""
    return sorted(entry.name[:-5] for entry in _folder().iterdir() if entry.name.endswith(".toml"))


def preset(name: str) -> Path:
    """Return the file of a preset."""
    with resources.as_file(_folder() / f"{name}.toml") as path:
        return path


def resolve(words: list[str], seed: int | None, resumed: Path | None = None) -> tuple[Config, str]:
    """Return the config that the words describe and a short name for it.

    Args:
        words: perhaps a file or a preset, then section.key=value texts, and perhaps scale=S, which is
            applied to what all the others give.
        resumed: folder of a run to go on with; its own config stands in for a missing file.
    """
    source = words[0] if words and "=" not in words[0] else ""
    assignments = words[1:] if source else words
    path = _file_of(source, resumed)
    scales = [word for word in assignments if word.startswith("scale=")]
    try:
        config = settings.from_tables(_tables(path, assignments))
    except PruneFLError as error:
        _refuse_other_version(path, error)
        raise
    config = settings.override(config, [word for word in assignments if word not in scales])
    if len(scales) > 1:
        raise PruneFLError(f"{' '.join(scales)}: given more than once, must be given once")
    for word in scales:
        config = shortened(config, word)
    if seed is not None:
        config = replace(config, run=replace(config.run, seed=seed))
    return config, path.stem if source else "digits"


def _refuse_other_version(path: Path, error: PruneFLError) -> None:
    """Say it where a run's own config is not understood because another version wrote it."""
    from prunefl.runs.records import read_records

    records = path.parent / "records.jsonl"
    if path.name != "config.toml" or not records.exists():
        return
    theirs = next(iter(read_records(records)), {}).get("version", "of an unknown version")
    if theirs != VERSION:
        raise PruneFLError(
            f"{path.parent}: prunefl {theirs} wrote this run, and this is {VERSION}, which does not understand its "
            f"settings: go on with that version, or give another --out ({error})"
        ) from error


def _tables(path: Path, assignments: list[str]) -> dict[str, Any]:
    """Return a config file's tables without what a preset says of its own data or devices, if others are given."""
    tables = settings.read(path)
    names = [word.removeprefix("data.name=") for word in assignments if word.startswith("data.name=")]
    ours = path.parent == preset("digits").parent
    if ours and names and names[-1] != tables["data"]["name"]:
        del tables["data"]
    if "fleet" in tables and any(word.startswith("time.device=") for word in assignments):
        if not ours:
            raise PruneFLError(
                f"time.device is for all clients, but {path} has [[fleet]]: leave one of them out"
            )
        del tables["fleet"]
    return tables


def shortened(config: Config, word: str) -> Config:
    """Return the config with fewer rounds and schedules that shrink with them, for a first look: scale=0.1."""
    try:
        scale = float(word.removeprefix("scale="))
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise PruneFLError(f"{word}, must be a number > 0 and <= 1, such as scale=0.1")

    def shorter(count: int) -> int:
        return max(1, round(count * scale))

    run, training, pruning = config.run, config.training, config.pruning
    return replace(
        config,
        run=replace(run, rounds=shorter(run.rounds)),
        training=replace(
            training,
            decay_rounds=shorter(training.decay_rounds),
            decay_stairs=shorter(training.decay_stairs),
            warmup_rounds=round(training.warmup_rounds * scale),
            pace_rounds=round(training.pace_rounds * scale),
        ),
        pruning=replace(
            pruning,
            interval=shorter(pruning.interval),
            half_life=shorter(pruning.half_life),
            horizon=pruning.horizon and shorter(pruning.horizon),
        ),
    )


def _file_of(source: str, resumed: Path | None) -> Path:
    if not source and resumed is not None:
        kept = resumed / "config.toml"
        if not kept.exists():
            raise PruneFLError(
                f"{resumed}: no run to resume there (no config.toml); leave --resume out to begin one"
            )
        return kept
    if not source:
        return preset("digits")
    if source in preset_names():
        return preset(source)
    if Path(source).exists():
        return Path(source)
    beside = [str(path) for path in Path(source).parent.glob("*.toml")]
    near = did_you_mean(source, [*preset_names(), *beside])
    presets = near or f"; presets: {', '.join(preset_names())}"
    raise PruneFLError(f"{source}: neither a config file nor a preset{presets}")


def _folder() -> Traversable:
    return resources.files("prunefl.config") / "presets"
