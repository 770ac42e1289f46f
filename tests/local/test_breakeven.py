"""The choice between dense and sparse: measured once, kept in a file, steady near the border."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from prunefl.local.torch_backend import breakeven, sparsify
from prunefl.local.torch_backend.breakeven import BreakEven
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.masked import MaskedLayer
from prunefl.local.torch_backend.spec import LinearSpec

SPEC = LinearSpec(30, 20)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path))
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted((folder / "break-even").iterdir())


def measuring(patch: pytest.MonkeyPatch, *densities: float) -> list[tuple[int, ...]]:
    """Let measurements find these densities one after another; return the sizes that were measured."""
    sizes, found = [], iter(densities)

    def measured(spec: object, size: tuple[int, ...]) -> float:
        sizes.append(size)
        return next(found)

    patch.setattr(breakeven, "_measured", measured)
    return sizes


def test_a_measurement_is_kept_and_used_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = measuring(monkeypatch, 0.41, 0.83)
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.41
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.41
    assert BreakEven({}).density(SPEC, (6, 30)) == 0.83
    assert sizes == [(5, 30), (6, 30)]
    assert len(files(cache)) == 2


def test_what_a_run_recorded_is_obeyed_instead_of_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = measuring(monkeypatch, 0.41, 0.83)
    recorded: dict[str, float] = {}
    assert BreakEven(recorded).density(SPEC, (5, 30)) == 0.41
    assert list(recorded.values()) == [0.41]
    # another machine, another cache: the run goes by what it has recorded, and neither measures nor reads
    for file in files(cache):
        file.write_text(json.dumps({**json.loads(file.read_text()), "density": 0.99}))
    assert BreakEven(recorded).density(SPEC, (5, 30)) == 0.41
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.99
    assert BreakEven(dict.fromkeys(recorded, 0.7)).density(SPEC, (5, 30)) == 0.7
    assert sizes == [(5, 30)]


@pytest.mark.parametrize("place", range(4))
def test_what_another_cpu_path_torch_or_version_measured_is_not_used(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = measuring(monkeypatch, 0.41, 0.83)
    here = breakeven._machine()
    assert len(here) == 4
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.41
    other = tuple("another" if k == place else word for k, word in enumerate(here))
    monkeypatch.setattr(breakeven, "_machine", lambda: other)
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.83
    monkeypatch.setattr(breakeven, "_machine", lambda: here)
    assert BreakEven({}).density(SPEC, (5, 30)) == 0.41
    assert len(sizes) == 2


def test_a_measurement_is_of_this_version_of_torch_and_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(breakeven, "VERSION", "7.8.9")
    monkeypatch.setattr(torch, "__version__", "99.1")
    breakeven._machine.cache_clear()
    try:
        assert breakeven._machine()[2:] == ("99.1", "7.8.9")
    finally:
        breakeven._machine.cache_clear()


def test_each_number_of_threads_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring(monkeypatch, 0.41, 0.83)
    recorded: dict[str, float] = {}
    assert BreakEven(recorded).density(SPEC, (5, 30)) == 0.41
    torch.set_num_threads(2)
    try:
        assert BreakEven(recorded).density(SPEC, (5, 30)) == 0.83
    finally:
        torch.set_num_threads(1)
    assert list(recorded.values()) == [0.41, 0.83]


def test_without_a_size_the_usual_density_counts_and_nothing_is_recorded() -> None:
    recorded: dict[str, float] = {}
    assert BreakEven(recorded).density(SPEC, None) == breakeven.USUAL["linear"]
    assert recorded == {}


def test_a_real_measurement_is_a_density_and_leaves_the_callers_generator_alone() -> None:
    before = torch.get_rng_state()
    even = BreakEven({}).density(LinearSpec(64, 32), (4, 64))
    assert breakeven.LEAST["linear"] <= even <= 1.0
    assert torch.equal(torch.get_rng_state(), before)


def test_no_worker_saves_the_global_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two threads under fork_rng at once can wait for each other for ever.
    monkeypatch.delattr(torch.random, "fork_rng")
    assert layer_kind(nn.Sequential(nn.Linear(100, 10)), 700, example=torch.zeros(7, 100)) is not nn.Linear


@pytest.mark.parametrize(
    ("density", "was_sparse", "sparse"),
    [
        (0.5, None, True),
        (0.6, None, True),
        (0.61, None, False),
        (0.65, True, True),
        (0.67, True, False),
        (0.55, False, False),
        (0.53, False, True),
    ],
)
def test_near_the_break_even_a_layer_stays_as_it_is(
    density: float, was_sparse: bool | None, sparse: bool
) -> None:
    assert breakeven.computes_sparsely(density, 0.6, was_sparse) is sparse


def layer_kind(model: nn.Module, live: int, **settings: object) -> type[nn.Module]:
    mask = torch.arange(1000).view(10, 100) < live
    return type(sparsify(model, {"0.weight": mask}, **settings)[0])  # type: ignore[arg-type, index]


def test_dense_layers_compute_densely_and_thin_ones_sparsely() -> None:
    model = nn.Sequential(nn.Linear(100, 10))
    assert layer_kind(model, 900) is MaskedLayer
    assert layer_kind(model, 100) is SparseLayer
    assert layer_kind(model, 1000) is nn.Linear


def test_an_example_decides_by_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = measuring(monkeypatch, 0.65)
    model, example = nn.Sequential(nn.Linear(100, 10)), torch.zeros(7, 100)
    recorded: dict[str, float] = {}
    assert layer_kind(model, 600, example=example, measured=recorded) is SparseLayer
    assert not sizes, "below every break-even nothing need be measured"
    assert layer_kind(model, 700, example=example, measured=recorded) is MaskedLayer
    assert sizes == [(7, 100)]
    assert list(recorded.values()) == [0.65]
    # what is recorded decides, not what the machine would measure
    assert layer_kind(model, 700, example=example, measured=dict.fromkeys(recorded, 0.8)) is SparseLayer
    assert sizes == [(7, 100)]


def test_a_sparse_model_given_again_keeps_its_choice_near_the_border() -> None:
    model = nn.Sequential(nn.Linear(100, 10))
    mask = torch.arange(1000).view(10, 100) < 500
    sparse = sparsify(model, {"0.weight": mask})
    assert layer_kind(sparse, 630) is SparseLayer
    assert layer_kind(model, 630) is MaskedLayer
