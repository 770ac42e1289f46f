"""`prunefl demo`: PruneFL beside conventional federated learning on real digits, in a few minutes."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[
        Path, typer.Option(help="folder for the two runs; what an earlier demo left is replaced")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="the seed of both runs, as run.seed")] = 0,
) -> None:
    """Train the same model twice, pruned and full-size, from one seed, and compare what it cost.

    Real handwritten digits, ten simulated clients; under three minutes on two cores.

    Example:
      prunefl demo --out runs/demo
    """
    from rich.console import Console

    from prunefl.commands.configs import resolve
    from prunefl.commands.panel import show_progress
    from prunefl.commands.summary import summary_table
    from prunefl.report.picture import draw_comparison, draw_run
    from prunefl.runs.api import run_config
    from prunefl.system.locks import hold

    # what is best for the full model, and no worse for the pruned one (docs/results.md)
    config, _ = resolve(["digits", "training.warmup_rounds=5"], seed)
    runs = []
    for method in (config.run.method, "conventional"):
        folder = out / method
        if (folder / "records.jsonl").exists():
            with hold(folder):
                shutil.rmtree(folder)
        chosen = replace(config, run=replace(config.run, method=method))
        with show_progress(chosen, folder) as progress:
            finished = run_config(
                chosen,
                folder,
                on_record=progress.show,
                on_pass=progress.show_pass,
                on_begin=progress.show_begin,
            )
        draw_run(finished.records, folder)
        runs.append((method, finished.records))
    picture = draw_comparison(runs, out)
    Console().print(summary_table(runs, config.run.target_accuracy))
    print(f"picture: {picture}")
