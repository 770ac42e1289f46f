"""Types of the C++ module; addresses are `data_ptr()`, zero for nothing."""

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int, int, int]
Pair = tuple[int, int]
Stage = tuple[LinearPattern | ConvPattern, bool, tuple[int, int, int, int, int, int] | None]

class BlockedRows:
    def to_row_major(self, blocked: int, row_major: int, /) -> None: ...
    def from_row_major(self, row_major: int, blocked: int, /) -> None: ...

class LinearPattern(BlockedRows):
    def __init__(self, live: NDArray[np.uint8]) -> None: ...
    def __len__(self) -> int: ...
    def positions(self) -> NDArray[np.int64]: ...

class ConvPattern(BlockedRows):
    def __init__(
        self, live: NDArray[np.uint8], groups: int, kernel: Pair, stride: Pair, dilation: Pair, padding: Size
    ) -> None: ...
    def __len__(self) -> int: ...
    def positions(self) -> NDArray[np.int64]: ...

class Tape: ...

class Chain:
    def __init__(self, stages: list[Stage]) -> None: ...
    def output_for(self, size: Size) -> Size: ...
    def forward(
        self,
        size: Size,
        ours: bool,
        x: int,
        weights: list[int],
        biases: list[int],
        out: int,
        threads: int,
        /,
    ) -> Tape: ...
    def infer(
        self,
        size: Size,
        ours: bool,
        x: int,
        weights: list[int],
        biases: list[int],
        out: int,
        threads: int,
        /,
    ) -> None: ...
    def backward(
        self,
        tape: Tape,
        weights: list[int],
        out: int,
        gradient: int,
        ours: bool,
        weight_gradients: list[int],
        bias_gradients: list[int],
        totals: list[int],
        squared: bool,
        input_gradient: int,
        threads: int,
        /,
    ) -> None: ...

def paths() -> list[str]: ...
def path() -> str: ...
def use_path(name: str) -> None: ...
def to_torch(size: Size, x: int, out: int, threads: int, /) -> None: ...
def from_torch(size: Size, x: int, out: int, threads: int, /) -> None: ...
def sgd(weights: list[int], gradients: list[int], sizes: list[int], rate: float, threads: int, /) -> None: ...
def masked_sgd(weights: int, gradients: int, live: int, size: int, rate: float, threads: int, /) -> None: ...
def momentum_sgd(
    weight: int,
    gradient: int,
    momentum: int,
    live: int,
    size: int,
    rule: tuple[float, float, float, float, bool],
    threads: int,
    /,
) -> None: ...
def adam(
    weight: int,
    gradient: int,
    first: int,
    second: int,
    live: int,
    size: int,
    rule: tuple[float, float, float, float, float, float, float, float],
    threads: int,
    /,
) -> None: ...
def pull(gradient: int, weight: int, anchor: int, size: int, strength: float, threads: int, /) -> None: ...
def squared_norm(gradient: int, live: int, size: int, threads: int, /) -> float: ...

Operation = tuple[str, list[int], int, list[int], list[float], list[int]]
"""Kind, input values, output value, sizes, factors, tensors."""

class Executor:
    def __init__(
        self,
        values: list[tuple[int, int, int]],
        operations: list[Operation],
        sizes: list[int],
        trained: list[bool],
        loss: str,
    ) -> None: ...
    def set_mask(self, tensor: int, live: NDArray[np.uint8], /) -> None: ...
    def load(self, tensor: int, values: NDArray[np.float32], /) -> None: ...
    def store(self, tensor: int, /) -> NDArray[np.float32]: ...
    def add_gradient(self, tensor: int, values: NDArray[np.float32], /) -> None: ...
    def differentiate(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.int64],
        seed: int,
        note_statistics: bool,
        totals: list[tuple[int, NDArray[np.float32]]],
        squared: bool,
        threads: int,
        /,
    ) -> tuple[float, int]: ...
    def update(self, rate: float, threads: int, /) -> None: ...
    def remember(self, which: int, tensor: int, values: NDArray[np.float32], /) -> None: ...
    def recall(self, which: int, tensor: int, /) -> NDArray[np.float32]: ...
    def forget(self) -> None: ...
    def pull(self, strength: float, threads: int, /) -> None: ...
    def squared_norm(self, threads: int, /) -> float: ...
    def update_by_sgd(self, rule: tuple[float, float, float, float, bool], threads: int, /) -> None: ...
    def update_by_adam(
        self, rule: tuple[float, float, float, float, float, float, float, float], threads: int, /
    ) -> None: ...
    def evaluate(
        self, inputs: NDArray[np.float32], labels: NDArray[np.int64], threads: int, /
    ) -> tuple[int, float]: ...
    @property
    def num_bytes(self) -> int: ...
