"""A pruned model leaves the run: loaded sparse, or in formats that give the same outputs elsewhere."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from prunefl import models
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.export import export, load
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.network import prunable_names
from prunefl.wire.model_file import About, save_model

SHAPES = {"conv2": ((1, 28, 28), 10), "mobilenetv3_small": ((3, 32, 32), 2), "lenet300100": ((1, 28, 28), 10)}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pruned(name: str, density: float) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a dense network with zeros where its random masks have them, statistics unlike their start."""
    shape, classes = SHAPES[name]
    model = models.build(name, classes=classes, input_shape=shape, seed=1).eval()
    parameters = dict(model.named_parameters())
    masks = {
        n: torch.rand(parameters[n].shape, generator=generator(7)) < density for n in prunable_names(model)
    }
    with torch.no_grad():
        for n, mask in masks.items():
            parameters[n].mul_(mask)
        for n, buffer in model.named_buffers():
            if "running" in n:
                buffer.add_(torch.rand(buffer.shape, generator=generator(3)))
    return model, masks


def save(folder: Path, name: str, density: float, called: str = "") -> nn.Module:
    model, masks = pruned(name, density)
    shape, classes = SHAPES[name]
    buffers = {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    values = {n: p.detach().numpy() for n, p in (dict(model.named_parameters()) | buffers).items()}
    live = Masks({n: mask.numpy() for n, mask in masks.items()})
    about = About(called or name, classes, shape, live.shapes)
    save_model(folder / "model.safetensors", SparseState.from_dense(values, live), about)
    return model


def inputs(name: str) -> Tensor:
    return torch.rand(5, *SHAPES[name][0], generator=generator(9))


@pytest.mark.parametrize("name", SHAPES)
def test_a_loaded_model_is_sparse_and_gives_the_trained_outputs(tmp_path: Path, name: str) -> None:
    model = save(tmp_path, name, 0.2)
    loaded = load(tmp_path)
    assert not loaded.training
    x = inputs(name)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-4, atol=1e-5)
    expected = pruned(name, 0.2)[1]
    found = sparse.masks_of(loaded)
    assert {n: torch.equal(found[n], expected[n]) for n in expected} == dict.fromkeys(expected, True)


def onnx_outputs(path: Path, x: Tensor) -> Tensor:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {"input": x.numpy()})[0])


@pytest.mark.parametrize(("name", "plain"), [("conv2", False), ("conv2", True), ("mobilenetv3_small", False)])
def test_onnx_runtime_gives_the_same_outputs(tmp_path: Path, name: str, plain: bool) -> None:
    pytest.importorskip("onnxscript")
    model = save(tmp_path, name, 0.1)
    written = export(tmp_path, "onnx", plain=plain)
    for x in (inputs(name), inputs(name)[:1]):
        with torch.no_grad():
            torch.testing.assert_close(onnx_outputs(written.path, x), model(x), rtol=1e-4, atol=1e-5)
    # live values at four bytes, one bit a position, and the rest of a small graph
    assert (written.num_bytes < 0.2 * written.dense_bytes) == (not plain)


