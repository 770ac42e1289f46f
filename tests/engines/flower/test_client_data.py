"""A real client's samples: all it brings, or the simulator's share; the same when it comes back to the same run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prunefl import config as settings
from prunefl import data
from prunefl.data.mine import bring, content_digest
from prunefl.data.task import Task
from prunefl.engines.flower.own_data import Share, check_data, load_own, refuse_changed_data


def digits_config(**changed: object) -> settings.Config:
    tables = {
        "name": "digits",
        "clients": 3,
        "partition": "dirichlet",
        "classes": [str(i) for i in range(10)],
    }
    return settings.from_tables({"data": {**tables, "shape": [1, 28, 28], **changed}})


def write_arrays(path: Path, value: int = 0) -> Path:
    """Write ten samples of 28x28 pixels, of the classes 0 and 3."""
    inputs = np.full((10, 28, 28), value, np.uint8)
    np.savez(path, x_train=inputs, y_train=np.arange(10) % 2 * 3)
    return path


def test_a_share_is_what_the_simulator_cuts() -> None:
    config = digits_config()
    for index, expected in enumerate(data.load_configured(config).clients):
        found = load_own(config, index, Share(index, 3)).samples
        assert content_digest(found) == content_digest(expected)


def test_a_share_of_other_clients_than_the_run_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--share 0/5, but the run has data\.clients=3: --share 0/3"):
        load_own(digits_config(), 0, Share(0, 5))
    for text in ("3/3", "1", "a/b"):
        with pytest.raises(ValueError, match="must be I/N with I < N"):
            Share.parse(text)


def test_nothing_is_cut_that_nobody_asked_for(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "own.npz")
    brought = load_own(digits_config(name="at-clients", dir=str(path)), 1, None)
    assert brought.samples.batch(np.arange(10))[1].tolist() == [0, 3] * 5
    with pytest.raises(ValueError, match=r"--data PATH is missing: .*--share 2/3"):
        load_own(digits_config(), 2, None)


def test_a_server_that_does_not_say_its_classes_is_of_another_version() -> None:
    with pytest.raises(ValueError, match="did not say which classes"):
        load_own(digits_config(classes=[]), 0, Share(0))


def test_what_cannot_be_data_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder or file"):
        check_data(str(tmp_path / "nowhere"), None, ())
    with pytest.raises(ValueError, match="allow it with --allow own:load"):
        check_data("own:load", None, ())
    check_data("own:load", None, ("own:load",))
    check_data("", Share(0, 3), ())


def test_other_samples_in_the_same_run_are_refused(tmp_path: Path) -> None:
    task = Task(tuple(map(str, range(10))), (1, 28, 28))
    samples = bring(write_arrays(tmp_path / "a.npz"), task).samples
    refuse_changed_data(tmp_path, "r", samples)
    refuse_changed_data(tmp_path, "r", replace(samples))
    changed = bring(write_arrays(tmp_path / "b.npz", value=1), task).samples
    with pytest.raises(
        ValueError, match=r"has changed since this client joined run r \(10 samples then, 10 now\)"
    ):
        refuse_changed_data(tmp_path, "r", changed)
    refuse_changed_data(tmp_path, "another", changed)
