"""A table as CSV, Markdown and LaTeX."""

import csv
import io

from prunefl.report.tables import Table

_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\~{}"}
_LATEX |= {"^": r"\^{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "²": "$^2$", "–": "--", "α": r"$\alpha$"}


def to_csv(table: Table) -> str:
    """Return the table with one header line; numbers with their ± in a column of their own."""
    split = [any(" ± " in row[place] for row in table.rows) for place in range(len(table.columns))]
    header = [
        cell
        for place, name in enumerate(table.columns)
        for cell in ([name, f"{name} ±"] if split[place] else [name])
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        writer.writerow(
            [cell for place, value in enumerate(row) for cell in _cells(value, split[place], place)]
        )
    return text.getvalue()


def _cells(value: str, split: bool, place: int) -> list[str]:
    if place == 0:
        return [value]
    plain = "" if value == "–" else value.replace(",", "")
    mean, _, half = plain.partition(" ± ")
    return [mean, half] if split else [mean]


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
