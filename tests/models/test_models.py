"""The networks have the sizes and names that the paper and published weights expect."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from prunefl import models
from prunefl.local.torch_backend.network import prunable_names
from tasks import small_config

SHAPES = {
    "conv2": ((1, 28, 28), 62),
    "vgg11": ((3, 32, 32), 10),
    "resnet18": ((3, 64, 64), 100),
    "mobilenetv3_small": ((3, 84, 84), 2),
    "lenet300100": ((1, 28, 28), 10),
}


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def prunable(model: nn.Module) -> int:
    named = dict(model.named_parameters())
    return sum(named[name].numel() for name in prunable_names(model))


def test_prunable_counts_are_the_papers() -> None:
    assert prunable(models.conv2()) == 6_601_504
    assert prunable(models.vgg11()) == 9_747_136
    assert prunable(models.resnet18()) == 11_046_080
    assert parameters(models.resnet18()) == 11_227_812
    assert prunable(models.lenet300100()) == 784 * 300 + 300 * 100 + 100 * 10


def test_mobilenet_is_the_papers_927_and_593_thousand() -> None:
    model = models.mobilenetv3_small()
    assert parameters(model.features) == 927_008
    assert parameters(model.classifier) == 592_898


def test_sizes_with_a_thousand_classes_are_the_published_ones() -> None:
    assert parameters(models.resnet18(classes=1000)) == 11_689_512
    assert parameters(models.mobilenetv3_small(classes=1000)) == 2_542_856


def test_chains_are_sequential() -> None:
    for build in (models.conv2, models.vgg11, models.lenet300100):
        assert type(build()) is nn.Sequential


def batch_norm(path: str) -> list[str]:
    return [f"{path}.{n}" for n in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def test_resnet_has_the_usual_state_dict_names_in_the_usual_order() -> None:
    expected = ["conv1.weight", *batch_norm("bn1")]
    for stage in range(1, 5):
        for block in range(2):
            path = f"layer{stage}.{block}"
            for i in (1, 2):
                expected += [f"{path}.conv{i}.weight", *batch_norm(f"{path}.bn{i}")]
            if stage > 1 and block == 0:
                expected += [f"{path}.downsample.0.weight", *batch_norm(f"{path}.downsample.1")]
    assert list(models.resnet18().state_dict()) == [*expected, "fc.weight", "fc.bias"]


def test_mobilenet_has_the_usual_state_dict_names_in_the_usual_order() -> None:
    def convolution(path: str) -> list[str]:
        return [f"{path}.0.weight", *batch_norm(f"{path}.1")]

    def excitation(path: str) -> list[str]:
        return [f"{path}.{fc}.{kind}" for fc in ("fc1", "fc2") for kind in ("weight", "bias")]

    expected = convolution("features.0")
    for i in range(1, 12):
        kinds = [convolution] if i == 1 else [convolution, convolution]  # the first block does not expand
        kinds += [convolution] if i in (2, 3) else [excitation, convolution]
        for j, kind in enumerate(kinds):
            expected += kind(f"features.{i}.block.{j}")
    expected += convolution("features.12")
    expected += [f"classifier.{i}.{kind}" for i in (0, 3) for kind in ("weight", "bias")]
    assert list(models.mobilenetv3_small().state_dict()) == expected


def test_mobilenet_squeezes_to_the_published_widths() -> None:
    state = models.mobilenetv3_small().state_dict()
    widths = [t.shape[0] for name, t in state.items() if name.endswith("fc1.weight")]
    assert widths == [8, 24, 64, 64, 32, 40, 72, 144, 144]
    norm = models.mobilenetv3_small().features[0][1]
    assert (norm.eps, norm.momentum) == (0.001, 0.01)


@pytest.mark.parametrize("name", SHAPES)
def test_same_seed_gives_the_same_bits_and_leaves_the_global_generator_alone(name: str) -> None:
    shape, classes = SHAPES[name]
    before = torch.random.get_rng_state()
    first = models.build(name, classes=classes, input_shape=shape, seed=3)
    again = models.build(name, classes=classes, input_shape=shape, seed=3)
    other = models.build(name, classes=classes, input_shape=shape, seed=4)
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = list(zip(first.state_dict().values(), again.state_dict().values(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
    assert all(module.training for module in first.modules())


def test_vgg_keeps_its_signal_without_normalisation() -> None:
    model = models.build("vgg11", classes=10, input_shape=(3, 32, 32), seed=0)
    x = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert 0.1 < float(model(x).detach().std()) < 10


def test_conv2_fits_other_images() -> None:
    model = models.build("conv2", classes=10, input_shape=(3, 32, 32), seed=0)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_own_function_is_found_and_given_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_net.py").write_text(
        "from torch import nn\n"
        "def small(classes, width=4):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.Linear(width, classes))\n"
        "def late(classes):\n"
        "    import own_part\n"
        "    return own_part.small(classes)\n"
        "def wrong(): return 3\n"
        "class Broken(nn.Module):\n"
        "    def forward(self, x): return self.layer(x)\n"
        "class Halved(nn.Module):\n"
        "    def forward(self, x): return x[::2]\n"
        "def halved(classes): return nn.Sequential(small(classes), Halved())\n"
        "def fixed(): return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
    )
    (tmp_path / "own_part.py").write_text("from own_net import small\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (
        len(list(models.build("own_net:late", classes=7, input_shape=(1, 28, 28), seed=0).parameters())) == 4
    )
    model = models.build("own_net:small", classes=7, input_shape=(1, 28, 28), seed=0, width=5)
    assert [p.shape[0] for p in model.parameters()] == [5, 5, 7, 7]
    with pytest.raises(ValueError, match=r"must return an nn\.Module, got int"):
        models.build("own_net:wrong", classes=7, input_shape=(1, 28, 28), seed=0)
    with pytest.raises(ValueError, match=r"must give 7 logits a sample .* gives \(10,\)"):
        models.build("own_net:fixed", classes=7, input_shape=(1, 28, 28), seed=0)
    with pytest.raises(ValueError, match=r"must give a row for each sample, gives \(1, 7\) for two"):
        models.build("own_net:halved", classes=7, input_shape=(1, 28, 28), seed=0)
    with pytest.raises(ValueError, match="AttributeError: 'Broken' object has no attribute 'layer'"):
        models.build("own_net:Broken", classes=7, input_shape=(1, 28, 28), seed=0)
    with pytest.raises(ValueError, match=r"own_net.py\) has no function 'absent'"):
        models.build("own_net:absent", classes=7, input_shape=(1, 28, 28), seed=0)
    with pytest.raises(ValueError, match="could not be called"):
        models.build("own_net:small", classes=7, input_shape=(1, 28, 28), seed=0, depth=5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("conv3", "did you mean 'conv2'"),
        ("no_such_package:net", "cannot be imported"),
        ("vgg11", "must take samples of shape"),
    ],
)
def test_a_bad_model_is_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        models.build(spec, classes=10, input_shape=(1, 28, 28), seed=0)
    assert "\n" not in str(caught.value)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Dropout(0.5), nn.Dropout2d(0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def test_seeded_dropout_repeats_and_ignores_the_global_generator() -> None:
    x = torch.ones(8, 4, 6, 6)
    model = models.seed_dropout(Dropping(), torch.Generator().manual_seed(1))
    first = model(x)
    torch.rand(3)
    again = models.seed_dropout(Dropping(), torch.Generator().manual_seed(1))(x)
    other = models.seed_dropout(Dropping(), torch.Generator().manual_seed(2))(x)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_seeded_dropout_drops_what_dropout_drops() -> None:
    generator = torch.Generator().manual_seed(0)
    model = models.seed_dropout(nn.Sequential(nn.Dropout(0.25)), generator)
    y = model(torch.ones(100_000))
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    assert float((y == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    channels = models.seed_dropout(nn.Sequential(nn.Dropout2d(0.5)), generator)(torch.ones(50, 40, 3, 3))
    assert torch.equal(channels.amin((2, 3)), channels.amax((2, 3)))
    assert torch.equal(model.eval()(torch.ones(9)), torch.ones(9))


def test_seeding_dropout_leaves_the_state_dict_and_a_copy_takes_no_generator() -> None:
    model = models.mobilenetv3_small()
    names = list(model.state_dict())
    models.seed_dropout(model, torch.Generator().manual_seed(1))
    assert list(model.state_dict()) == names
    assert copy.deepcopy(model).classifier[2].generator is None


def test_dropout_that_cannot_be_seeded_is_refused() -> None:
    with pytest.raises(ValueError, match=r"AlphaDropout, must be nn\.Dropout"):
        models.seed_dropout(nn.Sequential(nn.AlphaDropout()), torch.Generator())


def test_the_authors_first_weights_are_wide_in_fully_connected_layers_and_torchs_in_convolutions() -> None:
    config = small_config(model={"name": "conv2", "init": "authors"})
    first, again = (models.build_configured(config, 62, (1, 28, 28)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    spread = [float(p.detach().std()) for p in first.parameters() if p.dim() > 1]
    # uniform: the bound over √3; torch's is 1/√inputs, theirs √(6/outputs)
    expected = [(1 / 25) ** 0.5, (1 / 800) ** 0.5, (6 / 2048) ** 0.5, (6 / 62) ** 0.5]
    assert spread == pytest.approx([bound / 3**0.5 for bound in expected], rel=0.05)


def test_the_authors_last_layer_of_vgg_is_drawn_for_a_leaky_rectifier() -> None:
    config = small_config(model={"name": "vgg11", "init": "authors"})
    linear = [p for p in models.build_configured(config, 10, (3, 32, 32)).parameters() if p.dim() == 2]
    # √(6 / ((1 + a²) · outputs)): a = 0, and 1.5 in the last
    expected = [(6 / 512) ** 0.5, (6 / 512) ** 0.5, (6 / 3.25 / 10) ** 0.5]
    assert [float(p.detach().std()) for p in linear] == pytest.approx(
        [b / 3**0.5 for b in expected], rel=0.05
    )
