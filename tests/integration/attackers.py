"""Those who do not belong: a member that plays others, strangers with too many connections, clients that lie."""

import contextlib
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from realm import Realm, read

from prunefl.engines.flower import key_files
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.wire.format import build, parse


class Insider:
    """A member with its own key that speaks to the SuperLink as it likes."""

    def __init__(self, town: Realm, client: int) -> None:
        key = key_files.read_node_key(town.home(client) / key_files.NODE)
        self.node = int((town.state(f"client-{client}") / "node").read_text())
        interceptors = [
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(key, key.public_key()),
        ]
        roots = (town.folder / "keys" / "ca.pem").read_bytes()
        self.client = FleetHttpClient.from_server_address(
            town.address, False, roots, interceptors=interceptors
        )

    def __enter__(self) -> "Insider":
        self.client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.client.__exit__(*error)

    def push(self, source: int, target: int, reply_to: str) -> None:
        """Push a message as any node to any node."""
        about = Metadata(
            run_id=1,
            message_id="0" * 64,
            src_node_id=source,
            dst_node_id=target,
            reply_to_message_id=reply_to,
        )
        about.ttl, about.created_at, about.message_type = 60.0, time.time(), "train"
        tree = ObjectTree(object_id="0" * 64)
        self.client.PushMessages(
            PushMessagesRequest(
                node=Node(node_id=self.node),
                messages_list=[Message(metadata=about)],
                message_object_trees=[tree],
            )
        )

    def push_object(self, name: str, content: bytes) -> None:
        """Push bytes that belong to nothing."""
        self.client.PushObject(
            PushObjectRequest(node=Node(node_id=self.node), run_id=1, object_id=name, object_content=content)
        )


def connect(town: Realm, seconds: float = 30.0) -> ssl.SSLSocket:
    """Return a connection of somebody without a key."""
    context = ssl.create_default_context(cafile=str(town.folder / "keys" / "ca.pem"))
    line = socket.create_connection(("127.0.0.1", town.port), timeout=seconds)
    return context.wrap_socket(line, server_hostname="localhost")


def send_endless_header(town: Realm, most: int = 64 << 20) -> tuple[int, bytes]:
    """Send a header until somebody stops it; return how many bytes were taken, and the answer."""
    sent = 0
    with connect(town) as line:
        try:
            line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX: ")
            while sent < most:
                line.sendall(b"a" * 65536)
                sent += 65536
        except OSError:
            pass
        try:
            return sent, line.recv(100)
        except OSError:
            return sent, b""


class Flood:
    """Keeps opening connections that say nothing, garbage, half a header, or a body that never comes.

    Half of them shake hands first. Those that the server closes are given up; new ones come at the same pace.
    """

    WORDS = (
        b"",
        b"\x00\xff" * 100,
        b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\nab",
        b"GET / HTTP/1.1\r\nX-Endless: aaaa",
    )

    def __init__(self, town: Realm, count: int, a_second: float, threads: int = 8) -> None:
        self.town, self.count, self.opened, self.open = town, count, 0, True
        self.pause, self.lines = threads / a_second, list[socket.socket]()
        self.threads = [
            threading.Thread(target=self._flood, args=(number,), daemon=True) for number in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        """Whether all connections have been opened."""
        return self.opened >= self.count

    def _flood(self, number: int) -> None:
        due = time.monotonic()
        while self.open and not self.is_over:
            due += self.pause
            try:
                line = (
                    connect(self.town, 10)
                    if number % 2
                    else socket.create_connection(("127.0.0.1", self.town.port), 10)
                )
                self.lines.append(line)
                line.sendall(self.WORDS[self.opened % len(self.WORDS)])
            except OSError:
                pass
            self.opened += 1
            time.sleep(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        self.open = False
        for thread in self.threads:
            thread.join()
        for line in self.lines:
            line.close()


def rush(town: Realm, count: int) -> list[socket.socket]:
    """Open so many connections at once, and return them; half of them begin to shake hands and leave it at that.

    What they say costs the stranger next to nothing: the first message of a handshake is always the same one.
    """
    greeting = ssl.MemoryBIO()
    shaking = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), greeting, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    hello, lines = greeting.read(), []
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(files, count + 1000)), most))
    for number in range(count):
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex(("127.0.0.1", town.port))
        lines.append(line)
        words = hello if number % 2 else Flood.WORDS[number // 2 % len(Flood.WORDS)]
        # not connected yet where the server is behind: then it is silent
        with contextlib.suppress(OSError):
            line.send(words)
    return lines


def lie(change: Callable[[Envelope], Envelope]) -> Callable[[bytes], bytes]:
    """Return what a Forger does to a lying client's answers."""
    return lambda content: seal(change(unseal(content)))


def memory(town: Realm, name: str = "server") -> int:
    """Return the bytes of memory that a command and all that it started take."""
    pages = [int(read(number, "statm").split()[1]) for number in town.family(name) if read(number, "statm")]
    return sum(pages) * 4096


def fill(packed: bytes, value: float) -> bytes:
    """Return a packed message whose float32 values are all the same finite number, sealed as an honest client's is."""
    message = parse(packed)
    parts = [np.full(part.size // 4, value, "<f4").view(np.uint8) for part in (*message.values, message.rest)]
    return build(message.header, message.patterns, parts)


def poison(envelope: Envelope) -> Envelope:
    """Weights of 3e38."""
    if envelope.kind != "reply" or not envelope.values["round"]:
        return envelope
    return replace(envelope, parts=(fill(envelope.parts[0], 3e38), *envelope.parts[1:]))


def inflate_importance(envelope: Envelope) -> Envelope:
    """Importance of 1e30."""
    if envelope.kind != "reply" or not envelope.parts[1]:
        return envelope
    return replace(envelope, parts=(envelope.parts[0], fill(envelope.parts[1], 1e30), envelope.parts[2]))


def claim_samples(envelope: Envelope) -> Envelope:
    """A million million samples, when it joins and in every update; how many of each class it does not say."""
    if envelope.kind not in ("joined", "reply"):
        return envelope
    values = {name: value for name, value in envelope.values.items() if name != "by_class"}
    return replace(envelope, values={**values, "num_samples": 10**12})
