"""A client's end of Flower: takes messages from the SuperLink, one at a time, and hands them to the worker.

Flower's own SuperNode keeps a message in a database, serves it over HTTP to a second process and starts a third to
answer it. On a small device those are most of the memory; here is one process that listens nowhere and speaks the same
protocol by the same functions. processes.py says which files reach below Flower's public API.

`python -m prunefl.engines.flower.node SERVER KEYS`; NODE_FILE and SOCKET say where things are.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, push_objects
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supernode import fleet_http_connection
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from prunefl.engines.flower import key_files
from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.envelope import one_line
from prunefl.engines.flower.parcel import Parcels
from prunefl.engines.flower.processes import NODE_FILE, QUIET, SOCKET, patch, shorten_waits
from prunefl.engines.flower.sockets import MAX_FRAME, call

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which a message waits for a worker that is just being started again."""

AGAIN = 1.0
"""Seconds after which a node whose connection ended connects anew."""

SOON, SLOWEST, SHARE = 0.2, 3.0, 0.05
"""Seconds between two looks for a message, at least and at most, and their share of the time waited."""

HELD, AT_ONCE = 1.0, 2
"""A SuperLink that took so many seconds to say that there is nothing keeps questions until there is something; one
that has said so at once, so many times in a row, does not."""


class Pace:
    """When to look for the next message: at once, where the SuperLink keeps a question until there is one (waiting.py).

    Where it does not, less and less often while none comes: the delay stays a small share of the time waited.
    """

    def __init__(self) -> None:
        self._busy, self._in_vain = time.monotonic(), 0

    def wait(self, had_message: bool, seconds: float) -> None:
        """Sleep as long as makes sense after a look that took so long."""
        if had_message:
            self._busy, self._in_vain = time.monotonic(), 0
            return
        self._in_vain = 0 if seconds >= HELD else self._in_vain + 1
        if self._in_vain > AT_ONCE:
            time.sleep(min(SLOWEST, max(SOON, SHARE * (time.monotonic() - self._busy))))


def run_node(server: str, keys: Path | None, file: Path, answer: Callable[[bytes], bytes]) -> None:
    """Be a node of the federation until this process is ended, or the SuperLink does not want it.

    Args:
        file: where the node's number is kept, for whoever comes after it was killed.
    """
    roots, pair = None, None
    if keys is not None:
        key = key_files.read_node_key(keys / key_files.NODE)
        roots, pair = str(keys / "ca.pem"), (key, key.public_key())
    parcels = Parcels()
    connect = _connecting_by(parcels)
    while True:
        deactivate_former_node(file, server, roots, pair)
        # the heartbeat's way to say that the SuperLink does not know this node any more
        with suppress(KeyboardInterrupt), connect(server, keys is None, roots, pair) as line:
            file.write_text(str(line[0]))
            pace = Pace()
            while True:
                asked = time.monotonic()
                pace.wait(relay(line, answer, parcels), time.monotonic() - asked)
        time.sleep(AGAIN)


def _connecting_by(parcels: Parcels) -> Callable[..., Any]:
    """Return Flower's way to connect, with parcels on the line."""

    class Client(FleetHttpClient):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            parcels.join(self)

    patch(fleet_http_connection, FleetHttpClient=Client)
    return fleet_http_connection.http_request_response


def relay(line: Any, answer: Callable[[bytes], bytes], parcels: Parcels) -> bool:
    """Answer the message that waits at the SuperLink; return whether there was one."""
    _, receive, send, _, _, pull, push, confirm = line
    received = receive()
    if received is None:
        return False
    run, tree = received[0].metadata.run_id, received[1]
    try:
        message = pull_and_inflate_object_from_tree(
            tree, partial(pull, run), partial(confirm, run), return_type=Message
        )
        # a message's number is that of its content, of which it is no part
        message.metadata.__dict__["_message_id"] = tree.object_id
        started = time.monotonic()
        reply = reply_to(message, answer)
        _send(reply, time.monotonic() - started, send, partial(push, run), parcels)
    except Exception:
        # the run may be over, or the line cut: the server asks again if it still wants to know
        log.warning("a message was lost on the way", exc_info=True)
    return True


def reply_to(message: Message, answer: Callable[[bytes], bytes]) -> Message:
    """Return the message with the answer, or with why there is none."""
    try:
        return Message(to_records(answer(from_records(message.content, MAX_FRAME))), reply_to=message)
    except Exception as error:
        log.exception("no answer")
        # not a file's name: where things are on a client is none of the server's business
        words = error.strerror if isinstance(error, OSError) and error.strerror else error
        why = one_line(f"{type(error).__name__}: {words}")
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)


def _send(
    reply: Message,
    seconds: float,
    send: Callable[..., Any],
    push: Callable[[str, str, bytes], None],
    parcels: Parcels,
) -> None:
    reply.metadata.__dict__["_message_id"] = reply.object_id
    with no_object_id_recompute(), parcels.carry([reply]):
        wanted, session = send(reply, get_object_tree(reply), seconds)
        push_objects(get_all_nested_objects(reply), partial(push, session), object_ids_to_push=wanted)


def deactivate_former_node(file: Path, server: str, roots: str | None, pair: Any) -> None:
    """Tell the SuperLink that our former self is gone: else it keeps the place for a minute."""
    if pair is None or not file.exists():
        return
    interceptors: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(*pair),
    ]
    connection = FleetHttpClient.from_server_address(server, False, roots, interceptors=interceptors)
    try:
        with connection as client:
            client.DeactivateNode(DeactivateNodeRequest(node_id=int(file.read_text())))
    except Exception:
        # at worst the node waits for that minute
        log.warning("the SuperLink could not be told that this node's former process is gone", exc_info=True)


def main() -> None:
    """Run as the arguments say until asked to end; the SuperLink is told then."""
    os.environ.update(QUIET)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shorten_waits()
    server, keys = sys.argv[1:]
    answer = partial(call, Path(os.environ[SOCKET]), patience=PATIENCE)
    run_node(server, Path(keys) if keys else None, Path(os.environ[NODE_FILE]), answer)


if __name__ == "__main__":
    main()
