"""What a config promises about privacy, before it is run: epsilon, and who sees what."""

from typing import Any

from prunefl.config import Config
from prunefl.core.ledger import Ledger
from prunefl.core.memory import Memory
from prunefl.core.time_model import LinearTime
from prunefl.methods import build_method
from prunefl.rounds.accounting import bound_epsilon, epsilon_of
from prunefl.rounds.private import check_budget, release_of
from prunefl.system.errors import PruneFLError

EVERY_UPDATE = "every client's model, loss, number of samples and importance, as they are"
CLIPPED = "every client's change, clipped, and its importance: the server is trusted with both"
SUM = "the sum of a round's updates, and no update"
NOISED_SUM = (
    "the sum of a round's updates with noise in it, and who is in it; no update, loss or number of samples"
)
NOISED = "models, masks and records: noised before they are made"
INITIAL = {
    "skip": "skipped: the model of one client cannot be hidden in a sum",
    "rounds": "by the sums of the first rounds, which count like all others",
    "server": "on the server's own samples, which cost no budget and are not hidden",
}


def describe_promise(config: Config) -> dict[str, Any]:
    """Return, as JSON, what the config promises.

    Raises:
        PruneFLError: it could not be run: its budget cannot be kept, or its method looks at single clients.
    """
    privacy, method = config.privacy, build_method(config)
    found: dict[str, Any] = {
        "noise": privacy.noise,
        "epsilon": None,
        "delta": None,
        "who_sees": _who_sees(config),
    }
    if not privacy.noise:
        return found
    clients = len(config.server.clients) or config.data.clients
    if not clients:
        raise PruneFLError(
            "data.clients=0, must be given: how many clients there are decides what noise hides"
        )
    works = [method.work(n, Memory(), LinearTime(0.0, {})) for n in range(1, config.run.rounds + 1)]
    releases = [release_of(config, clients, work) for work in works]
    check_budget(config, clients, Ledger(), releases)
    ledger = Ledger().plus(releases)
    return found | {
        "epsilon": epsilon_of(ledger, privacy.delta),
        "delta": privacy.delta,
        "budget": privacy.epsilon or None,
        "clients": clients,
        "cohort": releases[0].cohort,
        "rounds": config.run.rounds,
        "rounds_with_importance": sum(bool(work.report) for work in works),
        "clip": privacy.clip,
        "quantile": privacy.quantile or None,
        "neighbours": "all the data of one client is replaced by any other",
        "initial_pruning": INITIAL[privacy.initial],
        **({"epsilon_with_known_cohorts": bound_epsilon(ledger, privacy.delta)} if privacy.secure else {}),
    }


def _who_sees(config: Config) -> dict[str, str]:
    """Return, of everybody who sees something, what it is."""
    noised = config.privacy.noise > 0
    server = CLIPPED if noised else EVERY_UPDATE
    if config.privacy.secure:
        server = NOISED_SUM if noised else SUM
    others = NOISED if noised else "the model of every round, exact: what it tells of one client has no bound"
    return {
        "the server": server,
        "the clients": others,
        "whoever is given the model or the records": others,
    }
