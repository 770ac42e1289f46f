"""Many runs from one config: comparisons, lottery tickets and sweeps, each run a folder of its own."""

from prunefl.experiments.job import Job
from prunefl.experiments.jobs import Progress, run_jobs
from prunefl.experiments.plan import plan_comparison, plan_lottery, plan_sweep

__all__ = ["Job", "Progress", "plan_comparison", "plan_lottery", "plan_sweep", "run_jobs"]
