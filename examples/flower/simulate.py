"""The same rounds under Flower's simulation: Ray spreads the clients over the cores of a machine or a cluster.

Run: pip install 'prunefl[flower]' 'flwr[simulation]'
     python examples/flower/simulate.py configs/flower.toml runs/ray
"""

import sys
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from prunefl import config as settings
from prunefl.engines.flower.client_app import app as client_app
from prunefl.engines.flower.server_app import RunOptions
from prunefl.runs.federation import run

config, folder = settings.load(Path(sys.argv[1])), Path(sys.argv[2])
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds on the grid; simulated nodes have no keys."""
    run(grid, config, RunOptions(Path(sys.argv[1]), folder, nodes={}, keys=None, resume=False))


if __name__ == "__main__":
    run_simulation(
        server_app,
        client_app,
        num_supernodes=config.data.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
