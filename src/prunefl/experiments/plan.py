"""Which runs a comparison, a lottery-ticket test or a sweep consists of."""

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prunefl import config as settings
from prunefl.config import Config
from prunefl.experiments.folders import final_density, finished
from prunefl.experiments.job import Job
from prunefl.methods import NoDensity, build_method, finds_density, known
from prunefl.report.figures import file_name
from prunefl.report.runs import VARIANT_FILE, RecordedRun, without_records
from prunefl.report.study import label_of, refuse_mixture
from prunefl.system.errors import PruneFLError


def plan_comparison(config: Config, methods: Sequence[str], seeds: Sequence[int], out: Path) -> list[Job]:
    """Return the runs of every method with every seed, first those that find their size by themselves.

    Args:
        methods: METHOD, METHOD:DENSITY or METHOD:section.key=value[:section.key=value...]; a method of
            one's own is package.module:function.
        out: folder that will hold METHOD/seed-N.
    """
    specs = [parse_method(text) for text in _distinct(methods)]
    specs.sort(key=lambda spec: bool(spec[1]) or not finds_density(spec[0]))
    return [_job(config, method, given, seed, out, specs) for seed in seeds for method, given in specs]


def _finder(methods: Sequence[str]) -> str | None:
    """Return the method whose final density is that of the fixed-size ones: the first that finds its own, or None."""
    return next((name for name in known() if finds_density(name) and name in methods), None)


def _distinct(methods: Sequence[str]) -> list[str]:
    if not methods:
        raise PruneFLError("--methods is empty, must name at least one method")
    return list(dict.fromkeys(methods))


def parse_method(text: str) -> tuple[str, dict[str, str]]:
    """Return a method's name and the settings that set this variant of it apart."""
    method, *parts = text.strip().split(":")
    if parts and parts[0].isidentifier():
        # package.module:function, a method of the user's own
        method = f"{method}:{parts.pop(0)}"
    given: dict[str, str] = {}
    for part in parts:
        key, separator, value = part.partition("=")
        given |= {key: value} if separator else {"pruning.density": part}
    return method, given


def _job(
    config: Config,
    method: str,
    given: Mapping[str, str],
    seed: int,
    out: Path,
    specs: Sequence[tuple[str, Mapping[str, str]]],
) -> Job:
    own = settings.override(config, [f"{key}={value}" for key, value in given.items()])
    own = replace(own, run=replace(own.run, method=method, seed=seed))
    refuse_idle(own, given)
    typed = {key: value_of(own, key) for key in given}
    label = label_of(method, typed)
    source = None
    if needs_density(own):
        finder = _finder([name for name, own_settings in specs if not own_settings])
        if finder is None:
            raise PruneFLError(
                f"{method} needs a density: add prunefl to --methods, or give pruning.density=D"
            )
        source = out / folder_name(finder, {}) / f"seed-{seed}"
    variant = {"kind": "method", "label": label, "settings": typed}
    return Job(
        f"{label}, seed {seed}", out / folder_name(method, typed) / f"seed-{seed}", own, source, variant
    )


def needs_density(config: Config) -> bool:
    """Return whether the method wants a density that the config does not give; refuses unknown methods."""
    try:
        build_method(config)
    except NoDensity:
        return True
    except PruneFLError:
        raise
    # a method of the user's own may raise anything: then its run will, and no other
    except Exception:
        return False
    return False


def refuse_idle(config: Config, keys: Iterable[str]) -> None:
    """Refuse to set runs apart by settings that change nothing about them: their labels would lie."""
    for key, option in (("run.method", "--methods"), ("run.seed", "--seeds")):
        if key in keys:
            raise PruneFLError(f"{key} cannot set runs apart, use {option}")
    if "pruning.density" not in keys:
        return
    method, density = config.run.method, config.pruning.density
    if not density:
        raise PruneFLError(f"{method}: pruning.density={density:g}, must be > 0")
    # what a method of the user's own reads, only the user knows
    if ":" not in method and not needs_density(replace(config, pruning=replace(config.pruning, density=0.0))):
        raise PruneFLError(f"{method} takes no density: it would ignore pruning.density={density:g}")


def refuse_other_runs(jobs: Sequence[Job], out: Path) -> None:
    """Refuse to begin where a report could not show the jobs beside the runs that are in `out` already."""
    planned = {job.folder: job for job in jobs}
    runs = [
        RecordedRun(folder, {}, None, (), tomllib.loads(settings.dump(job.config)), variant=job.variant)
        for folder, job in planned.items()
    ]
    present = (file.parent for file in sorted(out.rglob("records.jsonl")))
    refuse_mixture([*runs, *without_records(folder for folder in present if folder not in planned)])


