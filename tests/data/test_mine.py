"""What one client brings: all of it is its own, joined with the others' by name, or refused with what to do."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_trees import contents

from prunefl import config as settings
from prunefl import data
from prunefl.data.describe import describe_task
from prunefl.data.listed import ImageOptions
from prunefl.data.mine import bring, bring_by_function, bring_test, glance
from prunefl.data.samples import Later
from prunefl.data.task import Task

Image = pytest.importorskip("PIL.Image")

TASK = Task(("crack", "dent", "ok"), (3, 6, 6))


def save(path: Path, value: int, size: tuple[int, int] = (6, 6), mode: str = "RGB") -> None:
    """Write an image whose every pixel is `value`, by which a test knows it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, value, np.uint8)).convert(mode).save(path)


def device(folder: Path, *classes: str, count: int = 4) -> Path:
    for place, name in enumerate(classes):
        for i in range(count):
            save(folder / name / f"{i}.png", 10 * place + i)
    return folder


def test_a_client_that_lacks_a_class_has_the_runs_numbers_for_the_others(tmp_path: Path) -> None:
    brought = bring(device(tmp_path / "a", "dent", "ok"), TASK)
    assert contents(brought.samples) == [(0, 1), (1, 1), (2, 1), (3, 1), (10, 2), (11, 2), (12, 2), (13, 2)]
    assert brought.names == ("dent", "ok")


def test_nothing_is_held_out_of_an_index_or_an_array_file_either(tmp_path: Path) -> None:
    device(tmp_path / "images", "x", count=4)
    rows = [f"images/x/{i}.png,{('ok', 'crack')[i % 2]}" for i in range(4)]
    (tmp_path / "index.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    for path in (tmp_path, tmp_path / "index.csv"):
        assert contents(bring(path, TASK).samples) == [(0, 2), (1, 0), (2, 2), (3, 0)]
    file = tmp_path / "own.npz"
    inputs = np.arange(4, dtype=np.uint8)[:, None, None, None] + np.zeros((4, 3, 6, 6), np.uint8)
    np.savez(file, x_train=inputs, y_train=[2, 0, 2, 0])
    assert contents(bring(file, Task(("0", "1", "2"), (3, 6, 6))).samples) == [(0, 2), (1, 0), (2, 2), (3, 0)]


def test_what_is_marked_as_test_data_is_not_trained_on_and_counted(tmp_path: Path) -> None:
    device(tmp_path / "train", "ok", count=5)
    device(tmp_path / "test", "dent", "ok", count=2)
    brought = bring(tmp_path, TASK)
    assert (len(brought.samples), brought.left_out) == (5, 4)
    assert len(bring_test(tmp_path / "test", TASK)) == 4
    (tmp_path / "index.csv").write_text("file,label,split\ntrain/ok/0.png,ok,test\n")
    with pytest.raises(ValueError, match="every sample is marked as test data"):
        bring(tmp_path / "index.csv", TASK)


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("crack", "dnet", "ok"), r"class 'dnet' of .* \(did you mean 'dent'\?\).* has crack, dnet, ok"),
        (("Crack", "ok"), r"did you mean 'crack'\?"),
        (("dent", "scratch"), r"the run has crack, dent, ok; .* has dent, scratch"),
    ],
)
def test_a_class_that_the_run_does_not_know_is_refused_with_both_lists(
    tmp_path: Path, classes: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        bring(device(tmp_path / "a", *classes), TASK)


def test_images_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = device(tmp_path / "a", "ok")
    save(folder / "ok" / "4.png", 4, size=(6, 8))
    with pytest.raises(
        ValueError, match=r"4\.png: 6×8 pixels, but data\.shape=\[3, 6, 6\]: resize it, or .*size=6"
    ):
        bring(folder, TASK)
    assert len(bring(folder, TASK, ImageOptions(size=6)).samples) == 5
    with pytest.raises(ValueError, match=r"data\.size=8, must be the height and width of data\.shape"):
        bring(folder, TASK, ImageOptions(size=8))
    with pytest.raises(ValueError, match=r"in colour, but the run's samples are grey"):
        bring(device(tmp_path / "b", "ok"), replace(TASK, shape=(1, 6, 6)))
    (folder / "ok" / "4.png").write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"4\.png: corrupt image"):
        bring(folder, TASK)


