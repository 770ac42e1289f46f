"""The choice between dense and sparse: measured once, kept in a file, steady near the border."""

from pathlib import Path

import pytest
import torch
from torch import nn

from prunefl.local.torch_backend import breakeven, sparsify
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.masked import MaskedLayer
from prunefl.local.torch_backend.spec import LinearSpec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path))
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted((folder / "break-even").iterdir())


def test_a_measurement_is_kept_and_used_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([0.41, 0.83])
    monkeypatch.setattr(breakeven, "_measured", lambda spec, size: next(measured))
    first = breakeven.break_even(LinearSpec(30, 20), (5, 30))
    assert breakeven.break_even(LinearSpec(30, 20), (5, 30)) == first == 0.41
    assert breakeven.break_even(LinearSpec(30, 20), (6, 30)) == 0.83
    assert len(files(cache)) == 2


def test_a_real_measurement_is_a_density_and_leaves_the_callers_generator_alone() -> None:
    before = torch.get_rng_state()
    even = breakeven.break_even(LinearSpec(64, 32), (4, 64))
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
    sizes = []
    monkeypatch.setattr(breakeven, "_measured", lambda spec, size: sizes.append(size) or 0.65)
    model = nn.Sequential(nn.Linear(100, 10))
    assert layer_kind(model, 600, example=torch.zeros(7, 100)) is SparseLayer
    assert not sizes, "below every break-even nothing need be measured"
    assert layer_kind(model, 700, example=torch.zeros(7, 100)) is MaskedLayer
    assert sizes == [(7, 100)]


def test_a_sparse_model_given_again_keeps_its_choice_near_the_border() -> None:
    model = nn.Sequential(nn.Linear(100, 10))
    mask = torch.arange(1000).view(10, 100) < 500
    sparse = sparsify(model, {"0.weight": mask})
    assert layer_kind(sparse, 630) is SparseLayer
    assert layer_kind(model, 630) is MaskedLayer
