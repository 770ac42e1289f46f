"""Find the files of a data set, and say what to do when they are not there."""

import re
from pathlib import Path


def need_folder(name: str, folder: Path | None) -> Path:
    """Return the data folder, which must exist."""
    if folder is None:
        raise ValueError(
            f"data.dir is not set, must be the folder of {name} (prunefl data get {name} --dir DIR)"
        )
    if not folder.is_dir():
        raise ValueError(f"data.dir={str(folder)!r}, no such folder (prunefl data get {name} --dir DIR)")
    return folder


def found(name: str, folder: Path, file: str) -> Path:
    """Return the path of a file, plain or gzipped, which must exist."""
    for path in (folder / file, folder / f"{file}.gz"):
        if path.is_file():
            return path
    raise ValueError(f"data.dir={str(folder)!r}, has no {file} (prunefl data get {name} --dir DIR)")


def found_folder(name: str, candidates: list[Path], what: str) -> Path:
    """Return the first of these folders that exists."""
    for path in candidates:
        if path.is_dir():
            return path
    raise ValueError(f"data.dir={str(candidates[0].parent)!r}, has no folder {what} for {name}")


def natural_order(paths: list[Path]) -> list[Path]:
    """Return the paths sorted as people count: shard 2 before shard 10."""
    return sorted(paths, key=lambda path: [_part(p) for p in re.split(r"(\d+)", path.name)])


def _part(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdigit() else (-1, text)
