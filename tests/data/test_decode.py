"""Image files become the pixels that were meant, or are named."""

from pathlib import Path

import numpy as np
import pytest

from prunefl.data.decode import header, resized

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "u2"), ("a.tif", "u2"), ("a.tif", ">u2"), ("a.tif", "i4")]
)
def test_grey_images_of_16_bits_are_scaled_to_8(tmp_path: Path, channels: int, name: str, kind: str) -> None:
    expected = np.arange(256, dtype=np.uint8).reshape(16, 16)
    path = tmp_path / name
    Image.fromarray((expected.astype("i4") * 257).astype(kind)).save(path)
    assert header(path) == (1, 16, 16)
    assert np.array_equal(resized(path, str(path), (channels, 16, 16)), np.stack([expected] * channels))


def test_an_image_of_more_than_16_bits_or_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deep.tif"
    Image.fromarray(np.full((4, 4), 70_000, np.int32)).save(path)
    with pytest.raises(ValueError, match=r"deep\.tif: corrupt image \(pixels of more than 16 bits\)"):
        resized(path, str(path), (3, 4, 4))
    with pytest.raises(
        ValueError, match=r"absent\.png: no such image: get it again, or take it off its list"
    ):
        resized(tmp_path / "absent.png", "absent.png", (3, 4, 4))
