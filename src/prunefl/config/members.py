"""Which of the clients take part in a run, and how many must."""

from typing import TYPE_CHECKING

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import Config


def check_members(config: "Config") -> None:
    """Refuse a choice of clients that cannot be made, or that would leave too few."""
    chosen, data = config.server.clients, config.data
    count, said = len(chosen) or data.clients, f"server.clients={list(chosen)}"
    if chosen and max(chosen) >= data.clients:
        raise PruneFLError(f"{said}, must be numbers < data.clients={data.clients}")
    if chosen and config.initial.client >= 0 and config.initial.client not in chosen:
        raise PruneFLError(f"initial.client={config.initial.client}, must be one of {said}")
    for name, value in (
        ("training.participants", config.training.participants),
        ("server.min_clients", config.server.min_clients),
    ):
        if value > count:
            most = f"the {count} of {said}" if chosen else f"data.clients={count}"
            raise PruneFLError(f"{name}={value}, must be <= {most}")
