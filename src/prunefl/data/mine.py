"""What one client brings: all of a folder or file is its own, and nothing of it is held out."""

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.data.arrays import npz_has, npz_split
from prunefl.data.cache import fingerprint
from prunefl.data.check import recognise
from prunefl.data.federation import Federation, check_samples
from prunefl.data.inputs import parts_of
from prunefl.data.listed import (
    AS_THEY_ARE,
    ImageOptions,
    Listed,
    common_shape,
    decoded_images,
    label_names,
    refuse_absent,
)
from prunefl.data.own import index_file, list_classes, list_rows
from prunefl.data.samples import Images, Later, Samples, filled, labels_of, relabelled
from prunefl.data.scaling import NONE, UNIT, find_scaling, refuse_scaling
from prunefl.data.sources import PUBLISHED, source_of
from prunefl.data.task import Task, counted_names, number_classes, refuse_shape
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function

CHUNK = 1024


@dataclass(frozen=True)
class Brought:
    """One client's samples.

    Attributes:
        samples: labelled by the run's classes, or by `names` where the run's are not known yet.
        names: the classes that it has, in their order.
        left_out: how many samples it has marked as test data: those are not trained on.
        scaling: what has become of stored numbers; see `scaling.find_scaling`.
    """

    samples: Samples
    names: tuple[str, ...]
    shape: tuple[int, ...]
    left_out: int = 0
    scaling: str = NONE


def bring(path: Path, task: Task, options: ImageOptions = AS_THEY_ARE, name: str = "") -> Brought:
    """Return all of a folder or file as one client's samples; refuse what is not of the run's task.

    Args:
        path: a folder per class, a CSV index, an .npz file, or the folder of a published data set.
        options: how images are read; their shape is the task's.
        name: the published data set that it is, where that is known.
    """
    kind = name or recognise_own(path)
    if kind in ("folder-per-class", "csv"):
        return _bring_images(kind, path, task, options, "train")
    if kind == "npz":
        images, names = npz_split(path, "train")
        left_out = len(npz_split(path, "test")[0]) if npz_has(path, "test") else 0
        shape = images.pixels.shape[1:]
        return _agreed(Brought(images, names, shape, left_out, find_scaling(images)), task, path)
    source = source_of(kind, path, replace(options, size=0, shape=()))
    assert not isinstance(source, Federation), "only a user's function makes one"
    scaling = find_scaling(source.train, kind)
    return _agreed(Brought(source.train, source.names, source.input_shape, scaling=scaling), task, path)


def bring_test(path: Path, task: Task, options: ImageOptions = AS_THEY_ARE) -> Samples:
    """Return all of a folder or file as a test set of the run's task."""
    kind = recognise_own(path)
    if kind in ("folder-per-class", "csv"):
        return _bring_images(kind, path, task, options, "test").samples
    if kind == "npz":
        images, names = npz_split(path, "test" if npz_has(path, "test") else "train")
        tested = Brought(images, names, images.pixels.shape[1:], scaling=find_scaling(images))
        return _agreed(tested, task, path).samples
    source = source_of(kind, path, replace(options, size=0, shape=()))
    assert not isinstance(source, Federation), "only a user's function makes one"
    if source.test is None:
        raise PruneFLError(f"data.test={str(path)!r}, {kind} there has no test set")
    tested = Brought(source.test, source.names, source.input_shape, scaling=find_scaling(source.test, kind))
    return _agreed(tested, task, path).samples


def bring_by_function(spec: str, client: int, task: Task) -> Brought:
    """Return the data set that a user's function gives for a client's number.

    It may name its classes by an attribute `classes`, as torchvision's data sets do; else labels are the run's numbers.
    """
    dataset: Any = own_function("--data", spec)(client)
    samples, names = filled(dataset, f"--data {spec}"), tuple(getattr(dataset, "classes", ()))
    if not all(isinstance(name, str) for name in names):
        names = ()
    shape = tuple(parts_of(samples.batch(np.arange(1))[0])[0].shape[1:])
    brought = _agreed(Brought(samples, names or task.classes, shape), task, spec)
    check_samples(f"--data {spec}", brought.samples, len(task.classes), task.shape or shape)
    return brought


