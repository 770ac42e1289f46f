"""Networks that people bring: what cannot be pruned stays whole, what would go wrong is refused with the remedy."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.network import prunable_names, template_of
from prunefl.models.dropout import SeededDropout, seed_dropout
from prunefl.runs.api import train
from tasks import same_bits, small_clients, small_config, small_data

TEST = small_data(40, seed=9)


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class DoubledConv(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(input, 2 * weight, bias)


class Initialised(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight)
        nn.init.zeros_(self.bias)


class Shifted(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + 1


class Positions(nn.Module):
    """Adds a table that torch does not save."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, 64), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        return input + self.table


class Twice(nn.Module):
    """Calls one layer two times."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 64), nn.Linear(64, 4)

    def forward(self, input: Tensor) -> Tensor:
        return self.outer(self.inner(self.inner(input.flatten(1))))


class Halved(nn.Module):
    """Makes one row of two samples; of one alone it makes one, too."""

    def forward(self, input: Tensor) -> Tensor:
        return input[::2]


class Paired(nn.Module):
    """Takes one sample, or two, but no more."""

    def forward(self, input: Tensor) -> Tensor:
        return input if len(input) == 1 else input.reshape(2, 64)


def flat(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), *layers)


def tied() -> nn.Sequential:
    model = flat(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    model[3].weight = model[1].weight
    return model


def frozen() -> nn.Sequential:
    model = flat(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
    model[1].weight.requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (flat(Doubled(64, 16), nn.Linear(16, 4)), ["2.weight"]),
        (nn.Sequential(DoubledConv(1, 2, 3), nn.Flatten(), nn.Linear(72, 4)), ["2.weight"]),
        (flat(Initialised(64, 16), nn.Linear(16, 4)), ["1.weight", "2.weight"]),
        (flat(nn.utils.parametrizations.weight_norm(nn.Linear(64, 16)), nn.Linear(16, 4)), ["2.weight"]),
        (tied(), ["5.weight"]),
        (flat(*[nn.Linear(64, 64)] * 2, nn.Linear(64, 4)), ["3.weight"]),
        (frozen(), ["3.weight"]),
    ],
)
def test_what_cannot_be_pruned_stays_whole_and_trains(model: nn.Module, names: list[str]) -> None:
    assert prunable_names(model) == names
    run = train(model, small_clients(), test=TEST, config=small_config(run={"rounds": 3}))
    assert list(run.masks) == list(run.state.masks) == names
    assert run.finished


def test_tied_weights_stay_tied_and_frozen_ones_as_they_were() -> None:
    model = train(tied(), small_clients(), test=TEST, config=small_config(run={"rounds": 3})).model
    assert model[1].weight is model[3].weight
    before = frozen()
    after = train(before, small_clients(), test=TEST, config=small_config(run={"rounds": 3})).model
    # a mean of equal numbers, rounded
    torch.testing.assert_close(before[1].weight, after[1].weight)


def test_an_activation_of_ones_own_is_not_taken_for_torchs() -> None:
    torch.manual_seed(0)
    model = flat(nn.Linear(64, 32), Shifted(), nn.Linear(32, 4))
    masks = {n: torch.rand(model.get_parameter(n).shape) < 0.3 for n in prunable_names(model)}
    pruned = sparse.sparsify(model, masks, choose="sparse")
    x = torch.randn(5, 1, 8, 8)
    torch.testing.assert_close(pruned(x), sparse.densify(pruned)(x), rtol=1e-4, atol=1e-5)


def test_a_table_that_torch_does_not_save_is_not_exchanged() -> None:
    model = flat(Positions(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
    template = template_of(model, prunable_names(model))
    assert set(template.names) == set(sparse.state_of(model)) == set(model.state_dict())
    assert train(model, small_clients(), test=TEST, config=small_config(run={"rounds": 3})).finished


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Twice(), "inner.weight is called 2 times for a batch"),
        (flat(nn.Linear(64, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 4)), "momentum=None"),
        (flat(nn.Linear(64, 16), nn.LSTM(16, 4)), "model gives tuple for one sample"),
        (flat(nn.Linear(65, 4)), r"model cannot take samples of shape \(1, 8, 8\) of float32"),
        (flat(nn.Linear(64, 8), nn.AlphaDropout(), nn.Linear(8, 4)), "could not be seeded"),
    ],
)
def test_what_would_go_wrong_is_refused(model: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        train(model, small_clients(), test=TEST, config=small_config())


@pytest.mark.parametrize("backend", ["torch", "auto", "native"])
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            flat(Halved(), nn.Linear(64, 4)),
            r"gives \(4, 4\) for a batch of 8, must give a row for each sample",
        ),
        (
            flat(nn.Linear(64, 4), Halved()),
            r"gives \(4, 4\) for a batch of 8, must give a row for each sample",
        ),
        (flat(Paired(), nn.Linear(64, 4)), "takes one sample, but not a batch of 8: RuntimeError: shape"),
    ],
)
def test_samples_that_do_not_come_out_one_by_one_are_refused_before_training(
    model: nn.Module, words: str, backend: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        train(model, small_clients(), test=TEST, config=small_config(run={"backend": backend}))
    assert "\n" not in str(caught.value)


def test_a_layer_whose_weight_is_used_directly_is_left_whole() -> None:
    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(64, 16), nn.Linear(16, 4)

        def forward(self, input: Tensor) -> Tensor:
            return self.outer(nn.functional.linear(input.flatten(1), self.inner.weight))

    run = train(Direct(), small_clients(), test=TEST, config=small_config(run={"rounds": 3}))
    assert list(run.masks) == ["outer.weight"]
    assert run.network.left_whole == ["inner.weight"]


def test_a_dropout_layer_in_two_places_is_seeded_in_both() -> None:
    torch.manual_seed(0)
    dropout = nn.Dropout(0.5)
    model = flat(nn.Linear(64, 16), dropout, nn.Linear(16, 16), dropout, nn.Linear(16, 4))
    seeded = seed_dropout(nn.Sequential(nn.Linear(2, 2), *[nn.Dropout()] * 2), torch.Generator())
    assert seeded[1] is seeded[2]
    assert isinstance(seeded[1], SeededDropout)
    config = small_config(run={"rounds": 3})
    one, other = (train(model, small_clients(), test=TEST, config=config).model for _ in range(2))
    assert same_bits(one.state_dict(), other.state_dict())


def test_the_callers_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(flat(nn.Linear(64, 4)), small_clients(), test=TEST, config=small_config(run={"rounds": 1}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_settings_that_cannot_be_met_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"initial\.samples=10000, must be <="):
        train(
            flat(nn.Linear(64, 4)),
            small_clients(),
            test=TEST,
            config=small_config(initial={"samples": 10_000}),
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="resume=True needs out"):
        train(flat(nn.Linear(64, 4)), small_clients(), test=TEST, config=small_config(), resume=True)
