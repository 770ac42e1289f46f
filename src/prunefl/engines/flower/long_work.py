"""Long work at a client: initial pruning goes on in a thread, so that the server can be told how far it is."""

import threading
import time
from concurrent.futures import Future, wait
from dataclasses import replace

from prunefl.rounds.client import Client, ClientState, handle
from prunefl.rounds.messages import Order, Reply
from prunefl.system.errors import PruneFLError

REPORT_SECONDS = 30.0
"""A server hears at least so often how far it is."""

REPORTS = 4
"""Of which so many fit into the time in which it wants to see progress."""


def choose_report_seconds(deadline: float) -> float:
    """Return how long a server's question waits for an end of the work, before it is answered by how far it is."""
    return min(REPORT_SECONDS, deadline / REPORTS)


class LongWork:
    """One order that takes many rounds' time.

    Attributes:
        passes: how many passes are done.

    Args:
        state: the client's, from before.
        seconds: time after which it is given up, between two passes.
    """

    def __init__(self, order: Order, client: Client, state: ClientState, seconds: float) -> None:
        self.order, self.passes = order, 0
        self._seconds, self._limit, self._stopped = seconds, time.monotonic() + seconds, False
        self._done: Future[tuple[Reply, ClientState]] = Future()
        worker = replace(client, on_pass=self._note)
        self._thread = threading.Thread(target=self._run, args=(worker, state), name="long work", daemon=True)
        self._thread.start()

    def is_done(self, seconds: float | None) -> bool:
        """Return whether it is done, or has failed, within so many seconds; None for any."""
        return bool(wait([self._done], seconds).done)

    def result(self) -> tuple[Reply, ClientState]:
        """Return what came of it, or raise what it raised."""
        return self._done.result()

    def stop(self) -> None:
        """End it after the pass that it is at, and wait for that: what trains is needed for something else."""
        self._stopped = True
        self._thread.join()

    def _run(self, client: Client, state: ClientState) -> None:
        try:
            self._done.set_result(handle(self.order, client, state))
        except BaseException as error:
            # raised where the result is asked for
            self._done.set_exception(error)

    def _note(self, done: int, most: int, density: float) -> None:
        self.passes = done
        if self._stopped:
            raise PruneFLError("stopped, as the server asks for something else")
        if time.monotonic() > self._limit:
            raise PruneFLError(f"it took longer than this client's limit of {self._seconds:g} seconds")
