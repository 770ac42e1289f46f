"""Fetch a file so that a broken line costs nothing: resumed where it stopped, checked when it is whole."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunefl.system.errors import PruneFLError

CHUNK = 1 << 20
ATTEMPTS = 5
TIMEOUT_SECONDS = 60
Progress = Callable[[str, int, int], None]
"""File name, bytes so far, bytes in all (0 where unknown)."""


@dataclass(frozen=True)
class Remote:
    """A file on the internet.

    Attributes:
        name: what it is called in the data folder.
        checksum: "md5:..." or "sha256:...", in hexadecimal.
    """

    url: str
    name: str
    checksum: str


def fetch(remote: Remote, folder: Path, progress: Progress, pause_seconds: float = 2.0) -> Path:
    """Return the path of the whole, checked file; a part left by an earlier attempt is continued."""
    if not remote.url.startswith(("https://", "http://")):
        raise PruneFLError(f"{remote.url}: must be an http address")
    target = folder / remote.name
    if target.is_file() and matches(target, remote.checksum):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{remote.name}.part"
    _fetch_with_patience(remote, part, progress, pause_seconds)
    if not matches(part, remote.checksum):
        part.unlink()
        raise PruneFLError(
            f"{remote.url}: the file's {remote.checksum.split(':')[0]} is wrong: try again later"
        )
    os.replace(part, target)
    return target


def matches(path: Path, checksum: str) -> bool:
    """Return whether the file's content has this checksum."""
    kind, _, expected = checksum.partition(":")
    with path.open("rb") as stream:
        return (
            hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
            == expected
        )


def read_bytes(url: str, limit: int = 1 << 20) -> bytes:
    """Return a small document; a larger one than the limit is refused."""
    try:
        with urllib.request.urlopen(_request(url), timeout=TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read(limit + 1)
    except (OSError, http.client.HTTPException) as error:
        raise PruneFLError(f"{url}: {error}: is there an internet connection?") from error
    if len(content) > limit:
        raise PruneFLError(f"{url}: longer than {limit} bytes")
    return content


def _fetch_with_patience(remote: Remote, part: Path, progress: Progress, pause_seconds: float) -> None:
    """Write the whole file to `part`, going on after a broken connection a few times."""
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        time.sleep(pause_seconds * attempt)
        try:
            if _continue(remote, part, progress):
                return
            failure = ConnectionError("the connection broke")
        except urllib.error.HTTPError as error:
            failure = error
            error.close()
            if error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:
            failure = error
    kept = part.stat().st_size if part.exists() else 0
    hint = "" if isinstance(failure, urllib.error.HTTPError) else ": is there an internet connection?"
    raise PruneFLError(
        f"{remote.url}: {failure}{hint} ({kept} bytes are kept; the same command goes on from there)"
    )


def _continue(remote: Remote, part: Path, progress: Progress) -> bool:
    """Return whether the file is whole after asking for what is missing of it."""
    have = part.stat().st_size if part.exists() else 0
    try:
        with urllib.request.urlopen(_request(remote.url, have), timeout=TIMEOUT_SECONDS) as answer:
            resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(
                f"bytes {have}-"
            )
            start = have if resumed else 0
            total = start + int(answer.headers.get("Content-Length") or 0)
            return _append(answer, part, start, total, remote.name, progress)
    except urllib.error.HTTPError as error:
        # 416: there is nothing after what we have, so it is whole, or of another file; the checksum will tell
        if error.code == 416 and have:
            error.close()
            return True
        raise


def _append(answer: Any, part: Path, start: int, total: int, name: str, progress: Progress) -> bool:
    """Return whether all announced bytes came; those that came are kept."""
    with _writing(part):
        stream = part.open("r+b" if start else "wb")
    with stream:
        with _writing(part):
            stream.seek(start)
            stream.truncate()
        while chunk := answer.read(CHUNK):
            with _writing(part):
                stream.write(chunk)
                stream.flush()
            progress(name, stream.tell(), total if total > start else 0)
        return total == start or stream.tell() >= total


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say at once that a disk is full or must not be written to: trying again would not help."""
    try:
        yield
    except OSError as error:
        raise PruneFLError(
            f"{path}: could not be written ({error.strerror}): make room, or choose another --dir"
        ) from error


def _request(url: str, start: int = 0) -> urllib.request.Request:
    """Return a request for all bytes from `start` on."""
    headers = {"User-Agent": "prunefl", "Accept-Encoding": "identity"}
    return urllib.request.Request(url, headers=headers | ({"Range": f"bytes={start}-"} if start else {}))
