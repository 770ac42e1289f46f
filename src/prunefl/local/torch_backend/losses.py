"""The two losses: cross-entropy, and the authors' one-hot binary cross-entropy (docs/method.md 13)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


def onehot_bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the binary cross-entropy against one-hot labels, averaged over samples and classes."""
    return F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, logits.shape[1]).to(logits.dtype))


LOSSES: dict[str, Loss] = {"cross_entropy": F.cross_entropy, "onehot_bce": onehot_bce}
