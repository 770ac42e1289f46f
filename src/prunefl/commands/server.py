"""`prunefl server`: run a federation of real machines."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.options import PORT as DASHBOARD_PORT
from prunefl.commands.options import Dashboard, DashboardPort
from prunefl.system.errors import PruneFLError

PORT = 9092


def server(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG [SECTION.KEY=VALUE]...", help="a TOML file or a preset, then settings to change"
        ),
    ],
    keys: Annotated[
        Path | None, typer.Option(help="folder made by `prunefl keys`; needed, unless --insecure")
    ] = None,
    out: Annotated[Path, typer.Option(help="the run's folder: records, checkpoints, model, logs")] = Path(
        "runs/server"
    ),
    host: Annotated[str, typer.Option(help="address to listen on; every one, unless --insecure")] = "",
    port: Annotated[int, typer.Option(help="port to listen on; open it for TCP in the firewall")] = PORT,
    only: Annotated[
        str, typer.Option(help="numbers of the clients that take part, such as 0,3,5: as server.clients")
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="go on from the last checkpoint in --out")] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="no encryption and no keys; listens on this machine only unless --host says else",
        ),
    ] = False,
    dashboard: Dashboard = False,
    dashboard_port: DashboardPort = DASHBOARD_PORT,
) -> None:
    """Run all rounds with the clients that join over the network, then end.

    Clients may come late, die and come back: a round is finished with a quorum of them (server.quorum) at its
    deadline (server.deadline). A server that was stopped or killed goes on with --resume.

    The server needs no samples: with data.name=at-clients the config says the classes, the shape of a sample and how
    many clients there are; `prunefl data describe FOLDER` prints that section. data.test=PATH is a test set of its own.

    Examples:
      prunefl server task.toml model.name=conv2 data.clients=5 --keys federation
      prunefl server configs/flower.toml --keys federation --out runs/pis
      prunefl server task.toml --keys federation --only 0,3,5
    """
    from prunefl.engines.flower import require_flower

    require_flower()
    from prunefl.commands.configs import resolve
    from prunefl.dashboard.beside import dashboard_beside
    from prunefl.engines.flower.serve import ServerOptions, serve

    config, _ = resolve([*arguments, *_choose_clients(only)], None)
    if keys is None and not insecure:
        raise PruneFLError("--keys DIR is missing; make it with: prunefl keys DIR (or ask for --insecure)")
    if keys is not None and insecure:
        raise PruneFLError("--insecure uses no keys; give either --keys or --insecure")
    listen = host or ("127.0.0.1" if insecure else "0.0.0.0")
    with dashboard_beside(out, dashboard_port) if dashboard else nullcontext():
        serve(ServerOptions(config, out, keys, listen, port, resume), typer.echo)


def _choose_clients(only: str) -> list[str]:
    """Return --only as an assignment."""
    if only and not re.fullmatch(r"\d+(,\d+)*", only):
        raise PruneFLError(f"--only {only}, must be numbers of clients, such as 0,3,5")
    return [f"server.clients=[{only}]"] if only else []
