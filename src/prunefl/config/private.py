"""What does not go with privacy: a sum hides what each client says, and noise needs a bound on what one client does."""

from typing import TYPE_CHECKING, Any

from prunefl.config.privacy import OPEN
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import Config

LEAST_CLIENTS = 3
"""In a secure sum: of two, each knows the other's update."""

NEEDED: tuple[tuple[str, Any, str], ...] = (
    ("training.weighting", "uniform", "weights by samples have no bound"),
    ("server.aggregate", "mean", "noise is made for a mean, and a median tells of single clients"),
    ("server.clip_norm", 0.0, "privacy.clip is the bound"),
    ("server.max_change", 0.0, "held to the cohort's median, one client changes what the others count for"),
    ("server.max_opposition", 0.0, "left out for pulling against others, one client tells of them"),
    (
        "server.max_statistic",
        0.0,
        "held to the cohort's median, one client changes what the others count for",
    ),
    ("importance.window", 1, "what a client carries from round to round is not covered"),
    ("optimiser.keep", False, "what a client carries from round to round is not covered"),
    ("wire.precision", "float32", "what rounding keeps back is carried from round to round"),
    ("evaluation.share", 0.0, "scores of single clients would leave them without noise"),
    ("time.refit", False, "round times of single clients would leave them without noise"),
)
"""Setting, the value that it must have with privacy.noise, and why."""


IDLE = (
    ("secure", "privacy.secure=true", ("neighbours",)),
    ("hides", "privacy.secure=true or privacy.noise > 0", ("initial", "public")),
    (
        "noise",
        "privacy.noise > 0; `prunefl privacy CONFIG privacy.noise=1` says what a noise promises",
        ("clip", "quantile", "epsilon", "delta"),
    ),
)
"""Setting of privacy, how it must be, and those that would do nothing without it."""


def refuse_open_clients(config: "Config") -> None:
    """Refuse, where privacy hides single clients, what would show them; where it does not, what would do nothing."""
    privacy = config.privacy
    for switch, needed, idle in IDLE:
        for name in () if getattr(privacy, switch) else idle:
            if (value := getattr(privacy, name)) != getattr(OPEN, name):
                raise PruneFLError(f"privacy.{name}={value!r} needs {needed}")
    if (privacy.initial == "server") != bool(privacy.public):
        raise PruneFLError(
            f"privacy.initial={privacy.initial!r} and privacy.public={privacy.public!r}: initial pruning at the server "
            "needs 'server' and a folder or file of its own samples"
        )
    if privacy.secure:
        _refuse_single_updates(config)
        _refuse_few(config)
    if privacy.noise:
        _refuse_unbounded(config)


def _refuse_single_updates(config: "Config") -> None:
    """Refuse what needs single updates, where the server sees sums alone."""
    server = config.server
    if server.aggregate != "mean":
        raise PruneFLError(
            f"server.aggregate={server.aggregate!r} looks at single updates, must be 'mean' with privacy.secure=true"
        )
    for name in ("clip_norm", "max_change", "max_opposition", "max_statistic"):
        if getattr(server, name):
            raise PruneFLError(
                f"server.{name}={getattr(server, name):g} looks at single updates, must be 0 with privacy.secure=true"
            )


def _refuse_few(config: "Config") -> None:
    """Refuse cohorts that are too small; how many clients there are may not be known yet."""
    privacy, members = config.privacy, len(config.server.clients) or config.data.clients
    for name, count in (
        ("training.participants", config.training.participants),
        ("server.clients: number of clients" if config.server.clients else "data.clients", members),
    ):
        if 0 < count < LEAST_CLIENTS:
            raise PruneFLError(
                f"{name}={count}, must be >= {LEAST_CLIENTS} with privacy.secure=true: the sum of two tells each of "
                "them the other's update"
            )
    cohort = config.training.participants or members
    if cohort and privacy.neighbours >= cohort:
        raise PruneFLError(
            f"privacy.neighbours={privacy.neighbours}, must be < {cohort}, the clients of a round"
        )


def _refuse_unbounded(config: "Config") -> None:
    """Refuse, all in one line, what would break the promise of noise."""
    given = {f"{section}.{key}": getattr(getattr(config, section), key) for section, key in _split()}
    wrong = [(name, value, why) for name, value, why in NEEDED if given[name] != value]
    if wrong:
        wanted = " ".join(f"{name}={_spoken(value)}" for name, value, _ in wrong)
        whys = "; ".join(dict.fromkeys(why for _, _, why in wrong))
        raise PruneFLError(f"privacy.noise={config.privacy.noise:g} needs {wanted} ({whys})")


def _split() -> list[tuple[str, str]]:
    return [(section, key) for section, _, key in (name.partition(".") for name, _, _ in NEEDED)]


def _spoken(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
