"""Envelopes, records and the local line: everything comes back, and nothing else is believed."""

import contextlib
import os
import socket
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.engines.flower import sockets
from prunefl.engines.flower.chunks import CHUNK, from_records, to_records
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal, unseal

values = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9) | st.none(), max_size=4)
envelopes = st.builds(
    Envelope, st.text(max_size=9), values, st.lists(st.binary(max_size=50), max_size=8).map(tuple)
)


@given(envelopes)
def test_an_envelope_comes_back_as_it_was(envelope):
    assert unseal(seal(envelope)) == envelope


@given(envelopes, st.data())
def test_a_damaged_envelope_is_an_error_or_another_envelope_never_a_crash(envelope, data):
    sealed = bytearray(seal(envelope))
    for _ in range(data.draw(st.integers(1, 4))):
        sealed[data.draw(st.integers(0, len(sealed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(EnvelopeError):
        assert isinstance(unseal(bytes(sealed)), Envelope)


@given(envelopes, st.integers(1, 30))
def test_an_envelope_that_is_cut_or_too_long_is_refused(envelope, count):
    sealed = seal(envelope)
    with pytest.raises(EnvelopeError):
        unseal(sealed[:-count])
    with pytest.raises(EnvelopeError):
        unseal(sealed + b"x" * count)


def test_an_envelope_that_announces_more_than_memory_is_refused_without_taking_it():
    sealed = bytearray(seal(Envelope("order", {}, (b"abc",))))
    sealed[12:20] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(EnvelopeError, match="announces"):
        unseal(bytes(sealed))


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_bytes_cross_flowers_records_in_chunks(size):
    content = os.urandom(size)
    records = to_records(content)
    assert len(records) == max(1, -(-size // CHUNK))
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


@pytest.mark.parametrize("folder", ["", "x" * 120 + "/" + "y" * 120], ids=["near", "deep"])
def test_a_call_brings_the_answer_back(folder, tmp_path):
    path, content = tmp_path / folder / "s", os.urandom(3_000_000)

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
