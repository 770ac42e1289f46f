"""Settings: what is right is read, what is wrong is refused in one line that helps."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl import config

PLAIN_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)


def test_defaults_survive_a_round_trip_through_toml(tmp_path):
    path = tmp_path / "c.toml"
    for comments in (False, True):
        path.write_text(config.dump(config.Config(), comments=comments))
        assert config.load(path) == config.Config()


@given(st.integers(0, 10**6), st.floats(0.001, 10), PLAIN_TEXT)
def test_any_legal_values_survive_a_round_trip(seed, rate, folder):
    tables = {"run": {"seed": seed}, "training": {"learning_rate": rate}, "data": {"dir": folder}}
    made = config.from_tables(tables)
    assert config.from_tables(tomllib.loads(config.dump(made))) == made


def test_fleet_tables_are_read_and_written():
    made = config.from_tables({"fleet": [{"device": "raspberry-pi-4", "count": 9}, {"count": 1}]})
    assert [entry.count for entry in made.fleet] == [9, 1]
    assert config.from_tables(tomllib.loads(config.dump(made))) == made


def test_a_fleet_group_without_a_count_has_the_clients_that_are_left():
    fleet = [{"count": 0}, {"device": "x86", "count": 1}]
    for clients in (10, 20):
        assert config.from_tables({"fleet": fleet, "data": {"clients": clients}}).fleet_counts() == [
            clients - 1,
            1,
        ]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"run": {"ronds": 5}}, r"^run.ronds: no such setting; did you mean run.rounds\?$"),
        ({"trainning": {}}, r"^trainning: no such section; did you mean training\?$"),
        ({"training": {"local_steps": 0}}, r"^training.local_steps=0, must be >= 1$"),
        ({"training": {"local_steps": "five"}}, r"^training.local_steps='five', must be a whole number$"),
        ({"training": {"local_steps": True}}, r"^training.local_steps=True, must be a whole number$"),
        ({"training": {"loss": "mae"}}, r"^training.loss='mae', must be one of cross_entropy, onehot_bce, "),
        (
            {"optimiser": {"name": "adam", "momentum": 0.9}},
            r"^optimiser.momentum=0.9 is a setting of sgd, but optimiser.name='adam'$",
        ),
        (
            {"optimiser": {"beta2": 0.9}},
            r"^optimiser.beta2=0.9 is a setting of adam and adamw, but optimiser.name='sgd'$",
        ),
        ({"optimiser": {"nesterov": True}}, r"^optimiser.nesterov=true needs optimiser.momentum > 0$"),
        ({"optimiser": {"keep": True}}, r"^optimiser.keep=true, but sgd without .* has nothing to keep$"),
        (
            {"server_optimiser": {"name": "fedavgm", "tau": 0.1}},
            r"^server_optimiser.tau=0.1 has no effect with server_optimiser.name='fedavgm'$",
        ),
        (
            {"training": {"schedule": "cosine", "decay": 0.5}},
            r"^training.decay=0.5 has no effect with training.schedule='cosine'$",
        ),
        (
            {"training": {"local_steps": 3, "local_epochs": 2}},
            r"^training.local_steps=3 has no effect with training.local_epochs=2: leave one of them out$",
        ),
        ({"training": {"final_rate": 0.5}}, r"^training.final_rate=0.5 needs training.schedule='cosine'$"),
        ({"initial": {"warmup_passes": 12}}, r"^initial.warmup_passes=12, must be < initial.max_passes=12$"),
        ({"training": {"warmup_rounds": 300}}, r"^training.warmup_rounds=300, must be < run.rounds=300$"),
        ({"importance": {"window": 0}}, r'^importance.window=0, must be "all" or a number of rounds'),
        ({"importance": {"window": "some"}}, r"^importance.window='some', must be \"all\" or a number"),
        ({"run": 3}, r"^run=3, must be a section: \[run\]$"),
        (
            {"training": {"participants": 11}, "data": {"clients": 10}},
            r"^training.participants=11, must be <= data.clients=10$",
        ),
        ({"training": {"learning_rate": float("nan")}}, r"^training.learning_rate=nan, must be a number$"),
        ({"pruning": {"density_target": 0.2, "density_limit": 0.1}}, r"<= pruning.density_limit=0.1$"),
        (
            {"fleet": [{"count": 3}], "data": {"clients": 10}},
            r"^fleet: counts add up to 3, must equal data.clients=10$",
        ),
    ],
)
def test_wrong_settings_are_refused_in_one_line(tables, message):
    with pytest.raises(ValueError, match=message) as caught:
        config.from_tables(tables)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"training": {"participants": 4}}, r"^training.participants=4, must be <= data.clients=3$"),
        ({"initial": {"client": 3}}, r"^initial.client=3, must be < data.clients=3$"),
        ({"server": {"clients": [0, 3]}}, r"^server.clients=\[0, 3\], must be numbers < data.clients=3$"),
        ({"server": {"min_clients": 4}}, r"^server.min_clients=4, must be <= data.clients=3$"),
        (
            {"server": {"clients": [0, 1], "min_clients": 3}},
            r"^server.min_clients=3, must be <= the 2 of server.clients=\[0, 1\]$",
        ),
        (
            {"server": {"clients": [0, 1]}, "initial": {"client": 2}},
            r"^initial.client=2, must be one of server.clients=\[0, 1\]$",
        ),
        ({"fleet": [{"count": 4}]}, r"^fleet: counts add up to 4, must equal data.clients=3$"),
    ],
)
def test_what_depends_on_the_number_of_clients_waits_for_the_data(tables, message):
    made = config.from_tables(tables)
    with pytest.raises(ValueError, match=message):
        config.settled(made, 3)


def test_overrides_take_toml_values_and_plain_text():
    made = config.override(config.Config(), ["run.rounds=7", "model.name=lenet", "importance.window=all"])
    assert (made.run.rounds, made.model.name, made.importance.window) == (7, "lenet", "all")


@pytest.mark.parametrize("text", ["rounds=7", "run.rounds", "run.=3"])
def test_a_malformed_override_is_refused(text):
    with pytest.raises(ValueError, match=r"must look like section\.key=value"):
        config.override(config.Config(), [text])


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="no such config file"):
        config.load(tmp_path / "none.toml")
    with pytest.raises(ValueError, match="a folder, must be a config file"):
        config.load(tmp_path)
    (tmp_path / "bad.toml").write_text("[run\n")
    with pytest.raises(ValueError, match="not valid TOML"):
        config.load(tmp_path / "bad.toml")


def test_a_fleet_that_is_not_there_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match=r"there is no \[\[fleet\]\] to change"):
        config.override(config.Config(), ["fleet.bandwith=1e6"])


def test_only_one_group_takes_the_clients_that_are_left() -> None:
    groups = [{"device": "x86", "count": 0}, {"device": "raspberry-pi-4", "count": 0}]
    with pytest.raises(ValueError, match="only one group can have it"):
        config.from_tables({"fleet": groups})


def test_free_settings_are_declared_with_the_settings() -> None:
    resume, both = config.free_settings("to resume"), config.free_settings("to resume", "to compare")
    assert {"run.workers", "data.dir", "data.cache"} <= resume < both
    assert {"run.seed", "run.method", "run.threads", "pruning.density"} <= both - resume
    assert not {"run.rounds", "training.batch_size", "server.deadline"} & both
