"""What `prunefl server` tells its SuperLink: which nodes there are, and to start the run."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from prunefl.engines.flower.access import SECRET_HEADER
from prunefl.system.errors import PruneFLError

APP = Path(__file__).parent / "app"


class WithSecret:
    """Shows the secret that lets a request to the Control API."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret.hex()

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        """Add the header and send the request."""
        context.request.headers[SECRET_HEADER] = self.secret
        response: httpx.Response = call_next(context)
        return response


def connect(address: str, secret: bytes, roots: Path | None) -> ControlHttpClient:
    """Return a client of the SuperLink's Control API."""
    return ControlHttpClient.from_server_address(
        server_address=address,
        insecure=roots is None,
        root_certificates=roots.read_bytes() if roots else None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="prunefl"), WithSecret(secret)],
    )


def is_healthy(address: str, roots: Path | None) -> bool:
    """Return whether the SuperLink answers."""
    scheme = "http" if roots is None else "https"
    try:
        verify: Any = str(roots) if roots else False
        return httpx.get(f"{scheme}://{address}/health", verify=verify, timeout=2.0).status_code == 200
    except httpx.TransportError:
        return False


def register_nodes(client: ControlHttpClient, register: Mapping[int, str]) -> dict[int, int]:
    """Make the clients' keys known; return node -> client."""
    nodes = {}
    for number, key in register.items():
        # no name: nobody's business
        answer = client.RegisterNode(RegisterNodeRequest(public_key=key.encode()))
        nodes[int(answer.node_id)] = number
    return nodes


def unregister_node(client: ControlHttpClient, node: int) -> None:
    """Let a node in no more."""
    client.UnregisterNode(UnregisterNodeRequest(node_id=node))


def start_run(client: ControlHttpClient) -> int:
    """Start the run and return its number; what it is to do is in a file, which nodes cannot read."""
    bundle = build_fab_from_disk(APP)
    fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
    answer = client.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
    return int(answer.run_id)


def run_status(client: ControlHttpClient, run: int) -> tuple[str, str, str]:
    """Return a run's status, how it ended and why."""
    status = client.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
    return status.status, status.sub_status, status.details


def wait_until_healthy(address: str, roots: Path | None, seconds: float, ended: Any) -> None:
    """Return once the SuperLink answers; ValueError if it ends or takes too long."""
    limit = time.monotonic() + seconds
    while not is_healthy(address, roots):
        if ended():
            raise PruneFLError("the SuperLink ended while starting")
        if time.monotonic() > limit:
            raise PruneFLError(f"the SuperLink did not answer within {seconds:.0f} seconds")
        time.sleep(0.1)