def test_a_dense_model_is_not_made_larger_by_packing(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    save(tmp_path, "lenet300100", 1.0)
    compact = export(tmp_path, "onnx", tmp_path / "a.onnx").num_bytes
    assert compact == export(tmp_path, "onnx", tmp_path / "b.onnx", plain=True).num_bytes


def test_safetensors_is_the_usual_state_dict(tmp_path: Path) -> None:
    model = save(tmp_path, "mobilenetv3_small", 0.3)
    written = export(tmp_path, "safetensors")
    state = safetensors.torch.load_file(written.path)
    assert sorted(state) == sorted(model.state_dict())
    fresh = models.mobilenetv3_small()
    fresh.load_state_dict(state)
    x = inputs("mobilenetv3_small")
    with torch.no_grad():
        assert torch.equal(fresh.eval()(x), model(x))


def test_a_torch_program_runs_without_the_models_code(tmp_path: Path) -> None:
    model = save(tmp_path, "conv2", 0.3)
    written = export(tmp_path, "torch", tmp_path / "new" / "model.pt2")
    program = torch.export.load(written.path).module()
    x = inputs("conv2")
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x))
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["model.pt2"]


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    model = save(tmp_path, "conv2", 0.1)
    written = export(tmp_path, "safetensors", tmp_path / "x.safetensors")
    assert written.num_bytes == (tmp_path / "x.safetensors").stat().st_size
    assert written.kept_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert written.dense_bytes == 4 * sum(p.numel() for p in model.parameters())
    # four bytes for one weight in ten, and an eighth of a byte for each
    assert written.kept_bytes / written.dense_bytes == pytest.approx(0.1 + 1 / 32, rel=0.02)


def test_an_own_model_must_be_given_and_is_never_named_by_a_file(tmp_path: Path) -> None:
    model = save(tmp_path, "conv2", 0.5, called="os:getcwd")
    with pytest.raises(ValueError, match=r"is of the own model 'os:getcwd': give that network too"):
        load(tmp_path)
    loaded = load(tmp_path, models.conv2(classes=10))
    with torch.no_grad():
        torch.testing.assert_close(loaded(inputs("conv2")), model(inputs("conv2")), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="does not fit the model"):
        load(tmp_path, models.conv2(classes=11))


def test_what_is_not_a_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the run is not finished"):
        load(tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        load(tmp_path / "absent")
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0notjson!")
    with pytest.raises(ValueError, match="not a model that prunefl wrote"):
        load(tmp_path)


def test_a_file_that_claims_a_monstrous_model_is_refused(tmp_path: Path) -> None:
    about = {"model": "conv2", "classes": 10**15, "input_shape": [1, 28, 28], "shapes": {}}
    content = safetensors.torch.save({"x": torch.zeros(1)}, {"prunefl": json.dumps(about)})
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="not a sound file"):
        load(tmp_path)


def test_export_refuses_an_unknown_format_and_to_overwrite_the_run(tmp_path: Path) -> None:
    save(tmp_path, "conv2", 0.1)
    with pytest.raises(ValueError, match="--to keras, must be one of onnx, safetensors, torch"):
        export(tmp_path, "keras")
    with pytest.raises(ValueError, match="is the run's own model"):
        export(tmp_path, "safetensors", tmp_path / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"--out .*: a folder, must be the file to write, such as .*model\.onnx"
    ):
        export(tmp_path, "onnx", tmp_path)
    for to in ("safetensors", "torch"):
        with pytest.raises(ValueError, match=f"--plain is for --to onnx, {to} always stores zeros"):
            export(tmp_path, to, plain=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_the_command_shows_sizes_beside_the_dense_models(tmp_path: Path) -> None:
    import typer

    from prunefl.commands.export import export as command

    save(tmp_path, "conv2", 0.1)
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(tmp_path), "--to", "safetensors"])
    assert result.exit_code == 0, result.output
    assert "100.0%" in result.output
    assert np.isclose((tmp_path / "model.dense.safetensors").stat().st_size / 1e6, 26.2, atol=0.5)


def test_bench_inference_times_every_density() -> None:
    from prunefl.measure.bench.inference import measure

    timings = measure("lenet300100", [1.0, 0.1], samples=20, repeats=2)
    assert [timing.density for timing in timings] == [1.0, 0.1]
    assert min(t.sparse_seconds for t in timings) > 0
    assert min(t.dense_seconds for t in timings) > 0
    with pytest.raises(ValueError, match=r"--density 1\.5, must be > 0 and <= 1"):
        measure("lenet300100", [1.5], samples=2, repeats=1)
    with pytest.raises(ValueError, match="--model='alexnet', must be one of"):
        measure("alexnet", [0.5], samples=2, repeats=1)
