"""Algorithm 3 for a piecewise linear T, step by step in C++."""

import numpy as np
from numpy.typing import NDArray

def walk(
    constant: NDArray[np.float64],
    intercept: NDArray[np.float64],
    slope: NDArray[np.float64],
    heads: NDArray[np.floating],
    offsets: NDArray[np.int64],
    kept: NDArray[np.int64],
    gain: float,
    room: int,
    tie: float,
    taken: NDArray[np.int64],
) -> None: ...
