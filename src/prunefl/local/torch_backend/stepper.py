"""The optimiser of a backend: made when it is first needed, its moments carried from mask to mask."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from prunefl.config.optimiser import OptimiserSettings
from prunefl.core.masks import Masks
from prunefl.core.moments import Moments
from prunefl.core.network import Template
from prunefl.core.state import Array, SparseState
from prunefl.local.torch_backend.adam import make_optimiser
from prunefl.local.torch_backend.convert import pruned_layers
from prunefl.local.torch_backend.device import as_array
from prunefl.local.torch_backend.optimiser import LiveOptimiser
from prunefl.local.torch_backend.pruned import PrunedLayer


class Stepper:
    """What a backend steps with."""

    def __init__(self, settings: OptimiserSettings, template: Template) -> None:
        self._settings, self._template = settings, template
        self._moments, self._anchor = Moments(), None
        self._optimiser: LiveOptimiser | None = None

    _anchor: SparseState | None

    def begin(self, moments: Moments | None, anchor: SparseState | None) -> None:
        """Forget the client before; remember these moments, of any masks."""
        self._moments, self._anchor = moments or Moments(), anchor
        self._optimiser = None

    def optimiser(self, model: nn.Module, masks: Masks, rate: float) -> LiveOptimiser:
        """Return the optimiser of this model, with what it remembers, at this rate."""
        if self._optimiser is None:
            self._optimiser = self._made(model, masks, rate)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        return self._optimiser

    def leave(self, model: nn.Module, masks: Masks) -> None:
        """Remember the moments apart from a model that is to be replaced."""
        if self._optimiser is not None:
            self._moments, self._optimiser = self.moments(model, masks), None

    def moments(self, model: nn.Module, masks: Masks) -> Moments:
        """Return a copy of what is remembered, under these masks, which are the model's."""
        optimiser = self._optimiser
        if optimiser is None or not self._settings.slots:
            return self._moments.remask(masks)
        slots: dict[str, dict[str, Array]] = {slot: {} for slot in self._settings.slots}
        for name, parameter, layer in self._parameters(model):
            for slot in slots:
                slots[slot][name] = _taken(optimiser.moment(parameter, slot), layer, name in masks)
        return Moments(optimiser.steps, {slot: SparseState(values, masks) for slot, values in slots.items()})

    def _made(self, model: nn.Module, masks: Masks, rate: float) -> LiveOptimiser:
        optimiser = make_optimiser(self._settings, model.parameters(), rate)
        kept = self._moments.remask(masks)
        optimiser.steps = kept.steps
        for name, parameter, layer in self._parameters(model):
            for slot, values in kept.slots.items():
                optimiser.state[parameter][slot] = _put(values.values[name], parameter, layer)
        if self._anchor is not None and self._settings.proximal:
            anchor = self._anchor.remask(masks)
            optimiser.anchors = {
                parameter: _put(anchor.values[name], parameter, layer)
                for name, parameter, layer in self._parameters(model)
            }
        return optimiser

    def _parameters(self, model: nn.Module) -> Iterator[tuple[str, nn.Parameter, PrunedLayer | None]]:
        """Yield name, parameter and, where there is one, pruned layer, in the template's order."""
        layers, parameters = pruned_layers(model), dict(model.named_parameters())
        for name in self._template.parameters:
            yield name, parameters[name], layers.get(name)


def _taken(moment: Tensor, layer: PrunedLayer | None, masked: bool) -> Array:
    """Return a copy of a moment as a state holds it."""
    if layer is not None:
        return np.asarray(as_array(layer.row_major(moment)))
    array: Array = np.array(as_array(moment))
    return array.reshape(-1) if masked else array


def _put(values: Array, parameter: nn.Parameter, layer: PrunedLayer | None) -> Tensor:
    """Return a copy of live values as the parameter holds them."""
    tensor = torch.tensor(values, device=parameter.device)
    return layer.arranged(tensor) if layer is not None else tensor.view_as(parameter)
