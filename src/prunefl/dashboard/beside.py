"""A dashboard beside a command that trains: in a process of its own, so that it takes nothing from the training."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prunefl.dashboard.serve import command_of, open_socket, require_dashboard
from prunefl.system.plugins import program


@contextmanager
def dashboard_beside(folder: Path, port: int) -> Iterator[None]:
    """Serve the dashboard of a folder while the block lasts; a port in use is refused before anything is trained."""
    require_dashboard()
    open_socket("127.0.0.1", port).close()
    folder.mkdir(parents=True, exist_ok=True)
    # said here, before anything is drawn: the child's own word would come into the midst of a panel
    print(f"dashboard: http://127.0.0.1:{port}/", file=sys.stderr, flush=True)
    process = subprocess.Popen(
        [*program("prunefl"), *command_of([folder], port, os.getpid())],
        stdin=subprocess.DEVNULL,
        # a group of its own: Ctrl-C stops the training after its round, and the page shows that round
        process_group=0,
    )
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        if process.poll() is None:
            process.kill()
            process.wait()
