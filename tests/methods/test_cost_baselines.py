"""DPF keeps dense weights, PruneTrain removes dead channels, a ticket has another run's masks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pruner_cases import NAMES, SHAPE, look, settings
from safetensors.numpy import save_file
from torch import nn

from prunefl.core.masks import live_counts, packed_bits
from prunefl.methods import build_pruner
from prunefl.methods.prunetrain import channel_mask
from prunefl.rounds.asks import channel_norms


def test_dpf_equals_dense_descent_with_gradients_at_the_pruned_weights(net: nn.Sequential) -> None:
    pruner = build_pruner(settings("run.method=dpf", "pruning.density=0.3"))
    dense = {name: p.detach().clone() for name, p in net.named_parameters()}
    chosen = pruner.first(net, NAMES, SHAPE)
    generator = torch.Generator().manual_seed(0)
    everywhere = {name: torch.ones_like(mask) for name, mask in chosen.masks.items()}
    for round in range(1, 6):
        assert pruner.ask(round, chosen.memory).dense_update
        change = {name: 0.1 * torch.randn(w.shape, generator=generator) for name, w in dense.items()}
        received = {n: w * chosen.masks[n] if n in chosen.masks else w for n, w in dense.items()}
        uploaded = {name: received[name] + change[name] for name in dense}
        chosen = pruner.next(look(chosen, uploaded, round, masks=everywhere))
        dense = {name: w + change[name] for name, w in dense.items()}
        ranks = torch.cat([dense[name].abs().flatten() for name in NAMES])
        bound = ranks.sort(descending=True).values[round_count(0.3 * ranks.numel()) - 1]
        for name in NAMES:
            assert torch.equal(chosen.masks[name], dense[name].abs() >= bound)
            assert chosen.weights is not None
            torch.testing.assert_close(chosen.weights[name], dense[name] * chosen.masks[name])


def round_count(value: float) -> int:
    return int(np.rint(value))


def test_prunetrain_lasso_is_the_sum_of_channel_norms_and_a_fifth_of_the_first_loss(
    net: nn.Sequential,
) -> None:
    assert channel_norms(torch.tensor([[3.0, 0.0], [4.0, 0.0]])) == 3 + 4 + 5 + 0
    pruner = build_pruner(settings("run.method=prunetrain"))
    strength = pruner.ask(1, pruner.first(net, NAMES, SHAPE).memory).group_lasso
    penalty = strength * sum(float(channel_norms(net.get_parameter(name).detach())) for name in NAMES)
    assert penalty / (penalty + np.log(3)) == pytest.approx(0.2)


def test_prunetrain_removes_channels_that_died_and_nothing_else(net: nn.Sequential) -> None:
    pruner = build_pruner(settings("run.method=prunetrain", "pruning.interval=5"))
    chosen = pruner.first(net, NAMES, SHAPE)
    weights = {name: p.detach().clone() for name, p in net.named_parameters()}
    weights["3.weight"][2] = 1e-5
    weights["3.weight"][:, 7] = 0
    weights["3.weight"][0, 0] = 0
    assert pruner.next(look(chosen, weights, 4)).masks is chosen.masks
    after = pruner.next(look(chosen, weights, 5)).masks
    assert live_counts(after) == {"0.weight": 36, "3.weight": 9 * 63, "5.weight": 30}
    assert after["3.weight"][0, 0]


def test_prunetrain_never_empties_a_layer() -> None:
    assert channel_mask(torch.zeros(3, 4)).any()
    assert channel_mask(torch.tensor([[1e-9, 0.0], [0.0, 0.0]])).tolist() == [[True, False], [False, False]]


def test_ticket_reads_the_final_masks_of_a_run(net: nn.Sequential, tmp_path: Path) -> None:
    masks = {name: torch.rand(net.get_parameter(name).shape) < 0.3 for name in NAMES}
    packed = {f"mask:{name}": np.frombuffer(packed_bits(mask), np.uint8) for name, mask in masks.items()}
    save_file(packed, tmp_path / "model.safetensors")
    pruner = build_pruner(settings("run.method=ticket", f"pruning.masks={tmp_path}"))
    chosen = pruner.first(net, NAMES, SHAPE)
    assert all(torch.equal(chosen.masks[name], mask) for name, mask in masks.items())


def test_ticket_refuses_no_run_and_another_models_run(net: nn.Sequential, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pruning.masks='', must be the folder"):
        build_pruner(settings("run.method=ticket"))
    pruner = build_pruner(settings("run.method=ticket", f"pruning.masks={tmp_path}"))
    with pytest.raises(ValueError, match=r"must be the folder of a finished run: no model.safetensors"):
        pruner.first(net, NAMES, SHAPE)
    save_file({"mask:0.weight": np.zeros(1, np.uint8)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="holds no masks of this model"):
        pruner.first(net, NAMES, SHAPE)
    save_file({f"mask:{name}": np.zeros(1, np.uint8) for name in NAMES}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="other layer sizes"):
        pruner.first(net, NAMES, SHAPE)
