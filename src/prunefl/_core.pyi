"""Types of the C++ module of the mathematics (src/core)."""

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
def accumulate(part: NDArray[np.float32], weight: float, total: NDArray[np.float32]) -> None: ...
def square_distance(one: NDArray[np.float32], other: NDArray[np.float32]) -> float: ...
