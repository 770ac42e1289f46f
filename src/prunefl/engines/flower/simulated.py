"""The ClientApp without a resident worker: under Flower's simulation a process is many clients in turn.

What a client remembers travels with Flower's context, so that any process of a cluster can be any client.
"""

import tempfile
from pathlib import Path

from flwr.app import ConfigRecord, Context

from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import ANYTHING, WorkerOptions
from prunefl.engines.flower.worker import Worker


def answer_here(data: bytes, context: Context) -> bytes:
    """Return the answer of the client that this virtual node is, computed in this process."""
    with tempfile.TemporaryDirectory(prefix="prunefl-") as text:
        folder = Path(text)
        _unpack(context, folder)
        number = int(context.node_config["partition-id"])
        options = WorkerOptions(folder, number, share=Share(number), allowed=(ANYTHING,), resident=False)
        answer = Worker(options, lambda words: None).answer(data)
        _pack(context, folder)
    return answer


def _unpack(context: Context, folder: Path) -> None:
    for name, content in context.state.config_records.get("files", ConfigRecord()).items():
        assert isinstance(content, bytes)
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def _pack(context: Context, folder: Path) -> None:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    context.state["files"] = ConfigRecord(dict(files))
