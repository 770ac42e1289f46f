"""`prunefl bench reconfigure`: a reconfiguration against one sort of as many floats."""

from typing import Annotated

import typer


def bench_reconfigure(
    weights: Annotated[int, typer.Option(help="how many prunable weights the model has")] = 11_000_000,
    repeats: Annotated[int, typer.Option(help="how often each is measured; the median counts")] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object instead of a sentence")
    ] = False,
) -> None:
    """Time the choice of the next weights (prunable set and Algorithm 2) against one torch.sort.

    Example:
      prunefl bench reconfigure --weights 11000000 --json
    """
    import json
    from dataclasses import asdict

    from prunefl.measure.bench.reconfigure import measure

    timing = measure(weights, repeats)
    if as_json:
        print(json.dumps(asdict(timing)))
        return
    print(
        f"reconfiguring {timing.weights:,} weights: {timing.seconds:.3f} s; "
        f"one torch.sort of as many floats: {timing.sort_seconds:.3f} s "
        f"(medians of {timing.repeats}, {timing.threads} threads)"
    )
