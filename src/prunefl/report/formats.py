"""A table as CSV, Markdown and LaTeX."""

import csv
import io
import re

from prunefl.report.tables import Table

_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\~{}"}
_LATEX |= {"^": r"\^{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "²": "$^2$", "–": "--", "α": r"$\alpha$"}


def to_csv(table: Table) -> str:
    """Return the table with one header line; what stands beside a number has columns of its own."""
    beside = [[row[place] for row in table.rows] for place in range(len(table.columns))]
    has_half = [any(" ± " in cell for cell in cells) for cells in beside]
    has_range = [place > 0 and any(map(_RANGE.search, cells)) for place, cells in enumerate(beside)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header = []
    for place, name in enumerate(table.columns):
        header += [name, *([f"{name} ±"] if has_half[place] else [])]
        header += [f"{name}, lowest", f"{name}, highest"] if has_range[place] else []
    writer.writerow(header)
    for row in table.rows:
        writer.writerow(
            [part for place, cell in enumerate(row) for part in _parts(cell, place, has_half, has_range)]
        )
    return text.getvalue()


_RANGE = re.compile(r" \(([^()–]+)–([^()–]+)\)$")


def _parts(cell: str, place: int, has_half: list[bool], has_range: list[bool]) -> list[str]:
    """Return a cell's number, half its interval, and its range, as far as its column has them."""
    if place == 0:
        return [cell]
    plain = "" if cell == "–" else cell.replace(",", "")
    ends = _RANGE.search(plain)
    mean, _, half = _RANGE.sub("", plain).partition(" ± ")
    found = [mean, *([half] if has_half[place] else [])]
    return found + (list(ends.groups() if ends else ("", "")) if has_range[place] else [])


def to_markdown(table: Table) -> str:
    """Return the table with its caption; the best value of a column is bold."""
    lines = [f"**{table.title}.** {table.caption}", "", _row(table.columns)]
    lines.append(_row(["---", *("---:" for _ in table.columns[1:])]))
    for number, row in enumerate(table.rows):
        cells = [f"**{cell}**" if (number, place) in table.best else cell for place, cell in enumerate(row)]
        lines.append(_row([cell.replace("|", "\\|") for cell in cells]))
    return "\n".join(lines) + "\n"


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def to_latex(table: Table) -> str:
    """Return a table environment that needs the booktabs package."""
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{latex(table.title)}. {latex(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"\toprule",
        " & ".join(map(latex, table.columns)) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        cells = [
            rf"\textbf{{{latex(cell)}}}" if (number, place) in table.best else latex(cell)
            for place, cell in enumerate(row)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def latex(text: str) -> str:
    """Return the text with LaTeX's own characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)
