"""Data that a user's own function makes: taken as it is, or refused before a run starts."""

import sys
from pathlib import Path

import pytest

from prunefl import data
from prunefl.commands.configs import resolve
from prunefl.runs.api import run_config
from tasks import ONE_ROUND


def test_an_own_function_makes_the_federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_source.py").write_text(
        "import torch\n"
        "from torch.utils.data import TensorDataset\n"
        "from prunefl.data import Federation, wrap_all\n"
        "def two(folder):\n"
        "    sets = [TensorDataset(torch.zeros(n, 3), torch.zeros(n).long()) for n in (4, 5, 6)]\n"
        "    parts = wrap_all(sets)\n"
        "    return Federation(parts[:2], parts[2], 2, (3,), folder.name)\n"
        "def wrong(folder): return [1]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    federation = data.load("own_source:two", tmp_path)
    assert [len(c) for c in federation.clients] == [4, 5]
    assert federation.name == tmp_path.name
    with pytest.raises(ValueError, match=r"must return a prunefl\.data\.Federation or Source, got list"):
        data.load("own_source:wrong", tmp_path)


OWN_FUNCTION = """
import torch
from torch.utils.data import Subset, TensorDataset
from prunefl.data import Federation

def some(*labels, shape=(3,)):
    return TensorDataset(torch.zeros(len(labels), *shape), torch.tensor(labels).long())

def raw(folder): return Federation([some(0, 1), Subset(some(9, 1, 0), [1, 2])], some(1), 2, (3,), "own")
def label(folder): return Federation([some(0, 1), some(0, 2)], some(1), 2, (3,), "own")
def hidden(folder): return Federation([Subset(some(0, 1, -1), [0, 2])], some(1), 2, (3,), "own")
def shape(folder): return Federation([some(0, 1), some(0, shape=(4,))], some(1), 2, (3,), "own")
def test_label(folder): return Federation([some(0, 1)], some(1, 7), 2, (3,), "own")
def no_test(folder): return Federation([some(0, 1)], some(), 2, (3,), "own")
def nobody(folder): return Federation([], some(1), 2, (3,), "own")
def one_hot(folder):
    return Federation([TensorDataset(torch.zeros(2, 3), torch.eye(2))], some(1), 2, (3,), "own")
"""
BAD = {
    "label": "client 1 has the label 2, must be in 0..1",
    "hidden": "client 0 has the label -1, must be in 0..1",
    "shape": r"client 1 has samples of shape \(4,\), must be \(3,\)",
    "test_label": "the test set has the label 7, must be in 0..1",
    "no_test": "the test set has 0 samples, must have at least 1",
    "nobody": "clients is empty",
    "one_hot": r"client 0 has labels of shape \(2,\), must be whole numbers",
}


@pytest.fixture
def own_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_bad.py").write_text(OWN_FUNCTION)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_bad", raising=False)


@pytest.mark.usefixtures("own_function")
def test_an_own_function_may_return_plain_torch_data_sets(tmp_path: Path) -> None:
    config, _ = resolve(["data.name=own_bad:raw", *ONE_ROUND], None)
    assert run_config(config, tmp_path / "run").records[0]["cut"] == "2 clients, as own_bad:raw makes them"


@pytest.mark.usefixtures("own_function")
@pytest.mark.parametrize(("name", "message"), BAD.items())
def test_bad_data_of_an_own_function_stops_the_run_before_it_starts(
    tmp_path: Path, name: str, message: str
) -> None:
    config, _ = resolve([f"data.name=own_bad:{name}", *ONE_ROUND], None)
    with pytest.raises(ValueError, match=message):
        run_config(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
