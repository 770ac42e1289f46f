"""What a comparison, a lottery test and a sweep consist of."""

import json
from pathlib import Path

import pytest

from prunefl.config import Config, dump, from_tables, override
from prunefl.experiments import plan_comparison, plan_lottery, plan_sweep
from prunefl.experiments.plan import lottery_folder, parse_method, parse_swept, refuse_other_runs
from prunefl.methods import build_method

OUT = Path("out")
METHODS = ["conventional", "snip", "prunefl", "online", "snip:0.3"]


def test_prunefl_comes_first_and_gives_its_density_to_its_own_seed() -> None:
    jobs = plan_comparison(Config(), METHODS, [4, 5], OUT)
    assert [job.name for job in jobs[:2]] == ["PruneFL, seed 4", "Conventional FL, seed 4"]
    sources = {job.name: job.density_from for job in jobs}
    assert sources["SNIP, seed 5"] == OUT / "prunefl" / "seed-5"
    assert [name for name, source in sources.items() if source] == ["SNIP, seed 4", "SNIP, seed 5"]
    assert {(job.config.run.method, job.config.run.seed) for job in jobs} == {
        (method, seed) for method in ("conventional", "snip", "prunefl", "online") for seed in (4, 5)
    }


@pytest.mark.parametrize(
    ("methods", "finder"),
    [
        (["snip", "prunefl-fisher"], "prunefl-fisher"),
        (["prunefl-fisher", "snip", "prunefl"], "prunefl"),
        (["snip", "prunefl-fisher", "prunefl:pruning.density_limit=0.1"], "prunefl-fisher"),
    ],
)
def test_whichever_method_finds_its_size_gives_it_to_the_others(methods: list[str], finder: str) -> None:
    jobs = plan_comparison(Config(), methods, [0], OUT)
    assert {job.density_from for job in jobs if job.config.run.method == "snip"} == {OUT / finder / "seed-0"}
    # they are started in this order, and a density must be found before it is needed
    assert [job.folder.parent.name for job in jobs].index(finder) < [
        job.folder.parent.name for job in jobs
    ].index("snip")


def test_a_variant_has_a_folder_label_and_settings_of_its_own() -> None:
    job = plan_comparison(
        Config(), ["prunefl:pruning.density_limit=0.1:pruning.density_target=0.05"], [0], OUT
    )[0]
    assert job.folder == OUT / "prunefl_density_limit-0.1_density_target-0.05" / "seed-0"
    assert job.variant["label"] == "PruneFL, limit 10 %, target 5 %"
    assert job.variant["settings"] == {"pruning.density_limit": 0.1, "pruning.density_target": 0.05}
    assert job.config.pruning.density_limit == 0.1


def test_a_method_is_read_with_its_density_or_settings() -> None:
    assert parse_method("snip") == ("snip", {})
    assert parse_method("snip:0.3") == ("snip", {"pruning.density": "0.3"})
    assert parse_method("prunefl:data.alpha=1") == ("prunefl", {"data.alpha": "1"})
    assert parse_method("my.module:method:0.3") == ("my.module:method", {"pruning.density": "0.3"})


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["snip"], "snip needs a density: add prunefl to --methods, or give pruning.density=D"),
        (["prunfl"], "run.method='prunfl', must be one of prunefl"),
        ([], "--methods is empty"),
        (["snip:2"], "pruning.density=2"),
        (["prunefl:pruning.nonsense=1"], "pruning.nonsense: no such setting"),
        (["prunefl:run.seed=7"], "run.seed cannot set runs apart, use --seeds"),
        (["prunefl:run.method=snip"], "run.method cannot set runs apart, use --methods"),
        (["conventional:0.3"], "conventional takes no density: it would ignore pruning.density=0.3"),
        (["snip:0"], "snip: pruning.density=0, must be > 0"),
    ],
)
def test_a_wrong_list_of_methods_is_refused_before_anything_runs(methods: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_comparison(Config(), methods, [0], OUT)


def test_a_given_density_needs_no_prunefl() -> None:
    config = override(Config(), ["pruning.density=0.2"])
    assert plan_comparison(config, ["snip"], [0], OUT)[0].density_from is None


def test_a_sweep_is_every_combination() -> None:
    swept = parse_swept(["data.alpha=0.1,1", "training.participants=2,5,10"])
    jobs = plan_sweep(Config(), swept, ["prunefl", "conventional"], [0], OUT)
    assert len(jobs) == len({job.folder for job in jobs}) == 2 * 3 * 2
    assert jobs[0].variant["settings"] == {"data.alpha": 0.1, "training.participants": 2}
    assert jobs[0].folder == OUT / "alpha-0.1_participants-2" / "prunefl" / "seed-0"
    assert jobs[0].variant["kind"] == "sweep"


@pytest.mark.parametrize(
    "text",
    [
        "pruning.density_limit=0.1,0.2",
        "data.alpha=0.1,1",
        "training.participants=2,5",
        "pruning.interval=10,50",
        "pruning.fraction=0.1,0.3",
        "fleet.bandwidth=500000,2000000.0",
    ],
)
def test_what_people_sweep_can_be_swept(text: str) -> None:
    fleet = {"fleet": [{"device": "x86", "count": 1}, {"device": "raspberry-pi-4", "count": 0}]}
    swept = parse_swept([text])
    jobs = plan_sweep(from_tables(fleet), swept, ["prunefl"], [0], OUT)
    (key, values), *_ = swept.items()
    assert [job.variant["settings"][key] for job in jobs] == [float(value) for value in values]
    assert len({dump(job.config) for job in jobs}) == 2
    assert [group.device for group in jobs[0].config.fleet] == ["x86", "raspberry-pi-4"]


def test_equal_names_of_two_sections_have_folders_of_their_own() -> None:
    methods = ["prunefl:pruning.interval=10", "prunefl:initial.interval=10"]
    folders = [job.folder.parent.name for job in plan_comparison(Config(), methods, [0], OUT)]
    assert folders == ["prunefl_pruning.interval-10", "prunefl_initial.interval-10"]


def test_a_list_in_brackets_is_one_value() -> None:
    assert parse_swept(['pruning.exclude=["a","b"]']) == {"pruning.exclude": ['["a","b"]']}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run.seed=0,1", "run.seed cannot set runs apart"),
        ("run.method=prunefl,conventional", "run.method cannot set runs apart"),
        ("pruning.density=0.1,0.2", "prunefl takes no density"),
    ],
)
def test_a_sweep_that_would_change_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_sweep(Config(), parse_swept([text]), ["prunefl"], [0], OUT)


