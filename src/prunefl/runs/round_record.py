"""How an outcome is written down: the fields of records.jsonl (docs/records.md)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from prunefl import config as settings
from prunefl.config import Config
from prunefl.config.settings import flat
from prunefl.core.objectives import loss_of
from prunefl.rounds.accounting import epsilon_of
from prunefl.rounds.cost import Seconds, Totals
from prunefl.rounds.evaluation import Evaluation
from prunefl.rounds.private import is_private
from prunefl.rounds.scores import Score
from prunefl.rounds.server import Outcome, ServerState, Setup
from prunefl.runs.own_code import digest_own_code
from prunefl.runs.record_types import (
    CostRecord,
    EndRecord,
    EvaluationRecord,
    PrivacyRecord,
    RoundSeconds,
    RunRecord,
    RunTotals,
)
from prunefl.runs.records import (
    Record,
    best_evaluation,
    final_accuracy,
    final_score,
    mean_accuracy,
    score_of,
)
from prunefl.system.machine import describe_machine


def first_record(setup: Setup, state: ServerState, data: str, version: str) -> RunRecord:
    """Return the record that says what run this is; `state` is the one before anything is trained."""
    layers, masks = setup.network.full_masks.sizes, state.sparse.masks
    record: RunRecord = {
        "kind": "run",
        "version": version,
        "method": setup.config.run.method,
        "seed": setup.config.run.seed,
        "config_digest": _digest(setup.config),
        "model": setup.config.model.name,
        "data": data,
        "cut": setup.cut,
        "prunable": sum(layers.values()),
        "parameters": setup.network.parameters,
        "layers": layers,
        "live": masks.counts,
        "clients": len(setup.devices),
        "devices": [device.name for device in setup.devices],
        "backend": "torch" if setup.network.plan is None else "native",
        "device_notes": {device.name: device.note for device in setup.devices if device.note},
        "shapes": {name: list(shape) for name, shape in setup.network.template.layers.items()},
        "started": datetime.now(UTC).isoformat(" ", "seconds").replace("+00:00", " UTC"),
        "machine": describe_machine(),
    }
    if (metric := loss_of(setup.config).metric) != "accuracy":
        record["metric"] = metric
    if own_code := digest_own_code(setup.config):
        record["own_code"] = own_code
    return record


def _digest(config: Config) -> str:
    """Return a name for the settings that decide a run's numbers, but for how many rounds it has so far."""
    free = {*settings.free_settings("to resume"), "run.rounds"}
    kept = {key: value for key, value in flat(settings.as_dict(config)).items() if key not in free}
    return hashlib.blake2b(json.dumps(kept).encode(), digest_size=8).hexdigest()


def outcome_record(
    setup: Setup, state: ServerState, outcome: Outcome, wall: float, total_wall: float
) -> Record:
    """Return the record of initial pruning or of a round; `state` is the one after it."""
    charge, masks = outcome.charge, state.sparse.masks
    common: CostRecord = {
        "seconds": _seconds(charge.seconds),
        "bytes_up": charge.bytes_up,
        "bytes_down": charge.bytes_down,
        "flops": charge.flops,
        "wall_seconds": wall,
        "density": masks.density,
        "live": masks.counts,
        "total": _totals(state.totals, total_wall),
    }
    if outcome.round == 0:
        own: Record = {"kind": "initial", "client": outcome.notes.get("client", outcome.cohort[0])}
    else:
        own = {
            "kind": "round",
            "round": outcome.round,
            "reconfigured": outcome.reconfigured,
            "predicted_seconds": setup.time_model.seconds(masks.counts),
            "clients": list(outcome.cohort),
            "refused": {str(client): reason for client, reason in outcome.refused.items()},
        }
        if outcome.loss is not None:
            own["loss"] = outcome.loss
        if is_private(setup.config):
            own["privacy"] = privacy_record(setup.config, state)
    if outcome.bounded:
        own["bounded"] = {str(client): words for client, words in outcome.bounded.items()}
    if outcome.opponents:
        own["left_out"] = {str(client): words for client, words in outcome.opponents.items()}
    if outcome.secure is not None:
        own["secure"] = asdict(outcome.secure)
    if outcome.evaluation is not None:
        own["evaluation"] = evaluation_record(outcome.evaluation)
    # a method's notes stand beside what every record says, never in its place
    notes = {"collected": False, **outcome.notes} if outcome.round else outcome.notes
    return own | {key: note for key, note in notes.items() if key not in own} | dict(common)


def privacy_record(config: Config, state: ServerState) -> PrivacyRecord:
    """Return what the run has spent of its budget."""
    spent, delta = state.spent, config.privacy.delta
    return {"epsilon": epsilon_of(spent.ledger, delta), "delta": delta, "clip": spent.clip}


def evaluation_record(found: Evaluation) -> EvaluationRecord:
    """Return what a round's record says of the evaluation at clients."""
    record: EvaluationRecord = {
        "clients": found.clients,
        "samples": found.samples,
        "accuracy": found.accuracy,
        "loss": found.loss,
        "client_accuracy": found.client_accuracy,
        "by_client": _counts(found.scores),
        "refused": {str(client): reason for client, reason in found.refused.items()},
        "seconds": _seconds(found.charge.seconds),
        "bytes_up": found.charge.bytes_up,
        "bytes_down": found.charge.bytes_down,
        "flops": found.charge.flops,
    }
    if (worst := found.worst_tenth) is not None:
        record["worst_tenth"] = worst
    if found.summed_personal is not None:
        record["personal_accuracy"] = found.summed_personal.accuracy
    if found.personal:
        record["personal"] = _counts(found.personal)
    return record


def _counts(scores: Mapping[int, Score]) -> dict[str, list[int]]:
    return {str(client): [score.right, score.samples] for client, score in scores.items()}


def _seconds(spent: Seconds) -> RoundSeconds:
    return {
        "compute": spent.compute,
        "download": spent.download,
        "upload": spent.upload,
        "overhead": spent.overhead,
        "total": spent.total,
    }


def _totals(totals: Totals, wall: float) -> RunTotals:
    return {
        "seconds": totals.seconds,
        "bytes_up": totals.bytes_up,
        "bytes_down": totals.bytes_down,
        "flops": totals.flops,
        "wall_seconds": wall,
    }


def without_repeats(record: Record, previous: Mapping[str, int] | None) -> Record:
    """Return the record without layer counts that are the same as before: 10,000 rounds add up."""
    if record.get("live") == previous:
        return {key: value for key, value in record.items() if key != "live"}
    return record


def end_record(records: list[Record], state: ServerState, keeps_best: bool) -> EndRecord:
    """Return the record that closes a finished run."""
    record: EndRecord = {
        "kind": "end",
        "rounds": state.round,
        "accuracy": final_accuracy(records),
        "mean_accuracy": mean_accuracy(records),
        "density": state.sparse.masks.density,
    }
    if record["accuracy"] is None and (score := final_score(records)) is not None:
        record["score"] = score
    best = best_evaluation(records) if keeps_best else None
    if best is not None:
        record["best_round"], record["best_score"] = best["round"], score_of(best) or 0.0
    return record
