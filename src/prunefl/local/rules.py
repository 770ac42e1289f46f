"""How a step is reckoned, as numbers that the kernels take: the same for every backend."""

import math

SgdRule = tuple[float, float, float, float, bool]
"""Rate, momentum, weight decay, scale of the gradient, whether Nesterov looks ahead."""

AdamRule = tuple[float, float, float, float, float, float, float, float, float]
"""Rate over 1 − β1^t, 1 − β1, β2, 1 − β2, √(1 − β2^t), ε, decay in the gradient, factor of the weight, scale."""


def adam_rule(
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
    decoupled: bool,
    steps: int,
    scale: float,
) -> AdamRule:
    """Return step number `steps`, the first being 1, of Adam; of AdamW where decay is decoupled."""
    beta1, beta2 = betas
    first, second = 1 - beta1**steps, 1 - beta2**steps
    added, shrink = (0.0, 1 - rate * decay) if decoupled else (decay, 1.0)
    return rate / first, 1 - beta1, beta2, 1 - beta2, math.sqrt(second), epsilon, added, shrink, scale


def clip_scale(squared_norm: float, clip_norm: float) -> float:
    """Return by what the gradient is multiplied so that its norm is not above the limit, as torch clips."""
    return min(1.0, clip_norm / (math.sqrt(squared_norm) + 1e-6))
