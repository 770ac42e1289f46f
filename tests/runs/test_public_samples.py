"""Initial pruning on the server's own samples, where no client's model may be seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunefl import config as settings
from prunefl.data import load
from prunefl.engines.flower.handshake import without_servers_own
from prunefl.methods import build_method
from prunefl.runs.api import run_config
from prunefl.system.errors import PruneFLError

SAMPLES = 100


def save_public(path: Path, samples: int = SAMPLES) -> Path:
    """Write digits of nobody's as a file; none of the run's clients needs to have them."""
    images = load("digits", partition="iid", clients=2).clients[0]
    inputs, labels = images.batch(np.arange(600))
    pixels = np.rint(np.asarray(inputs) * 255).astype(np.uint8)[:samples]
    np.savez(path, x_train=pixels, y_train=labels[:samples])
    return path


def config_with(public: str, **privacy: Any):
    return settings.from_tables(
        {
            "run": {"rounds": 2, "eval_every": 2, "workers": 1, "method": "prunefl"},
            "data": {"name": "digits", "partition": "iid", "clients": 4},
            "model": {"name": "lenet300100"},
            "training": {"local_steps": 2, "learning_rate": 0.1, "weighting": "uniform"},
            "initial": {"samples": 60, "interval": 2, "max_passes": 6, "start_factor": 0},
            "server": {"max_change": 0, "max_opposition": 0, "max_statistic": 0},
            "privacy": {"initial": "server", "public": public, **privacy},
        }
    )


@pytest.mark.parametrize(
    "privacy", [{"secure": True}, {"noise": 0.01, "delta": 1e-2}], ids=["secure", "noise"]
)
def test_the_server_prunes_first_on_its_own_samples_and_sends_nothing_for_it(privacy, tmp_path: Path) -> None:
    public = save_public(tmp_path / "public.npz")
    run = run_config(config_with(str(public), **privacy), tmp_path / "run")
    first = next(record for record in run.records if record["kind"] == "initial")
    assert (first["client"], first["bytes_up"], first["bytes_down"]) == (-1, 0, 0)
    assert first["density"] < 1.0
    assert first["segments"][0]["steps"] > 0
    assert first["seconds"]["compute"] > 0
    assert first["seconds"]["download"] == first["seconds"]["upload"] == 0
    if "noise" in privacy:
        told = [record["privacy"]["epsilon"] for record in run.records if record["kind"] == "round"]
        skipped = config_with(str(public), **privacy)
        skipped = replace(skipped, privacy=replace(skipped.privacy, initial="skip", public=""))
        other = run_config(skipped, tmp_path / "other")
        # samples that are nobody's cost no budget
        assert told == [record["privacy"]["epsilon"] for record in other.records if record["kind"] == "round"]


@pytest.mark.parametrize(
    ("privacy", "rule"),
    [
        ({"initial": "server", "public": ""}, "initial pruning at the server needs 'server' and a folder"),
        ({"initial": "skip"}, "privacy.initial='skip' and privacy.public="),
        ({"secure": False}, "privacy.initial='server' needs privacy.secure=true or privacy.noise > 0"),
    ],
)
def test_the_two_settings_need_each_other_and_something_to_hide(privacy, rule: str) -> None:
    with pytest.raises(PruneFLError) as caught:
        config_with(privacy.pop("public", "some/where"), **{"secure": True, **privacy})
    assert rule in str(caught.value)


def test_too_few_samples_or_none_are_refused_by_name(tmp_path: Path) -> None:
    few = save_public(tmp_path / "few.npz", 20)
    with pytest.raises(PruneFLError, match=r"initial.samples=60, must be <= 20, what privacy.public="):
        run_config(config_with(str(few), secure=True), tmp_path / "run")
    with pytest.raises(PruneFLError, match=r"privacy.public='.*nowhere': .*no such folder or file"):
        run_config(config_with(str(tmp_path / "nowhere"), secure=True), tmp_path / "other")


def test_initial_only_is_refused_where_nothing_would_prune() -> None:
    config = config_with("some/where", secure=True)
    only = replace(config, run=replace(config.run, method="initial-only"))
    build_method(only)
    for initial, fits in (("skip", False), ("rounds", True)):
        chosen = replace(only, privacy=replace(only.privacy, initial=initial, public=""))
        if fits:
            build_method(chosen)
            continue
        with pytest.raises(PruneFLError, match=r"'initial-only' would prune by no data at all"):
            build_method(chosen)


def test_clients_are_told_that_the_server_prunes_first_and_not_where_its_samples_are() -> None:
    told = without_servers_own(config_with("/srv/public", secure=True)).privacy
    assert (told.initial, told.public) == ("server", "at the server")
