"""Compare the simulated clock with the compute that clients really spent, on this machine's own device file.

    prunefl profile --model conv2 --classes 10 --out here.toml
    python benchmarks/clock_against_reality.py here.toml

The digits task without a link, clients one after another on one thread. Run it on an otherwise idle machine.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from prunefl import config as settings
from prunefl import data, models
from prunefl.engines.simulator import Simulator
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, Setup, start
from prunefl.runs.api import prepare


class Watched(Simulator):
    """A simulator that keeps what its clients say they spent."""

    spent = 0.0

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        """Yield the replies."""
        for reply in super().carry(state, orders):
            self.spent += reply.seconds
            yield reply


def measure(setup: Setup, engine: Watched) -> None:
    """Print what both clocks say of initial pruning, of the rounds and of all."""
    simulated: dict[str, float] = {"initial pruning": 0.0, "rounds": 0.0}
    real = dict(simulated)
    for state, outcome in run_rounds(setup, start(setup), engine):
        part = "initial pruning" if outcome.segments else "rounds"
        simulated[part] += len(outcome.cohort) * (
            outcome.charge.seconds.compute + outcome.charge.seconds.overhead
        )
        real[part] += engine.spent
        engine.spent = 0.0
        if state.round % 10 == 0:
            print(
                f"round {state.round}: simulated {sum(simulated.values()):.1f} s, spent {sum(real.values()):.1f} s"
            )
    simulated["all"], real["all"] = sum(simulated.values()), sum(real.values())
    for part, seconds in real.items():
        if seconds:
            print(
                f"{part}: simulated {simulated[part]:.1f} s, spent {seconds:.1f} s, {simulated[part] / seconds:.2f}"
            )


def main() -> None:
    """Run the task and print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("device", help="file that prunefl profile wrote")
    parser.add_argument("--method", default="prunefl")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    tables = {
        "run": {"rounds": given.rounds, "method": given.method, "workers": 1},
        "data": {"clients": 5},
        "time": {"device": given.device},
    }
    config = settings.from_tables(tables)
    federation = data.load_configured(config)
    model = models.build_configured(config, federation.classes, federation.input_shape)
    setup = prepare(model, federation, config)
    with tempfile.TemporaryDirectory() as folder, Watched(setup, federation.clients, Path(folder)) as engine:
        measure(setup, engine)


if __name__ == "__main__":
    main()
