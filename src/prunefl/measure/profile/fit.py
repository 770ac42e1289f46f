"""Fit a line to measured times, and say how well it fits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Fit:
    """seconds = fixed + per_weight · live; `clamped` says which coefficient came out negative, if one did."""

    fixed: float
    per_weight: float
    r2: float
    clamped: str = ""

    def seconds(self, live: float) -> float:
        """Return the predicted seconds."""
        return self.fixed + self.per_weight * live


def fit_line(live: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Return the least-squares line through the measurements, without negative coefficients.

    Raises:
        ValueError: fewer than three different sizes, or values that are not finite: nothing follows from those.
    """
    x, y = np.asarray(live, dtype=float), np.asarray(seconds, dtype=float)
    if x.shape != y.shape or len(np.unique(x)) < 3:
        raise PruneFLError(
            f"{len(np.unique(x))} different sizes are too little variation to fit, must be >= 3"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("measurements must be finite numbers")
    slope, fixed = np.polynomial.polynomial.polyfit(x, y, 1)[::-1]
    clamped = ""
    if slope < 0:
        slope, fixed, clamped = 0.0, float(y.mean()), "per_weight"
    elif fixed < 0:
        slope, fixed, clamped = max(0.0, float((x * y).sum() / (x * x).sum())), 0.0, "fixed"
    left = ((y - fixed - slope * x) ** 2).sum()
    spread = ((y - y.mean()) ** 2).sum()
    return Fit(float(fixed), float(slope), float(1 - left / spread) if spread > 0 else 1.0, clamped)
