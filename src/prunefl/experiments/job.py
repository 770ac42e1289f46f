"""One run of a comparison, and whether what lies in its folder already is this run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prunefl import config as settings
from prunefl.config import Config
from prunefl.experiments.folders import final_density, finished
from prunefl.runs.own_code import refuse_other_code
from prunefl.runs.resume import refuse_other_config


@dataclass(frozen=True)
class Job:
    """One run of a comparison.

    Attributes:
        name: for people, such as "SNIP, seed 1".
        density_from: folder of the run whose final density this one takes, or None.
        variant: what the report shall call the run.
    """

    name: str
    folder: Path
    config: Config
    density_from: Path | None = None
    variant: Mapping[str, Any] = field(default_factory=dict)


def completed(job: Job) -> Config:
    """Return the job's config with the density that it takes from another run."""
    if job.density_from is None:
        return job.config
    density = final_density(job.density_from)
    return replace(job.config, pruning=replace(job.config.pruning, density=density))


def refuse_changed(job: Job) -> None:
    """Refuse to mix this job with what another config left in its folder."""
    kept = job.folder / "config.toml"
    if kept.exists() and (job.density_from is None or finished(job.density_from)):
        refuse_other_config(completed(job), settings.load(kept), job.folder)
    refuse_other_code(job.config, job.folder)
