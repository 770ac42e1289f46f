"""Group runs into the variants that a report compares; refuse what does not belong together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prunefl.config import free_settings, short_name
from prunefl.config.settings import flat
from prunefl.methods import known, label_method
from prunefl.report.runs import RecordedRun
from prunefl.system.errors import PruneFLError

_OFF_AT_ZERO = {"pruning.density", "pruning.density_limit", "pruning.density_target"}


@dataclass(frozen=True)
class Variant:
    """Runs that differ only in their seed.

    Attributes:
        key: name in files and in the page's script.
        kind: "method", "lottery" or "sweep".
        settings: what sets it apart from its method's usual settings.
        runs: those that count: the finished ones, or all where none is finished.
        left_out: the unfinished ones beside finished ones; their part would spoil means over seeds.
    """

    key: str
    label: str
    method: str
    kind: str
    settings: Mapping[str, Any]
    runs: tuple[RecordedRun, ...]
    left_out: tuple[RecordedRun, ...] = ()

    @property
    def finished(self) -> bool:
        """Return whether its values are final."""
        return all(run.finished for run in self.runs)


@dataclass(frozen=True)
class Study:
    """Everything one report shows."""

    variants: tuple[Variant, ...]
    header: Mapping[str, Any]
    config: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def usual(self) -> tuple[Variant, ...]:
        """Return each method as it is, without settings that set it apart."""
        return tuple(v for v in self.variants if v.kind == "method" and not v.settings)

    @property
    def plain(self) -> tuple[Variant, ...]:
        """Return the variants for the main figures: each method as it is, or else all there are."""
        return self.usual or self.variants


def study(runs: Sequence[RecordedRun], by: Sequence[str] = (), notes: Sequence[str] = ()) -> Study:
    """Return the runs as variants, or say why they cannot stand in one report.

    Args:
        by: settings, as `section.key`, in which runs may differ; each value becomes a variant.
        notes: what is known already to be missing, in words.
    """
    chosen = {run.folder: _chosen(run, by) for run in runs}
    refuse_mixture(runs, by)
    groups: dict[tuple[str, str], list[RecordedRun]] = {}
    labels: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for run in runs:
        own = run.variant.get("settings", {})
        settings = {**chosen[run.folder], **own}
        kind = str(run.variant.get("kind", "method"))
        label = str(run.variant.get("label") or label_of(run.method, own))
        label = _with_settings(label, {key: value for key, value in settings.items() if key not in own})
        groups.setdefault((kind, label), []).append(run)
        labels[kind, label] = run.method, settings
    ordered = sorted(groups, key=lambda group: _rank(group, *labels[group]))
    variants = tuple(
        _variant(f"v{index}", *group, *labels[group], _seeds(groups[group]))
        for index, group in enumerate(ordered)
    )
    said = [f"{run.folder}: {note}" for run in runs for note in run.notes]
    said += [
        f"{v.label}: seed {run.seed} left out of the averages: unfinished"
        for v in variants
        for run in v.left_out
    ]
    return Study(variants, runs[0].header, runs[0].config, (*notes, *said))


def _variant(
    key: str, kind: str, label: str, method: str, settings: Mapping[str, Any], runs: Sequence[RecordedRun]
) -> Variant:
    finished = tuple(run for run in runs if run.finished)
    if not finished:
        return Variant(key, f"{label} (unfinished)", method, kind, settings, tuple(runs))
    left_out = tuple(run for run in runs if not run.finished)
    return Variant(key, label, method, kind, settings, finished, left_out)


def label_of(method: str, settings: Mapping[str, Any]) -> str:
    """Return a variant's name for readers: 'SNIP at 30 %', 'PruneFL, limit 10 %', 'PruneFL, alpha 0.1'."""
    return _with_settings(label_method(method), settings)