def test_grey_deep_and_opaque_images_are_alike_and_transparent_ones_refused(tmp_path: Path) -> None:
    folder = tmp_path / "ok"
    for i, mode in enumerate(("L", "RGB", "RGBA", "P")):
        save(folder / f"{i}.png", 7, mode=mode)
    Image.fromarray(np.full((6, 6), 7 * 257, np.uint16)).save(folder / "4.png")
    assert contents(bring(tmp_path, TASK).samples) == [(7, 2)] * 5
    clear = np.full((6, 6, 4), 7, np.uint8)
    Image.fromarray(clear, "RGBA").save(folder / "5.png")
    with pytest.raises(ValueError, match=r"5\.png: has transparent pixels: put it on a background"):
        bring(tmp_path, TASK)


def test_another_order_of_channels_is_called_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x_train=np.zeros((4, 6, 6, 3), np.uint8), y_train=[0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"shape \[6, 6, 3\], the run has \[3, 6, 6\]: channels come first"):
        bring(tmp_path / "own.npz", Task(("0", "1"), (3, 6, 6)))


def test_what_can_be_seen_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    device(tmp_path / "fleet" / "a", "ok")
    (tmp_path / "fleet" / "a" / "dent").mkdir()
    with pytest.raises(
        ValueError, match=r"a/dent: no images of this class .* add some, or delete the folder"
    ):
        glance(tmp_path / "fleet" / "a")
    with pytest.raises(ValueError, match=r"two folders deep, as of many clients: give the folder of one"):
        glance(tmp_path / "fleet")
    with pytest.raises(ValueError, match="no such folder or file"):
        glance(tmp_path / "nowhere")


def test_client_folders_are_opened_one_at_a_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        device(tmp_path / name, "dent", "ok")
    (tmp_path / "b" / "ok" / "0.png").write_bytes(b"nobody has looked at this yet")
    federation = data.load("folder-per-client", tmp_path, classes=TASK.classes, shape=TASK.shape)
    first, second = federation.clients
    assert isinstance(first, Later)
    assert (len(first), len(second), federation.test) == (8, 8, None)
    assert contents(first) == contents(bring(tmp_path / "a", TASK).samples)
    assert not (tmp_path / "b" / ".prunefl-cache").exists()
    with pytest.raises(ValueError, match=r"0\.png: corrupt image"):
        second.batch(np.arange(1))


def test_a_function_gives_the_samples_of_a_client_by_its_number(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "own_shares.py").write_text(
        "import numpy as np\n"
        "class Shots(list):\n    classes = ['ok', 'crack']\n"
        "def load(client):\n    return Shots([(np.full((3, 6, 6), client, np.float32), i % 2) for i in range(4)])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    inputs, labels = bring_by_function("own_shares:load", 5, TASK).samples.batch(np.arange(4))
    assert labels.tolist() == [2, 0, 2, 0]
    assert np.all(inputs == 5)


def test_a_server_without_samples_takes_its_test_set_whole(tmp_path: Path) -> None:
    section = tomllib.loads(describe_task(device(tmp_path / "a", "crack", "dent", "ok"), clients=4))
    config = settings.from_tables(section)
    federation = data.load_for_server(config)
    assert (federation.names, federation.input_shape, len(federation.clients)) == (
        TASK.classes,
        TASK.shape,
        4,
    )
    assert federation.test is None
    tested = device(tmp_path / "t", "crack", "ok", count=12)
    with_test = data.load_for_server(replace(config, data=replace(config.data, test=str(tested))))
    assert with_test.test is not None
    assert sorted({label for _, label in contents(with_test.test)}) == [0, 2]
    assert len(with_test.test) == 24
    with pytest.raises(
        ValueError, match=r"data\.clients is not set, must be given with data\.name='at-clients'"
    ):
        data.load_for_server(replace(config, data=replace(config.data, clients=0)))
    with pytest.raises(ValueError, match="`prunefl server` waits for"):
        data.load_configured(config)


def test_a_test_set_of_its_own_leaves_all_samples_for_training(tmp_path: Path) -> None:
    device(tmp_path / "a", "dent", "ok", count=20)
    tested = device(tmp_path / "t", "ok", count=3)
    federation = data.load("folder-per-class", tmp_path / "a", clients=2, test=tested)
    assert federation.test is not None
    assert (sum(map(len, federation.clients)), len(federation.test)) == (40, 3)
