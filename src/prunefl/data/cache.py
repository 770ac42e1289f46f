"""Decoded images in memory-mapped files: made once, atomically, and then read page by page by any process."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.system.errors import PruneFLError
from prunefl.system.files import cache_folder

FOLDER = ".prunefl-cache"
VERSION = 2
DAY_SECONDS = 86_400


def fingerprint(files: Iterable[Path], *options: object) -> str:
    """Return a name for these files as they are now (names, sizes, times) read with these options."""
    hasher = hashlib.blake2b(f"{VERSION}{options}".encode(), digest_size=12)
    for file in files:
        try:
            status = file.stat()
        except OSError as error:
            raise PruneFLError(
                f"{file}: cannot be read ({error.strerror}): get or unpack it again"
            ) from error
        hasher.update(f"{file.name}|{status.st_size}|{status.st_mtime_ns}|".encode())
    return hasher.hexdigest()


def cached(
    name: str, key: str, build: Callable[[Path], None], *, beside: Path | None, folder: Path | None = None
) -> Path:
    """Return the folder `build` filled, calling it only when no earlier run has.

    Args:
        key: what the content depends on; see `fingerprint`.
        build: writes its files into the folder it is given.
        beside: the data folder, used when `folder` is not given and it can be written to.
        folder: the user's choice (`data.cache`).
    """
    home = _writable(folder, beside)
    target = home / f"{name}-{key}"
    if target.is_dir():
        return target
    _sweep(home, name)
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
    try:
        build(work)
        work.chmod(0o755)
        os.rename(work, target)
    except OSError as error:
        # another process was first: its folder holds the same
        if not target.is_dir():
            raise PruneFLError(_blame(error, work)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _sweep(home: Path, name: str) -> None:
    """Remove what killed builds left behind: folders in which nothing has changed for a day."""
    for left in home.glob(f".{name}-*"):
        with suppress(OSError):
            changed = max(path.stat().st_mtime for path in (left, *left.iterdir()))
            if changed < time.time() - DAY_SECONDS:
                shutil.rmtree(left)


def _blame(error: OSError, work: Path) -> str:
    """Return what failed: a file of the data that could not be read, or else the cache."""
    if error.filename and not Path(error.filename).is_relative_to(work):
        return f"{error.filename}: cannot be read ({error.strerror})"
    return f"data.cache={str(work.parent)!r}, could not be written: {error}"


def open_array(folder: Path, name: str) -> Any:
    """Return an array of a cache folder, memory-mapped for reading."""
    path = folder / f"{name}.npy"
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise PruneFLError(f"cache file {str(path)!r} is damaged ({error}): delete its folder") from error


def open_split(folder: Path, split: str) -> tuple[Any, Any]:
    """Return the pixels and labels of a split."""
    return open_array(folder, f"pixels_{split}"), open_array(folder, f"labels_{split}")


def create_array(folder: Path, name: str, shape: tuple[int, ...], dtype: str = "u1") -> Any:
    """Return a new array of a cache folder, memory-mapped for writing."""
    return np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.dtype(dtype), shape)


def _writable(folder: Path | None, beside: Path | None) -> Path:
    """Return the first of the user's choice, the data folder and the user's cache that can be written to."""
    candidates = [folder] if folder else [*([beside / FOLDER] if beside else []), cache_folder() / "data"]
    for home in candidates:
        try:
            home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=home):
                return home
        except OSError as failure:
            reason = failure
    raise PruneFLError(f"data.cache={str(candidates[-1])!r}, cannot be written to: {reason}")