def _with_settings(label: str, settings: Mapping[str, Any]) -> str:
    rest = _given(settings)
    if "pruning.density" in rest:
        label += f" at {100 * float(rest.pop('pruning.density')):g} %"
    return ", ".join([label, *(_setting(key, value) for key, value in rest.items())])


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those whose zero says that nothing was given."""
    return {key: value for key, value in settings.items() if value or key not in _OFF_AT_ZERO}


def _setting(key: str, value: Any) -> str:
    name = short_name(key).replace("_", " ") if "." in key else key
    if name.startswith("density ") and isinstance(value, int | float):
        return f"{name.removeprefix('density ')} {100 * value:g} %"
    if key == "fleet":
        return f"fleet of {' + '.join(map(_devices, value))}" if value else "no fleet"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{name} {value:,}" if isinstance(value, int) and value >= 10_000 else f"{name} {value}"


def _devices(group: Mapping[str, Any]) -> str:
    """Return a group of a fleet in words: '9 × raspberry-pi-4 (latency 0.1)'."""
    rest = {key: value for key, value in group.items() if key not in ("device", "count") and value}
    words = ", ".join(f"{key} {value:g}" for key, value in rest.items())
    count = f"{group['count']} × " if group.get("count") else ""
    return f"{count}{group.get('device')}" + (f" ({words})" if words else "")


def _rank(group: tuple[str, str], method: str, settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the order of variants: the usual methods first, then by number and name of what differs."""
    kinds, methods = ["method", "lottery", "sweep"], list(known())
    numbers = [value if isinstance(value, int | float) else 0 for value in settings.values()]
    return (
        kinds.index(group[0]) if group[0] in kinds else len(kinds),
        methods.index(method) if method in methods else len(methods),
        numbers,
        group[1],
    )


def _seeds(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """Return one run per seed, in order."""
    by_seed: dict[int, RecordedRun] = {}
    # in a comparison each seed has the density that PruneFL came to with it; others mean different things
    _refuse_differing([run for run in runs if not run.variant], "pruning.density")
    for run in runs:
        if run.seed in by_seed:
            raise PruneFLError(
                f"{by_seed[run.seed].folder} and {run.folder}: both are {run.method} with seed {run.seed}; "
                "give one of them, or name the setting in which they differ with --by section.key"
            )
        by_seed[run.seed] = run
    return tuple(by_seed[seed] for seed in sorted(by_seed))


def _chosen(run: RecordedRun, by: Sequence[str]) -> dict[str, Any]:
    settings = _settings(run)
    for key in by:
        if key not in settings:
            raise PruneFLError(f"--by {key}: no such setting in {run.folder / 'config.toml'}")
    return _given({key: settings[key] for key in by})


def _settings(run: RecordedRun, allowed: Iterable[str] = ()) -> dict[str, Any]:
    """Return all settings of a run; a config without [[fleet]] has an empty one.

    Args:
        allowed: settings that are being compared; those of the form fleet.key are left out of the groups.
    """
    if not run.config:
        return {}
    settings = {"fleet": [], **flat(run.config)}
    fleet = [{k: v for k, v in group.items() if f"fleet.{k}" not in allowed} for group in settings["fleet"]]
    return settings | {"fleet": fleet}


def refuse_mixture(runs: Sequence[RecordedRun], by: Sequence[str] = ()) -> None:
    """Refuse runs whose configs differ in a setting that is not being compared: by all, or as a run's variant."""
    compared = {*by, *(key for run in runs for key in run.variant.get("settings", {}))}
    seen: dict[str, tuple[Any, RecordedRun]] = {}
    free = free_settings("to resume", "to compare")
    for run in runs:
        settings = _settings(run, compared) or {key: run.header.get(key) for key in ("model", "data")}
        apart = {*by, *run.variant.get("settings", {})}
        for key, value in settings.items():
            if key not in free | apart:
                _refuse_other(seen, key, value, run)


def _refuse_differing(runs: Sequence[RecordedRun], key: str) -> None:
    """Refuse runs that differ in this setting."""
    seen: dict[str, tuple[Any, RecordedRun]] = {}
    for run in runs:
        _refuse_other(seen, key, _settings(run).get(key), run)


def _refuse_other(seen: dict[str, tuple[Any, RecordedRun]], key: str, value: Any, run: RecordedRun) -> None:
    """Refuse a value that is not the first one seen of its key."""
    first, where = seen.setdefault(key, (value, run))
    if first != value:
        raise PruneFLError(
            f"runs of different configs mixed: {key} is {first!r} in {where.folder} "
            f"and {value!r} in {run.folder}; report them apart, or add --by {key}"
        )
