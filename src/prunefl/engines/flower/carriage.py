"""Letters in and out of Flower's records, in pieces that no transport on the way finds too large."""

from flwr.app import ConfigRecord, RecordDict

PIECE = 4 << 20
"""Bytes in one record: Flower fetches each record with a request of its own."""


def to_records(letter: bytes) -> RecordDict:
    """Return the bytes as numbered records."""
    pieces = [letter[start : start + PIECE] for start in range(0, len(letter), PIECE)] or [b""]
    return RecordDict({f"{number}": ConfigRecord({"bytes": piece}) for number, piece in enumerate(pieces)})


def from_records(records: RecordDict, max_bytes: int) -> bytes:
    """Return the bytes again; ValueError if they are not ours or more than allowed."""
    pieces, total = [], 0
    for number in range(len(records)):
        record = records.config_records.get(f"{number}")
        piece = record.get("bytes") if record is not None else None
        if not isinstance(piece, bytes):
            raise ValueError("records without our bytes")
        total += len(piece)
        if total > max_bytes:
            raise ValueError(f"more than the {max_bytes} bytes allowed")
        pieces.append(piece)
    return b"".join(pieces)
