"""CelebA from its official files: aligned faces, who is on them, and whether they smile."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from prunefl.core.randomness import Ints, Stream
from prunefl.data import cache
from prunefl.data.decode import decode_once
from prunefl.data.federation import Source
from prunefl.data.files import found, found_folder, need_folder
from prunefl.data.partition import rows_by_group
from prunefl.data.samples import Images
from prunefl.data.transform import standardise_photos
from prunefl.system.errors import PruneFLError

SHAPE = (3, 84, 84)
LEAST_IMAGES = 5
TRAIN_SHARE = 0.9
TARGET = "Smiling"
IDENTITY, ATTRIBUTES = "identity_CelebA.txt", "list_attr_celeba.txt"
AGAIN = "get it again"


def celeba(folder: Path | None, cache_folder: Path | None = None) -> Source:
    """Return the faces of persons with at least 5 images, 84×84, label 1 for a smile.

    As in LEAF's `-k 5 -t sample`, nine tenths of each person's images are for training and the rest for the
    test. Which, is drawn once and for all, so that every seed is judged on the same test images.
    """
    folder = need_folder("celeba", folder)
    home = found_folder(
        "celeba", [folder / "img_align_celeba", folder / "raw/img_align_celeba"], "img_align_celeba"
    )
    identity = found("celeba", home.parent, IDENTITY)
    attributes = found("celeba", home.parent, ATTRIBUTES)
    smiles = _smiles(attributes)
    images, persons = _persons(identity, smiles)
    labels = np.array([smiles[name] for name in images])
    files = [home / name for name in images]
    key = cache.fingerprint([identity, attributes, *files], SHAPE[1], LEAST_IMAGES)
    # person by person, so that a client's share lies together
    pixels = decode_once("celeba", key, files, SHAPE, folder, cache_folder)
    whole = Images.whole(pixels, labels, standardise_photos)
    train_rows, test_rows = split_by_person(persons)
    train, test = whole.take(train_rows), whole.take(test_rows)
    return Source("celeba", train, test, 2, SHAPE, persons[train_rows], "person", "person", 10)


def split_by_person(persons: Ints) -> tuple[Ints, Ints]:
    """Return training and test rows: of each person's n images max(1, ⌊0.9 n⌋) are for training."""
    stream = Stream(0)
    train, test = [], []
    for rows in rows_by_group(persons):
        mixed = rows[stream.permutation(len(rows))]
        cut = max(1, int(TRAIN_SHARE * len(rows)))
        train.append(np.sort(mixed[:cut]))
        test.append(np.sort(mixed[cut:]))
    return np.concatenate(train), np.concatenate(test)


def _persons(identity: Path, smiles: Mapping[str, int]) -> tuple[list[str], Ints]:
    """Return image names and persons (from 0 in order of appearance), each person's images together."""
    by_person: dict[str, list[str]] = {}
    lines = _lines(identity)
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if len(parts) != 2 or parts[0] not in smiles:
            raise PruneFLError(
                f"{identity}, line {number}: {line[:40]!r}, must be an image of {ATTRIBUTES} and a person: {AGAIN}"
            )
        by_person.setdefault(parts[1], []).append(parts[0])
    if len(lines) != len(smiles):
        raise PruneFLError(f"{identity}: {len(lines)} lines, must be {len(smiles)}, one an image: {AGAIN}")
    kept = [images for images in by_person.values() if len(images) >= LEAST_IMAGES]
    if not kept:
        raise PruneFLError(f"{identity}: no person has {LEAST_IMAGES} images, must have at least one who has")
    counts = [len(images) for images in kept]
    return [name for images in kept for name in images], np.repeat(np.arange(len(kept)), counts)


def _smiles(attributes: Path) -> dict[str, int]:
    """Return 1 for a smile and 0 for none, for every image."""
    lines = _lines(attributes)
    if len(lines) < 2 or TARGET not in lines[1].split():
        raise PruneFLError(f"{attributes}: line 2 does not name {TARGET}, must be the official file: {AGAIN}")
    column = 1 + lines[1].split().index(TARGET)
    smiles: dict[str, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        parts = line.split()
        if len(parts) <= column or parts[column] not in ("1", "-1"):
            raise PruneFLError(
                f"{attributes}, line {number}: {line[:40]!r}, must hold 1 or -1 for {TARGET}: {AGAIN}"
            )
        smiles[parts[0]] = int(parts[column] == "1")
    if lines[0].strip() != str(len(smiles)):
        raise PruneFLError(
            f"{attributes}: {len(smiles)} images, must be {lines[0][:40]!r} as line 1 says: {AGAIN}"
        )
    return smiles


def _lines(path: Path) -> list[str]:
    """Return the lines of an annotation file."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise PruneFLError(f"{path}: cannot be read as text ({error}): unpack it, or {AGAIN}") from error
