"""A worker that trains by plan: without torch, without the network's code, and not by any plan that it is sent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prunefl import config as settings
from prunefl import data
from prunefl.config import Config
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.handshake import collect_facts, with_task
from prunefl.engines.flower.limits import Limits
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import WorkerOptions
from prunefl.engines.flower.worker import Worker
from prunefl.local.native import decode_plan, encode_plan
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of
from prunefl.models import build_configured
from prunefl.system.instructions import spoken_kernels

OWN = "native_models:convolutional"


def task() -> tuple[Config, str]:
    """Return a run's config as clients get it, and the plan of its network, whose code no client has allowed."""
    config = settings.from_tables(
        {
            "run": {"backend": "native", "rounds": 1},
            "data": {"name": "digits", "clients": 3},
            "model": {"name": OWN},
        }
    )
    federation = data.load_configured(config)
    module = build_configured(config, federation.classes, federation.input_shape)
    network = network_of(module, federation.input_shape, federation.classes)
    plan = compile_plan(module, network.template, federation.input_shape)
    return with_task(config, federation), encode_plan(plan)


CONFIG, PLAN = task()


def hello(plan: str) -> bytes:
    facts = collect_facts(decode_plan(PLAN).template)
    values = {"run": "a", "config": settings.dump(CONFIG), "plan": plan, "facts": facts}
    return seal(Envelope("hello", values))


def answer(folder: Path, plan: str) -> tuple[Envelope, list[str]]:
    said: list[str] = []
    worker = Worker(WorkerOptions(folder, 0, share=Share(0)), said.append)
    return unseal(worker.answer(hello(plan))), said


def test_a_client_needs_no_code_of_a_network_that_comes_as_a_plan(tmp_path: Path) -> None:
    found, said = answer(tmp_path / "planned", PLAN)
    assert found.kind == "joined"
    assert said[0].endswith(f"native backend, {spoken_kernels()}")
    found, _ = answer(tmp_path / "unplanned", "")
    assert f"allow it with --allow {OWN}" in found.values["what"]


def test_a_client_that_was_restarted_finds_the_plan_again(tmp_path: Path) -> None:
    answer(tmp_path, PLAN)
    again = Worker(WorkerOptions(tmp_path, 0, share=Share(0)), lambda words: None)
    assert again._session is not None
    assert again._session.client.backend.name == "native"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": 2}, "plan: of version 2"),
        ({"input": [1, 30, 30]}, "plan: "),
        ({"operations": [{"do": "exec", "of": [0]}]}, "plan: operation 0 is not known here"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_in_one_line(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    found, _ = answer(tmp_path, json.dumps({**json.loads(PLAN), **change}))
    assert found.kind == "error"
    assert words in found.values["what"]


def test_a_plan_for_other_samples_is_refused(tmp_path: Path) -> None:
    config = settings.from_tables(
        {
            "run": {"backend": "native"},
            "data": {"name": "digits", "clients": 3},
            "model": {"name": "lenet300100"},
        }
    )
    module = build_configured(config, 10, (1, 14, 14))
    plan = encode_plan(compile_plan(module, network_of(module, (1, 14, 14), 10).template, (1, 14, 14)))
    found, _ = answer(tmp_path, plan)
    assert "plan: is for samples of (1, 14, 14)" in found.values["what"]


def test_a_plan_beyond_the_clients_memory_is_refused_before_it_is_made(tmp_path: Path) -> None:
    tables = json.loads(PLAN)
    # 196 features to 24 become 196 to two million: some 3 GB with their gradients
    for tensor in tables["tensors"]:
        tensor[1] = [2_000_000 if side == 24 else side for side in tensor[1]]
    options = WorkerOptions(tmp_path, 0, share=Share(0), limits=Limits(memory_mb=1000))
    found = unseal(Worker(options, lambda said: None).answer(hello(json.dumps(tables))))
    assert found.kind == "error"
    assert "MB at least, but this client's limit memory_mb is 1000" in found.values["what"]


WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "matplotlib", "jinja2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
sys.meta_path.insert(0, Absent())
"""

TRAIN = """
from pathlib import Path
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import WorkerOptions
from prunefl.engines.flower.worker import Worker
from prunefl.engines.flower.envelope import unseal
worker = Worker(WorkerOptions(Path(sys.argv[1]) / "state", 0, share=Share(0)), print)
print(unseal(worker.answer((Path(sys.argv[1]) / "hello").read_bytes())))
assert "torch" not in sys.modules
"""


def run_without_torch(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_where_torch_is_not_installed_a_client_joins_by_plan_and_else_says_what_to_install(
    tmp_path: Path,
) -> None:
    (tmp_path / "hello").write_bytes(hello(PLAN))
    done = run_without_torch(TRAIN, str(tmp_path))
    assert "native backend" in done.stdout, done.stderr
    built_in = settings.dump(settings.override(CONFIG, ["model.name=lenet300100", "run.backend=torch"]))
    values = {"run": "b", "config": built_in, "plan": "", "facts": {}}
    (tmp_path / "hello").write_bytes(seal(Envelope("hello", values)))
    done = run_without_torch(TRAIN, str(tmp_path))
    assert "pip install 'prunefl[full]'" in done.stdout, done.stderr


def test_a_command_that_needs_torch_says_so_in_one_line(tmp_path: Path) -> None:
    done = run_without_torch(
        "sys.argv = ['prunefl', 'run', 'run.rounds=1']\nfrom prunefl.commands.main import main\nmain()\n"
    )
    assert done.returncode == 2
    assert done.stderr == "prunefl: torch is not installed, which this needs: pip install 'prunefl[full]'\n"
