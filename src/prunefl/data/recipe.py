"""Samples as the config wants them shown to the network: mirrored, shifted, normalised, standardised ([transforms])."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prunefl.config.transforms import AS_RECIPE, TransformSettings
from prunefl.core.randomness import Ints, Stream
from prunefl.data.federation import Federation
from prunefl.data.samples import Augment, Batch, Images, Later, Normalise, Samples, labels_of
from prunefl.data.transform import Crop, Flip, FlipAndCrop, Standardise, as_float, to_unit
from prunefl.system.errors import PruneFLError


def transform_federation(federation: Federation, settings: TransformSettings) -> Federation:
    """Return all samples as the settings want them; refuse what cannot be done to samples of this shape."""
    if settings == AS_RECIPE:
        return federation
    shape = federation.input_shape
    test = None if federation.test is None else transform(federation.test, settings, shape)
    return replace(
        federation, clients=[transform(share, settings, shape) for share in federation.clients], test=test
    )


def transform(samples: Samples, settings: TransformSettings, shape: Sequence[int]) -> Samples:
    """Return samples of this shape as the settings want them; those that are still to be read are changed then."""
    if settings == AS_RECIPE or not len(samples):
        return samples
    _check_shape(settings, shape)
    if isinstance(samples, Later):
        return Later(samples.labels, lambda: transform(samples.samples, settings, shape))
    if isinstance(samples, Images):
        return _transform_images(samples, settings)
    inputs, _ = samples.batch(np.arange(1))
    if not isinstance(inputs, np.ndarray) or inputs.dtype.kind != "f":
        raise PruneFLError(
            "[transforms] is for one array of numbers a sample, not for tokens or several parts"
        )
    if settings.normalise == "unit":
        raise _not_pixels(str(inputs.dtype))
    return Transformed(samples, _augment(settings), _standardise(settings, as_float))


@dataclass(frozen=True)
class Transformed:
    """Samples that are changed as they come out; `augment` in training only."""

    samples: Samples
    augment: Augment | None
    normalise: Normalise

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs and targets; see Samples."""
        inputs, targets = self.samples.batch(indices, stream)
        assert isinstance(inputs, np.ndarray)
        if stream is not None and self.augment is not None:
            inputs = self.augment(inputs, stream)
        return self.normalise(inputs), targets

    @cached_property
    def labels(self) -> Ints | None:
        """All labels, where that takes no reading of all samples."""
        return labels_of(self.samples)

    @property
    def rows(self) -> Ints:
        """Which of them these samples are: all."""
        return np.arange(len(self))


def _transform_images(images: Images, settings: TransformSettings) -> Images:
    augment, own = (images.augment if settings.recipe else None), _augment(settings)
    if augment is not None and own is not None:
        raise PruneFLError(
            "transforms.flip, transforms.crop: the data set's own recipe mirrors and shifts already; transforms.recipe="
            "false leaves that out"
        )
    is_pixels = images.pixels.dtype == np.uint8
    if settings.normalise == "unit" and not is_pixels:
        raise _not_pixels(str(images.pixels.dtype))
    normalise = images.normalise if settings.recipe else (to_unit if is_pixels else as_float)
    if settings.normalise:
        normalise = to_unit if settings.normalise == "unit" else as_float
    return replace(images, augment=own or augment, normalise=_standardise(settings, normalise))


def _augment(settings: TransformSettings) -> Augment | None:
    if settings.flip and settings.crop:
        return FlipAndCrop(settings.crop)
    if settings.flip:
        return Flip()
    return Crop(settings.crop) if settings.crop else None


def _standardise(settings: TransformSettings, first: Normalise) -> Normalise:
    if not settings.mean:
        return first
    if isinstance(first, Standardise):
        raise PruneFLError(
            f"transforms.mean={list(settings.mean)}: the data set's own recipe standardises already; "
            "transforms.recipe=false leaves that out"
        )
    return Standardise(settings.mean, settings.std, first)


def _check_shape(settings: TransformSettings, shape: Sequence[int]) -> None:
    """Refuse what cannot be done to samples of this shape."""
    is_image = len(shape) == 3
    if (settings.flip or settings.crop) and not is_image:
        key, given = ("flip", "true") if settings.flip else ("crop", str(settings.crop))
        raise PruneFLError(
            f"transforms.{key}={given}: samples have the shape {list(shape)}, must be [channels, height, width]"
        )
    if is_image and settings.crop >= min(shape[1:]):
        raise PruneFLError(
            f"transforms.crop={settings.crop}, must be < {min(shape[1:])}, the side of an image"
        )
    if settings.mean and len(settings.mean) not in (1, shape[0]):
        raise PruneFLError(
            f"transforms.mean has {len(settings.mean)} numbers, must have 1 or {shape[0]}, one for each channel"
        )


def _not_pixels(kind: str) -> PruneFLError:
    return PruneFLError(
        f"transforms.normalise='unit' is for pixels 0..255, uint8, but the samples are {kind}"
    )
