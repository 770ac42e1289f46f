"""A dashboard served from this process while a block lasts."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from prunefl.dashboard.access import Terms
from prunefl.dashboard.app import make_app
from prunefl.dashboard.hub import Hub
from prunefl.dashboard.serve import open_socket


@contextmanager
def served(folders: Sequence[Path], port: int = 0, terms: Terms | None = None) -> Iterator[str]:
    """Yield the page's address."""
    listening = open_socket("127.0.0.1", port)
    hub = Hub(folders)
    hub.look()
    app = make_app(hub, terms or Terms("127.0.0.1"), lambda: not server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
