"""A user's own arrays: a NumPy file, whole or refused by name."""

from pathlib import Path

import numpy as np
import pytest
from data_trees import contents, every

from prunefl import data


def test_a_numpy_file_with_clients(tmp_path: Path) -> None:
    x = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
    path = tmp_path / "own.npz"
    clients = np.array(["b", "a", "b", "a", "b", "b"])
    np.savez(
        path, x_train=x, y_train=np.arange(6) % 3, client_train=clients, x_test=x[:2], y_test=np.array([1, 0])
    )
    federation = data.load("npz", path)
    assert federation.input_shape == (1, 2, 2)
    assert [contents(c) for c in federation.clients] == [
        [(4, 1), (12, 0)],
        [(0, 0), (8, 2), (16, 1), (20, 2)],
    ]
    assert contents(federation.test) == [(0, 1), (4, 0)]


def test_a_numpy_file_of_floats_without_clients_or_test(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    x = np.random.default_rng(0).normal(size=(50, 7))
    np.savez(path, x_train=x, y_train=np.zeros(50, np.int32))
    federation = data.load("npz", path, clients=3)
    assert federation.input_shape == (7,)
    assert [sum(map(len, federation.clients)), len(federation.test)] == [45, 5]
    np.testing.assert_array_equal(every(federation.test)[0], x[9::10].astype(np.float32))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {
                "x_train": np.zeros((2, 3), np.uint8),
                "y_train": np.arange(2),
                "x_test": np.zeros((2, 3)),
                "y_test": np.arange(2),
            },
            "x_train is uint8 and x_test float64, must be both uint8 or both float",
        ),
        ({"x_train": np.zeros((2, 3))}, "no array y_train"),
        (
            {"x_train": np.zeros((2, 3)), "y_train": np.zeros(3, int)},
            "y_train is int64.*must be 2 whole numbers",
        ),
        ({"x_train": np.zeros((2, 3)), "y_train": np.zeros(2)}, "y_train is float64"),
        (
            {"x_train": np.zeros((2, 3), int), "y_train": np.zeros(2, int)},
            "x_train is int64, must be uint8 or float",
        ),
        ({"x_train": np.full((2, 3), np.nan), "y_train": np.zeros(2, int)}, "not finite"),
        ({"x_train": np.array([{}, 1], dtype=object), "y_train": np.zeros(2, int)}, "plain arrays"),
        ({"x_train": np.zeros((2, 3)), "y_train": np.array([0, -1])}, r"own\.npz: y_train has -1 but no 0"),
        ({"x_train": np.zeros((2, 3)), "y_train": np.array([0, 10**6])}, "y_train has 1000000 but no 1"),
        ({"x_train": np.zeros((0, 3)), "y_train": np.zeros(0, int)}, r"x_train has the shape \(0, 3\)"),
        ({"x_train": np.float32(1), "y_train": np.zeros(1, int)}, r"x_train has the shape \(\)"),
        ({"x_train": np.zeros(20), "y_train": np.zeros(20, int)}, r"x_train has the shape \(20,\)"),
        (
            {"x_train": np.zeros((2, 3)), "y_train": np.zeros(2, int), "y_test": np.zeros(2, int)},
            "no array x_test",
        ),
        (
            {
                "x_train": np.zeros((2, 3)),
                "y_train": np.zeros(2, int),
                "x_test": np.zeros((2, 3)),
                "y_test": np.array([7, 0]),
            },
            r"own\.npz: class 7 only in the test data",
        ),
        (
            {"x_train": np.zeros((2, 3)), "y_train": np.zeros(2, int), "client_train": np.zeros(3)},
            r"client_train is \(3,\), must be \(2,\)",
        ),
    ],
)
def test_a_bad_numpy_file_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        data.load("npz", path)


def test_a_single_array_under_the_name_of_many_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.zeros((20, 3)))
    with pytest.raises(ValueError, match=r"own\.npz: not a whole \.npz file"):
        data.load("npz", (tmp_path / "own.npy").rename(tmp_path / "own.npz"))


def test_half_a_numpy_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, x_train=np.zeros((20, 3)), y_train=np.zeros(20, int))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"not a whole \.npz file"):
        data.load("npz", path)
