"""What [transforms] does to samples, and what it refuses."""

import numpy as np
import pytest
from data_trees import pixels

from prunefl.config import Config, override
from prunefl.config.transforms import TransformSettings
from prunefl.core.randomness import Stream
from prunefl.data.cifar10 import MEAN, STD
from prunefl.data.recipe import transform
from prunefl.data.samples import Images, Later, Samples, Tensors, labels_of
from prunefl.data.transform import FlipAndCrop, Standardise, to_unit
from prunefl.system.errors import PruneFLError

SHAPE = (3, 8, 8)
LABELS = np.arange(16) % 4
STORED = pixels(16, *SHAPE)
ALL = np.arange(16)
FLOATS = Tensors(STORED.astype(np.float32), LABELS)


def images(**recipe: object) -> Images:
    return Images.whole(STORED, LABELS, **({"normalise": to_unit} | recipe))  # type: ignore[arg-type]


def test_settings_that_say_what_a_recipe_does_give_its_bits() -> None:
    recipe = images(normalise=Standardise(MEAN, STD), augment=FlipAndCrop(4))
    given = transform(images(), TransformSettings(flip=True, crop=4, mean=MEAN, std=STD), SHAPE)
    anew = transform(recipe, TransformSettings(False, True, 4, mean=MEAN, std=STD), SHAPE)
    for stream in (lambda: Stream(3), lambda: None):
        wanted = recipe.batch(ALL, stream())[0]
        assert np.array_equal(given.batch(ALL, stream())[0], wanted)
        assert np.array_equal(anew.batch(ALL, stream())[0], wanted)


def test_without_the_recipe_pixels_are_shares_or_as_they_are_stored() -> None:
    recipe = images(normalise=Standardise(MEAN, STD), augment=FlipAndCrop(4))
    plain, _ = transform(recipe, TransformSettings(recipe=False), SHAPE).batch(ALL, Stream(0))
    assert np.array_equal(plain, STORED.astype(np.float32) / np.float32(255))
    stored, _ = transform(images(), TransformSettings(normalise="none"), SHAPE).batch(ALL)
    assert np.array_equal(stored, STORED)


def test_numbers_of_ones_own_are_mirrored_in_training_and_standardised_always() -> None:
    settings = TransformSettings(flip=True, mean=(10.0,), std=(4.0,))
    mine = transform(FLOATS, settings, SHAPE)
    expected = (STORED.astype(np.float32) - 10) / 4
    assert np.array_equal(mine.batch(ALL)[0], expected)
    seen = mine.batch(ALL, Stream(1))[0]
    mirrored = [np.array_equal(a, b[..., ::-1]) for a, b in zip(seen, expected, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(seen, expected, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 0 < sum(mirrored) < 16
    assert np.array_equal(labels_of(mine), LABELS)


def test_shifted_images_are_windows_of_the_bordered_ones() -> None:
    seen, _ = transform(FLOATS, TransformSettings(crop=2), SHAPE).batch(ALL, Stream(4))
    bordered = np.pad(STORED.astype(np.float32), ((0, 0), (0, 0), (2, 2), (2, 2)))
    for image, whole in zip(seen, bordered, strict=True):
        assert any(np.array_equal(image, whole[:, y : y + 8, x : x + 8]) for y in range(5) for x in range(5))


def test_samples_that_are_read_later_are_read_later() -> None:
    asked = []

    def read() -> Samples:
        asked.append(1)
        return images()

    later = transform(Later(LABELS, read), TransformSettings(mean=(0.5,), std=(0.5,)), SHAPE)
    assert not asked
    assert np.array_equal(later.batch(ALL)[0], (STORED.astype(np.float32) / np.float32(255) - 0.5) / 0.5)
    assert asked


@pytest.mark.parametrize(
    ("samples", "settings", "shape", "words"),
    [
        (images(augment=FlipAndCrop(4)), {"flip": True}, SHAPE, "mirrors and shifts already"),
        (
            images(normalise=Standardise(MEAN, STD)),
            {"mean": (0.0,), "std": (1.0,)},
            SHAPE,
            "standardises already",
        ),
        (
            Tensors(np.zeros((4, 5), np.float32), ALL[:4]),
            {"flip": True},
            (5,),
            r"transforms.flip=true: .* \[5\]",
        ),
        (FLOATS, {"crop": 8}, SHAPE, "transforms.crop=8, must be < 8"),
        (FLOATS, {"mean": (0.0, 0.0), "std": (1.0, 1.0)}, SHAPE, "has 2 numbers, must have 1 or 3"),
        (FLOATS, {"normalise": "unit"}, SHAPE, "is for pixels 0..255, uint8, but the samples are float32"),
        (
            Tensors(np.zeros((4, 5), np.int64), ALL[:4]),
            {"mean": (1.0,), "std": (1.0,)},
            (5,),
            "not for tokens",
        ),
    ],
)
def test_what_cannot_be_done_to_samples_is_refused_in_one_line(samples, settings, shape, words) -> None:
    with pytest.raises(PruneFLError, match=words) as refusal:
        transform(samples, TransformSettings(**settings), shape)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["transforms.mean=[0.5]"], "transforms.mean has 1 numbers and transforms.std 0, must have as many"),
        (["transforms.mean=[0.5]", "transforms.std=[0.0]"], r"transforms.std=\[0.0\], must be > 0"),
        (["transforms.flip=true", "training.loss=pixel_cross_entropy"], "transforms.flip moves pixels"),
        (["transforms.crop=-1"], "transforms.crop=-1, must be >= 0"),
    ],
)
def test_transforms_that_contradict_each_other_or_the_task_are_refused(words, message) -> None:
    with pytest.raises(PruneFLError, match=message):
        override(Config(), words)
