"""What is done to pixels on their way into a batch."""

import numpy as np
import pytest
import torch
from data_trees import RANDOM

from prunefl.data.samples import Images
from prunefl.data.transform import FlipAndCrop, Standardise, to_unit


def test_flip_and_crop_equals_the_slow_way() -> None:
    pixels = torch.from_numpy(RANDOM.integers(0, 256, (64, 3, 8, 8), dtype=np.uint8))
    out = FlipAndCrop(2)(pixels, torch.Generator().manual_seed(5))
    seen = set()
    for image, result in zip(pixels, out, strict=True):
        padded = torch.nn.functional.pad(image, (2, 2, 2, 2))
        options = {
            (dy, dx, flip): (
                padded[:, dy : dy + 8, dx : dx + 8].flip(2) if flip else padded[:, dy : dy + 8, dx : dx + 8]
            )
            for dy in range(5)
            for dx in range(5)
            for flip in (False, True)
        }
        matches = [key for key, option in options.items() if torch.equal(option, result)]
        assert len(matches) == 1
        seen.add(matches[0])
    assert len(seen) > 20
    assert {flip for _, _, flip in seen} == {False, True}


def test_augmentation_is_drawn_from_the_given_generator_only() -> None:
    pixels = RANDOM.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    images = Images(pixels, torch.zeros(30, dtype=torch.int64), torch.arange(30), to_unit, FlipAndCrop(2))
    rows = torch.arange(30)
    state = torch.random.get_rng_state()
    first = images.batch(rows, torch.Generator().manual_seed(1))[0]
    assert torch.equal(first, images.batch(rows, torch.Generator().manual_seed(1))[0])
    assert not torch.equal(first, images.batch(rows, torch.Generator().manual_seed(2))[0])
    assert torch.equal(images.batch(rows)[0], to_unit(torch.from_numpy(pixels)))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_standardise_is_mean_zero_and_variance_one_for_its_own_statistics() -> None:
    pixels = torch.from_numpy(RANDOM.integers(0, 256, (50, 3, 16, 16), dtype=np.uint8))
    unit = pixels.double() / 255
    mean, std = unit.mean((0, 2, 3)).tolist(), unit.std((0, 2, 3)).tolist()
    out = Standardise(mean, std)(pixels)
    assert out.mean((0, 2, 3)).tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert out.std((0, 2, 3)).tolist() == pytest.approx([1] * 3, abs=1e-5)
