"""Memory does not grow with the number of clients."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import resource, sys, tempfile
sys.path.insert(0, {tests!r})
import torch
from torch.utils.data import TensorDataset
from tasks import small_config
from prunefl.models import conv2
from prunefl.runs.api import train
torch.set_num_threads(1)
clients = [TensorDataset(torch.rand(6, 1, 28, 28), torch.arange(6) % 10) for _ in range(1000)]
config = small_config(
    run={{"rounds": 12, "eval_every": 12, "method": "further-only"}}, data={{"clients": 1000}},
    training={{"participants": 10, "local_steps": 1, "batch_size": 4}}, pruning={{"interval": 6}},
    importance={{"window": "all"}},
)
run = train(conv2(classes=10), clients, test=clients[0], config=config)
assert run.finished
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_a_thousand_clients_with_ten_a_round_fit_in_two_gigabytes():
    program = PROGRAM.format(tests=str(Path(__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2000
