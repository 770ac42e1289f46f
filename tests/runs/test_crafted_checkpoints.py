"""Checkpoints and models that somebody made up: one line, or a state that fits; memory is bounded by the model."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings

from odd_json import altered
from prunefl.runs import checkpoint, fitting
from prunefl.runs.api import train
from prunefl.system.files import CheckpointError, load_arrays, save_arrays
from prunefl.wire.model_file import load_model
from tasks import same_bits, small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)


def go(out, **options):
    return train(small_model(), small_clients(), test=TEST, config=small_config(), out=out, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Return the folder of a run that was stopped after round 3, and its template."""
    folder = tmp_path_factory.mktemp("crafted") / "run"
    run = go(folder, on_record=lambda record: record.get("round", 0) >= 3)
    return folder, run.network.template


def newest(folder):
    return max((folder / "checkpoints").glob("*.safetensors"))


@pytest.fixture(scope="module")
def parts(stopped):
    return load_arrays(newest(stopped[0]))


def read(arrays, about, template):
    """Return what is read of a checkpoint with this content."""
    with tempfile.TemporaryDirectory() as folder:
        save_arrays(Path(folder) / "0000004", arrays, about, durable=False)
        return checkpoint.load_latest(Path(folder), 1 << 40, template=template)


def test_a_checkpoint_that_says_anything_is_refused_in_one_line_or_fits(stopped, parts):
    (arrays, about), (_, template), outcomes = parts, stopped, set()

    @settings(deadline=None)
    @given(altered(about))
    def check(crafted):
        try:
            found, said = read(arrays, crafted, template), ""
        except CheckpointError as error:
            said = str(error)
        outcomes.add(bool(said))
        assert "\n" not in said
        if not said:
            fitting.refuse_misfit(found.state, found.extra, template)
            assert found.state.sparse.masks.shapes == template.layers

    check()
    assert True in outcomes


def change(parts, name, array=None, **values):
    arrays, about = parts
    arrays = arrays if array is None else {**arrays, name: array}
    return arrays, {**about, **values}


@pytest.mark.parametrize(
    ("crafted", "words"),
    [
        (lambda p: change(p, "", round=-5), "round=-5"),
        (lambda p: change(p, "", round=10**12), "round=1000000000000"),
        (lambda p: change(p, "", usual_change=float("nan")), "usual_change=nan"),
        (lambda p: change(p, "", opposition={"0": float("nan")}), "opposition=nan"),
        (lambda p: change(p, "", opposition={"0": "much"}), "opposition=.much."),
        (lambda p: change(p, "", opposition=[1]), "not a checkpoint of this version"),
        (lambda p: change(p, "", totals={**p[1]["totals"], "seconds": -1}), "totals.seconds=-1"),
        (lambda p: change(p, "", extra={**p[1]["extra"], "record_bytes": -1}), "record_bytes=-1"),
        (lambda p: change(p, "", extra={**p[1]["extra"], "engine": []}), "engine, must be a table"),
        (lambda p: change(p, "values/0.bias", np.zeros(3, np.float32)), "0.bias: float32 of shape"),
        (lambda p: change(p, "values/more", np.zeros(3, np.float32)), "those of another model"),
        (lambda p: change(p, "", shapes={"0.weight": [2**33, 2**31]}), "not a checkpoint of this version"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(stopped, parts, crafted, words):
    with pytest.raises(CheckpointError, match=words):
        read(*crafted(parts), stopped[1])


def test_a_crafted_checkpoint_is_skipped_and_the_run_goes_on_from_the_one_before(stopped, tmp_path, parts):
    whole = go(tmp_path / "whole")
    shutil.copytree(stopped[0], tmp_path / "x")
    latest = newest(tmp_path / "x")
    latest.unlink()
    save_arrays(tmp_path / "x" / "checkpoints" / "9999999", *change(parts, "", round=9_999_998_000))
    resumed = go(tmp_path / "x", resume=True)
    assert len(resumed.complaints) == 1
    assert "round=9999998000" in resumed.complaints[0]
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())


def test_a_file_that_is_too_large_for_its_model_is_not_read(stopped, monkeypatch):
    folder, template = stopped
    monkeypatch.setattr(fitting, "MORE_BYTES", 0)
    monkeypatch.setattr(fitting, "BYTES_A_VALUE", 1)
    most = fitting.limit_bytes(template)
    with pytest.raises(CheckpointError, match=rf"bytes, must be <= {most} for this model"):
        checkpoint.load_latest(folder / "checkpoints", 1 << 40, template=template)


@pytest.mark.parametrize("about", [[], {"shapes": 3}, {"shapes": {"a": None}, "model": 1}, "[" * 100_000])
def test_a_crafted_model_ends_in_one_line(tmp_path, about):
    path = tmp_path / "model.safetensors"
    text = about if isinstance(about, str) else json.dumps(about)
    path.write_bytes(safetensors.numpy.save({"a": np.zeros(3, np.float32)}, {"prunefl": text}))
    with pytest.raises(ValueError, match="not a model that prunefl wrote") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
