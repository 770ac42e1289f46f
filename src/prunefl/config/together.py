"""Settings that are right alone and wrong together."""

from typing import TYPE_CHECKING

from prunefl.config.losses import refuse_misfits
from prunefl.config.members import check_members
from prunefl.config.optimiser import refuse_foreign_server_settings, refuse_foreign_settings
from prunefl.config.private import refuse_open_clients
from prunefl.config.transforms import refuse_odd_transforms
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import Config


def check_together(config: "Config") -> None:
    """Refuse values that are right alone and wrong together."""
    data, pruning = config.data, config.pruning
    refuse_foreign_settings(config.optimiser)
    refuse_foreign_server_settings(config.server_optimiser)
    refuse_misfits(config)
    _check_rates(config)
    refuse_odd_transforms(config)
    refuse_open_clients(config)
    if pruning.density_target and pruning.density_limit and pruning.density_target > pruning.density_limit:
        raise PruneFLError(
            f"pruning.density_target={pruning.density_target}, "
            f"must be <= pruning.density_limit={pruning.density_limit}"
        )
    if config.evaluation.personal_steps and not config.evaluation.share:
        raise PruneFLError(
            f"evaluation.personal_steps={config.evaluation.personal_steps} needs evaluation.share > 0: "
            "samples on which personal models are evaluated"
        )
    if sum(not entry.count for entry in config.fleet) > 1:
        raise PruneFLError(
            "fleet: count=0 takes the clients that the others leave, only one group can have it"
        )
    if not data.clients:
        return  # not known before the data is: `settled` asks again
    if config.initial.client >= data.clients:
        raise PruneFLError(f"initial.client={config.initial.client}, must be < data.clients={data.clients}")
    check_members(config)
    if config.fleet and sum(config.fleet_counts()) != data.clients:
        held = sum(entry.count for entry in config.fleet)
        raise PruneFLError(f"fleet: counts add up to {held}, must equal data.clients={data.clients}")


def _check_rates(config: "Config") -> None:
    """Refuse rates of two schedules at once, a warm-up that never ends, and steps that are not known beforehand."""
    training = config.training
    if training.local_epochs and config.time.refit:
        raise PruneFLError("time.refit=true needs equal steps at all clients, must be without local_epochs")
    if training.local_epochs and training.local_steps != type(training).local_steps:
        raise PruneFLError(
            f"training.local_steps={training.local_steps} has no effect with "
            f"training.local_epochs={training.local_epochs}: leave one of them out"
        )
    if training.schedule == "cosine" and training.decay != 1.0:
        raise PruneFLError(f"training.decay={training.decay} has no effect with training.schedule='cosine'")
    if training.schedule != "cosine" and training.final_rate:
        raise PruneFLError(f"training.final_rate={training.final_rate} needs training.schedule='cosine'")
    if config.initial.warmup_passes >= config.initial.max_passes:
        raise PruneFLError(
            f"initial.warmup_passes={config.initial.warmup_passes}, "
            f"must be < initial.max_passes={config.initial.max_passes}"
        )
    if training.warmup_rounds >= config.run.rounds:
        raise PruneFLError(
            f"training.warmup_rounds={training.warmup_rounds}, must be < run.rounds={config.run.rounds}"
        )
