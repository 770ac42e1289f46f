"""The command `prunefl`: wires the commands together and turns errors into one line."""

import logging
import os
import sys
from typing import Annotated

import typer

from prunefl.commands.bench_inference import inference
from prunefl.commands.bench_mask import bench_mask
from prunefl.commands.bench_reconfigure import bench_reconfigure
from prunefl.commands.bench_step import layers, step
from prunefl.commands.bench_wire import bench_wire
from prunefl.commands.client import client
from prunefl.commands.compare import compare
from prunefl.commands.dashboard import dashboard
from prunefl.commands.data import app as data
from prunefl.commands.demo import demo
from prunefl.commands.explain import explain
from prunefl.commands.export import export
from prunefl.commands.inspect import inspect
from prunefl.commands.keys import keys
from prunefl.commands.leaderboard import app as leaderboard
from prunefl.commands.lottery import lottery
from prunefl.commands.plain_help import App
from prunefl.commands.presets import config, presets
from prunefl.commands.privacy import privacy
from prunefl.commands.profile import profile
from prunefl.commands.report import report
from prunefl.commands.run import run
from prunefl.commands.server import server
from prunefl.commands.status import status
from prunefl.commands.sweep import sweep
from prunefl.commands.watch import watch
from prunefl.system.errors import PruneFLError
from prunefl.system.memory import keep_freed_memory
from prunefl.system.plugins import look_in_working_folder

app = App()
app.command()(run)
app.command()(demo)
app.command()(presets)
app.command()(config)
app.add_typer(data, name="data")
app.command()(export)
app.command()(server)
app.command()(client)
app.command()(keys)
app.command()(status)
app.command()(dashboard)
app.command()(watch)
app.command()(report)
app.command()(compare)
app.command()(lottery)
app.command()(sweep)
app.add_typer(leaderboard, name="leaderboard")
app.command()(explain)
app.command()(inspect)
app.command()(privacy)
app.command()(profile)

bench = App(help="Measure this machine: sparse against dense, bytes, reconfiguration.")
bench.command("inference")(inference)
bench.command("reconfigure")(bench_reconfigure)
bench.command("wire")(bench_wire)
bench.command("mask")(bench_mask)
bench.command("step")(step)
bench.command("layers")(layers)
app.add_typer(bench, name="bench")


DEBUG = "PRUNEFL_DEBUG"
"""Environment variable of --debug: processes that a command starts are to show their tracebacks too."""


LONGEST = 4000
"""Characters of an error that are shown."""


COMPUTING = {"run", "demo", "compare", "lottery", "sweep", "profile", "bench"}
"""Commands that train or measure in this process."""


FULL = ("torch", "matplotlib", "jinja2")
"""What a client that trains by plan does without."""


def show_version(asked: bool) -> None:
    """Print the version and end, if it is asked for."""
    if asked:
        from prunefl.system.version import VERSION

        typer.echo(f"prunefl {VERSION}")
        raise typer.Exit


@app.callback()
def prepare(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG, help="log everything; show tracebacks of all errors")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Federated learning in which the model shrinks while it trains."""
    if context.invoked_subcommand in COMPUTING:
        keep_freed_memory()
    os.environ[DEBUG] = "1" if debug else ""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("prunefl").setLevel(logging.DEBUG if debug else logging.NOTSET)


def main() -> None:
    """Run the command line; what a user can mend is one line and exit code 2, all else shows its traceback."""
    look_in_working_folder()
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name not in FULL:
            raise
        what = f"{error.name} is not installed, which this needs: pip install 'prunefl[full]'"
        _refuse(PruneFLError(what), True)
    except (PruneFLError, OSError) as error:
        _refuse(error, isinstance(error, PruneFLError) or error.filename is not None)
    except KeyboardInterrupt:
        print("prunefl: interrupted", file=sys.stderr)
        sys.exit(130)


def _refuse(error: Exception, mendable: bool) -> None:
    """End with the error in one line, or raise it again where that would hide what somebody has to see."""
    if os.environ.get(DEBUG) or not mendable:
        raise error
    said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    # what a file or another machine says could hold anything, commands to a terminal too
    shown = "".join(c if c.isprintable() else "?" for c in said[:LONGEST])
    print(f"prunefl: {shown}", file=sys.stderr)
    sys.exit(2)
