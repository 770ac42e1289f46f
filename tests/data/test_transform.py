"""What is done to pixels on their way into a batch."""

import numpy as np
import pytest
import torch
from data_trees import pixels
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.randomness import Stream
from prunefl.data.samples import Images
from prunefl.data.transform import FlipAndCrop, Standardise, standardise_photos, to_inverted_unit, to_unit

EVERY_PIXEL = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16).repeat(3, axis=1)


def test_flip_and_crop_equals_the_slow_way() -> None:
    images = pixels(64, 3, 8, 8)
    out = FlipAndCrop(2)(images, Stream(5))
    seen = set()
    for image, result in zip(images, out, strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        options = {
            (dy, dx, step): padded[:, dy : dy + 8, dx : dx + 8][..., ::step]
            for dy in range(5)
            for dx in range(5)
            for step in (1, -1)
        }
        matches = [key for key, option in options.items() if np.array_equal(option, result)]
        assert len(matches) == 1
        seen.add(matches[0])
    assert len(seen) > 20
    assert {step for _, _, step in seen} == {1, -1}


@given(st.integers(0, 2**63 - 1), st.integers(1, 5), st.integers(0, 3))
def test_flip_and_crop_draws_what_torch_draws(seed: int, batch: int, pad: int) -> None:
    images, source = pixels(batch, 2, 4, 6), torch.Generator().manual_seed(seed)
    shift = torch.randint(2 * pad + 1, (2, batch, 1), generator=source)
    mirrored = torch.randint(2, (batch, 1), generator=source).bool()
    expected = []
    for i, image in enumerate(torch.from_numpy(images)):
        padded = torch.nn.functional.pad(image, (pad,) * 4)
        cropped = padded[:, shift[0, i] :, shift[1, i] :][:, :4, :6]
        expected.append(cropped.flip(2) if mirrored[i] else cropped)
    out = FlipAndCrop(pad)(images, Stream(seed))
    np.testing.assert_array_equal(out, torch.stack(expected))
    assert out.flags.c_contiguous


def test_augmentation_is_drawn_from_the_given_random_numbers_only() -> None:
    stored = pixels(30, 3, 8, 8)
    images = Images.whole(stored, np.zeros(30, np.int64), to_unit, FlipAndCrop(2))
    rows = np.arange(30)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = images.batch(rows, Stream(1))[0]
    np.testing.assert_array_equal(first, images.batch(rows, Stream(1))[0])
    assert not np.array_equal(first, images.batch(rows, Stream(2))[0])
    np.testing.assert_array_equal(images.batch(rows)[0], to_unit(stored))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_every_pixel_becomes_the_number_that_torch_makes_of_it() -> None:
    unit = torch.from_numpy(EVERY_PIXEL).to(torch.float32).div_(255.0)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (standardise_photos.mean, standardise_photos.std))
    np.testing.assert_array_equal(to_unit(EVERY_PIXEL), unit)
    np.testing.assert_array_equal(to_inverted_unit(EVERY_PIXEL), unit.neg().add_(1.0))
    np.testing.assert_array_equal(standardise_photos(EVERY_PIXEL), unit.sub(mean).div_(std))


def test_standardise_is_mean_zero_and_variance_one_for_its_own_statistics() -> None:
    stored = pixels(50, 3, 16, 16)
    unit = stored / 255
    out = Standardise(unit.mean((0, 2, 3)).tolist(), unit.std((0, 2, 3)).tolist())(stored)
    assert out.mean((0, 2, 3)).tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert out.std((0, 2, 3)).tolist() == pytest.approx([1] * 3, abs=1e-5)
