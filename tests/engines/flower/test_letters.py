"""Letters, records and the local line: everything comes back, and nothing else is believed."""

import contextlib
import os
import socket
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.engines.flower import sockets
from prunefl.engines.flower.carriage import PIECE, from_records, to_records
from prunefl.engines.flower.letters import Letter, LetterError, seal, unseal

values = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9) | st.none(), max_size=4)
letters = st.builds(
    Letter, st.text(max_size=9), values, st.lists(st.binary(max_size=50), max_size=8).map(tuple)
)


@given(letters)
def test_a_letter_comes_back_as_it_was(letter):
    assert unseal(seal(letter)) == letter


@given(letters, st.data())
def test_a_damaged_letter_is_an_error_or_another_letter_never_a_crash(letter, data):
    sealed = bytearray(seal(letter))
    for _ in range(data.draw(st.integers(1, 4))):
        sealed[data.draw(st.integers(0, len(sealed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(LetterError):
        assert isinstance(unseal(bytes(sealed)), Letter)


@given(letters, st.integers(1, 30))
def test_a_letter_that_is_cut_or_too_long_is_refused(letter, count):
    sealed = seal(letter)
    with pytest.raises(LetterError):
        unseal(sealed[:-count])
    with pytest.raises(LetterError):
        unseal(sealed + b"x" * count)


def test_a_letter_that_announces_more_than_memory_is_refused_without_taking_it():
    sealed = bytearray(seal(Letter("order", {}, (b"abc",))))
    sealed[12:20] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(LetterError, match="announces"):
        unseal(bytes(sealed))


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_bytes_cross_flowers_records_in_pieces(size):
    content = os.urandom(size)
    records = to_records(content)
    assert len(records) == max(1, -(-size // PIECE))
    assert from_records(records, size) == content


def test_more_bytes_than_allowed_are_refused():
    with pytest.raises(ValueError, match="9 bytes allowed"):
        from_records(to_records(b"x" * 10), 9)


def test_records_of_somebody_else_are_refused():
    from flwr.app import ConfigRecord, MetricRecord, RecordDict

    for records in [
        RecordDict({"a": MetricRecord({"x": 1})}),
        RecordDict({"0": ConfigRecord({"bytes": "text"})}),
    ]:
        with pytest.raises(ValueError, match="without our bytes"):
            from_records(records, 100)


def test_only_this_user_can_open_the_workers_socket(tmp_path):
    with sockets.listen(tmp_path / "private" / "worker.sock"):
        assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "private" / "worker.sock").stat().st_mode) == 0o600


def test_a_call_brings_the_answer_back(tmp_path):
    path, content = tmp_path / "s", os.urandom(3_000_000)

    def echo() -> None:
        line, _ = server.accept()
        with line:
            sockets.send(line, sockets.receive(line)[::-1])

    with sockets.listen(path) as server:
        thread = threading.Thread(target=echo)
        thread.start()
        assert sockets.call(path, content, 10.0) == content[::-1]
        thread.join()


def test_a_call_waits_for_a_worker_that_is_just_starting(tmp_path):
    path = tmp_path / "s"
    sockets.listen(path).close()
    with pytest.raises(ConnectionRefusedError):
        sockets.call(path, b"x")

    def start_late() -> None:
        with sockets.listen(path) as server:
            line, _ = server.accept()
            with line:
                sockets.send(line, sockets.receive(line))

    thread = threading.Timer(0.3, start_late)
    thread.start()
    assert sockets.call(path, b"x", 10.0, patience=10.0) == b"x"
    thread.join()


def test_a_cut_line_and_a_frame_too_long_are_errors_not_a_wait():
    here, there = socket.socketpair()
    with here, there:
        there.sendall((100).to_bytes(8, "little") + b"abc")
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError, match="after 3 of 100"):
            sockets.receive(here)
    here, there = socket.socketpair()
    with here, there:
        there.sendall((1 << 40).to_bytes(8, "little"))
        with pytest.raises(ValueError, match="must be <= 1000"):
            sockets.receive(here, 1000)


def test_a_path_too_long_for_a_socket_is_told_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="shorter --state"):
        sockets.listen(tmp_path / ("x" * 120) / "worker.sock")
