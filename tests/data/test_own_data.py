"""A user's own images: folders and a CSV index; whole or refused by name."""

from pathlib import Path

import numpy as np
import pytest
from data_trees import contents

from prunefl import data
from prunefl.commands.configs import resolve
from prunefl.data.samples import labels_of
from prunefl.runs.api import run_config
from prunefl.system.instructions import spoken_kernels
from tasks import ONE_ROUND

Image = pytest.importorskip("PIL.Image")


def save(path: Path, value: int, size: tuple[int, int] = (6, 6), colour: bool = False) -> None:
    """Write an image whose every pixel is `value`, by which a test knows it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (*size, 3) if colour else size
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)


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


def client_images(folder: Path, client: str, count: int) -> None:
    for i in range(count):
        save(folder / client / "ab"[i % 2] / f"{i:02d}.png", i)


@pytest.mark.parametrize("base", [[], ["cifar10"], ["mnist"]])
def test_a_run_leaves_own_clients_as_the_data_names_them(tmp_path: Path, base: list[str]) -> None:
    for client, count in {"ann": 20, "bob": 30, "eve": 40}.items():
        client_images(tmp_path / "own", client, count)
    config, _ = resolve(
        [*base, "data.name=folder-per-client", f"data.dir={tmp_path / 'own'}", *ONE_ROUND], None
    )
    said: list[str] = []
    record = run_config(config, tmp_path / "run", on_begin=lambda cut, done: said.append(cut)).records[0]
    assert record["cut"] == "3 clients, as the data names them"
    backend = f"{record['backend']} backend, {spoken_kernels()}"
    assert len(said) == 1
    assert said[0].startswith(
        f"{record['cut']}; no test set, so no accuracy (data.test=PATH gives one); {backend}"
    )
    assert record["clients"] == len(record["devices"]) == 3
    assert [len(c) for c in data.load("folder-per-client", tmp_path / "own").clients] == [20, 30, 40]
    # what the run left is enough to go on with it
    assert run_config(resolve([], None, tmp_path / "run")[0], tmp_path / "run", resume=True).finished


def test_a_run_asks_the_data_before_it_draws_clients(tmp_path: Path) -> None:
    client_images(tmp_path / "own", "ann", 20)
    given = ["data.name=folder-per-client", f"data.dir={tmp_path / 'own'}", "training.participants=4"]
    with pytest.raises(ValueError, match=r"participants=4, must be <= data\.clients=1"):
        run_config(resolve([*given, *ONE_ROUND], None)[0], tmp_path / "run")
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
    (tmp_path / "ann" / "c").rmdir()
    save(tmp_path / "bob" / "c" / "1.png", 1)
    federation = data.load("folder-per-client", tmp_path)
    assert federation.names == ("a", "b", "c")
    assert [len(np.unique(labels_of(share))) for share in federation.clients] == [2, 3]


def test_too_little_data_to_hold_some_out_says_what_to_do(tmp_path: Path) -> None:
    client_images(tmp_path, "ann", 8)
    with pytest.raises(ValueError, match=r"too little to hold out .*: move the images into train/, and add"):
        data.load("folder-per-class", tmp_path / "ann")
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


def test_only_own_images_are_resized(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.size=8, must be 0 for mnist"):
        data.load("mnist", tmp_path, size=8)
