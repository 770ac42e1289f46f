"""What shape comes out of an operation on tokens, and the checks that all operations share."""

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native.operations import Attention, Embedding, MeanToken, Places, Tokens
from prunefl.system.errors import PruneFLError

MAX_SHARES = 1 << 24
"""Of attention: heads · tokens² of one sample."""


class PlanError(PruneFLError):
    """A plan that cannot be run."""


def require(right: bool, what: str) -> None:
    """Refuse an operation in these words, unless it is right."""
    if not right:
        raise PlanError(what)


def tensor_shape(template: Template, name: str, dimensions: int) -> Shape:
    """Return the shape of a parameter or buffer that must have so many dimensions."""
    shape = template.shape_of.get(name)
    require(shape is not None, f"there is no tensor {name[:80]!r}")
    assert shape is not None
    require(len(shape) == dimensions, f"{name} has shape {shape}, must have {dimensions} dimensions")
    return shape


def infer_token_shape(
    operation: Embedding | Places | Attention | Tokens | MeanToken, shape: Shape, template: Template
) -> Shape:
    """Return the shape of one sample of what the operation makes: (tokens, features), or one row of features."""
    if isinstance(operation, Embedding):
        require(len(shape) == 1, f"reads shape {shape}, must be (tokens,)")
        _trained(template, operation.weight)
        return shape[0], tensor_shape(template, operation.weight, 2)[1]
    if isinstance(operation, Tokens):
        require(len(shape) == 3, f"reads shape {shape}, must be (channels, height, width)")
        return shape[1] * shape[2], shape[0]
    require(len(shape) == 2, f"reads shape {shape}, must be (tokens, features)")
    match operation:
        case Places():
            _trained(template, operation.weight)
            given = template.shape_of.get(operation.weight)
            require(given in (shape, (1, *shape)), f"{operation.weight} has shape {given}, must be {shape}")
            return shape
        case Attention():
            return _attention(operation, shape)
        case MeanToken():
            return (shape[1],)


def _attention(attention: Attention, shape: Shape) -> Shape:
    tokens, features = shape
    heads = attention.heads
    fits = 1 <= heads <= features and features % (3 * heads) == 0
    require(fits, f"{heads} heads of {features} features, must divide a third of them")
    require(heads * tokens * tokens <= MAX_SHARES, f"{heads} heads of {tokens} tokens, too many")
    return tokens, features // 3


def _trained(template: Template, name: str) -> None:
    require(name not in template.prunable, f"{name} must not be prunable")
    require(name not in template.buffers, f"{name} must be trained")
