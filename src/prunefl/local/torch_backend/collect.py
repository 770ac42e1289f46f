"""Collect the full weight gradients, of pruned weights too, while a sparse model trains (docs/method.md 1)."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from prunefl.local.torch_backend.convert import pruned_layers
from prunefl.local.torch_backend.pruned import Collection
from prunefl.system.errors import PruneFLError

MODES = ("square", "plain")


@contextmanager
def collect_gradients(
    model: nn.Module, sums: Mapping[str, Tensor] | None, mode: str = "square"
) -> Iterator[None]:
    """Add, while the context lasts, every backward pass's gradient to the sums, in place.

    Args:
        sums: name of any parameter -> tensor of its dense shape; None collects nothing.
        mode: "square" adds g², one term a backward pass; "plain" adds g.
    """
    if mode not in MODES:
        raise PruneFLError(f"mode={mode!r}, must be one of {', '.join(MODES)}")
    layers, parameters = pruned_layers(model), dict(model.named_parameters())
    with ExitStack() as undo:
        for name, total in (sums or {}).items():
            collection = Collection(total, squared=mode == "square")
            if name in layers:
                _check_shape(name, total, tuple(layers[name].dense_shape))
                undo.callback(setattr, layers[name], "collection", layers[name].collection)
                layers[name].collection = collection
            elif name in parameters:
                _check_shape(name, total, tuple(parameters[name].shape))
                if parameters[name].requires_grad:
                    hook = parameters[name].register_hook(collection.add)
                    undo.callback(hook.remove)
            else:
                raise PruneFLError(f"sums[{name!r}] must name a parameter of the model")
        yield


def _check_shape(name: str, total: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a sum that does not fit its parameter."""
    if tuple(total.shape) != shape:
        raise PruneFLError(f"sums[{name!r}] has shape {tuple(total.shape)}, must be {shape}")
