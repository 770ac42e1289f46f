"""The operations that a plan may have. Each is a few numbers and names of tensors; nothing in it is code."""

from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
"""Vertical, horizontal."""

Sides: TypeAlias = tuple[int, int, int, int]
"""Top, bottom, left, right."""

FUNCTIONS = ("none", "relu", "relu6", "hard_swish", "hard_sigmoid", "sigmoid", "gelu")
"""Activations, in the order in which the executor numbers them; "none" is not for plans."""


@dataclass(frozen=True)
class Conv:
    """A convolution with zeros around its input. Bias: a name, or "" for none."""

    weight: str
    bias: str
    stride: Pair
    padding: Sides
    dilation: Pair
    groups: int


@dataclass(frozen=True)
class Linear:
    """y = W·x + b."""

    weight: str
    bias: str


@dataclass(frozen=True)
class BatchNorm:
    """Normalises each channel over batch and pixels; as in use, by the running statistics."""

    weight: str
    bias: str
    mean: str
    variance: str
    epsilon: float
    momentum: float


@dataclass(frozen=True)
class GroupNorm:
    """Normalises each group of channels of a sample over its pixels."""

    weight: str
    bias: str
    groups: int
    epsilon: float


@dataclass(frozen=True)
class LayerNorm:
    """Normalises the features of a sample, or of each of its tokens."""

    weight: str
    bias: str
    epsilon: float


@dataclass(frozen=True)
class Embedding:
    """Features of each token: the row of the weight that the token numbers."""

    weight: str


@dataclass(frozen=True)
class Places:
    """Adds a parameter of (tokens, features), or (1, tokens, features), to every sample."""

    weight: str


@dataclass(frozen=True)
class Attention:
    """softmax(Q·Kᵀ/√d)·V of each head; features are those of the queries, then of the keys, then of the values.

    `causal`: a token does not see those after it.
    """

    heads: int
    causal: bool


@dataclass(frozen=True)
class Tokens:
    """(channels, height, width) as a token for each pixel: (height · width, channels)."""


@dataclass(frozen=True)
class MeanToken:
    """The mean of a sample's tokens."""


@dataclass(frozen=True)
class Activation:
    """One of FUNCTIONS, element by element."""

    function: str


@dataclass(frozen=True)
class Add:
    """The sum of two values of one shape."""


@dataclass(frozen=True)
class Multiply:
    """The product of two values of one shape; either may be one pixel a channel instead."""


@dataclass(frozen=True)
class Concatenate:
    """Channels, or a token's features, of one value after those of another."""


@dataclass(frozen=True)
class MaxPool:
    """The largest of each window."""

    kernel: Pair
    stride: Pair
    padding: Pair


@dataclass(frozen=True)
class AveragePool:
    """The mean of each window; `padding_counts`: whether zeros around the input are part of it."""

    kernel: Pair
    stride: Pair
    padding: Pair
    padding_counts: bool


@dataclass(frozen=True)
class Flatten:
    """(channels, height, width) as one row of features."""


@dataclass(frozen=True)
class Dropout:
    """Zeros with this probability while training, the rest over 1 − p; `by_channel`: whole channels fall."""

    probability: float
    by_channel: bool


Operation: TypeAlias = (
    Conv
    | Linear
    | BatchNorm
    | GroupNorm
    | LayerNorm
    | Embedding
    | Places
    | Attention
    | Tokens
    | MeanToken
    | Activation
    | Add
    | Multiply
    | Concatenate
    | MaxPool
    | AveragePool
    | Flatten
    | Dropout
)

KINDS: dict[str, type[Operation]] = {
    "conv": Conv,
    "linear": Linear,
    "batch_norm": BatchNorm,
    "group_norm": GroupNorm,
    "layer_norm": LayerNorm,
    "embedding": Embedding,
    "places": Places,
    "attention": Attention,
    "tokens": Tokens,
    "mean_token": MeanToken,
    "activation": Activation,
    "add": Add,
    "multiply": Multiply,
    "concatenate": Concatenate,
    "max_pool": MaxPool,
    "average_pool": AveragePool,
    "flatten": Flatten,
    "dropout": Dropout,
}
"""Name in the format -> operation."""

NAMES: dict[type[Operation], str] = {kind: name for name, kind in KINDS.items()}


def tensors_of(operation: Operation) -> tuple[str, ...]:
    """Return the names of the parameters and buffers that an operation uses."""
    match operation:
        case Conv() | Linear():
            return (operation.weight, operation.bias) if operation.bias else (operation.weight,)
        case BatchNorm():
            return operation.weight, operation.bias, operation.mean, operation.variance
        case GroupNorm() | LayerNorm():
            return operation.weight, operation.bias
        case Embedding() | Places():
            return (operation.weight,)
        case _:
            return ()
