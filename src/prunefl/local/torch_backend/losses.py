"""The losses in torch: cross-entropies, the authors' one-hot BCE (docs/method.md 13), multi-label, MSE, one's own."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from prunefl.core.objectives import Loss
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function

Criterion = Callable[[Tensor, Tensor], Tensor]


def criterion_of(loss: Loss, device: torch.device | None = None) -> Criterion:
    """Return the function from outputs and targets, on a device, to the mean loss."""
    if ":" in loss.name:
        return _own(loss.name)
    weights = (
        torch.tensor(loss.class_weights, dtype=torch.float32, device=device) if loss.class_weights else None
    )

    def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, weights, label_smoothing=loss.label_smoothing)

    def over_tokens(logits: Tensor, labels: Tensor) -> Tensor:
        # torch wants classes second
        return cross_entropy(logits.flatten(0, -2), labels.flatten())

    def multilabel(logits: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), pos_weight=weights)

    known: dict[str, Criterion] = {
        "cross_entropy": cross_entropy,
        "onehot_bce": onehot_bce,
        "multilabel_bce": multilabel,
        "mse": squared_error,
        "pixel_cross_entropy": cross_entropy,
        "token_cross_entropy": over_tokens,
    }
    return known[loss.name]


def onehot_bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the binary cross-entropy against one-hot labels, averaged over samples and classes."""
    return F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, logits.shape[1]).to(logits.dtype))


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error; one output a sample may stand in a column of its own."""
    return F.mse_loss(outputs.reshape(targets.shape), targets.to(outputs.dtype))


def _own(spec: str) -> Criterion:
    """Return a loss of the user's own; what is not one number is refused."""
    function = own_function("training.loss", spec)

    def checked(outputs: Tensor, targets: Tensor) -> Tensor:
        loss = function(outputs, targets)
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            given = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise PruneFLError(f"training.loss={spec!r} gives {given}, must give one number, a scalar tensor")
        if outputs.requires_grad and not loss.requires_grad and torch.is_grad_enabled():
            raise PruneFLError(
                f"training.loss={spec!r} has no gradient, must be computed from the outputs by torch's own "
                "operations: no .detach(), .item() or numpy on the way"
            )
        return loss

    return checked
