"""Transformers pruned: off the fused path of torch's encoder, tokens through chains, attention of prunable layers."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import prunefl
from prunefl.local.torch_backend import densify, sparsify
from prunefl.local.torch_backend.network import network_of, prunable_names
from prunefl.models.transformer import characters, vit
from tasks import small_clients, small_config, small_data

TEST = small_data(60, seed=9)


class Encoder(nn.Module):
    """Rows of an 8×8 image as tokens, through torch's own encoder layer."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 32, dropout, batch_first=True)
        layer.self_attn.dropout = dropout
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.out(self.encoder(images.squeeze(1)).mean(1))
        return logits


def half(model: nn.Module) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(0)
    return {
        n: torch.rand(model.get_parameter(n).shape, generator=source) < 0.5 for n in prunable_names(model)
    }


@pytest.mark.parametrize("choose", ["sparse", "dense"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("build", "inputs"),
    [
        (Encoder, torch.randn(5, 1, 8, 8)),
        (lambda: vit(4, 1, 8), torch.randn(5, 1, 8, 8)),
        (lambda: characters(11, 12), torch.randint(0, 11, (5, 12))),
    ],
)
def test_a_pruned_transformer_computes_what_its_dense_copy_does(build, inputs, training, choose) -> None:
    torch.manual_seed(0)
    model = build()
    masks = {name: mask for name, mask in half(model).items() if "self_attn" not in name}
    pruned = sparsify(model, masks, choose=choose).train(training)
    plain = densify(pruned).train(training)
    for layer in plain.modules():
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 1
    with torch.no_grad():
        torch.testing.assert_close(pruned(inputs), plain(inputs), rtol=1e-4, atol=1e-5)
    outputs = [copy(inputs) for copy in (pruned, plain)]
    for output in outputs:
        output.square().sum().backward()
    for (name, one), other in zip(pruned.named_parameters(), plain.parameters(), strict=True):
        if name not in masks:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_what_attention_holds_itself_is_left_whole_and_named() -> None:
    network = network_of(Encoder(), (1, 8, 8), 4)
    assert list(network.full_masks) == [
        "encoder.layers.0.linear1.weight",
        "encoder.layers.0.linear2.weight",
        "out.weight",
    ]
    assert network.left_whole == [
        "encoder.layers.0.self_attn.in_proj_weight",
        "encoder.layers.0.self_attn.out_proj.weight",
    ]
    conv = network_of(nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(12, 4)), (1, 8), 4)
    assert conv.left_whole == ["0.weight"]


def test_torchs_encoder_trains_pruned_and_its_unseeded_dropout_is_refused() -> None:
    config = small_config(run={"rounds": 4}, pruning={"density_limit": 0.3})
    run = prunefl.train(Encoder(), small_clients(), test=TEST, config=config)
    assert run.records[-1]["density"] <= 0.3
    assert np.isfinite(run.records[-2]["test_loss"])
    with pytest.raises(ValueError, match=r"self_attn has dropout=0.1 of its attention weights, must be 0"):
        prunefl.train(Encoder(dropout=0.1), small_clients(), test=TEST, config=small_config())
