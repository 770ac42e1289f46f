"""Which runs stand together, and what they are called."""

from pathlib import Path

import pytest

from prunefl.report.runs import find_runs
from prunefl.report.study import Study, study
from synthetic import write_run


def told(folder: Path, *by: str) -> Study:
    return study(find_runs([folder])[0], by)


def labels(found: Study) -> list[str]:
    return [variant.label for variant in found.variants]


def test_runs_of_different_configs_are_refused_unless_the_difference_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, "data.alpha=0.5", rounds=20)
    write_run(tmp_path / "b", "snip", 0, "data.alpha=0.1", rounds=20)
    with pytest.raises(
        ValueError, match=r"different configs mixed: data.alpha is 0.5 in .* and 0.1 .* --by data.alpha"
    ):
        told(tmp_path)
    assert labels(told(tmp_path, "data.alpha")) == ["SNIP, alpha 0.1", "SNIP, alpha 0.5"]
    with pytest.raises(ValueError, match=r"--by data.beta: no such setting"):
        told(tmp_path, "data.beta")


def test_seeds_at_different_densities_are_not_averaged(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, "pruning.density=0.5", rounds=20)
    write_run(tmp_path / "b", "snip", 1, "pruning.density=0.05", rounds=20)
    with pytest.raises(ValueError, match=r"different configs mixed: pruning.density is 0.5 .*and 0.05"):
        told(tmp_path)
    assert labels(told(tmp_path, "pruning.density")) == ["SNIP at 5 %", "SNIP at 50 %"]


def test_seeds_at_the_densities_that_prunefl_gave_them_are_averaged(tmp_path: Path) -> None:
    for seed, density in enumerate((0.19, 0.2)):
        given = {"kind": "method", "label": "SNIP", "settings": {}}
        write_run(tmp_path / str(seed), "snip", seed, f"pruning.density={density}", rounds=20, variant=given)
    assert [len(variant.runs) for variant in told(tmp_path).variants] == [2]


def test_what_sets_one_run_apart_may_not_differ_among_the_others(tmp_path: Path) -> None:
    limit = {"kind": "method", "settings": {"pruning.density_limit": 0.1}}
    write_run(tmp_path / "a", "prunefl", 0, "pruning.density_limit=0.1", rounds=20, variant=limit)
    write_run(tmp_path / "b", "prunefl", 0, rounds=20)
    assert labels(told(tmp_path)) == ["PruneFL", "PruneFL, limit 10 %"]
    write_run(tmp_path / "c", "prunefl", 1, "pruning.density_limit=0.5", rounds=20)
    with pytest.raises(ValueError, match=r"different configs mixed: pruning.density_limit is 0.0"):
        told(tmp_path)


def test_the_same_method_and_seed_twice_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 3, rounds=20)
    write_run(tmp_path / "b", "snip", 3, rounds=20)
    with pytest.raises(ValueError, match="both are snip with seed 3"):
        told(tmp_path)


def test_a_density_that_was_not_given_is_not_in_the_name(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "prunefl", 0, rounds=20)
    write_run(tmp_path / "b", "snip", 0, "pruning.density=0.3", rounds=20)
    found = told(tmp_path, "pruning.density")
    assert labels(found) == ["PruneFL", "SNIP at 30 %"]
    assert [variant.label for variant in found.usual] == ["PruneFL"]


def test_runs_of_two_comparisons_are_told_apart_by_the_setting_named(tmp_path: Path) -> None:
    for alpha in (0.1, 0.5):
        given = {"kind": "method", "label": "SNIP at 30 %", "settings": {"pruning.density": 0.3}}
        write_run(tmp_path / str(alpha), "snip", 0, f"data.alpha={alpha}", rounds=20, variant=given)
    assert labels(told(tmp_path, "data.alpha")) == ["SNIP at 30 %, alpha 0.1", "SNIP at 30 %, alpha 0.5"]


def test_fleets_are_named_in_words_and_not_mixed(tmp_path: Path) -> None:
    groups = {"a": [("raspberry-pi-4", 9, 0.0), ("x86", 0, 0.0)], "b": [("x86", 10, 0.1)], "c": []}
    for name, fleet in groups.items():
        folder = write_run(tmp_path / name, "snip", 0, rounds=20)
        with (folder / "config.toml").open("a") as file:
            for device, count, latency in fleet:
                file.write(f'[[fleet]]\ndevice = "{device}"\ncount = {count}\nlatency = {latency}\n')
    with pytest.raises(ValueError, match=r"different configs mixed: fleet is .* --by fleet"):
        told(tmp_path)
    assert labels(told(tmp_path, "fleet")) == [
        "SNIP, fleet of 10 × x86 (latency 0.1)",
        "SNIP, fleet of 9 × raspberry-pi-4 + x86",
        "SNIP, no fleet",
    ]
