"""Whether a model can be gone on with: what is not sound is never kept, and a real run goes back to what is."""

from collections.abc import Iterable

from prunefl.core.outliers import MOST_NORM, measure_norm
from prunefl.rounds.server import Outcome, ServerState, Setup
from prunefl.system.errors import PruneFLError


class UnsoundError(PruneFLError):
    """The model is beyond use.

    Attributes:
        suspects: clients whose change stood out in the round that it came of.
    """

    def __init__(self, text: str, suspects: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.suspects = frozenset(suspects)


def check_sound(setup: Setup, state: ServerState, outcome: Outcome) -> None:
    """Raise UnsoundError for a model that nobody could train on from."""
    norm = measure_norm(state.sparse)
    if not norm <= MOST_NORM:
        raise UnsoundError(
            f"training diverged in round {state.round}: the model's norm is {norm:.3g}; {find_advice(setup)}",
            outcome.bounded,
        )


def find_advice(setup: Setup) -> str:
    """Return what a user can do about a model that was lost."""
    server = setup.config.server
    if server.max_change:
        return "lower training.learning_rate, or limit what one client can do by server.aggregate"
    return "lower training.learning_rate, or limit what one client can do by server.max_change"
