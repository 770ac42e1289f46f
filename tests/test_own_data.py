"""A user's own data: folders, a CSV index, a NumPy file, a function; whole or refused by name."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from prunefl import data
from prunefl.commands.configs import resolve
from prunefl.training import run_config

Image = pytest.importorskip("PIL.Image")


def save(path: Path, value: int, size: tuple[int, int] = (6, 6), colour: bool = False) -> None:
    """Write an image whose every pixel is `value`, by which a test knows it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (*size, 3) if colour else size
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)


def contents(samples: data.Samples) -> list[tuple[int, int]]:
    x, y = samples.batch(torch.arange(len(samples)))
    return [(round(255 * float(image[0, 0, 0])), int(label)) for image, label in zip(x, y, strict=True)]


def test_a_folder_per_class_with_test_data(tmp_path: Path) -> None:
    for i in range(12):
        save(tmp_path / "train" / ("cat", "dog", "eel")[i % 3] / f"{i:02d}.png", i)
    save(tmp_path / "test" / "dog" / "a.png", 100)
    save(tmp_path / "test" / "eel" / "b.png", 101)
    federation = data.load("folder-per-class", tmp_path, partition="shards", clients=3, shards=1)
    assert federation.classes == 3
    assert federation.input_shape == (1, 6, 6)
    assert sorted(map(contents, federation.clients)) == [
        [(i, label) for i in range(label, 12, 3)] for label in range(3)
    ]
    assert contents(federation.test) == [(100, 1), (101, 2)]


def test_a_folder_per_class_without_test_data_holds_out_a_tenth_of_each(tmp_path: Path) -> None:
    for i in range(40):
        save(tmp_path / f"{i % 2 + 9}" / f"{i:02d}.png", i)
    federation = data.load("folder-per-class", tmp_path, clients=4)
    assert sum(map(len, federation.clients)) == 36
    # labels are counted as numbers: 9 before 10
    assert sorted(contents(federation.test)) == [(18, 0), (19, 1), (38, 0), (39, 1)]


def test_a_folder_per_client(tmp_path: Path) -> None:
    for client, images in {"ann": {"a": [1, 2], "b": [3]}, "bob": {"b": [4, 5]}}.items():
        for label, values in images.items():
            for value in values:
                save(tmp_path / "train" / client / label / f"{value}.png", value)
    save(tmp_path / "test" / "b" / "9.png", 9)
    federation = data.load("folder-per-client", tmp_path)
    assert [contents(c) for c in federation.clients] == [[(1, 0), (2, 0), (3, 1)], [(4, 1), (5, 1)]]
    assert contents(federation.test) == [(9, 1)]
    assert federation.cut == "2 clients, as the data names them"


QUICK = [
    "model.name=lenet300100",
    "run.method=conventional",
    "run.rounds=1",
    "training.local_steps=1",
    "run.workers=1",
]


def client_images(folder: Path, client: str, count: int) -> None:
    for i in range(count):
        save(folder / client / "ab"[i % 2] / f"{i:02d}.png", i)


@pytest.mark.parametrize("base", [[], ["cifar10"], ["mnist"]])
def test_a_run_leaves_own_clients_as_the_data_names_them(tmp_path: Path, base: list[str]) -> None:
    for client, count in {"ann": 20, "bob": 30, "eve": 40}.items():
        client_images(tmp_path / "own", client, count)
    config, _ = resolve([*base, "data.name=folder-per-client", f"data.dir={tmp_path / 'own'}", *QUICK], None)
    said: list[str] = []
    record = run_config(config, tmp_path / "run", on_cut=said.append).records[0]
    assert said == ["3 clients, as the data names them"] == [record["cut"]]
    assert record["clients"] == len(record["devices"]) == 3
    assert [len(c) for c in data.load("folder-per-client", tmp_path / "own").clients] == [18, 27, 36]
    # what the run left is enough to go on with it
    assert run_config(resolve([], None, tmp_path / "run")[0], tmp_path / "run", resume=True).finished


