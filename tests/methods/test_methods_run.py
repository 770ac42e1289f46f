"""Every method runs through the real round: server, bytes, clients, aggregation."""

import math
from pathlib import Path
from typing import Any

import pytest

from prunefl.methods import known
from prunefl.runs.api import train
from prunefl.runs.runner import Run
from tasks import small_clients, small_config, small_data, small_model

FIXED = (
    "snip",
    "synflow",
    "erk",
    "set",
    "rigl",
    "feddst",
    "dpf",
    "iterative",
    "ssfl",
    "magnitude",
    "fedrts",
    "fedmef",
)


def run(method: str, out: Path | None = None, **pruning: Any) -> Run:
    config = small_config(run={"method": method, "rounds": 8}, pruning={"interval": 2, **pruning})
    return train(small_model(), small_clients(), test=small_data(80, 99), config=config, out=out)


def rounds(finished: Run) -> list[dict[str, Any]]:
    return [record for record in finished.records if record["kind"] == "round"]


@pytest.mark.parametrize("method", [name for name in known() if name != "ticket"])
def test_every_method_learns_something_and_keeps_its_numbers_finite(method: str) -> None:
    finished = run(method, **({"density": 0.3} if known()[method].needs_density else {}))
    losses = [record["loss"] for record in rounds(finished)]
    assert all(map(math.isfinite, losses))
    assert min(losses[4:]) < losses[0]


@pytest.mark.parametrize("method", FIXED)
def test_fixed_methods_end_at_exactly_their_density(method: str) -> None:
    finished = run(method, density=0.25)
    masks = finished.state.masks
    by_layer = sum(max(1, round(0.25 * size)) for size in masks.sizes.values())
    assert sum(masks.counts.values()) == (by_layer if method == "iterative" else round(0.25 * masks.size))


def test_dpf_uploads_full_size_and_downloads_pruned() -> None:
    """1 + d of the full model, beside the few bytes that say where the live weights are."""
    full, last = rounds(run("conventional"))[-1], rounds(run("dpf", density=0.1))[-1]
    assert last["bytes_up"] == pytest.approx(full["bytes_up"], rel=0.01)
    assert 0.1 < last["bytes_down"] / full["bytes_down"] < 0.2


def test_snip_pays_for_a_full_first_round_and_its_gradient_then_for_the_pruned_model() -> None:
    first, second, *_ = rounds(run("snip", density=0.1))
    assert first["bytes_up"] > 1.9 * first["bytes_down"]
    assert second["bytes_up"] < 0.2 * first["bytes_down"]


def test_a_ticket_trains_under_the_final_masks_of_another_run(tmp_path: Path) -> None:
    parent = run("snip", tmp_path, density=0.2)
    ticket = run("ticket", masks=str(tmp_path))
    assert ticket.state.masks == parent.state.masks
    assert len({record["density"] for record in rounds(ticket)}) == 1


def test_prunetrain_is_charged_for_its_regulariser() -> None:
    plain, charged = rounds(run("conventional"))[0], rounds(run("prunetrain"))[0]
    assert charged["seconds"]["compute"] / plain["seconds"]["compute"] == pytest.approx(17.65 / 11.24)
    # 3 local steps, 8 operations a weight: 8 * 9 + 32 * 128 + 4 * 32 weights
    assert charged["flops"] - plain["flops"] == pytest.approx(3 * 8 * (72 + 4096 + 128))
    assert charged["bytes_up"] == plain["bytes_up"]
