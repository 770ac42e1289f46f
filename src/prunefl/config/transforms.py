"""What becomes of samples on their way into the network, beside or instead of a data set's own recipe."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prunefl.config.settings import at_least, one_of, setting
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import Config


@dataclass(frozen=True)
class TransformSettings:
    """What becomes of samples on their way into the network; mirroring and shifting in training only."""

    recipe: bool = setting(
        True,
        "begin with the data set's own recipe (cifar10: flip, crop 4, standardise); false: with none of it",
    )
    flip: bool = setting(False, "mirror half of the images, drawn anew each time")
    crop: int = setting(0, "shift images by up to so many pixels within a black border", at_least(0))
    normalise: str = setting(
        "",
        "unit: pixels 0..255 become 0..1; none: they stay; '': as the recipe has it, unit without one",
        one_of("", "unit", "none"),
    )
    mean: tuple[float, ...] = setting((), "standardise: taken off, one for all or for each channel; []: none")
    std: tuple[float, ...] = setting((), "standardise: divided by, as many as transforms.mean")


AS_RECIPE = TransformSettings()


def refuse_odd_transforms(config: "Config") -> None:
    """Refuse transforms that contradict each other or the task."""
    transforms, loss = config.transforms, config.training.loss
    if len(transforms.mean) != len(transforms.std):
        raise PruneFLError(
            f"transforms.mean has {len(transforms.mean)} numbers and transforms.std {len(transforms.std)}, must have "
            "as many"
        )
    if any(not value > 0 for value in transforms.std):
        raise PruneFLError(f"transforms.std={list(transforms.std)}, must be > 0")
    for key in ("flip", "crop"):
        if getattr(transforms, key) and loss == "pixel_cross_entropy":
            raise PruneFLError(
                f"transforms.{key} moves pixels, but their classes would stay: must be left out with "
                f"training.loss={loss!r}"
            )