def test_a_run_asks_the_data_before_it_draws_clients(tmp_path: Path) -> None:
    client_images(tmp_path / "own", "ann", 20)
    given = ["data.name=folder-per-client", f"data.dir={tmp_path / 'own'}", "training.participants=4"]
    with pytest.raises(ValueError, match=r"participants=4, must be <= data\.clients=1"):
        run_config(resolve([*given, *QUICK], None)[0], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def write_csv(folder: Path, lines: list[str], header: str = "file,label,client,split") -> Path:
    for i in range(8):
        save(folder / "images" / f"{i}.png", i)
    path = folder / "index.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_csv_index_with_clients(tmp_path: Path) -> None:
    rows = [
        f"images/{i}.png,{'yes' if i % 2 else 'no'},site{i % 3},{'test' if i > 5 else 'train'}"
        for i in range(8)
    ]
    path = write_csv(tmp_path, rows)
    for where in (path, tmp_path):
        federation = data.load("csv", where)
        assert [contents(c) for c in federation.clients] == [
            [(0, 0), (3, 1)],
            [(1, 1), (4, 0)],
            [(2, 0), (5, 1)],
        ]
        assert contents(federation.test) == [(6, 0), (7, 1)]


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        ("file,client", "images/0.png,a", "no column 'label'"),
        ("file,label,client,split", "images/0.png,1,a,valid", "line 2: split='valid', must be train or test"),
        ("file,label,client,split", "images/0.png,1,,train", "line 2: empty client"),
        ("file,label,client,split", "images/0.png,,a,train", "line 2: empty file or label"),
        (
            "file,label,client,split",
            "images/99.png,1,a,train",
            r"99\.png: no such image, though it is listed",
        ),
    ],
)
def test_a_bad_csv_index_is_named_by_line(tmp_path: Path, header: str, line: str, message: str) -> None:
    write_csv(tmp_path, [line, "images/1.png,1,a,train", "images/2.png,1,a,test"], header)
    with pytest.raises(ValueError, match=message):
        data.load("csv", tmp_path)


def test_images_of_unequal_sizes_need_a_size(tmp_path: Path) -> None:
    for i in range(10):
        save(tmp_path / "a" / f"{i}.png", i, (6, 6 + i % 2))
        save(tmp_path / "b" / f"{i}.png", i, colour=i == 3)
    with pytest.raises(ValueError, match=r"1\.png: 6×7 pixels where 0\.png has 6×6: set data\.size"):
        data.load("folder-per-class", tmp_path)
    federation = data.load("folder-per-class", tmp_path, size=8, clients=2)
    # one image in colour makes them all have three channels
    assert federation.input_shape == (3, 8, 8)
    assert contents(federation.test) == [(9, 0), (9, 1)]


def test_a_corrupt_own_image_is_named(tmp_path: Path) -> None:
    for i in range(10):
        save(tmp_path / "a" / f"{i}.png", i)
    (tmp_path / "a" / "4.png").write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"4\.png: corrupt image"):
        data.load("folder-per-class", tmp_path)


def test_empty_and_half_made_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folders, must have one per class"):
        data.load("folder-per-class", tmp_path)
    save(tmp_path / "train" / "ann" / "a" / "1.png", 1)
    with pytest.raises(ValueError, match="has only one of train/ and test/"):
        data.load("folder-per-client", tmp_path)
    (tmp_path / "test" / "a").mkdir(parents=True)
    (tmp_path / "train" / "bob" / "a").mkdir(parents=True)
    with pytest.raises(ValueError, match="client 'bob' has 0 images"):
        data.load("folder-per-client", tmp_path)


@pytest.mark.parametrize("name", ["folder-per-class", "folder-per-client"])
def test_classes_that_only_the_test_data_has_are_named(tmp_path: Path, name: str) -> None:
    for i in range(4):
        client = "ann" if name == "folder-per-client" else ""
        save(tmp_path / "train" / client / ("cat", "dog")[i % 2] / f"{i}.png", i)
        save(tmp_path / "test" / ("Cat", "dog")[i % 2] / f"{i}.png", i)
    with pytest.raises(ValueError, match="class Cat only in the test data, must be in both"):
        data.load(name, tmp_path)