def test_a_density_can_be_swept_where_it_is_read() -> None:
    jobs = plan_sweep(Config(), parse_swept(["pruning.density=0.1,0.2"]), ["snip"], [0], OUT)
    assert [job.config.pruning.density for job in jobs] == [0.1, 0.2]


def test_runs_that_no_report_could_show_beside_those_there_are_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    there = tmp_path / "prunefl" / "seed-0"
    there.mkdir(parents=True)
    (there / "records.jsonl").write_text("")
    (there / "config.toml").write_text(dump(override(Config(), ["run.rounds=7"])))
    with pytest.raises(ValueError, match=r"different configs mixed: run.rounds is \d+ in .* and 7 in"):
        refuse_other_runs(plan_comparison(Config(), ["conventional"], [0], tmp_path), tmp_path)
    same = override(Config(), ["run.rounds=7", "run.seed=4", "pruning.density=0.5"])
    refuse_other_runs(plan_comparison(same, ["conventional", "snip"], [4], tmp_path), tmp_path)


@pytest.mark.parametrize("text", ["alpha=1,2", "data.alpha", "data.alpha=,"])
def test_a_wrong_sweep_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must look like|gives no value"):
        parse_swept([text])


def test_tickets_go_into_the_comparison_that_their_run_is_part_of(tmp_path: Path) -> None:
    for folder in ("x/prunefl/seed-3", "x/prunefl_density_limit-0.1/seed-3"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "variant.json").write_text("{}")
    assert lottery_folder(tmp_path / "x/prunefl/seed-3") == tmp_path / "x"
    (tmp_path / "x/prunefl/seed-3/config.toml").write_text(
        dump(override(Config(), ["pruning.density_limit=0.1"]))
    )
    assert lottery_folder(tmp_path / "x/prunefl/seed-3") == tmp_path / "x-prunefl-lottery"
    # its SNIP has another density than the comparison's
    beside = tmp_path / "x-prunefl_density_limit-0.1-lottery"
    assert lottery_folder(tmp_path / "x/prunefl_density_limit-0.1/seed-3") == beside
    assert lottery_folder(tmp_path / "digits-0") == tmp_path / "digits-0-lottery"


def test_a_lottery_trains_the_mask_on_old_and_other_weights_beside_three_methods(tmp_path: Path) -> None:
    run = tmp_path / "prunefl" / "seed-3"
    run.mkdir(parents=True)
    limits = ["pruning.density_limit=0.3", "pruning.density_target=0.125"]
    (run / "config.toml").write_text(dump(override(Config(), ["run.seed=3", *limits])))
    with pytest.raises(ValueError, match="must be the folder of a run"):
        plan_lottery([run], tmp_path)
    (run / "records.jsonl").write_text(json.dumps({"kind": "run"}) + "\n")
    with pytest.raises(ValueError, match=r"is not finished; finish it with: prunefl run --out .* --resume"):
        plan_lottery([run], tmp_path)
    (run / "records.jsonl").write_text(json.dumps({"kind": "end", "density": 0.125}) + "\n")
    jobs = {job.folder.parent.name: job.config for job in plan_lottery([run], tmp_path)}
    assert set(jobs) == {"ticket", "ticket-other-weights", "conventional", "snip", "synflow"}
    assert jobs["ticket"].pruning.masks == jobs["ticket-other-weights"].pruning.masks == str(run)
    assert jobs["ticket"].model.init_seed == -1
    assert jobs["ticket-other-weights"].model.init_seed not in (-1, 3)
    assert jobs["snip"].pruning.density == jobs["synflow"].pruning.density == 0.125
    for config in jobs.values():
        build_method(config)
