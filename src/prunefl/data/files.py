"""Find the files of a data set, and say what to do when they are not there."""

import re
from pathlib import Path

from prunefl.system.errors import PruneFLError

PACKED = (".zip", ".tar", ".gz", ".7z")


def need_folder(name: str, folder: Path | None) -> Path:
    """Return the data folder, which must exist."""
    if folder is None:
        raise PruneFLError(
            f"data.dir is not set, must be the folder of {name} (prunefl data get {name} --dir DIR)"
        )
    if not folder.is_dir():
        raise PruneFLError(f"data.dir={str(folder)!r}, no such folder (prunefl data get {name} --dir DIR)")
    return folder


def found(name: str, folder: Path, file: str) -> Path:
    """Return the path of a file, which must exist."""
    path = folder / file
    if not path.is_file():
        raise PruneFLError(f"data.dir={str(folder)!r}, has no {file} (prunefl data get {name} --dir DIR)")
    return path


def found_folder(name: str, candidates: list[Path], what: str) -> Path:
    """Return the first of these folders that exists."""
    for path in candidates:
        if path.is_dir():
            return path
    archives = [
        file for path in candidates for file in path.parent.glob(f"*{what}.*") if file.suffix in PACKED
    ]
    do = f"unpack {archives[0]}" if archives else f"prunefl data get {name} --dir DIR"
    raise PruneFLError(f"data.dir={str(candidates[0].parent)!r}, has no folder {what} ({do})")


def natural_order(paths: list[Path]) -> list[Path]:
    """Return the paths sorted as people count: shard 2 before shard 10."""
    return sorted(paths, key=lambda path: [_part(p) for p in re.split(r"(\d+)", path.name)])


def _part(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdigit() else (-1, text)
