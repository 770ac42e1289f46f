"""Dropout with a generator of its own: clients are threads, and torch's generator is shared by all."""

from typing import Any

import torch
from torch import Tensor, nn

from prunefl.system.errors import PruneFLError


class SeededDropout(nn.Dropout):
    """nn.Dropout with the generator it draws from; whole channels fall together where `by_channel` is set."""

    def __init__(self, p: float = 0.5, by_channel: bool = False) -> None:
        super().__init__(p)
        self.by_channel = by_channel
        self.generator: torch.Generator | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, when training with a fraction p of it at zero and the rest over 1 − p."""
        if not self.training or self.p == 0.0:
            return input
        if self.p == 1.0:
            return input * 0.0
        channels = (*input.shape[:2], *[1] * (input.dim() - 2))
        keep = input.new_empty(channels if self.by_channel else input.shape)
        keep.bernoulli_(1.0 - self.p, generator=self.generator).div_(1.0 - self.p)
        return input * keep

    def __getstate__(self) -> dict[str, Any]:
        # A copy runs in another thread: it must be given a generator, never share this one.
        return {**self.__dict__, "generator": None}


SWAPPED: dict[type[nn.Module], bool] = {
    nn.Dropout: False,
    nn.Dropout1d: True,
    nn.Dropout2d: True,
    nn.Dropout3d: True,
}
"""Kind of dropout -> whether whole channels fall."""


def seed_dropout(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Return the model, changed in place so that every dropout layer in it draws from the generator."""
    made: dict[nn.Module, SeededDropout] = {}
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, SeededDropout):
            module.generator = generator
        elif type(module) in SWAPPED:
            # one layer may stand in several places
            seeded = made.setdefault(module, SeededDropout(_probability(module), SWAPPED[type(module)]))
            seeded.train(module.training).generator = generator
            _replace_module_in_place(model, path, seeded)
        elif isinstance(module, nn.MultiheadAttention) and module.dropout > 0:
            raise PruneFLError(
                f"model layer {path} has dropout={module.dropout} of its attention weights, must be 0: its draws could "
                f"not be seeded (model.{path}.dropout = 0.0; dropout layers may stay)"
            )
        elif isinstance(module, nn.modules.dropout._DropoutNd):
            kind = type(module).__name__
            raise PruneFLError(
                f"model layer {path}={kind}, must be nn.Dropout: its draws could not be seeded"
            )
    return model


def _probability(module: nn.Module) -> float:
    """Return the fraction a dropout layer takes away."""
    p = module.p
    assert isinstance(p, float | int)
    return float(p)


def _replace_module_in_place(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module where `path` leads; a model that is nothing but a dropout layer has no place for it."""
    assert path, "the model itself is a dropout layer"
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
