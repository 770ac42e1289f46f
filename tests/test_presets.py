"""The presets are the paper's table (SPEC), figure for figure."""

import pytest

from prunefl import config, schedule
from prunefl.commands.configs import preset, preset_names, resolve
from prunefl.devices import PRESETS
from prunefl.models import BUILDERS

TABLE = {
    # name: model, rounds, clients, drawn, learning rate of round r, initial samples, loss
    "femnist": ("conv2", 10_000, 10, 0, lambda r: 0.25, 200, "onehot_bce"),
    "femnist-select": ("conv2", 10_000, 193, 10, lambda r: 0.25, 200, "onehot_bce"),
    "cifar10": ("vgg11", 10_000, 10, 0, lambda r: 0.1 * 0.5 ** (r / 10_000), 200, "onehot_bce"),
    "cifar10-select": ("vgg11", 10_000, 100, 10, lambda r: 0.1 * 0.5 ** (r / 10_000), 200, "onehot_bce"),
    "imagenet100": (
        "resnet18",
        20_000,
        10,
        0,
        lambda r: 0.05 * 0.5 ** (0.1 * (r // 1000)),
        500,
        "cross_entropy",
    ),
    "imagenet100-select": (
        *("resnet18", 20_000, 100, 10, lambda r: 0.05 * 0.5 ** (0.1 * (r // 1000)), 500, "cross_entropy"),
    ),
    "celeba": ("mobilenetv3_small", 1_000, 10, 0, lambda r: 0.2, 500, "cross_entropy"),
    "celeba-select": ("mobilenetv3_small", 1_000, 934, 10, lambda r: 0.2, 500, "cross_entropy"),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_preset_is_the_papers_setting(name):
    made = config.load(preset(name))
    model, rounds, clients, drawn, rate, samples, loss = TABLE[name]
    found = (made.model.name, made.run.rounds, made.data.clients, made.training.participants)
    assert found == (model, rounds, clients, drawn)
    assert (made.initial.samples, made.training.loss) == (samples, loss)
    assert (made.training.batch_size, made.training.local_steps) == (20, 5)
    assert (made.pruning.interval, made.run.eval_every, made.initial.interval) == (50, 10, 50)
    for r in (0, 999, 1000, 7777):
        assert schedule.learning_rate(r + 1, made) == pytest.approx(rate(r))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_names_things_that_exist(name):
    made = config.load(preset(name))
    assert made.model.name in BUILDERS
    assert made.time.device in PRESETS


def test_a_scaled_preset_keeps_the_shape_of_its_schedules():
    whole, short = resolve(["cifar10"], None)[0], resolve(["cifar10", "scale=0.1", "run.seed=4"], None)[0]
    assert short.run.rounds == 1000
    assert short.run.seed == 4
    for r in (0, 300, 999):
        assert schedule.learning_rate(r + 1, short) == pytest.approx(
            schedule.learning_rate(10 * r + 1, whole)
        )
        assert schedule.fraction(r, short) == pytest.approx(schedule.fraction(10 * r, whole))


@pytest.mark.parametrize("word", ["scale=0", "scale=2", "scale=x"])
def test_an_impossible_scale_is_refused(word):
    with pytest.raises(ValueError, match=r"must be a number > 0 and <= 1"):
        resolve(["cifar10", word], None)
