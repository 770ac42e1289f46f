"""A model that trains one client after another; it is rebuilt only when the masks change."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from prunefl import wire
from prunefl.core.masks import Masks, digest
from prunefl.local import torch_backend as sparse
from prunefl.models import seed_dropout

OnPass = Callable[[int, int, float], None]


class Trainer:
    """One worker's model. Not shared between threads.

    Args:
        batch_shape: shape of a mini-batch; layers compute densely or sparsely, whichever is faster here at it.

    Attributes:
        generator: what dropout draws from; to be set for every client, as the order of clients is not fixed.
        on_pass: told of initial pruning as it goes on: passes done, passes at most, density.
    """

    def __init__(
        self, model: nn.Module, template: wire.Template, classes: int, batch_shape: tuple[int, ...]
    ) -> None:
        self.template, self.classes = template, classes
        self._model, self._example = model, torch.zeros(batch_shape)
        self.parameter_shapes = {name: p.shape for name, p in model.named_parameters()}
        self.generator = torch.Generator()
        self.on_pass: OnPass = lambda done, most, density: None
        self._masks_digest = b""
        self._prepared: nn.Module | None = None

    def load(self, state: Mapping[str, Tensor], masks: Masks) -> nn.Module:
        """Return the model with these live values (or dense weights), ready to train."""
        named = digest(masks)
        if self._prepared is None or named != self._masks_digest:
            self._prepared = sparse.sparsify(self._model, masks, example=self._example)
            self._masks_digest = named
        # The live values of a full layer are the whole layer, and it is a plain torch layer.
        shapes = self.template.shape_of
        whole = {n: v.view(shapes[n]) if v.numel() == math.prod(shapes[n]) else v for n, v in state.items()}
        sparse.load_state(self._prepared, whole)
        seed_dropout(self._prepared, self.generator)
        return self._prepared
