"""Files and folders: written whole or not at all, and where the user's cache is."""

import json
import os
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from prunefl.system.errors import PruneFLError

Array = np.ndarray[Any, Any]


NOT_UNDERSTOOD = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What reading a file raises that says something else than we expect, whoever made it."""


class CheckpointError(PruneFLError):
    """A file of arrays that cannot be read, or says something else than we expect."""


def cache_folder() -> Path:
    """Return where things go that are made once for this user: $PRUNEFL_CACHE, or ~/.cache/prunefl."""
    given = os.environ.get("PRUNEFL_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "prunefl"


def write_atomically(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o666) -> Path:
    """Write a file so that a reader, or a crash, sees all of it or nothing, and return its path.

    Args:
        durable: a power cut, too.
        mode: permissions, less the umask; the content never exists with wider ones.
    """
    with _beside(path, data, durable, mode) as temporary:
        temporary.replace(path)
    return path


def write_private(path: Path, data: bytes) -> Path:
    """Write a file that only this user can read."""
    return write_atomically(path, data, mode=0o600)


def write_first(path: Path, data: bytes) -> None:
    """Write a file in one go, unless another process has written it meanwhile."""
    with _beside(path, data, durable=False, mode=0o666) as temporary, suppress(FileExistsError):
        os.link(temporary, path)


@contextmanager
def _beside(path: Path, data: bytes, durable: bool, mode: int) -> Iterator[Path]:
    """Yield a file with this content in the same folder; it is gone afterwards unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with naming(path), os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(descriptor)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError say which file it is about; one of a full disk does not by itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def cut_off(folder: Path) -> list[Path]:
    """Return what processes left behind that were killed while they wrote into this folder."""
    return list(folder.glob(".*.tmp"))


def save_arrays(
    path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any], durable: bool = True, mode: int = 0o666
) -> Path:
    """Write arrays and JSON as safetensors and return the file; its name is PATH-CHECKSUM.safetensors."""
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = safetensors.numpy.save(dense, {"about": json.dumps(about)})
    target = path.with_name(f"{path.name}-{zlib.crc32(data):08x}.safetensors")
    return write_atomically(target, data, durable=durable, mode=mode)


def load_arrays(path: Path, max_bytes: int | None = None) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the JSON of a file that `save_arrays` wrote; a larger one than it can be is not read."""
    try:
        if max_bytes is not None and path.stat().st_size > max_bytes:
            raise CheckpointError(
                f"{path}: {path.stat().st_size} bytes, must be <= {max_bytes} for this model"
            )
        data = path.read_bytes()
        if f"{zlib.crc32(data):08x}" != path.stem.rpartition("-")[2]:
            raise CheckpointError(f"{path}: the bytes do not match their checksum")
        length = int.from_bytes(data[:8], "little")
        about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["about"])
        return safetensors.numpy.load(data), about
    except CheckpointError:
        raise
    except (OSError, *NOT_UNDERSTOOD, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: not a readable checkpoint: {error}") from None


@contextmanager
def understanding(path: Path) -> Iterator[None]:
    """Make a CheckpointError of what goes wrong with a whole file that says something else than we expect."""
    try:
        yield
    except CheckpointError:
        raise
    except NOT_UNDERSTOOD as error:
        said = f"{type(error).__name__}: {error}"[:300]
        raise CheckpointError(f"{path}: not a checkpoint of this version ({said})") from None
