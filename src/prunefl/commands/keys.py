"""`prunefl keys`: identity and encryption for a small federation."""

from pathlib import Path
from typing import Annotated

import typer


def keys(
    folder: Annotated[Path, typer.Argument(help="folder for the keys; what is in it already is kept")],
    clients: Annotated[int, typer.Option(help="how many clients there shall be in all")] = 3,
    host: Annotated[
        list[str] | None,
        typer.Option(help="name or address under which clients reach the server; may be repeated"),
    ] = None,
    days: Annotated[int, typer.Option(help="days for which the server's certificate is valid")] = 365,
    renew: Annotated[
        bool, typer.Option("--renew", help="issue a new server certificate, for other hosts or days")
    ] = False,
    revoke: Annotated[
        int | None,
        typer.Option(help="number of a client to let in no more; a running server follows within seconds"),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="show who may join, and change nothing")] = False,
) -> None:
    """Make a certificate authority, a server certificate and a key for every client.

    Give the server FOLDER (keep ca.key elsewhere: only this command needs it) and each client its own
    FOLDER/client-I. Call it again with more clients to add some.

    Example:
      prunefl keys federation --clients 4 --host pi-server.local
    """
    from prunefl.engines.flower import require_flower

    require_flower()
    from prunefl.engines.flower.keys import list_keys, make_keys
    from prunefl.engines.flower.keys import revoke as take_out

    if revoke is not None:
        take_out(folder, revoke)
        typer.echo(
            f"client {revoke} may join no more; a new key for it: prunefl keys {folder} --clients {revoke + 1}"
        )
        return
    if listed:
        typer.echo("\n".join(list_keys(folder)))
        return
    written = make_keys(folder, host or [], clients, days, renew)
    for path in written:
        typer.echo(f"wrote {path}")
    typer.echo(f"server: prunefl server CONFIG --keys {folder}")
    typer.echo(
        f"client 0, after copying {folder}/client-0 to it: "
        f"prunefl client --server HOST:9092 --keys client-0 --data DIR"
    )
