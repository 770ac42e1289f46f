"""A file of records that grows, is cut back, replaced or damaged, is read as it is."""

import json
import shutil
from pathlib import Path

from prunefl.dashboard import tail as module
from prunefl.dashboard.tail import Tail
from synthetic import write_run


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_only_what_is_new_and_whole_is_read(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "a", "snip", 0, rounds=20) / "records.jsonl"
    lines = whole.read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"".join(lines[:5]) + lines[5][:30])
    tail = Tail(path)
    assert tail.look().records == records(whole)[:5]
    assert tail.look().records == []
    path.write_bytes(b"".join(lines[:8]))
    news = tail.look()
    assert news.records == records(whole)[5:8]
    assert not news.anew


def test_a_run_that_is_resumed_from_an_earlier_round_is_read_anew(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", "snip", 0, rounds=20) / "records.jsonl"
    other = write_run(tmp_path / "b", "snip", 1, rounds=40) / "records.jsonl"
    tail = Tail(one)
    tail.look()
    # in place, as a resumed run does it, and longer than before by the time we look
    with one.open("r+b") as file:
        file.truncate(0)
        file.write(other.read_bytes())
    news = tail.look()
    assert news.anew
    assert news.records == records(other)
    shutil.copy(other, tmp_path / "c")
    one.write_bytes(b"".join((tmp_path / "c").read_bytes().splitlines(keepends=True)[:10]))
    news = tail.look()
    assert news.anew
    assert news.records == records(other)[:10]


def test_damaged_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", "snip", 0, rounds=20) / "records.jsonl"
    expected = records(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3:3] = [b"nonsense\n", b'{"kind": "round"}\n', b"[" * 100_000 + b"\n", b"\xff\xfe\n"]
    path.write_bytes(b"".join(lines))
    news = Tail(path).look()
    assert news.damaged == [4, 5, 6, 7]
    assert news.records == expected


def test_a_long_file_is_read_bit_by_bit(tmp_path: Path, monkeypatch) -> None:
    path = write_run(tmp_path / "a", "snip", 0, rounds=60) / "records.jsonl"
    monkeypatch.setattr(module, "LONGEST_READ", 4096)
    tail, found = Tail(path), []
    while (news := tail.look()).more or news.records:
        found += news.records
    assert found == records(path)
