"""Means over seeds with 95 % confidence, and R²."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom: two-sided 95 %
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds; `half` is half the width of its 95 % interval, None for a single value."""

    mean: float
    half: float | None
    count: int


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish-Fisher around the normal quantile, right to three decimals from 31 degrees on
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of the values and its confidence."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Estimate(mean, None, len(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Estimate(mean, t_quantile(len(values) - 1) * math.sqrt(variance / len(values)), len(values))


def r_squared(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Return 1 - Σ(measured - predicted)² / Σ(measured - mean)²; None where nothing was to predict.

    A prediction that varies by less than 1 % leaves only noise to explain, of which R² would speak ill.
    """
    if not measured or max(predicted) - min(predicted) < 0.01 * max(predicted):
        return None
    mean = math.fsum(measured) / len(measured)
    spread = math.fsum((value - mean) ** 2 for value in measured)
    missed = math.fsum((m - p) ** 2 for m, p in zip(measured, predicted, strict=True))
    return None if spread <= 1e-12 * max(1.0, mean * mean) else 1 - missed / spread
