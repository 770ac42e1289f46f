"""How a step is reckoned, as numbers that the kernels take: the same for every backend."""

import math

SgdRule = tuple[float, float, float, float, bool]
"""Rate, momentum, weight decay, scale of the gradient, whether Nesterov looks ahead."""

AdamRule = tuple[float, float, float, float, float, float, float, float]
"""Rate, 1 − β1, β2, 1 − β2, ε, decay in the gradient, factor of the weight, scale.

With c = √(1 − β2^t) the step (rate / (1 − β1^t)) · m / (√v / c + ε) is that of c · rate / (1 − β1^t) and c · ε without
the division by c, which the kernels would do for every weight.
"""


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
    first, root = 1 - beta1**steps, math.sqrt(1 - beta2**steps)
    added, shrink = (0.0, 1 - rate * decay) if decoupled else (decay, 1.0)
    return root * rate / first, 1 - beta1, beta2, 1 - beta2, root * epsilon, added, shrink, scale


def clip_scale(squared_norm: float, clip_norm: float) -> float:
    """Return by what the gradient is multiplied so that its norm is not above the limit, as torch clips."""
    return min(1.0, clip_norm / (math.sqrt(squared_norm) + 1e-6))
