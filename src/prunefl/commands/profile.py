"""`prunefl profile`: measure this device and write a device file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.config.networks import NETWORKS, SHORT
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.devices import Device, StepMemory
    from prunefl.measure.profile import Profile


def profile(
    model: Annotated[
        str, typer.Option(help=f"what to measure: {', '.join(NETWORKS)}, or package.module:function")
    ] = "conv2",
    out: Annotated[
        Path | None,
        typer.Option(help="device file to write; other models in it stay; without it, only shown"),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="samples in the mini-batch of a step, as training.batch_size")
    ] = 20,
    threads: Annotated[int, typer.Option(min=1, help="threads that a client computes with")] = 1,
    bandwidth: Annotated[
        float, typer.Option(min=0, help="bytes a second each way; 0: the link costs nothing")
    ] = 0.0,
    name: Annotated[
        str, typer.Option(help="what to call this device in tables and reports")
    ] = "this machine",
    classes: Annotated[
        int, typer.Option(help="number of classes; 0: the paper's, for a network of its own")
    ] = 0,
    input_shape: Annotated[str, typer.Option(help="shape of a sample, such as 3,32,32")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="how often each step is measured")] = 15,
    memory: Annotated[bool, typer.Option(help="measure the memory that a step takes, too")] = True,
    plot: Annotated[Path | None, typer.Option(help="picture to draw, of time against live weights")] = None,
) -> None:
    """Measure how long training steps take here, by layer, dense and sparse, and fit T = c + Σ t·n.

    Examples:
      prunefl profile --model conv2 --bandwidth 1.4e6 --out here.toml
      prunefl run time.device=here.toml
    """
    from prunefl import devices, models
    from prunefl.local.torch_backend.network import network_of
    from prunefl.measure.profile import Task, measured, merged
    from prunefl.measure.profile import profile as measure
    from prunefl.measure.profile.memory import measure as measure_memory
    from prunefl.system.files import write_atomically

    classes, shape = _data_of(model, classes, input_shape)
    network = network_of(models.build(model, classes=classes, input_shape=shape, seed=0), shape, classes)
    size = devices.shape_of(network).only([*network.full_masks])
    total = sum(size.weights.values())
    used = measure_memory(model, classes, shape, batch, total) if memory else None
    with _progress() as progress:
        found = measure(
            Task(network.module, list(network.full_masks), shape, classes, batch, threads, repeats, progress)
        )
    command = f"prunefl profile --model {model} --batch {batch} --threads {threads} --repeats {repeats}"
    link = devices.Link(bandwidth, bandwidth) if bandwidth else devices.Link()
    file = devices.DeviceFile(name, name, link, (measured(found, size, model, used, command),))
    _print_layers(found)
    _print_whole(found, devices.bind(file, size, batch), used)
    if out is not None:
        text = devices.dump(merged(devices.load(str(out)), file) if out.exists() else file)
        write_atomically(out, text.encode())
        print(f"wrote {out}; use it: prunefl run time.device={out}")
    if plot is not None or out is not None:
        from prunefl.report.profile import draw_profile

        print(f"drew {draw_profile(found, plot or Path(out or model).with_suffix('.png'))}")


def _data_of(model: str, classes: int, input_shape: str) -> tuple[int, tuple[int, ...]]:
    """Return classes and sample shape: the paper's for a known model, else they must be given."""
    known = NETWORKS.get(SHORT.get(model, model))
    if known is None and (not classes or not input_shape):
        raise PruneFLError(
            f"model={model!r} is not one of {', '.join(NETWORKS)}: give --classes and --input-shape"
        )
    try:
        shape = tuple(int(part) for part in input_shape.split(",")) if input_shape else ()
    except ValueError:
        raise PruneFLError(f"input_shape={input_shape!r}, must be whole numbers such as 3,32,32") from None
    if known is None:
        return classes, shape
    return classes or known.classes, shape or known.input_shape


@contextmanager
def _progress() -> "Iterator[Callable[[str, float], None]]":
    """Yield a function that shows what is being measured: a bar in a terminal, plain lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text, share: print(f"{share:4.0%} {text}", flush=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)


def _print_layers(found: "Profile") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"one training step, batch {found.batch_size}, {found.threads} thread(s)")
    for heading in ("layer", "weights", "ns per live weight", "R²", "points", "dense is cheaper above"):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for layer in found.layers:
        kink = "never" if layer.break_even >= 1 else f"{layer.break_even:.0%}"
        slope = (
            "0 (was negative)" if layer.line.clamped == "per_weight" else f"{1e9 * layer.line.per_weight:.3g}"
        )
        row = (f"{layer.weights:,}", slope, f"{layer.line.r2:.3f}", str(len(layer.points)), kink)
        table.add_row(layer.name, *row)
    Console().print(table)


def _print_whole(found: "Profile", device: "Device", used: "StepMemory | None") -> None:
    print(f"outside the prunable layers: {1e3 * found.constant:.2f} ms a step")
    print(f"dense step: {1e3 * found.dense_step:.2f} ms; with each layer's cheaper way: ", end="")
    print(f"{1e3 * device.dense_step_seconds():.2f} ms")
    for check in found.checks:
        print(
            f"at density {check.density:.0%}, not fitted on: predicted {1e3 * check.predicted:.2f} ms, "
            f"measured {1e3 * check.measured:.2f} ms ({check.error:+.1%})"
        )
    if used is not None:
        print(
            f"memory of a step beside the program: dense {used.dense / 1e6:.1f} MB, "
            f"sparse {used.sparse / 1e6:.1f} MB + {used.per_weight:.1f} bytes a live weight"
        )
