"""What numbers a network is shown: pixels of 0..255 as 0..1, others as they are; all clients must mean the same."""

import numpy as np

from prunefl.data.inputs import parts_of
from prunefl.data.samples import Images, Samples, Tensors
from prunefl.data.transform import to_unit
from prunefl.system.errors import PruneFLError

UNIT, NONE = "unit", "none"
LOOKED_AT = 256
"""Samples of a user's own function that are looked at: reading them all may take long."""

WORDS = {UNIT: "pixels 0..255 as 0..1", NONE: "numbers as they are"}


def find_scaling(samples: Samples, published: str = "") -> str:
    """Return "unit", "none", or the name of the published data set whose recipe scales these samples."""
    if isinstance(samples, Images) and samples.normalise is to_unit:
        return UNIT
    return published or NONE


def refuse_scaling(samples: Samples, own: str, agreed: str, who: str) -> None:
    """Refuse samples that are scaled otherwise than was agreed on (data.scaling); numbers in 0..1 are "unit", too."""
    if agreed in ("", own) or (agreed == UNIT and own == NONE and _lies_in_unit(samples)):
        return
    do = {
        UNIT: "divide them by the largest that may occur, or save them as uint8",
        NONE: "save them as floats, scaled as at the other clients",
    }.get(agreed, f"bring data of {agreed}")
    raise PruneFLError(
        f"{who} has {WORDS.get(own, f'samples as {own} scales them')}, the run has "
        f"{WORDS.get(agreed, f'them as {agreed} scales them')} (data.scaling={agreed!r}): {do}"
    )


def _lies_in_unit(samples: Samples) -> bool:
    count = len(samples) if isinstance(samples, Images | Tensors) else min(len(samples), LOOKED_AT)
    for first in range(0, count, LOOKED_AT):
        inputs, _ = samples.batch(np.arange(first, min(first + LOOKED_AT, count)))
        if any(part.min() < 0 or part.max() > 1 for part in parts_of(inputs)):
            return False
    return True
