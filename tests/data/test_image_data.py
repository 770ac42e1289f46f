"""CIFAR-10 and ImageNet-100 come out of small trees in their official layout."""

import os
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from data_trees import every, pixels, save

from prunefl import data
from prunefl.core.randomness import Stream
from prunefl.data.check import parts_of, recognise
from prunefl.data.cifar10 import MEAN, STD
from prunefl.data.photos import Photos, random_boxes
from prunefl.data.transform import to_unit

pytest.importorskip("PIL.Image")


def write_cifar(folder: Path, records: int = 12) -> dict[str, np.ndarray]:
    home = folder / "cifar-10-batches-bin"
    home.mkdir(parents=True)
    files = {}
    for name in [*[f"data_batch_{i}.bin" for i in range(1, 6)], "test_batch.bin"]:
        files[name] = pixels(records, 3073)
        files[name][:, 0] %= 10
        (home / name).write_bytes(files[name].tobytes())
    return files


def test_cifar_comes_out_of_its_binary_files_standardised(tmp_path: Path) -> None:
    files = write_cifar(tmp_path)
    federation = data.load("cifar10", tmp_path, partition="iid", clients=5)
    x, y = every(federation.test)
    assert y.tolist() == files["test_batch.bin"][:, 0].tolist()
    mean, std = np.reshape(MEAN, (3, 1, 1)), np.reshape(STD, (3, 1, 1))
    stored = ((x * std + mean) * 255).round().reshape(len(x), -1)
    np.testing.assert_array_equal(stored, files["test_batch.bin"][:, 1:])
    drawn = np.concatenate([client.rows for client in federation.clients])  # type: ignore[attr-defined]
    assert sorted(drawn) == list(range(60))


