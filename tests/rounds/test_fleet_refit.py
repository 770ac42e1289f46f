"""The server corrects its time model from reported seconds, and a memory limit limits the model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prunefl import devices
from prunefl.core.masks import Counts
from prunefl.core.memory import Memory
from prunefl.core.refit import Evidence, fitted, observe
from prunefl.core.time_model import fleet_time
from prunefl.data import Federation
from prunefl.devices import device_time
from prunefl.engines.simulator import Simulator
from prunefl.methods import Method, Received, Steps, Work
from prunefl.methods.base import Numbers
from prunefl.methods.prunefl import Collect
from prunefl.rounds.collected import Collected
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import Order
from prunefl.rounds.refit import fleet_time_model, observe_round
from prunefl.rounds.server import ServerState, Setup, start
from prunefl.runs import checkpoint
from prunefl.runs.api import train
from tasks import (
    small_clients,
    small_config,
    small_data,
    small_federation,
    small_model,
    small_network,
    small_setup,
)

FEDERATION = small_federation()


def a_setup(**sections: Any) -> Setup:
    return small_setup(FEDERATION, small_config(**sections))


def after_rounds(setup: Setup, federation: Federation, folder: Path, rounds: int) -> ServerState:
    with Simulator(setup, federation.clients, folder) as engine:
        for k, (state, _) in enumerate(run_rounds(setup, start(setup), engine)):
            if k == rounds:
                return state
    raise AssertionError("too few rounds")


def device_file(folder: Path, dense: int, sparse: int, per_weight: float) -> Path:
    path = folder / "small.toml"
    path.write_text(
        "[[model]]\nname = 'small'\nbatch = 20\nconstant = 0.1\nweights = [72, 4096, 128]\n"
        "positions = [64, 1, 1]\nper_weight = [1e-5, 1e-5, 1e-5]\ndense_step = 0.2\n"
        f"dense_bytes = {dense}\nsparse_bytes = {sparse}\nbytes_per_weight = {per_weight}\n"
    )
    return path


def test_reported_seconds_correct_the_time_model_and_survive_a_checkpoint(tmp_path: Path) -> None:
    path = device_file(tmp_path, 60_000, 10_000, 10.0)
    path.write_text(path.read_text().replace("constant = 0.1", "constant = 50.0").replace("= 0.2", "= 60.0"))
    setup = a_setup(time={"refit": True, "device": str(path)})
    state = after_rounds(setup, FEDERATION, tmp_path / "clients", 5)
    assert list(state.evidence) == [0]  # one kind of device
    assert state.evidence[0].rounds > 4
    live = state.sparse.masks.counts
    assert setup.time_model.seconds(live) > 150  # three steps, says the wrong profile
    assert (
        0 < fleet_time_model(setup, state).seconds(live) < 5
    )  # this little network trains in no time anywhere
    checkpoint.save(tmp_path / "kept", state, {"record_bytes": 0})
    loaded = checkpoint.load_latest(tmp_path / "kept", 0)
    assert loaded is not None
    assert loaded.state.evidence == state.evidence
    assert fleet_time_model(setup, loaded.state) == fleet_time_model(setup, state)


def test_without_refit_the_profile_stands(tmp_path: Path) -> None:
    setup = a_setup()
    state = after_rounds(setup, FEDERATION, tmp_path / "clients", 3)
    assert state.evidence == {}
    assert fleet_time_model(setup, state) is setup.time_model


NEAR_AND_FAR = [{"device": "raspberry-pi-4", "count": 3}, {"device": "raspberry-pi-4", "latency": 2.0}]


def observed(
    setup: Setup, seconds: Mapping[int, float], work: Work | None = None, round: int = 1
) -> Mapping[int, Evidence]:
    """Return the evidence after a round in which clients measured these seconds and sent 40 bytes each."""
    first = setup.network.first
    updates = [Received(client, 1 / len(seconds), first, {}) for client in seconds]
    told = {update.client: update.numbers for update in updates}
    got = Collected(updates, None, 0.0, seconds, dict.fromkeys(seconds, (40,)), {}, participants=told)
    orders = {client: Order(round, 0.1, b"x" * 100, work or Collect()) for client in seconds}
    return observe_round(setup, ServerState(first, round - 1, Memory()), orders, got)


def test_each_kind_of_device_has_evidence_of_its_own_under_its_first_client() -> None:
    setup = a_setup(time={"refit": True}, fleet=NEAR_AND_FAR)
    found = observed(setup, {1: 5.0, 2: 7.0, 3: 9.0})
    assert {kind: evidence.rounds for kind, evidence in found.items()} == {0: 2, 3: 1}
    # what is observed is what the client computed, and what the link takes by its file
    far, live = setup.devices[3], setup.network.full_masks.counts
    total = 9.0 + far.link.download_seconds(100) + far.link.upload_seconds(40) + far.overhead
    assert found[3] == observe(Evidence(), device_time(far, setup.config), live, total)
    assert total > 9.0 + 4.0


@pytest.mark.parametrize(
    ("seconds", "work", "round"),
    [(0.0, Collect(), 1), (-1.0, Collect(), 1), (5.0, Collect(collect=True), 1), (5.0, Collect(), 0)],
)
def test_what_says_nothing_of_ordinary_rounds_is_no_evidence(seconds: float, work: Work, round: int) -> None:
    setup = a_setup(time={"refit": True})
    assert observed(setup, {1: 5.0}) != {}
    assert observed(setup, {1: seconds}, work, round) == {}


def test_with_a_window_of_all_rounds_those_that_compute_full_gradients_are_the_ordinary_ones() -> None:
    setup = a_setup(time={"refit": True}, importance={"window": "all"})
    assert observed(setup, {1: 5.0}, Collect()) == {}
    assert list(observed(setup, {1: 5.0}, Collect(collect=True))) == [0]


def test_a_method_that_computes_something_beside_its_steps_tells_nothing_of_them() -> None:
    class Beside(Method):
        def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
            return [Steps(3, live), Steps(1, live)]

    setup = a_setup(time={"refit": True})
    setup = replace(setup, method=Beside(setup.config))
    assert observed(setup, {1: 5.0}, Work()) == {}


def test_a_fleet_is_corrected_device_by_device() -> None:
    """The far one, which everybody waits for, took eight seconds and not four; of the near ones nothing is known."""
    setup = a_setup(time={"refit": True}, fleet=NEAR_AND_FAR)
    first = setup.network.first
    state = ServerState(first, 1, Memory(), evidence=observed(setup, {3: 4.0}))
    live, sizes = first.masks.counts, first.masks.sizes
    near, far = (device_time(setup.devices[client], setup.config) for client in (0, 3))
    corrected = fleet_time_model(setup, state)
    assert corrected == fleet_time([near, fitted(state.evidence[3], far)], sizes)
    assert setup.time_model.seconds(live) == pytest.approx(4.0, abs=0.1)
    assert corrected.seconds(live) == pytest.approx(8.0, abs=0.2)


def test_a_memory_limit_is_a_density_limit(tmp_path: Path) -> None:
    path = str(device_file(tmp_path, 60_000, 10_000, 10.0))
    config = small_config(time={"device": path, "memory_limit": 18_592})
    run = train(small_model(), small_clients(), test=small_data(40, 99), config=config)
    assert run.state.masks.density == pytest.approx(0.2, abs=1e-3)
    densities = [record["density"] for record in run.records if record["kind"] == "round"]
    assert len(densities) == 8
    assert max(densities) <= 0.2
    roomy = a_setup(time={"device": path, "memory_limit": 70_000})
    assert roomy.config.pruning.density_limit == 0


def test_a_memory_limit_needs_a_measured_device() -> None:
    with pytest.raises(
        ValueError, match=r"time.memory_limit=1000, but raspberry-pi-4 has no memory measured"
    ):
        a_setup(time={"memory_limit": 1000})


def test_positions_of_the_little_model_are_what_the_file_says() -> None:
    shape = devices.shape_of(small_network())
    assert list(shape.positions.values()) == [64, 1, 1]
    assert list(shape.weights.values()) == [72, 4096, 128]
    assert shape.unpruned == 8 + 32 + 4
