"""Decode image files, many at a time, each problem with the file's name. Pillow's one home."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt

from prunefl.data import cache
from prunefl.system.cores import cores
from prunefl.system.errors import PruneFLError

T = TypeVar("T")
Array = npt.NDArray[np.uint8]
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MAX_PIXELS = 100_000_000


class Unfit(PruneFLError):
    """A whole image that cannot become pixels without guessing."""


def is_image(path: Path) -> bool:
    """Return whether the name is that of an image."""
    return path.suffix.lower() in ENDINGS


def header(path: Path) -> tuple[int, int, int]:
    """Return (channels, height, width) without decoding; grey images have one channel, all others three."""

    def read(image: Any) -> tuple[int, int, int]:
        return (1 if image.mode in ("1", "L") or _is_deep(image) else 3, image.height, image.width)

    return _opened(path, str(path), read)


def resized(source: Path | BinaryIO, name: str, shape: tuple[int, int, int]) -> Array:
    """Return the pixels of a file or stream that goes by this name, resized to (channels, height, width)."""
    channels, height, width = shape
    return _opened(source, name, lambda image: _array(image, channels, width, height))


def decode_once(
    name: str, key: str, files: Sequence[Path], shape: tuple[int, int, int], beside: Path, folder: Path | None
) -> Array:
    """Return the pixels of all files, (files, *shape), memory-mapped; see `resized` and `cache.cached`."""

    def build(work: Path) -> None:
        pixels = cache.create_array(work, "pixels", (len(files), *shape))
        for i, image in enumerate(decode_all(files, lambda path: resized(path, str(path), shape))):
            pixels[i] = image
        pixels.flush()

    built = cache.cached(name, key, build, beside=beside, folder=folder)
    return cast(Array, cache.open_array(built, "pixels"))


def shorter_side(size: int) -> Callable[[Path], Array]:
    """Return a function from a file to its pixels (3, height, width), the shorter side resized to `size`."""

    def read(image: Any) -> Array:
        scale = size / min(image.size)
        width, height = (max(size, int(side * scale)) for side in image.size)
        return _array(image, 3, width, height)

    return lambda path: _opened(path, str(path), read)


def decode_all(paths: Sequence[Path], decode: Callable[[Path], Array]) -> Iterator[Array]:
    """Yield the pixels of each file in order, decoded on all cores and never many at a time."""
    # Pillow lets go of the interpreter lock while it decodes, so threads are enough.
    with ThreadPoolExecutor(cores()) as pool:
        for first in range(0, len(paths), 256):
            yield from pool.map(decode, paths[first : first + 256])


def _opened(source: Path | BinaryIO, name: str, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of the opened image; a file that is no whole image is named."""
    try:
        from PIL import Image
    except ImportError as error:
        raise PruneFLError("image files need Pillow: pip install 'prunefl[images]'") from error
    try:
        with Image.open(source) as image:
            if image.width * image.height > MAX_PIXELS:
                raise PruneFLError(f"{image.width}×{image.height} pixels, more than {MAX_PIXELS}")
            return read(image)
    except FileNotFoundError as error:
        raise PruneFLError(f"{name}: no such image: get it again, or take it off its list") from error
    except Unfit as error:
        raise PruneFLError(f"{name}: {error}") from None
    # Pillow raises whatever the decoder of the day raises: SyntaxError for PNG, struct.error for TIFF, ...
    except Exception as error:
        reason = " ".join(str(error).split())
        raise PruneFLError(f"{name}: corrupt image ({reason}): get it again or delete it") from error


def _array(image: Any, channels: int, width: int, height: int) -> Array:
    """Return an image as uint8 (channels, height, width)."""
    from PIL import Image

    if _is_deep(image):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    _refuse_transparency(image)
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image).reshape(height, width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _refuse_transparency(image: Any) -> None:
    """Refuse pixels that are seen through: which colour they have depends on what is behind them."""
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        raise Unfit("has transparent pixels: put it on a background (flatten it), or delete it")


def _is_deep(image: Any) -> bool:
    """Return whether the image is grey with more than 8 bits: integers (Pillow's I, I;16, I;16B) or floats."""
    return image.mode[0] in "IF"


def _eight_bits(pixels: npt.NDArray[Any]) -> Array:
    """Return 16-bit pixels as 8-bit ones; Pillow would clip them at 255, which is all white."""
    if pixels.dtype.kind == "f" or pixels.min() < 0 or pixels.max() > 65535:
        raise PruneFLError("pixels of more than 16 bits")
    return (pixels / 257).round().astype(np.uint8)
