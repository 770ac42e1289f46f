"""Bytes in and out of Flower's records, in chunks that no transport on the way finds too large."""

from flwr.app import ConfigRecord, RecordDict

from prunefl.system.errors import PruneFLError

CHUNK = 4 << 20
"""Bytes in one record: Flower fetches each record with a request of its own."""


def to_records(data: bytes) -> RecordDict:
    """Return the bytes as numbered records."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)] or [b""]
    return RecordDict({f"{number}": ConfigRecord({"bytes": chunk}) for number, chunk in enumerate(chunks)})


def from_records(records: RecordDict, max_bytes: int) -> bytes:
    """Return the bytes again; ValueError if they are not ours or more than allowed."""
    chunks, total = [], 0
    for number in range(len(records)):
        record = records.config_records.get(f"{number}")
        chunk = record.get("bytes") if record is not None else None
        if not isinstance(chunk, bytes):
            raise PruneFLError("records without our bytes")
        total += len(chunk)
        if total > max_bytes:
            raise PruneFLError(f"more than the {max_bytes} bytes allowed")
        chunks.append(chunk)
    return b"".join(chunks)
