"""The command `prunefl`: wires the commands together and turns errors into one line."""

import sys

import typer

from prunefl.commands.bench_inference import inference
from prunefl.commands.bench_reconfigure import bench_reconfigure
from prunefl.commands.bench_step import layers, step
from prunefl.commands.bench_wire import bench_wire
from prunefl.commands.client import client
from prunefl.commands.compare import compare
from prunefl.commands.data import app as data
from prunefl.commands.demo import demo
from prunefl.commands.export import export
from prunefl.commands.inspect import inspect
from prunefl.commands.keys import keys
from prunefl.commands.lottery import lottery
from prunefl.commands.presets import config, presets
from prunefl.commands.profile import profile
from prunefl.commands.report import report
from prunefl.commands.run import run
from prunefl.commands.server import server
from prunefl.commands.status import status
from prunefl.commands.sweep import sweep

app = typer.Typer(
    help="Federated learning in which the model shrinks while it trains.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
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
app.command()(report)
app.command()(compare)
app.command()(lottery)
app.command()(sweep)
app.command()(inspect)
app.command()(profile)

bench = typer.Typer(
    help="Measure this machine: sparse against dense, bytes, reconfiguration.", no_args_is_help=True
)
bench.command("inference")(inference)
bench.command("reconfigure")(bench_reconfigure)
bench.command("wire")(bench_wire)
bench.command("step")(step)
bench.command("layers")(layers)
app.add_typer(bench, name="bench")


def main() -> None:
    """Run the command line; what a user can mend is one line and exit code 2, never a traceback."""
    try:
        app()
    except ValueError as error:
        print(f"prunefl: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"prunefl: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("prunefl: interrupted", file=sys.stderr)
        sys.exit(130)
