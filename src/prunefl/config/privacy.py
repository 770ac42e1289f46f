"""Settings of privacy: what the server, and whoever sees the model, may learn of one client."""

from dataclasses import dataclass

from prunefl.config.settings import Rule, at_least, below_one, one_of, positive, setting


def more_than_half() -> Rule:
    return Rule(
        lambda value: 0.5 < value <= 1.0, "must be > 0.5 and <= 1: less would let the server unmask twice"
    )


def ring() -> Rule:
    return Rule(
        lambda value: value == 0 or (value >= 4 and value % 2 == 0), "must be 0 or an even number >= 4"
    )


@dataclass(frozen=True)
class PrivacySettings:
    """What the server, and whoever sees the model, may learn of one client."""

    secure: bool = setting(
        False, "secure aggregation: the server learns the sum of a round's updates, and no update"
    )
    threshold: float = setting(
        2 / 3,
        "with secure: share of a round's clients that must remain, and never fewer than three; clients insist on it",
        more_than_half(),
    )
    neighbours: int = setting(
        0, "with secure: clients that each one masks with, for cohorts of 30 and more; 0: all", ring()
    )
    initial: str = setting(
        "skip",
        "with secure or noise, in place of initial pruning at one client, whose model would be seen: skip it; rounds: "
        "the first initial.max_passes rounds choose masks anew every initial.interval, by their sums; or server: on "
        "samples of its own, privacy.public",
        one_of("skip", "rounds", "server"),
    )
    public: str = setting(
        "",
        "with initial=server: folder or file of the server's own samples, which need no hiding",
        free="to resume",
    )
    noise: float = setting(
        0.0,
        "differential privacy for each client: Gaussian noise on a round's sum, in multiples of clip; added by the "
        "server or, with secure, by each client in shares; 0: none",
        at_least(0),
    )
    clip: float = setting(
        1.0, "with noise: largest norm of a client's change; with quantile, that of round 1", positive()
    )
    quantile: float = setting(
        0.0,
        "with noise: clip follows the norm below which this share of the clients' changes is; 0: it stays",
        below_one(),
    )
    epsilon: float = setting(
        0.0, "with noise: the budget; a round that would exceed it is not begun; 0: counted only", at_least(0)
    )
    delta: float = setting(
        1e-5,
        "with noise: the chance that epsilon does not hold; less than one in so many clients",
        Rule(lambda value: 0 < value < 1, "must be > 0 and < 1"),
    )

    @property
    def hides(self) -> str:
        """The setting that hides single clients, as it was given; "" if none does."""
        return "privacy.secure=true" if self.secure else f"privacy.noise={self.noise:g}" if self.noise else ""


OPEN = PrivacySettings()
