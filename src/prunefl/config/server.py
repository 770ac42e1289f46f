"""Settings of the server: how it treats updates, whom it asks and how long it waits."""

from dataclasses import dataclass

from prunefl.config.settings import at_least, between, client_numbers, one_of, positive, setting, share


@dataclass(frozen=True)
class ServerSettings:
    """How the server treats updates."""

    aggregate: str = setting("mean", "or trimmed_mean, median", one_of("mean", "trimmed_mean", "median"))
    trim: float = setting(0.1, "share cut at each end by trimmed_mean", between(0.0, 0.5))
    clip_norm: float = setting(0.0, "largest norm of a client's change; 0: any", at_least(0))
    max_change: float = setting(
        5.0,
        "a client's change of more than so many times the median norm of its round is scaled down to it; 0: any",
        at_least(0),
    )
    max_opposition: float = setting(
        0.35,
        "a client whose changes have lately pulled against the others' by more than this (-1 to 1) is left out of the "
        "run, fewer than half of all; 0: nobody",
        between(0.0, 1.0),
    )
    max_statistic: float = setting(
        10.0,
        "importance whose sum is more than so many times the median of its round is left out; 0: any",
        at_least(0),
    )
    quorum: float = setting(0.5, "share of a round's clients without which it is not finished", share())
    deadline: float = setting(600.0, "seconds that a real client has for a round", positive())
    clients: tuple[int, ...] = setting(
        (), "numbers of the clients that take part, such as [0, 3, 5]; []: all", client_numbers()
    )
    min_clients: int = setting(
        0,
        "clients that a run waits for before it begins, and whose updates finish a round; 0: all (after the deadline "
        "a quorum), and a quorum of each round",
        at_least(0),
    )


USUAL_SERVER = ServerSettings()
