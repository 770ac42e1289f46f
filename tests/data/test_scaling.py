"""Numbers that a network is shown: all clients of a run have them scaled alike, or are refused with what to do."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from prunefl import data
from prunefl.data.describe import describe_task
from prunefl.data.mine import bring, bring_by_function, bring_test
from prunefl.data.task import Task

TASK = Task(("0", "1"), (1, 4, 4))


def arrays(path: Path, inputs: np.ndarray) -> Path:
    np.savez(path, x_train=inputs, y_train=np.arange(len(inputs)) % 2)
    return path


def pixels(count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 1, 4, 4), dtype=np.uint8)


def test_pixels_and_numbers_between_0_and_1_are_one_scale(tmp_path: Path) -> None:
    task = Task(TASK.classes, TASK.shape, "unit")
    one = bring(arrays(tmp_path / "a.npz", pixels()), task).samples
    other = bring(arrays(tmp_path / "b.npz", pixels().astype(np.float32) / 255), task).samples
    rows = np.arange(6)
    assert np.array_equal(one.batch(rows)[0], other.batch(rows)[0])


@pytest.mark.parametrize(
    ("inputs", "agreed", "words"),
    [
        (pixels().astype(np.float32), "unit", "has numbers as they are, the run has pixels 0..255 as 0..1"),
        (pixels() / 255 - 0.5, "unit", "divide them by the largest that may occur, or save them as uint8"),
        (pixels(), "none", "has pixels 0..255 as 0..1, the run has numbers as they are"),
        (pixels(), "femnist", "the run has them as femnist scales them .*: bring data of femnist"),
    ],
)
def test_another_scale_is_refused_at_a_client_and_for_a_test_set(
    tmp_path: Path, inputs: np.ndarray, agreed: str, words: str
) -> None:
    file, task = arrays(tmp_path / "a.npz", inputs), Task(TASK.classes, TASK.shape, agreed)
    for load in (bring, bring_test):
        with pytest.raises(ValueError, match=words):
            load(file, task)
    with pytest.raises(ValueError, match=words):
        data.load("npz", file, clients=2, scaling=agreed, test=file)
    assert len(bring(file, TASK).samples) == 6


def test_one_value_too_large_among_many_is_found(tmp_path: Path) -> None:
    inputs = np.zeros((600, 1, 4, 4), np.float32)
    inputs[599, 0, 3, 3] = 1.5
    with pytest.raises(ValueError, match="has numbers as they are"):
        bring(arrays(tmp_path / "a.npz", inputs), Task(TASK.classes, TASK.shape, "unit"))


def test_a_described_task_says_the_scale_and_takes_the_data_that_it_describes(tmp_path: Path) -> None:
    for name, inputs, scaling in (("a", pixels(), "unit"), ("b", pixels().astype(np.float32), "none")):
        file = arrays(tmp_path / f"{name}.npz", inputs)
        section = tomllib.loads(describe_task(file, clients=2))["data"]
        assert section["scaling"] == scaling
        bring(file, Task(tuple(section["classes"]), tuple(section["shape"]), scaling))


FUNCTION = """
import numpy as np
class Shots(list):
    classes = ["ok", "crack"]
def load(client):
    return Shots([(np.full((1, 4, 4), client, np.float32), i % 2) for i in range(4 + client)])
"""


def test_a_function_gives_each_simulated_client_what_a_real_one_would_bring(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "own_cameras.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(tmp_path)
    classes = ("crack", "dent", "ok")
    made = data.load("function-per-client", "own_cameras:load", clients=3, classes=classes)
    assert (made.input_shape, made.names, made.test) == ((1, 4, 4), classes, None)
    for client, found in enumerate(made.clients):
        expected = bring_by_function("own_cameras:load", client, Task(classes, (1, 4, 4))).samples
        rows = np.arange(4 + client)
        for one, other in zip(found.batch(rows), expected.batch(rows), strict=True):
            assert np.array_equal(one, other)
        assert found.batch(rows)[1].tolist() == [2, 0] * 2 + [2, 0][:client]
    for given, words in (
        ({"classes": classes}, r"data\.clients is not set"),
        ({"clients": 3}, r"data\.classes is not set"),
        ({"clients": 3, "classes": ("crack",)}, r"class 'ok' of own_cameras:load is not one of the run's"),
    ):
        with pytest.raises(ValueError, match=words):
            data.load("function-per-client", "own_cameras:load", **given)