def test_a_class_folder_without_images_is_refused(tmp_path: Path) -> None:
    for name in ("a", "c"):
        save(tmp_path / "train" / name / "1.png", 1)
        save(tmp_path / "test" / name / "1.png", 1)
    (tmp_path / "train" / "b").mkdir()
    with pytest.raises(ValueError, match=r"train/b: no images of this class to train on"):
        data.load("folder-per-class", tmp_path)


def test_a_client_may_lack_a_class_that_another_has(tmp_path: Path) -> None:
    for client in ("ann", "bob"):
        client_images(tmp_path, client, 10)
    (tmp_path / "ann" / "c").mkdir()
    with pytest.raises(ValueError, match=r"ann/c: no images of this class to train on"):
        data.load("folder-per-client", tmp_path)
    save(tmp_path / "bob" / "c" / "1.png", 1)
    assert data.load("folder-per-client", tmp_path).classes == 3


def test_too_little_data_to_hold_some_out_says_what_to_do(tmp_path: Path) -> None:
    client_images(tmp_path, "ann", 8)
    client_images(tmp_path, "bob", 9)
    with pytest.raises(ValueError, match=r"too little to hold out .*: move the images into train/, and add"):
        data.load("folder-per-client", tmp_path)
    write_csv(tmp_path, ["images/0.png,1,a", "images/1.png,0,b"], "file,label,client")
    with pytest.raises(ValueError, match="mark some rows as test in a column split"):
        data.load("csv", tmp_path)
    np.savez(tmp_path / "own.npz", x_train=np.zeros((9, 3)), y_train=np.zeros(9, int))
    with pytest.raises(ValueError, match=r"own\.npz: .*add the arrays x_test and y_test"):
        data.load("npz", tmp_path / "own.npz")


def test_test_images_a_folder_too_deep_are_not_passed_over(tmp_path: Path) -> None:
    client_images(tmp_path / "train", "ann", 20)
    client_images(tmp_path / "test", "ann", 20)
    with pytest.raises(ValueError, match=r"test: no images in its class folders, .* as test/CLASS/\*\.png"):
        data.load("folder-per-client", tmp_path)


def test_a_csv_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["images/0.png,1,a,train"])
    path.write_bytes(path.read_bytes() + "images/1.png,süß,a,train\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"index\.csv: not a CSV file in UTF-8"):
        data.load("csv", path)
    write_csv(tmp_path, [f"images/0.png,{'x' * 200_000},a,train"])
    with pytest.raises(ValueError, match=r"index\.csv: not a CSV file in UTF-8 \(field larger"):
        data.load("csv", path)


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
    values, _ = federation.test.batch(torch.arange(5))
    assert torch.equal(values, torch.from_numpy(x[9::10]).float())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
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
    monkeypatch.chdir(tmp_path)
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
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_bad", raising=False)


@pytest.mark.usefixtures("own_function")
def test_an_own_function_may_return_plain_torch_data_sets(tmp_path: Path) -> None:
    config, _ = resolve(["data.name=own_bad:raw", *QUICK], None)
    assert run_config(config, tmp_path / "run").records[0]["cut"] == "2 clients, as own_bad:raw makes them"


@pytest.mark.usefixtures("own_function")
@pytest.mark.parametrize(("name", "message"), BAD.items())
def test_bad_data_of_an_own_function_stops_the_run_before_it_starts(
    tmp_path: Path, name: str, message: str
) -> None:
    config, _ = resolve([f"data.name=own_bad:{name}", *QUICK], None)
    with pytest.raises(ValueError, match=message):
        run_config(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_own_images_are_resized(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.size=8, must be 0 for mnist"):
        data.load("mnist", tmp_path, size=8)
