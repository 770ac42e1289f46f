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

FEWEST = 3
"""Seeds that an interval needs: that of two is twelve times their distance from the mean, and says nothing."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        half: half the width of its 95 % interval, None for fewer than three values.
        low, high: the smallest and the largest value.
    """

    mean: float
    half: float | None
    count: int
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Return whether its interval says something: 74 ± 284 of what is never negative does not."""
        return self.half is not None and not (self.low >= 0 and self.half >= self.mean > 0)


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
    ends = min(values), max(values)
    if len(values) < FEWEST:
        return Estimate(mean, None, len(values), *ends)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = t_quantile(len(values) - 1) * math.sqrt(variance / len(values))
    return Estimate(mean, half, len(values), *ends)


def estimate_ratio(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """Return the geometric mean of a / b over pairs of the same seed; low and high are its interval, or its range."""
    logs = estimate([math.log(a / b) for a, b in pairs])
    low, high = (
        (logs.mean - logs.half, logs.mean + logs.half) if logs.half is not None else (logs.low, logs.high)
    )
    return Estimate(math.exp(logs.mean), None, logs.count, math.exp(low), math.exp(high))


def spoken(value: Estimate, digits: int = 2) -> str:
    """Return '85.07 ± 0.31', '85.07 (84.90–85.24)' where that is all two seeds tell, or '85.07' where seeds agree."""
    if value.half is not None and value.is_sure:
        half = f"{value.half:,.{digits}f}"
        return f"{value.mean:,.{digits}f}" + (f" ± {half}" if half.strip("0.") else "")
    ends = f" ({value.low:,.{digits}f}–{value.high:,.{digits}f})" if value.low < value.high else ""
    return f"{value.mean:,.{digits}f}{ends}"


def signed(value: Estimate, digits: int = 2) -> str:
    """Return a difference: '-0.40 ± 0.31', which may lie on both sides of 0, or '-0.40 (-0.71–+0.12)' of two seeds."""
    if value.half is not None:
        return f"{value.mean:+.{digits}f} ± {value.half:.{digits}f}"
    ends = f" ({value.low:+.{digits}f}–{value.high:+.{digits}f})" if value.low < value.high else ""
    return f"{value.mean:+.{digits}f}{ends}"


def digits_for(largest: float, places: int = 3) -> int:
    """Return the decimals with which a column of such numbers has about so many significant digits."""
    return max(0, places - 1 - math.floor(math.log10(largest))) if largest > 0 else 0


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
