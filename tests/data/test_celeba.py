"""CelebA comes out of a small tree in its official layout, by person, and only when it is whole."""

from pathlib import Path

import numpy as np
import pytest
from data_trees import RANDOM, every, save

from prunefl import data
from prunefl.data.celeba import split_by_person

pytest.importorskip("PIL.Image")


def write_celeba(folder: Path, counts: list[int]) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """Persons take turns in the identity file, as in the real one."""
    people = [p for n in range(max(counts)) for p, count in enumerate(counts) if n < count]
    names = [f"{i:06d}.jpg" for i in range(1, len(people) + 1)]
    smiles = {name: int(RANDOM.integers(0, 2)) for name in names}
    for i, name in enumerate(names):
        save(folder / "img_align_celeba" / name, np.full((218, 178, 3), i, np.uint8))
    (folder / "identity_CelebA.txt").write_text(
        "".join(f"{name} {9000 - person}\n" for name, person in zip(names, people, strict=True))
    )
    rows = [f"{name}  1 {'1' if smiles[name] else '-1'} -1" for name in names]
    header = [str(len(names)), "Arched_Eyebrows Smiling Young "]
    (folder / "list_attr_celeba.txt").write_text("\n".join([*header, *rows]) + "\n")
    return names, dict(zip(names, people, strict=True)), smiles


def test_celeba_keeps_persons_with_five_images_and_tells_smiles(tmp_path: Path) -> None:
    names, person_of, smiles = write_celeba(tmp_path, [5, 4, 10, 7])
    federation = data.load("celeba", tmp_path, partition="person", clients=3)
    assert federation.input_shape == (3, 84, 84)
    # of 5, 10 and 7 images nine tenths, rounded down, are for training
    assert [len(client) for client in federation.clients] == [4, 9, 6]
    assert len(federation.test) == 3
    held: list[list[str]] = []
    for part in (*federation.clients, federation.test):
        x, y = every(part)
        number = ((x[:, 0, 40, 40] * 0.229 + 0.485) * 255).round().astype(int)
        held.append([names[i] for i in number.tolist()])
        assert y.tolist() == [smiles[name] for name in held[-1]]
    assert [{person_of[name] for name in part} for part in held] == [{0}, {2}, {3}, {0, 2, 3}]
    assert len({name for part in held for name in part}) == 22


def test_celebas_split_is_the_same_for_every_seed(tmp_path: Path) -> None:
    write_celeba(tmp_path, [5, 6])
    tests = [every(data.load("celeba", tmp_path, clients=2, seed=seed).test)[0] for seed in (0, 1)]
    np.testing.assert_array_equal(*tests)


def test_split_by_person_leaves_everybody_something_to_train_on() -> None:
    persons = np.repeat(np.arange(6), [5, 6, 10, 19, 20, 30])
    train, test = split_by_person(persons)
    assert np.bincount(persons[train]).tolist() == [4, 5, 9, 17, 18, 27]
    assert sorted([*train, *test]) == list(range(90))


def test_a_missing_or_malformed_annotation_of_celeba_is_named(tmp_path: Path) -> None:
    names, _, _ = write_celeba(tmp_path, [5, 6])
    attributes = tmp_path / "list_attr_celeba.txt"
    whole = attributes.read_text()
    attributes.write_text(whole.replace("Smiling", "Smirking"))
    with pytest.raises(ValueError, match="line 2 does not name Smiling"):
        data.load("celeba", tmp_path)
    attributes.write_text(whole[:-8])
    with pytest.raises(ValueError, match=r"list_attr_celeba\.txt, line 13.*must hold 1 or -1"):
        data.load("celeba", tmp_path)
    attributes.unlink()
    with pytest.raises(ValueError, match=r"has no list_attr_celeba\.txt"):
        data.load("celeba", tmp_path)
    attributes.write_text(whole)
    (tmp_path / "img_align_celeba" / names[3]).unlink()
    with pytest.raises(ValueError, match=rf"{names[3]}: cannot be read .*: get or unpack it again"):
        data.load("celeba", tmp_path)
    (tmp_path / "identity_CelebA.txt").write_text("000001.jpg\n")
    with pytest.raises(
        ValueError, match=r"identity_CelebA\.txt, line 1.*must be an image of .* and a person"
    ):
        data.load("celeba", tmp_path)


@pytest.mark.parametrize("file", ["identity_CelebA.txt", "list_attr_celeba.txt"])
def test_half_an_annotation_of_celeba_is_refused(tmp_path: Path, file: str) -> None:
    write_celeba(tmp_path, [9, 9, 9])
    path = tmp_path / file
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:20])[:-1])
    with pytest.raises(ValueError, match=rf"{file}: \d+ (lines|images), must be .*27.*: get it again"):
        data.load("celeba", tmp_path)
    path.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(ValueError, match=rf"{file}: cannot be read as text .*: unpack it, or get it again"):
        data.load("celeba", tmp_path)


def test_a_face_that_was_replaced_is_decoded_again(tmp_path: Path) -> None:
    names, _, _ = write_celeba(tmp_path, [5])
    data.load("celeba", tmp_path, clients=1)
    for name in names:
        save(tmp_path / "img_align_celeba" / name, np.full((218, 178, 3), 200, np.uint8))
    x, _ = every(data.load("celeba", tmp_path, clients=1).clients[0])
    np.testing.assert_allclose(x[:, 0], (200 / 255 - 0.485) / 0.229, rtol=1e-6)


def test_celeba_may_lie_in_a_folder_raw_as_leaf_has_it(tmp_path: Path) -> None:
    write_celeba(tmp_path / "raw", [5, 6])
    assert [len(c) for c in data.load("celeba", tmp_path, clients=2).clients] == [4, 5]
