"""The tutorial notebook runs from top to bottom, and says what it promises."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(ast.unparse(last), names)


def test_every_cell_runs_and_shows_what_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlxtend")
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    said = capsys.readouterr()
    run, table, figure, longer, stopped = (value for value in shown if value is not None)
    assert repr(run).startswith("Run(accuracy ")
    assert repr(run).endswith("% of the weights, 12 rounds)")
    assert list(table.index) == [3, 6, 9, 12]
    assert table["accuracy"].iloc[-1] == run.accuracy > 0.7
    assert [line.get_ydata()[-1] for line in figure.axes[0].lines] == [100 * run.accuracy]
    assert "18 rounds" in repr(longer)
    assert len([r for r in longer.records if r["kind"] == "round"]) == 18
    # the first evaluation is the best that half an accuracy more could beat: two more, and it stops
    assert repr(stopped).endswith("9 rounds, stopped)")
    assert said.err.count("round 6 of 12: accuracy ") == 1
    assert said.err.count("round 18 of 18: accuracy ") == 1
    assert f"accuracy {longer.accuracy:.1%}" in said.out
