"""Where the numbers come from: when, by which version, on which machine, with which settings and commands."""

import shlex
from collections.abc import Mapping
from typing import Any

from prunefl.config.settings import flat
from prunefl.report.runs import RecordedRun
from prunefl.report.study import Study, Variant


def made_of(study: Study, made_by: str) -> list[tuple[str, str]]:
    """Return what is known of how the runs were made, as (name, words); what no record tells is left out."""
    runs = [run for variant in study.variants for run in variant.runs]
    headers = [run.header for run in runs]
    started = sorted({str(header["started"]) for header in headers if header.get("started")})
    seeds = sorted({run.seed for run in runs})
    notes = {**{k: v for header in headers for k, v in (header.get("device_notes") or {}).items()}}
    found = [
        ("Report", made_by),
        ("Begun", f"{started[0]} to {started[-1]}" if len(started) > 1 else "".join(started)),
        ("Version", _listed(f"prunefl {header.get('version', '?')}" for header in headers)),
        ("Machine", _listed(str(header["machine"]) for header in headers if header.get("machine"))),
        ("Data", _listed(str(header["cut"]) for header in headers if header.get("cut"))),
        ("Seeds", ", ".join(map(str, seeds))),
        ("Privacy", _listed(spoken for variant in study.variants if (spoken := _privacy(variant)))),
        *((f"Device {name}", str(note)) for name, note in notes.items()),
    ]
    return [(name, words) for name, words in found if words]


def _privacy(variant: Variant) -> str:
    """Return what a variant's runs have told of one client at most, "" where nothing was noised."""
    spent = [run.rounds[-1]["privacy"] for run in variant.runs if run.rounds and "privacy" in run.rounds[-1]]
    if not spent:
        return ""
    most = max(spent, key=lambda one: float(one["epsilon"]))
    return f"{variant.label}: epsilon {most['epsilon']:.4g} at delta {most['delta']:g}"


def _listed(words: Any) -> str:
    return "; ".join(dict.fromkeys(words))


def shared_settings(study: Study) -> dict[str, Any]:
    """Return the settings that all runs have in common."""
    configs = [flat(run.config) for variant in study.variants for run in variant.runs]
    return {k: v for k, v in configs[0].items() if all(k in c and c[k] == v for c in configs)}


def own_settings(study: Study) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (label, settings in which the variant differs from others) for each variant that has any."""
    shared = shared_settings(study)
    own = []
    for variant in study.variants:
        by_seed: dict[str, list[Any]] = {}
        for run in variant.runs:
            for key, value in flat(run.config).items():
                if key not in shared and key != "run.seed" and value not in by_seed.setdefault(key, []):
                    by_seed[key].append(value)
        own.append((variant.label, {key: ", ".join(map(str, values)) for key, values in by_seed.items()}))
    return [(label, settings) for label, settings in own if settings]


def repeat_command(run: RecordedRun) -> str:
    """Return the command that makes the run again, elsewhere."""
    config = run.folder / "config.toml"
    return shlex.join(["prunefl", "run", str(config), "--out", f"{run.folder}-again"])
