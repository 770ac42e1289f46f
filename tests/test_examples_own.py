"""The examples for own models and own data run, from Python and as a config names them."""

import importlib
import re
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def in_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    for name in ("own_model", "own_data"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.parametrize("name", ["own_model", "own_data"])
def test_the_program_learns_and_prunes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "own_model":
        pytest.importorskip("mlxtend")
    importlib.import_module(name).main(10)
    said = capsys.readouterr().out
    found = re.search(r"accuracy ([\d.]+)%", said)
    assert found is not None, said
    # chance is 10 and 25 %
    assert float(found[1]) > 50


def test_a_config_can_name_both() -> None:
    from prunefl import data, models
    from prunefl.config import from_tables

    config = from_tables(
        {"data": {"name": "own_data:sensors", "clients": 8}, "model": {"name": "own_data:perceptron"}}
    )
    federation = data.load_configured(config)
    assert len(federation.clients) == 8
    model = models.build_configured(config, federation.classes, federation.input_shape)
    models.check(model, classes=4, input_shape=(3, 32))
    with pytest.raises(ValueError, match=r"data\.clients=7, must be 8"):
        data.load("own_data:sensors", clients=7)
    with pytest.raises(ValueError, match=r"model\.name='conv2', must take samples of shape \(3, 32\)"):
        models.build("conv2", classes=4, input_shape=(3, 32), seed=0)