def list_own(kind: str, path: Path) -> list[Listed]:
    """Return the images of a folder per class or a CSV index; none is opened."""
    listed = list_classes(path) if kind == "folder-per-class" else list_rows(index_file(path))
    refuse_absent(listed, path)
    return listed


def recognise_own(path: Path) -> str:
    """Return what kind of data a client brings; refuse what is not one client's."""
    if not path.exists():
        raise PruneFLError(f"{path}: no such folder or file")
    kind = recognise(path)
    if kind == "folder-per-client":
        raise PruneFLError(f"{path}: images lie two folders deep, as of many clients: give the folder of one")
    return kind


def glance(path: Path) -> None:
    """Refuse what can be seen to be no client's data without opening an image, and before a server is asked."""
    kind = recognise_own(path)
    if kind not in PUBLISHED and kind != "npz":
        list_own(kind, path)


def stamp_files(path: Path) -> str:
    """Return a name for a client's files as they are now (names, sizes, times); none is opened but an index."""
    index = path / "index.csv" if path.is_dir() else path
    files = [index] if index.is_file() else []
    if index.suffix == ".csv" and files:
        files += [entry.path for entry in list_rows(index)]
    elif path.is_dir():
        # what is hidden is not data: our own cache, for one
        files = sorted(
            Path(home, name)
            for home, _, names in os.walk(path)
            if not any(part.startswith(".") for part in Path(home).relative_to(path).parts)
            for name in names
        )
    return fingerprint(files, [str(file) for file in files])


def content_digest(samples: Samples) -> str:
    """Return a name for what the samples are: their labels and, where they lie in an array, every input."""
    if isinstance(samples, Later):
        return content_digest(samples.samples)
    hasher = hashlib.blake2b(str(len(samples)).encode(), digest_size=16)
    labels = labels_of(samples)
    if labels is not None:
        hasher.update(np.ascontiguousarray(labels, np.int64).data)
    if isinstance(samples, Images):
        for first in range(0, len(samples), CHUNK):
            hasher.update(np.ascontiguousarray(samples.pixels[samples.rows[first : first + CHUNK]]).data)
    return hasher.hexdigest()


def count_classes(brought: Brought) -> dict[str, int]:
    """Return how many samples of each class there are; `brought` is labelled by its own names."""
    counts = count_labels(brought.samples, len(brought.names))
    return dict(zip(brought.names, counts, strict=bool(counts)))


def count_labels(samples: Samples, classes: int) -> tuple[int, ...]:
    """Return how many samples of each class there are, () where only reading every sample would tell."""
    labels = labels_of(samples)
    return () if labels is None else tuple(np.bincount(labels, minlength=classes).tolist())


def _bring_images(kind: str, path: Path, task: Task, options: ImageOptions, split: str) -> Brought:
    listed = list_own(kind, path)
    chosen = [entry for entry in listed if entry.split == split]
    if not chosen and split == "train":
        raise PruneFLError(f"{path}: every sample is marked as test data: a client needs some to train on")
    # nobody has to mark what is all for testing
    chosen = chosen or listed
    left_out = len(listed) - len(chosen)
    names = tuple(label_names([entry.label for entry in chosen]))
    numbers = dict(zip(names, number_classes(names, task.classes or names, str(path)), strict=True))
    options = replace(options, shape=task.shape)
    options = replace(options, shape=common_shape([entry.path for entry in chosen], options))
    home = path if path.is_dir() else path.parent
    images = decoded_images(kind, chosen, numbers, home, options)
    refuse_scaling(images, UNIT, task.scaling, str(path))
    return Brought(images, names, options.shape, left_out, UNIT)


def _agreed(brought: Brought, task: Task, who: Path | str) -> Brought:
    """Return the samples under the run's numbers of their classes."""
    refuse_shape(brought.shape, task.shape, str(who))
    refuse_scaling(brought.samples, brought.scaling, task.scaling, str(who))
    classes = task.classes or brought.names or counted_names(0)
    return replace(
        brought, samples=relabelled(brought.samples, number_classes(brought.names, classes, str(who)))
    )