def test_cifar_is_augmented_in_training_only(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    federation = data.load("cifar10", tmp_path, clients=1)
    rows = np.arange(60)
    plain = federation.clients[0].batch(rows)[0]
    augmented = federation.clients[0].batch(rows, Stream(0))[0]
    assert not np.array_equal(plain, augmented)
    without = data.load("cifar10", tmp_path, clients=1, augment=False).clients[0]
    np.testing.assert_array_equal(without.batch(rows, Stream(0))[0], plain)
    test = federation.test
    np.testing.assert_array_equal(test.batch(rows[:12], Stream(0))[0], every(test)[0])


@pytest.mark.parametrize("cut", [-1, -3073])
def test_half_a_cifar_file_is_named(tmp_path: Path, cut: int) -> None:
    write_cifar(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin: \d+ bytes, must be 36876.*get it again"):
        data.load("cifar10", tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"has no data_batch_3\.bin"):
        data.load("cifar10", tmp_path)


def test_the_odd_file_of_cifar_is_blamed(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    home = tmp_path / "cifar-10-batches-bin"
    path = home / "data_batch_3.bin"
    path.write_bytes(path.read_bytes() + bytes(3073))
    with pytest.raises(ValueError, match=r"data_batch_3\.bin: 39949 bytes, must be 36876"):
        data.load("cifar10", tmp_path)
    for path in home.iterdir():
        path.write_bytes(bytes(5000))
    with pytest.raises(ValueError, match=r"data_batch_1\.bin: 5000 bytes, must be a multiple of 3073"):
        data.load("cifar10", tmp_path)


CIFAR = Path(os.environ.get("PRUNEFL_CIFAR10", "absent"))


@pytest.mark.skipif(not CIFAR.is_dir(), reason="PRUNEFL_CIFAR10 does not name a folder with the real files")
def test_real_cifar_has_five_thousand_of_each_class(tmp_path: Path) -> None:
    federation = data.load("cifar10", CIFAR, clients=100, cache=tmp_path)
    labels = np.concatenate([client.labels[client.rows] for client in federation.clients])  # type: ignore[attr-defined]
    assert np.bincount(labels).tolist() == [5000] * 10
    assert np.bincount(every(federation.test)[1]).tolist() == [1000] * 10


def write_imagenet(folder: Path, flat: bool = False) -> dict[str, np.ndarray]:
    """101 classes, the last of which is not used; PNG pixels under JPEG names keep it exact."""
    images, lines = {}, ["ImageId,PredictionString"]
    for i in range(101):
        name = f"n{i:08d}"
        save(folder / "train" / name / f"{name}_1.JPEG", pixels(4 + i % 3, 5, 3))
        image = f"ILSVRC2012_val_{i:08d}"
        place = folder / "val" / f"{image}.JPEG" if flat else folder / "val" / name / f"{image}.JPEG"
        images[name] = save(place, np.full((256, 300, 3), i, np.uint8))
        lines.append(f"{image},{name} 1 2 3 4")
    if flat:
        (folder / "LOC_val_solution.csv").write_text("\n".join(lines))
    return images


@pytest.mark.parametrize("flat", [False, True])
def test_imagenet_is_the_first_hundred_folders(tmp_path: Path, flat: bool) -> None:
    write_imagenet(tmp_path, flat)
    federation = data.load("imagenet100", tmp_path, clients=10)
    assert federation.classes == 100
    assert federation.input_shape == (3, 168, 168)
    assert [len(federation.clients), sum(map(len, federation.clients)), len(federation.test)] == [
        10,
        100,
        100,
    ]
    x, y = federation.test.batch(np.array([0, 7]))
    assert x.shape == (2, 3, 168, 168)
    assert y.tolist() == [0, 7]
    red = np.array([0, 7]) / 255
    np.testing.assert_allclose(x[:, 0, 80, 80], (red - 0.485) / 0.229, rtol=1e-5)
    augmented = federation.clients[0].batch(np.arange(3), Stream(0))[0]
    assert augmented.shape == (3, 3, 168, 168)


def kaggle(folder: Path) -> Path:
    """Put a flat tree where Kaggle's archive has it, and return the folder of photographs."""
    write_imagenet(folder / "ILSVRC/Data/CLS-LOC", flat=True)
    (folder / "ILSVRC/Data/CLS-LOC/LOC_val_solution.csv").rename(folder / "LOC_val_solution.csv")
    return folder / "ILSVRC/Data/CLS-LOC"


def test_imagenet_may_lie_as_in_kaggles_archive(tmp_path: Path) -> None:
    inner = kaggle(tmp_path)
    for folder in (tmp_path, inner):
        federation = data.load("imagenet100", folder, clients=10, cache=tmp_path / "cache")
        assert (sum(map(len, federation.clients)), len(federation.test)) == (100, 100)
        assert [part.there for part in parts_of("imagenet100", folder)] == [True, True]
    assert recognise(tmp_path) == "imagenet100"


def test_labels_are_those_of_today(tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    assert every(data.load("imagenet100", tmp_path).test)[1].tolist() == list(range(100))
    table = tmp_path / "LOC_val_solution.csv"
    table.write_text(table.read_text().replace("00000000,n00000000", "00000000,n00000042"))
    assert every(data.load("imagenet100", tmp_path).test)[1].tolist() == [42, *range(1, 100)]
    # moved to the next class, which leaves names, sizes, times and order as they were
    home = tmp_path / "train"
    save(home / "n00000000" / "n00000000_2.JPEG", pixels(4, 5, 3))
    before = data.load("imagenet100", tmp_path, clients=1).clients[0]
    (home / "n00000000" / "n00000000_2.JPEG").rename(home / "n00000001" / "n00000000_2.JPEG")
    after = data.load("imagenet100", tmp_path, clients=1).clients[0]
    assert [every(part)[1][:3].tolist() for part in (before, after)] == [[0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: text.index("50,n")], r"csv, line \d+: must have ImageId and PredictionString"),
        (
            lambda text: text[: text.index("ILSVRC2012_val_00000050")],
            r"csv: no line for ILSVRC2012_val_00000050",
        ),
        (
            lambda text: text.replace("PredictionString", "Prediction"),
            "csv, line 2: must have ImageId and Pred",
        ),
        (lambda text: text.replace(",n", ",m"), "csv: no image of the first 100 classes"),
        (lambda text: text[: text.index("ILSVRC")], "csv: no line for ILSVRC2012_val_00000000"),
    ],
)
def test_a_malformed_annotation_file_of_imagenet_is_named(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    write_imagenet(tmp_path, flat=True)
    table = tmp_path / "LOC_val_solution.csv"
    table.write_text(change(table.read_text()))
    with pytest.raises(ValueError, match=f"LOC_val_solution.{message}.*get it again"):
        data.load("imagenet100", tmp_path)


def test_a_listed_photograph_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    (tmp_path / "val" / "ILSVRC2012_val_00000007.JPEG").unlink()
    with pytest.raises(ValueError, match=r"val_00000007\.JPEG: cannot be read .*get or unpack it again"):
        data.load("imagenet100", tmp_path)


def test_imagenet_with_too_few_classes_or_no_annotations_is_refused(tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    (tmp_path / "LOC_val_solution.csv").unlink()
    with pytest.raises(ValueError, match=r"neither class folders nor LOC_val_solution\.csv"):
        data.load("imagenet100", tmp_path)
    for name in ("n00000000", "n00000001"):
        (tmp_path / "train" / name / f"{name}_1.JPEG").unlink()
        (tmp_path / "train" / name).rmdir()
    with pytest.raises(ValueError, match="99 class folders, must be >= 100"):
        data.load("imagenet100", tmp_path)


def test_a_corrupt_image_is_named_and_leaves_no_cache(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    path = tmp_path / "train" / "n00000042" / "n00000042_1.JPEG"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"n00000042_1\.JPEG: corrupt image") as caught:
        data.load("imagenet100", tmp_path, cache=tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def photos(sizes: list[tuple[int, int]], crop: int) -> Photos:
    parts = [pixels(3, h, w) for h, w in sizes]
    starts = np.cumsum([0, *[p.size for p in parts[:-1]]])
    table = np.array([(s, h, w) for s, (h, w) in zip(starts, sizes, strict=True)])
    store = np.concatenate([p.ravel() for p in parts])
    rows = np.arange(len(sizes))
    return Photos(store, table, rows, rows, to_unit, crop)


def test_photographs_of_unequal_sizes_are_cut_in_the_middle() -> None:
    some = photos([(9, 20), (12, 8), (8, 8)], 8)
    x, y = some.batch(np.array([1, 0]))
    expected = [some._photo(1)[:, 2:10, :], some._photo(0)[:, 0:8, 6:14]]
    np.testing.assert_array_equal((x * 255).round(), np.stack(expected))
    assert y.tolist() == [1, 0]


def test_random_boxes_fit_and_have_the_drawn_area_and_aspect() -> None:
    sizes = np.tile([[256, 341], [400, 256], [256, 256]], (2000, 1))
    boxes = random_boxes(sizes, Stream(0))
    top, left, height, width = boxes.T
    assert min(top.min(), left.min()) >= 0
    assert (top + height <= sizes[:, 0]).all()
    assert (left + width <= sizes[:, 1]).all()
    share = height * width / sizes.prod(1)
    assert 0.075 < share.min() < 0.1
    assert share.max() > 0.9
    aspect = width / height
    assert 0.74 < aspect.min() < 0.77
    assert 1.3 < aspect.max() < 1.35
    # log-uniform: as often wide as tall
    assert (aspect > 1).mean() == pytest.approx(0.5, abs=0.05)
    # positions reach both edges
    assert (left == 0).any()
    assert (left + width == sizes[:, 1]).any()


def test_an_image_no_box_fits_gives_its_middle() -> None:
    box = random_boxes(np.array([[10, 1000]]), Stream(0), (0.9, 1.0))
    assert box.tolist() == [[0, 493, 10, 13]]


def test_random_crops_repeat_with_their_random_numbers() -> None:
    some = photos([(30, 40), (40, 30), (35, 35)], 16)
    rows = np.array([0, 1, 2, 0])
    first = some.batch(rows, Stream(1))[0]
    assert first.shape == (4, 3, 16, 16)
    np.testing.assert_array_equal(first, some.batch(rows, Stream(1))[0])
    assert not np.array_equal(first, some.batch(rows, Stream(2))[0])
    plain = some.plain().batch(rows, Stream(1))[0]
    np.testing.assert_array_equal(plain, some.batch(rows)[0])


def test_random_boxes_are_those_that_torch_draws() -> None:
    """But for one in a hundred thousand: its exponential is not always the nearest float32."""
    sizes = np.random.default_rng(0).integers(100, 500, (2000, 2))
    given, source = torch.from_numpy(sizes), torch.Generator().manual_seed(3)
    draws, places = torch.rand(2, 2000, 10, generator=source), torch.rand(2, 2000, generator=source)
    area = given.prod(1, keepdim=True) * (0.08 + 0.92 * draws[0])
    aspect = torch.exp(log(3 / 4) + (log(4 / 3) - log(3 / 4)) * draws[1])
    heights, widths = (area / aspect).sqrt().round().long(), (area * aspect).sqrt().round().long()
    different = 0
    for i, box in enumerate(random_boxes(sizes, Stream(3)).tolist()):
        for height, width in zip(heights[i], widths[i], strict=True):
            if 1 <= height <= given[i, 0] and 1 <= width <= given[i, 1]:
                free = given[i] - torch.stack([height, width]) + 1
                corner = (places[:, i] * free).long().minimum(free - 1)
                different += box != [*corner.tolist(), int(height), int(width)]
                break
    assert different <= 1


def test_a_box_is_resized_as_torch_resizes_it() -> None:
    some = photos([(30, 40)], 16)
    out = some.batch(np.array([0]), Stream(1))[0]
    stream = Stream(1)
    top, left, height, width = random_boxes(some.table[:, 1:], stream)[0]
    box = torch.from_numpy(some._photo(0)[None, :, top : top + height, left : left + width].copy())
    expected = torch.nn.functional.interpolate(box, (16, 16), mode="bilinear", antialias=True)
    if stream.integers(2, (1,))[0]:
        expected = expected.flip(3)
    np.testing.assert_array_equal((out * 255).round(), expected)
