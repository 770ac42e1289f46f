"""Follow a file of records that another process writes, cuts back when it is resumed, or replaces."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prunefl.report.runs import LARGEST_FILE, is_whole

LONGEST_READ = 4 << 20
"""Bytes read at a time: a long file is shown bit by bit, and never held whole."""


@dataclass
class News:
    """What a look at the file has brought.

    Attributes:
        anew: the file is another one, or was cut back: what was read before no longer counts.
        damaged: numbers of the lines that could not be read.
        more: there is more to read at once.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    anew: bool = False
    damaged: list[int] = field(default_factory=list)
    more: bool = False


class Tail:
    """Reads whole lines that have come since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._offset = self._line = 0
        self._last = b""

    def look(self) -> News:
        """Return what is new; OSError if the file is gone."""
        stat = self.path.stat()
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if seen == self._seen:
            return News()
        news = News()
        with self.path.open("rb") as file:
            if self._offset and not self._continues(file, stat.st_size):
                news.anew = True
                self._offset = self._line = 0
                self._last = b""
            if stat.st_size > LARGEST_FILE:
                news.damaged.append(0)
                self._seen = seen
                return news
            file.seek(self._offset)
            data = file.read(LONGEST_READ)
        self._take(data[: data.rfind(b"\n") + 1], news)
        news.more = len(data) == LONGEST_READ
        self._seen = None if news.more else seen
        return news

    def _continues(self, file: Any, size: int) -> bool:
        """Return whether the last line that was read still stands where it stood."""
        if size < self._offset:
            return False
        file.seek(self._offset - len(self._last))
        return bool(file.read(len(self._last)) == self._last)

    def _take(self, data: bytes, news: News) -> None:
        for line in data.splitlines(keepends=True):
            self._line += 1
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict) and is_whole(record):
                news.records.append(record)
            else:
                news.damaged.append(self._line)
            self._last = line
        self._offset += len(data)
