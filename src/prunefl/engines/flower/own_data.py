"""The samples of a real client: all that it brings, or a share where it asks for one; the same when it comes back."""

import json
import re
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from prunefl.config import Config
from prunefl.data import Federation, Samples, load_for_share, source_of
from prunefl.data.listed import ImageOptions
from prunefl.data.mine import Brought, bring, bring_by_function, content_digest, glance, stamp_files
from prunefl.data.sources import AT_CLIENTS, PUBLISHED
from prunefl.data.task import Task
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_private

FILE = "data.json"
"""In a client's state: which run it joined, with which samples."""

LOOK_SECONDS = 10.0
"""A client's files are looked at no more often: there may be many."""

FUNCTION = re.compile(r"[\w.]+:\w+")


@dataclass(frozen=True)
class Share:
    """Share `index` of `count`; a count of 0 is as many as the run has clients."""

    index: int
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Return the share that a text like 0/3 means."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or int(found[1]) >= int(found[2]):
            raise PruneFLError(f"--share {text}, must be I/N with I < N, such as 0/3: share 0 of 3")
        return cls(int(found[1]), int(found[2]))


def names_function(data: str) -> bool:
    """Return whether --data is package.module:function and no path."""
    return bool(FUNCTION.fullmatch(data)) and not Path(data).exists()


def check_data(data: str, share: Share | None, allowed: tuple[str, ...]) -> None:
    """Refuse --data that cannot be a client's, before any server is asked."""
    if names_function(data):
        if data not in allowed:
            raise PruneFLError(f"--data {data} is code of this machine; allow it with --allow {data}")
    elif data and share is None:
        glance(Path(data))
    elif data and not Path(data).exists():
        raise PruneFLError(f"--data {data}: no such folder or file")


def load_own(config: Config, client: int, share: Share | None) -> Brought:
    """Return the samples that this client trains on, labelled by the run's classes.

    Args:
        config: the run's, with the folder of this machine as data.dir and the run's classes and shape.
    """
    settings = config.data
    task = Task(settings.classes, settings.shape, settings.scaling)
    if not task.classes or not task.shape:
        raise PruneFLError(
            "the server did not say which classes and shape its samples have; are both of the same version?"
        )
    if share is not None:
        return _take_share(config, share)
    if names_function(settings.dir):
        return bring_by_function(settings.dir, client, task)
    if ":" in settings.name:
        return _bring_source(config)
    if not settings.dir:
        share_words = f"--share {client}/{settings.clients}"
        raise PruneFLError(
            f"--data PATH is missing: the folder or file with this client's own samples (or {share_words}, to try a "
            f"federation on one machine with a share of what the server's config names)"
        )
    if settings.name not in PUBLISHED and settings.name != AT_CLIENTS:
        raise PruneFLError(
            f"the server's config has data.name={settings.name!r}: data of its own, cut into clients, some of it held "
            f"out to test on; where clients bring theirs it must have data.name={AT_CLIENTS!r}, and data.test=PATH for "
            f"a test set (or take a share of the server's: --share {client}/{settings.clients})"
        )
    options = ImageOptions(settings.size, (), Path(settings.cache) if settings.cache else None)
    name = settings.name if settings.name in PUBLISHED else ""
    return bring(Path(settings.dir), task, options, name)


def _take_share(config: Config, share: Share) -> Brought:
    """Return a share as the simulator cuts it."""
    clients = config.data.clients
    if share.count not in (0, clients):
        raise PruneFLError(
            f"--share {share.index}/{share.count}, but the run has data.clients={clients}: --share "
            f"{min(share.index, clients - 1)}/{clients}"
        )
    federation = _load_for_share(config)
    return Brought(federation.clients[share.index], federation.names, federation.input_shape)


@lru_cache(maxsize=1)
def _load_for_share(config: Config) -> Federation:
    """Return all shares, loaded once for all clients that this process may be."""
    return load_for_share(config)


def _bring_source(config: Config) -> Brought:
    """Return all of what the function that the server names makes here."""
    source = source_of(config.data.name, config.data.dir)
    if isinstance(source, Federation):
        raise PruneFLError(
            f"data.name={config.data.name!r} makes many clients: say which is this one, as --share I/N"
        )
    return Brought(source.train, source.names, source.input_shape)


class DataWatch:
    """Sees to it that a client goes on with the samples that it joined with: looks now and then whether files changed.

    A share of everybody's data, and what a function gives, are not looked at.

    Args:
        folder: the client's state.
    """

    def __init__(self, config: Config, client: int, share: Share | None, folder: Path, run: str) -> None:
        self._load = partial(load_own, config, client, share)
        self._folder, self._run = folder, run
        path = config.data.dir
        watched = bool(path) and share is None and not names_function(path) and ":" not in config.data.name
        self._path = Path(path) if watched else None
        self._stamp, self._looked = self._look(), time.monotonic()

    def refuse_change(self) -> None:
        """Raise PruneFLError, in one line, if the samples are others now; files that only look new are read again."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        stamp, self._looked = self._look(), time.monotonic()
        if stamp != self._stamp:
            refuse_changed_data(self._folder, self._run, self._load().samples)
            self._stamp = stamp

    def _look(self) -> str:
        return stamp_files(self._path) if self._path else ""


def refuse_changed_data(folder: Path, run: str, samples: Samples) -> None:
    """Keep what a client joined a run with; refuse other samples in the same run."""
    path, now = folder / FILE, {"run": run, "samples": len(samples), "digest": content_digest(samples)}
    try:
        then = json.loads(path.read_text())
    except (OSError, ValueError):
        then = {}
    if then.get("run") == run and then != now:
        raise PruneFLError(
            f"the data has changed since this client joined run {run} ({then.get('samples')} samples then, "
            f"{len(samples)} now): put it back, or delete {folder} to join anew with what is there now"
        )
    write_private(path, json.dumps(now).encode())
