"""The presets are the paper's table (docs/method.md), figure for figure; the fast ones are their tasks in short."""

import pytest

from prunefl import config
from prunefl.commands.configs import preset, preset_names, resolve
from prunefl.commands.presets import presets
from prunefl.core import schedule
from prunefl.devices import PRESETS
from prunefl.models import BUILDERS

PIS = [("raspberry-pi-4", 0), ("x86", 1)]
PHONES = [("android-vm", 0), ("x86", 1)]
"""Raspberry Pis, and the personal computer that is also the server."""


def imagenet_rate(r):
    return 0.05 * 0.5 ** (0.1 * (r // 1000))


def cifar_rate(r):
    return 0.1 * 0.5 ** (r / 10_000)


TASKS = {
    # name: data, partition, model, rounds, learning rate of round r, initial samples, loss
    "mnist": ("mnist", "iid", "lenet300100", 1_000, lambda r: 0.1, 200, "cross_entropy"),
    "femnist": ("femnist", "writer", "conv2", 10_000, lambda r: 0.25, 200, "onehot_bce"),
    "cifar10": ("cifar10", "iid", "vgg11", 10_000, cifar_rate, 200, "onehot_bce"),
    "imagenet100": ("imagenet100", "iid", "resnet18", 20_000, imagenet_rate, 500, "cross_entropy"),
    "celeba": ("celeba", "person", "mobilenetv3_small", 1_000, lambda r: 0.2, 500, "cross_entropy"),
}
CLIENTS = {
    # name: clients, drawn in a round, fleet (none: time.device for all), time.device
    "mnist": (10, 0, [], "raspberry-pi-4"),
    "femnist": (10, 0, PIS, "raspberry-pi-4"),
    "femnist-select": (193, 10, PIS[::-1], "raspberry-pi-4"),
    "cifar10": (10, 0, PIS, "raspberry-pi-4"),
    "cifar10-select": (100, 10, PIS, "raspberry-pi-4"),
    "imagenet100": (10, 0, PHONES, "raspberry-pi-4"),
    "imagenet100-select": (100, 10, PHONES, "raspberry-pi-4"),
    "celeba": (10, 0, PIS, "raspberry-pi-4"),
    "celeba-select": (934, 10, PIS, "raspberry-pi-4"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_preset_is_the_papers_setting(name):
    made = config.load(preset(name))
    source, partition, model, rounds, rate, samples, loss = TASKS[name.removesuffix("-select")]
    assert (made.data.name, made.data.partition, made.data.dir) == (source, partition, "")
    assert (made.model.name, made.run.rounds) == (model, rounds)
    assert (made.initial.samples, made.training.loss) == (samples, loss)
    assert (made.training.batch_size, made.training.local_steps) == (20, 5)
    assert (made.pruning.interval, made.run.eval_every, made.initial.interval) == (50, 10, 50)
    assert (made.run.method, made.pruning.fraction, made.pruning.half_life) == ("prunefl", 0.3, 10_000)
    assert (made.pruning.scope, made.initial.max_passes, made.wire.importance) == ("layer", 1000, "float32")
    assert name == "mnist" or made.pruning.horizon == made.run.rounds
    assert made.training.pace == 0
    for r in (0, 999, 1000, 7777):
        assert schedule.learning_rate(r + 1, made) == pytest.approx(rate(r))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_preset_has_the_papers_clients_and_their_devices(name):
    made = config.load(preset(name))
    clients, drawn, fleet, device = CLIENTS[name]
    assert (made.data.clients, made.training.participants) == (clients, drawn)
    assert [(group.device, group.count) for group in made.fleet] == fleet
    assert sum(made.fleet_counts()) == (clients if fleet else 0)
    assert made.time.device == device


FAST = ("femnist-fast", "femnist-select-fast", "cifar10-fast")
OTHER_TASKS = ("diabetes", "digits-vit", "shakespeare", "shapes-unet")
"""Not the paper's; tests/data/test_small_tasks.py trains each."""


def test_every_preset_but_the_demo_the_fast_ones_and_other_tasks_is_in_the_tables():
    assert {*CLIENTS, *FAST, *OTHER_TASKS, "digits"} == set(preset_names())


@pytest.mark.parametrize("name", FAST)
def test_a_fast_preset_is_the_papers_task_with_another_method_loss_and_schedule(name):
    fast, paper = config.load(preset(name)), config.load(preset(name.removesuffix("-fast")))
    assert (fast.run.method, fast.training.loss) == ("prunefl-fisher", "cross_entropy")
    for section in ("data", "fleet", "time", "server"):
        assert getattr(fast, section) == getattr(paper, section)
    if name == "cifar10-fast":  # another network and fewer clients a round: VGG-11 takes too long to learn
        assert (fast.model.name, fast.training.participants) == ("resnet18", 2)
    else:
        assert (fast.model, fast.training.participants) == (paper.model, paper.training.participants)
    assert fast.initial.samples == paper.initial.samples
    assert (fast.initial.fresh, paper.initial.fresh) == (True, False)
    assert (fast.pruning.lenience, paper.pruning.lenience) == (4 if "select" in name else 2, 1)
    # ResNet-18 was measured at the rate as it is
    assert fast.training.pace == (0 if name == "cifar10-fast" else 0.25)
    assert fast.initial.max_passes * 10 < paper.initial.max_passes


def test_own_models_are_trained_by_the_recipe_of_the_fast_presets():
    """But for passes: where a personal computer prunes first, as in the presets, there is time for more of them."""
    plain, fast = config.Config(), config.load(preset("femnist-fast"))
    assert plain.run.method == fast.run.method
    assert plain.training.loss == fast.training.loss
    for key in ("interval", "fraction", "half_life"):
        assert getattr(plain.pruning, key) == getattr(fast.pruning, key)
    assert (plain.initial.samples, plain.initial.fresh) == (fast.initial.samples, fast.initial.fresh)
    # as many reconfigurations, and so about the same size after them
    for settings in (plain.initial, fast.initial):
        assert settings.max_passes == 6 * settings.interval


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_names_things_that_exist(name):
    made = config.load(preset(name))
    assert made.model.name in BUILDERS or made.model.name.startswith("prunefl.models.")
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


def test_scale_is_applied_last_and_once():
    made = resolve(["cifar10", "scale=0.1", "run.rounds=300"], None)[0]
    assert (made.run.rounds, made.pruning.half_life) == (30, 1000)
    with pytest.raises(ValueError, match=r"scale=0\.1 scale=0\.1: given more than once"):
        resolve(["cifar10", "scale=0.1", "scale=0.1"], None)


def test_other_data_is_not_cut_as_the_presets_own():
    own = resolve(["femnist", "data.name=npz", "data.dir=x.npz"], None)[0].data
    assert (own.partition, own.clients, own.dir) == ("", 0, "x.npz")
    same = resolve(["femnist", "data.name=femnist", "data.dir=x"], None)[0].data
    assert (same.partition, same.clients) == ("writer", 10)


def test_presets_are_listed_in_columns(capsys):
    presets()
    lines = capsys.readouterr().out.splitlines()
    begun = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in begun] == list(preset_names())
    (column,) = {line.index(preset(line.split()[0]).read_text()[2:40]) for line in begun}
    # a description that is wrapped goes on below itself
    assert all(line[:column].isspace() and not line[column].isspace() for line in lines if line not in begun)


def test_a_device_that_is_named_takes_the_place_of_a_presets_fleet(tmp_path):
    assert resolve(["femnist"], None)[0].fleet
    config, _ = resolve(["femnist", "time.device=x86"], None)
    assert (config.fleet, config.time.device) == ((), "x86")
    own = tmp_path / "own.toml"
    own.write_text('[[fleet]]\ndevice = "x86"\n')
    with pytest.raises(ValueError, match=r"has \[\[fleet\]\]: leave one of them out"):
        resolve([str(own), "time.device=x86"], None)
