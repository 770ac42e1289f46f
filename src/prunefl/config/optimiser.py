"""How gradients become steps, at clients and at the server: settings that are pure data, for any backend to do."""

from dataclasses import dataclass, fields

from prunefl.config.settings import at_least, below_one, one_of, positive, setting
from prunefl.system.errors import PruneFLError

OF_SGD = ("momentum", "nesterov")
OF_ADAM = ("beta1", "beta2", "epsilon")


@dataclass(frozen=True)
class OptimiserSettings:
    """How clients step, on live weights only; as in torch.optim."""

    name: str = setting("sgd", "sgd, adam or adamw", one_of("sgd", "adam", "adamw"))
    momentum: float = setting(0.0, "of sgd", below_one())
    nesterov: bool = setting(False, "of sgd with momentum: look ahead")
    weight_decay: float = setting(0.0, "of sgd and adam: added to the gradient; of adamw: apart", at_least(0))
    beta1: float = setting(0.9, "of adam and adamw: how long the mean gradient is remembered", below_one())
    beta2: float = setting(0.999, "of adam and adamw: how long its square is remembered", below_one())
    epsilon: float = setting(1e-8, "of adam and adamw: added to the root of the square", positive())
    clip_norm: float = setting(0.0, "largest norm of a step's gradient, live weights; 0: any", at_least(0))
    proximal: float = setting(
        0.0, "FedProx: strength of the pull towards the weights received; 0: none", at_least(0)
    )
    keep: bool = setting(
        False, "a client goes on with its moments of the last round it took part in; false: begins anew"
    )

    @property
    def is_plain(self) -> bool:
        """Whether a step is w − rate·g and nothing else: the paper's."""
        return self == PLAIN_SGD

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the moments that are remembered of each live weight."""
        if self.name == "sgd":
            return ("momentum",) if self.momentum else ()
        return ("first", "second")


PLAIN_SGD = OptimiserSettings()


def refuse_foreign_settings(optimiser: OptimiserSettings) -> None:
    """Refuse settings of another optimiser than the one that is named."""
    is_sgd = optimiser.name == "sgd"
    foreign, owner = (OF_ADAM, "adam and adamw") if is_sgd else (OF_SGD, "sgd")
    defaults = {field.name: field.default for field in fields(OptimiserSettings)}
    for key in foreign:
        if (given := getattr(optimiser, key)) != defaults[key]:
            raise PruneFLError(
                f"optimiser.{key}={_toml(given)} is a setting of {owner}, but optimiser.name={optimiser.name!r}"
            )
    if optimiser.nesterov and not optimiser.momentum:
        raise PruneFLError("optimiser.nesterov=true needs optimiser.momentum > 0")
    if optimiser.keep and not optimiser.slots:
        raise PruneFLError("optimiser.keep=true, but sgd without optimiser.momentum has nothing to keep")


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class ServerOptimiserSettings:
    """How the server steps by the clients' mean change; the default takes their mean as it is."""

    name: str = setting(
        "average",
        "average, fedavgm, fedadam or fedyogi",
        one_of("average", "fedavgm", "fedadam", "fedyogi"),
    )
    rate: float = setting(1.0, "learning rate of fedavgm, fedadam, fedyogi", positive())
    momentum: float = setting(0.9, "how long the mean change is remembered", below_one())
    beta2: float = setting(0.99, "of fedadam and fedyogi: how long its square is remembered", below_one())
    tau: float = setting(0.001, "of fedadam and fedyogi: added to the root of the square", positive())

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the moments that are remembered of each live weight."""
        return {"average": (), "fedavgm": ("momentum",)}.get(self.name, ("first", "second"))


PLAIN_AVERAGE = ServerOptimiserSettings()


def refuse_foreign_server_settings(optimiser: ServerOptimiserSettings) -> None:
    """Refuse settings that the named rule does not have."""
    foreign = {"average": ("rate", "momentum", "beta2", "tau"), "fedavgm": ("beta2", "tau")}
    defaults = {field.name: field.default for field in fields(ServerOptimiserSettings)}
    for key in foreign.get(optimiser.name, ()):
        if (given := getattr(optimiser, key)) != defaults[key]:
            raise PruneFLError(
                f"server_optimiser.{key}={given} has no effect with server_optimiser.name={optimiser.name!r}"
            )
