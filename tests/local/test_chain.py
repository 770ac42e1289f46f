"""Runs of layers computed in one go: the same results as the plain modules, whatever surrounds them."""

import copy
import io
import threading

import pytest
import torch
from chain_cases import close, masks_for, run_model, sparse_run_model
from torch import Tensor, nn

from prunefl.local.torch_backend import SGD, densify, sparsify, state_of
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.sequential import FusedSequential

pytestmark = pytest.mark.usefixtures("every_path")


def test_nested_sequentials_become_one_run() -> None:
    sparse = sparse_run_model()
    assert isinstance(sparse, FusedSequential)
    assert len(sparse._steps()) == 1


def test_a_module_with_a_hook_is_called_by_itself() -> None:
    sparse = sparse_run_model()
    seen: list[Tensor] = []
    x = torch.randn(4, 2, 8, 8)
    expected = sparse(x)
    sparse[3].register_forward_hook(lambda module, inputs, output: seen.append(output))
    close(sparse(x), expected)
    assert seen[0].shape == (4, 6)


def test_large_batches_are_inferred_in_parts() -> None:
    sparse = sparse_run_model()
    x = torch.randn(101, 2, 8, 8)
    with torch.no_grad():
        close(sparse(x), sparse(x.clone().requires_grad_()))
        close(sparse(x), densify(sparse)(x))


def test_a_kept_graph_can_be_used_twice() -> None:
    sparse = sparse_run_model()
    loss = sparse(torch.randn(4, 2, 8, 8)).square().sum()
    first = torch.autograd.grad(loss, list(sparse.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(sparse.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, list(sparse.parameters()))


def test_two_forward_passes_before_their_backward_passes() -> None:
    sparse = sparse_run_model()
    x, y = torch.randn(4, 2, 8, 8), torch.randn(7, 2, 8, 8)
    a, b = sparse(x).sum(), sparse(y).sum()
    together = torch.autograd.grad(a + b, list(sparse.parameters()))
    apart = [torch.autograd.grad(sparse(images).sum(), list(sparse.parameters())) for images in (x, y)]
    for total, one, other in zip(together, *apart, strict=True):
        close(total, one + other)


def test_weights_that_changed_before_the_backward_pass_are_noticed() -> None:
    sparse = sparse_run_model()
    optimiser = SGD(sparse.parameters(), 0.1)
    loss = sparse(torch.randn(4, 2, 8, 8)).sum()
    loss.backward(retain_graph=True)
    optimiser.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_fall_back_to_masked_dense(dtype: torch.dtype) -> None:
    sparse = sparse_run_model().to(dtype)
    dense = densify(sparse)
    x = torch.randn(4, 2, 8, 8, dtype=dtype)
    assert torch.equal(sparse(x), dense(x))
    sparse(x).float().square().sum().backward()
    dense(x).float().square().sum().backward()
    layer = sparse[0][0]
    assert isinstance(layer, SparseLayer)
    expected = dense[0][0].weight.grad[layer.live_mask()]
    torch.testing.assert_close(layer.pattern.row_major(layer.weight.grad), expected)


def test_autocast_empty_batches_strided_inputs_and_single_images_are_right() -> None:
    sparse = sparse_run_model()
    dense = densify(sparse)
    x = torch.randn(4, 2, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(sparse(x), dense(x))
    assert sparse(x[:0]).shape == (0, 3)
    strided = torch.randn(4, 2, 16, 8)[:, :, ::2]
    close(sparse(strided), dense(strided))
    close(sparse[0][0](x[0]), dense[0][0](x[0]))
    rows = torch.randn(2, 3, 6)
    close(sparse[4](rows), dense[4](rows))


@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (4, 2, 7, 9)])
def test_inputs_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="input has shape"):
        sparse_run_model()(torch.randn(shape))


def test_copies_share_no_memory_that_a_step_writes() -> None:
    sparse = sparse_run_model()
    x = torch.randn(6, 2, 8, 8)
    sparse(x)
    duplicate = copy.deepcopy(sparse)
    before = state_of(sparse)
    optimiser = SGD(duplicate.parameters(), 0.5)
    duplicate(x).square().sum().backward()
    optimiser.step()
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(sparse).items())
    assert not torch.equal(state_of(duplicate)["2.weight"], before["2.weight"])
    assert duplicate[2].pattern is sparse[2].pattern
    assert duplicate[2].run.links[0].layer is duplicate[2]


def test_models_are_saved_and_loaded_like_any_other() -> None:
    sparse = sparse_run_model()
    x = torch.randn(4, 2, 8, 8)
    file = io.BytesIO()
    torch.save(sparse, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(x), sparse(x))
    other = sparsify(run_model(), masks_for(run_model(), 0.4), choose="sparse")
    with torch.no_grad():
        other[2].weight.zero_()
    other.load_state_dict(sparse.state_dict())
    assert torch.equal(other(x), sparse(x))
    plain = run_model()
    plain.load_state_dict(sparse.state_dict())
    close(plain(x), sparse(x))


def trained_bits(model: nn.Module, x: Tensor) -> Tensor:
    optimiser = SGD(model.parameters(), 0.05)
    for _ in range(5):
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()
    return torch.cat([tensor.reshape(-1) for tensor in state_of(model).values()])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_every_time_and_on_every_number_of_threads(threads: int) -> None:
    x = torch.randn(20, 2, 8, 8, generator=torch.Generator().manual_seed(1))
    alone = trained_bits(sparse_run_model(), x)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(trained_bits(sparse_run_model(), x), alone)
    finally:
        torch.set_num_threads(before)


def test_copies_train_in_python_threads_at_once() -> None:
    sparse = sparse_run_model()
    x = torch.randn(20, 2, 8, 8)
    expected = trained_bits(copy.deepcopy(sparse), x)
    found: list[Tensor] = []
    copies = [copy.deepcopy(sparse) for _ in range(4)]
    workers = [
        threading.Thread(target=lambda model: found.append(trained_bits(model, x)), args=(model,))
        for model in copies
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(torch.equal(bits, expected) for bits in found)


def test_not_a_number_is_not_hidden() -> None:
    sparse = sparse_run_model()
    x = torch.randn(4, 2, 8, 8)
    x[1] = torch.nan
    out = sparse(x)
    assert out[1].isnan().all()
    assert not out[0].isnan().any()
