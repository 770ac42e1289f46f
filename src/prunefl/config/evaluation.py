"""Settings of evaluation at the clients."""

from dataclasses import dataclass

from prunefl.config.settings import at_least, below_one, setting


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation at the clients, on samples of their own that they never train on."""

    share: float = setting(
        0.0, "share of its samples that each client holds out and evaluates on; 0: none", below_one()
    )
    personal_steps: int = setting(
        0,
        "steps that each client trains the final model on its own samples, for itself; 0: none",
        at_least(0),
    )


NOWHERE = EvaluationSettings()
