"""`prunefl client`: take part in a federation with the data of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.system.errors import PruneFLError


def client(
    server: Annotated[str, typer.Option(help="HOST:PORT of the server.")],
    partition: Annotated[
        int, typer.Option(help="Number of this client, from 0: which share of the data is its own.")
    ],
    data: Annotated[
        str, typer.Option(help="Folder with the data; without it data/NAME, and built-in data needs none.")
    ] = "",
    keys: Annotated[
        Path | None, typer.Option(help="This client's folder made by `prunefl keys`: client-I.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Folder for this client's state.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="package.module:function of this machine that the server may name as its model, data or method."
        ),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Wait for the next run when one is over.")] = False,
    personal_steps: Annotated[
        int, typer.Option(help="Steps to train the final model on here, for this client alone; needs --out.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for that personal model, such as model.safetensors.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="No encryption and no key.")] = False,
) -> None:
    """Join a federation, train when asked, and come back after any interruption.

    The server sends the settings; the data stays here.

    Example: prunefl client --server pi-server.local:9092 --partition 0 --keys client-0 --data ~/femnist
    """
    from prunefl.engines.flower import require_flower

    require_flower()
    from prunefl.engines.flower.join import ClientOptions, join

    if keys is None and not insecure:
        raise PruneFLError(
            "--keys DIR is missing: this client's folder made by `prunefl keys` (or ask for --insecure)"
        )
    if keys is not None and insecure:
        raise PruneFLError("--insecure uses no keys; give either --keys or --insecure")
    if personal_steps < 0:
        raise PruneFLError(f"--personal-steps {personal_steps}, must be >= 0")
    if bool(personal_steps) != (out is not None):
        raise PruneFLError("--personal-steps N and --out FILE belong together; give both or neither")
    if partition < 0:
        raise PruneFLError(f"--partition {partition}, must be >= 0")
    folder = state or Path("runs") / f"client-{partition}"
    allowed = tuple(allow or ())
    options = ClientOptions(server, partition, data, keys, folder, allowed, stay, personal_steps, out)
    join(options, typer.echo)
