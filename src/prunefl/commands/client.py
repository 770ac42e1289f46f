"""`prunefl client`: take part in a federation with the data of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.system.errors import PruneFLError


def client(
    server: Annotated[str, typer.Option(help="HOST:PORT of the server")],
    number: Annotated[
        int | None,
        typer.Option(
            "--client",
            "--partition",
            help="number of this client, from 0: the one that its key was made for; without it, that of the "
            "folder in --keys (client-I) or of --share I/N",
        ),
    ] = None,
    data: Annotated[
        str,
        typer.Option(
            help="this client's own samples, all of them: a folder with a folder per class, a CSV index, an .npz file, "
            "package.module:function, or the folder of a data set that the server's config names"
        ),
    ] = "",
    share: Annotated[
        str,
        typer.Option(
            help="I/N: take share I of N, cut as the simulator cuts it, of --data or of the data that the server's "
            "config names; to try a federation on one machine"
        ),
    ] = "",
    keys: Annotated[
        Path | None, typer.Option(help="this client's folder made by `prunefl keys`: client-I")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="folder for what this client keeps between messages [default: runs/client-I]"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="package.module:function of this machine that the server may name as its model, data or method"
        ),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="wait for the next run when one is over, in place of ending")
    ] = False,
    personal_steps: Annotated[
        int, typer.Option(help="steps to train the final model on here, for this client alone; needs --out")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="file for that personal model, such as model.safetensors")
    ] = None,
    limits: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with what a server may ask of this client: threads, memory_mb, disk_mb, steps, seconds, "
            "batch, smallest_batch, smallest_steps, allow (docs/federation.md)"
        ),
    ] = None,
    class_counts: Annotated[
        bool, typer.Option(help="tell the server how many samples of each class are here, not only how many")
    ] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="no encryption and no key, for a server with --insecure")
    ] = False,
) -> None:
    """Join a federation, train when asked, and come back after any interruption.

    The server sends the settings; the data stays here. All of --data is trained on, and nothing else. Its classes are
    matched with the server's by name: it may lack some, but one that the server does not know is refused.

    Examples:
      prunefl client --server pi-server.local:9092 --keys client-0 --data ~/images
      prunefl client --server localhost:9092 --insecure --share 0/3
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
    if keys is not None and not keys.is_dir():
        raise PruneFLError(f"--keys {keys}, no such folder: it must be this client's, made by `prunefl keys`")
    if personal_steps < 0:
        raise PruneFLError(f"--personal-steps {personal_steps}, must be >= 0")
    if bool(personal_steps) != (out is not None):
        raise PruneFLError("--personal-steps N and --out FILE belong together; give both or neither")
    chosen, allowed = _number(number, share, keys), tuple(allow or ())
    folder = state or Path("runs") / f"client-{chosen}"
    personal = (personal_steps, out)
    options = ClientOptions(
        server, chosen, data, keys, folder, share, allowed, stay, *personal, limits, class_counts
    )
    join(options, typer.echo)


def _number(given: int | None, share: str, keys: Path | None) -> int:
    """Return which client this is: as it says, or as its key's folder or its share does."""
    named = keys.resolve().name.removeprefix("client-") if keys else ""
    if given is None:
        words = named if named.isdecimal() else share.partition("/")[0]
        if not words.isdecimal():
            raise PruneFLError("--client I is missing: the number of this client, from 0")
        given = int(words)
    if given < 0:
        raise PruneFLError(f"--client {given}, must be >= 0")
    return given
