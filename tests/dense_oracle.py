"""The oracle of all local training: dense torch whose weights and gradients are multiplied by the masks."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from prunefl.core.state import Array, SparseState
from prunefl.local import Batch


@dataclass(frozen=True)
class Dense:
    """What dense training came to, by name and in the parameters' own shapes.

    Attributes:
        values: all parameters and float buffers afterwards.
        sums, squares: Σ g and Σ g² of every batch, at all positions.
    """

    values: Mapping[str, Array]
    sums: Mapping[str, Array]
    squares: Mapping[str, Array]
    loss: float


def load_densely(module: nn.Module, state: SparseState) -> nn.Module:
    """Return a plain copy of the module with this state, zero where pruned."""
    model = copy.deepcopy(module)
    dense = {name: torch.tensor(state.dense(name)) for name in state.values}
    missing, unexpected = model.load_state_dict(dense, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    return model.train()


def train_densely(
    module: nn.Module,
    state: SparseState,
    batches: Sequence[Batch],
    rate: float,
    penalty: Callable[[Mapping[str, Tensor]], Tensor] | None = None,
) -> Dense:
    """Return masked SGD, one step a batch.

    Args:
        penalty: from the parameters to a number that is added to the loss, for autograd to differentiate.
    """
    model = load_densely(module, state)
    parameters = dict(model.named_parameters())
    sums = {name: torch.zeros_like(value) for name, value in parameters.items()}
    squares = {name: torch.zeros_like(value) for name, value in parameters.items()}
    losses = []
    for inputs, labels in batches:
        model.zero_grad()
        loss = functional.cross_entropy(model(torch.from_numpy(inputs)), torch.from_numpy(labels))
        losses.append(float(loss.detach()))
        (loss if penalty is None else loss + penalty(parameters)).backward()
        for name, parameter in parameters.items():
            gradient = parameter.grad
            assert gradient is not None
            sums[name] += gradient
            squares[name] += gradient**2
            mask = torch.tensor(state.masks[name]) if name in state.masks else 1
            parameter.data -= rate * gradient * mask
    values = {name: tensor.numpy() for name, tensor in model.state_dict().items() if name in state.values}
    return Dense(
        values,
        {name: total.detach().numpy() for name, total in sums.items()},
        {name: total.detach().numpy() for name, total in squares.items()},
        float(np.mean(losses)),
    )


def gradient_densely(
    module: nn.Module, state: SparseState, batches: Sequence[Batch]
) -> tuple[Mapping[str, Array], float]:
    """Return the mean gradient over the batches at all positions, and the mean loss; no step is taken."""
    still = train_densely(module, state, batches, rate=0.0)
    return {name: total / len(batches) for name, total in still.sums.items()}, still.loss


def assert_close(
    found: Mapping[str, Array], expected: Mapping[str, Array], rtol: float = 1e-4, atol: float = 1e-6
) -> None:
    """Fail where numbers differ by more than sums in another order do."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)
