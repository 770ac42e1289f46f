"""The SuperLink's web server with limits: on connections, on headers, on how long either may take."""

import gc
import sys
from asyncio.sslproto import SSLProtocol
from typing import Any

from prunefl.engines.flower.connections import Connections, listen

MAX_HEADERS = 64 << 10
"""Bytes of headers; more is answered with 400 at once. httptools, which is used otherwise, takes any number."""

READ_BYTES = 32 << 10
"""That TLS reads at a time: it keeps so much for every connection, also of strangers; by default, eight times that."""


def serve(connections: Connections, **options: Any) -> None:
    """Do what uvicorn.run does, on a socket whose connections are watched."""
    import uvicorn

    ours = {
        "http": "h11",
        "ws": "none",
        # uvloop would accept connections past the socket that watches them
        "loop": "asyncio",
        "h11_max_incomplete_event_size": MAX_HEADERS,
        # Else it waits at its end for clients that keep their connection, and logs every request.
        "timeout_graceful_shutdown": 1,
        "access_log": False,
    }
    SSLProtocol.max_size = READ_BYTES
    config = uvicorn.Config(**{**options, **ours})
    server = uvicorn.Server(config)
    connections.watch()
    # this process serves and nothing else: what is loaded by now stays, and is not looked through at every sweep
    gc.freeze()
    server.run(sockets=[listen(config.host, config.port, connections)])
    if not server.started:
        sys.exit(3)