def folder_name(method: str, given: Mapping[str, Any]) -> str:
    """Return a variant's folder: 'snip', 'snip_density-0.3'."""
    parts = (f"{settings.short_name(key)}-{value}" for key, value in given.items())
    return "_".join([file_name(method), *(part.replace("/", "-").replace(" ", "") for part in parts)])


def value_of(config: Config, key: str) -> Any:
    """Return the value of section.key; of [[fleet]], where `override` gives all groups the same, the first's."""
    section, _, name = key.partition(".")
    table = getattr(config, section)
    return getattr(table[0] if isinstance(table, tuple) else table, name)


def plan_lottery(runs: Sequence[Path], out: Path) -> list[Job]:
    """Return, for each finished run, its ticket, the ticket on other weights, and the methods beside it."""
    return [job for run in runs for job in _lottery(run, out)]


def lottery_folder(run: Path) -> Path:
    """Return where a run's tickets go: into the comparison if it is its plain PruneFL run, else beside that.

    A comparison has one conventional FL, one SNIP; those at a variant's density must not mix with them.
    """
    run = run.resolve()
    if not (run / VARIANT_FILE).exists():
        return run.with_name(f"{run.name}-lottery")
    comparison = run.parent.parent
    if run.parent.name == _finder([folder.name for folder in comparison.iterdir()]) and not _limited(run):
        return comparison
    return comparison.with_name(f"{comparison.name}-{run.parent.name}-lottery")


def _limited(run: Path) -> bool:
    """Return whether a run has a size limit, which its tickets and the methods beside them have not."""
    kept = run / "config.toml"
    pruning = settings.load(kept).pruning if kept.exists() else None
    return pruning is not None and bool(pruning.density_limit or pruning.density_target)


def _lottery(run: Path, out: Path) -> list[Job]:
    if not (run / "records.jsonl").exists():
        raise PruneFLError(f"{run}: must be the folder of a run (there is no records.jsonl in it)")
    if not finished(run):
        raise PruneFLError(f"{run}: is not finished; finish it with: prunefl run --out {run} --resume")
    config = settings.load(run / "config.toml")
    # the mask has the size it has: limits are for the run that found it
    config = replace(config, pruning=replace(config.pruning, density_limit=0.0, density_target=0.0))
    seed = config.run.seed
    ticket = replace(
        config,
        run=replace(config.run, method="ticket"),
        pruning=replace(config.pruning, masks=str(run.resolve())),
    )
    # any other seed would do; a large step keeps clear of the seeds that a comparison uses
    other = replace(ticket, model=replace(ticket.model, init_seed=seed + 1000))
    jobs = [
        _ticket("Lottery ticket", "ticket", ticket, seed, out),
        _ticket("Ticket, another seed's weights", "ticket-other-weights", other, seed, out),
    ]
    for method in ("conventional", "snip", "synflow"):
        own = replace(config, run=replace(config.run, method=method))
        if method != "conventional":
            own = replace(own, pruning=replace(own.pruning, density=final_density(run)))
        label = label_of(method, {})
        variant = {"kind": "method", "label": label, "settings": {}}
        jobs.append(Job(f"{label}, seed {seed}", out / method / f"seed-{seed}", own, None, variant))
    return jobs


def _ticket(label: str, name: str, config: Config, seed: int, out: Path) -> Job:
    variant = {"kind": "lottery", "label": label, "settings": {}}
    return Job(f"{label}, seed {seed}", out / name / f"seed-{seed}", config, None, variant)


def plan_sweep(
    config: Config,
    swept: Mapping[str, Sequence[str]],
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
) -> list[Job]:
    """Return the runs of every combination of values, for every method and seed."""
    jobs: list[Job] = []
    for values in itertools.product(*swept.values()):
        given = dict(zip(swept, values, strict=True))
        point = settings.override(config, [f"{key}={value}" for key, value in given.items()])
        typed = {key: value_of(point, key) for key in given}
        inner = plan_comparison(point, methods, seeds, out / folder_name("", typed).strip("_"))
        for job in inner:
            refuse_idle(job.config, typed)
        jobs += [_swept(job, typed) for job in inner]
    return jobs


def _swept(job: Job, typed: Mapping[str, Any]) -> Job:
    given = {**job.variant["settings"], **typed}
    label = label_of(job.config.run.method, given)
    variant = {"kind": "sweep", "label": label, "settings": given}
    return replace(job, name=f"{label}, seed {job.config.run.seed}", variant=variant)


def parse_swept(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return section.key -> values of texts such as data.alpha=0.1,1,10."""
    swept: dict[str, list[str]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        if not separator or "." not in key:
            raise PruneFLError(f"{text!r}: must look like section.key=a,b,c, such as data.alpha=0.1,1,10")
        # a value in brackets is one list, not several values
        swept[key] = [values] if values.startswith("[") else [value for value in values.split(",") if value]
        if not swept[key]:
            raise PruneFLError(f"{text!r}: gives no value to try")
    return swept
