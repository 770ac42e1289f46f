"""Figures as SVG and PDF files for papers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prunefl.report.figures import Bars, Figure, Heat, Lines
from prunefl.report.palette import PART_COLOURS

Palette = Mapping[str, tuple[str, str, str]]
ENDINGS = ("svg", "pdf")
MOST_INSIDE, COLUMNS = 4, 3
"""Where more curves have names, they stand below the axes, in columns: inside they would lie on the curves."""
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def draw(figure: Figure, palette: Palette, folder: Path, endings: Sequence[str] = ENDINGS) -> list[Path]:
    """Write the figure in these formats and return their paths; the same figure gives the same bytes."""
    with plain_style() as pyplot:
        canvas, axes = pyplot.subplots(figsize=(6.4, _height(figure)), layout="constrained")
        if isinstance(figure, Lines):
            _lines(canvas, axes, figure, palette)
        elif isinstance(figure, Bars):
            _bars(axes, figure)
        else:
            _heat(canvas, axes, figure)
        paths = [folder / f"{figure.name}.{ending}" for ending in endings]
        for path in paths:
            canvas.savefig(path, metadata=_UNDATED[path.suffix])
            # the layout is settled; finding it again for the next format would double the time
            canvas.set_layout_engine("none")
        pyplot.close(canvas)
    return paths


def _height(figure: Figure) -> float:
    """Return inches: bars and rows of equal height, and room for a legend below."""
    if isinstance(figure, Bars):
        return 0.42 * len(figure.labels) + 1.0
    if isinstance(figure, Heat):
        return 0.32 * len(figure.rows) + 1.2
    return 3.6 + (0.17 * math.ceil(_named(figure) / COLUMNS) if _named(figure) > MOST_INSIDE else 0)


@contextmanager
def plain_style() -> Iterator[Any]:
    """Yield pyplot on a canvas without a window, with a style fit for a paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e6e9ee",
        "axes.axisbelow": True,
        "legend.frameon": False,
        "svg.hashsalt": "prunefl",
        "pdf.fonttype": 42,
    }
    with pyplot.rc_context(style):
        yield pyplot


def _lines(canvas: Any, axes: Any, figure: Lines, palette: Palette) -> None:
    sides = [axes]
    if figure.before:
        # as on the page: initial pruning has a small axis of its own
        place = axes.get_subplotspec()
        axes.remove()
        grid = place.subgridspec(1, 2, width_ratios=[1, 4], wspace=0.03)
        left = canvas.add_subplot(grid[0])
        sides = [left, canvas.add_subplot(grid[1], sharey=left)]
    for side in sides:
        _curves(side, figure, palette)
    main = sides[-1]
    main.set_xlabel(figure.x_label)
    sides[0].set_ylabel(figure.y_label)
    if figure.before:
        _split_axes(sides[0], main, figure)
    if figure.log:
        main.set_xscale("log")
    if _named(figure) > MOST_INSIDE:
        handles, labels = main.get_legend_handles_labels()
        canvas.legend(
            handles, labels, loc="outside lower center", ncols=COLUMNS, fontsize=7.5, handlelength=2.6
        )
    else:
        main.legend(fontsize=7.5, handlelength=2.6)


def _curves(axes: Any, figure: Lines, palette: Palette) -> None:
    named: set[str] = set()
    for curve in figure.curves:
        colour, _, dash = palette[curve.variant]
        # the seeds of one variant share a name
        label = curve.label if curve.label not in named else None
        named.add(curve.label)
        if figure.points:
            axes.plot(curve.x, curve.y, ".", color=colour, markersize=4, alpha=0.6, label=label)
            continue
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            linestyle=(0, tuple(map(float, dash.split()))) if dash else "-",
            linewidth=2.0 if curve.label == "PruneFL" else 1.3,
            drawstyle="steps-post" if curve.step else "default",
            marker="o" if figure.marks else None,
            markersize=4,
            label=label,
        )
        if curve.low:
            step = "post" if curve.step else None
            axes.fill_between(
                curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0, step=step
            )
    for line in figure.lines:
        axes.plot(line.x, line.y, color="#667085", linewidth=0.9, linestyle=":", label=line.label)


def _split_axes(left: Any, right: Any, figure: Lines) -> None:
    """Give initial pruning, at negative x, its own steps from 0 on, and the rounds theirs."""
    start = min(at for curve in figure.curves for at in curve.x if at is not None)
    left.set_xlim(start, 0)
    right.set_xlim(left=0)
    left.set_xticks([start, 0], ["0", f"{-start:,.0f}"])
    left.set_xlabel(figure.before.replace(" (", "\n("), fontsize=7.5)
    left.set_facecolor("#f4f5f7")
    right.tick_params(labelleft=False)
    right.spines["left"].set_visible(False)


def _named(figure: Lines) -> int:
    return len({curve.label for curve in figure.curves}) + len(figure.lines)


def _bars(axes: Any, figure: Bars) -> None:
    left = [0.0] * len(figure.labels)
    for part, values in figure.parts:
        axes.barh(figure.labels, values, left=left, color=PART_COLOURS[part][0], label=part, height=0.62)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(figure.x_label)
    axes.legend(fontsize=7.5, ncols=len(figure.parts), loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _heat(canvas: Any, axes: Any, figure: Heat) -> None:
    drawn = axes.imshow(
        figure.values, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest",
        extent=(figure.columns[0], max(figure.columns[-1], figure.columns[0] + 1), len(figure.rows), 0),
    )  # fmt: skip
    axes.set_yticks([row + 0.5 for row in range(len(figure.rows))], figure.rows)
    axes.grid(visible=False)
    axes.set_xlabel(figure.x_label)
    axes.set_title(figure.tab, fontsize=9, loc="left")
    canvas.colorbar(drawn, ax=axes, label="density")
