"""`prunefl dashboard`: a live page of a run, a federation or a comparison."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.options import PORT


def dashboard(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="folders of runs, or folders that hold such")
    ],
    port: Annotated[int, typer.Option(help="port to serve on; 0 for any that is free")] = PORT,
    host: Annotated[
        str, typer.Option(help="address to serve on; others than this machine's need TLS")
    ] = "127.0.0.1",
    cert: Annotated[Path | None, typer.Option(help="file with the certificate for TLS, PEM")] = None,
    key: Annotated[Path | None, typer.Option(help="file with the certificate's private key, PEM")] = None,
    proxy: Annotated[
        bool,
        typer.Option("--proxy", help="a proxy with TLS stands before it: others may read it without --cert"),
    ] = False,
    token: Annotated[
        Path | None, typer.Option(help="file with the token that readers need; made if it is not there")
    ] = None,
    parent: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Serve a live page that shows how runs go, from their records and status files. Ctrl-C ends it.

    It only reads: nothing can be started or stopped through it, and runs do not notice it. /metrics on the same
    port is for Prometheus.

    Examples:
      prunefl dashboard runs/first
      prunefl dashboard runs/femnist-compare --port 9000
      prunefl dashboard runs/pis --host 0.0.0.0 \\
        --cert server.pem --key server.key --token token.txt
    """
    from prunefl.dashboard.serve import DashboardOptions, require_dashboard, serve_dashboard

    require_dashboard()
    options = DashboardOptions(tuple(folders), host, port, cert, key, proxy, token, parent)
    serve_dashboard(options, lambda words: None if parent else typer.echo(words, err=True))
