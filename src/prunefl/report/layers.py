"""Which layers were pruned, at the end and over the rounds."""

from collections.abc import Sequence

from prunefl.report.figures import Heat, file_name, spread
from prunefl.report.study import Study, Variant

MOST_COLUMNS = 120


def layer_names(study: Study) -> list[str]:
    """Return the prunable layers, in the model's order."""
    return list(study.header.get("layers") or study.variants[0].runs[0].rounds[-1]["live"])


def layer_label(study: Study, name: str) -> str:
    """Return a layer's name with type and shape: 'features.0, Conv2d 64×32×5×5'."""
    return describe_layer(name, study.header.get("shapes", {}).get(name, ()))


def describe_layer(name: str, shape: Sequence[int]) -> str:
    """Return a layer's name with type and shape; the name alone of records that have no shapes."""
    kind = {2: "Linear", 3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}.get(len(shape), "")
    size = "×".join(map(str, shape))
    return ", ".join(filter(None, [name.removesuffix(".weight"), f"{kind} {size}".strip()]))


def layer_sizes(study: Study) -> dict[str, int]:
    """Return the number of weights of each layer, live or not."""
    sizes = study.header.get("layers")
    if sizes:
        return {name: int(size) for name, size in sizes.items()}
    # records without sizes: the fullest that a layer has been seen
    return {
        name: max(int(r["live"].get(name, 0)) for v in study.variants for run in v.runs for r in run.rounds)
        for name in layer_names(study)
    }


def densities_at(variant: Variant, place: int, sizes: dict[str, int]) -> list[float]:
    """Return each layer's density in a round, mean over seeds; place -1 is each run's last round."""
    return [
        sum(run.rounds[place]["live"].get(name, 0) / max(1, size) for run in variant.runs) / len(variant.runs)
        for name, size in sizes.items()
    ]


def heat_figures(study: Study, variants: Sequence[Variant]) -> list[Heat]:
    """Return the density of each layer over the rounds, one map per variant that prunes."""
    sizes = layer_sizes(study)
    return [
        _heat(study, variant, sizes)
        for variant in variants
        if any(min(densities_at(variant, place, sizes)) < 1 for place in (0, -1))
    ]


def _heat(study: Study, variant: Variant, sizes: dict[str, int]) -> Heat:
    rounds = min((run.rounds for run in variant.runs), key=len)
    places = spread(len(rounds), MOST_COLUMNS)
    by_round = [densities_at(variant, place, sizes) for place in places]
    return Heat(
        name=f"layers-{file_name(variant.label)}",
        title="Density of each layer over the rounds",
        caption="Live share of each layer's weights, mean over seeds.",
        x_label="Round",
        rows=tuple(layer_label(study, name) for name in sizes),
        columns=tuple(int(rounds[place]["round"]) for place in places),
        values=tuple(zip(*by_round, strict=True)),
        group="layers",
        tab=variant.label,
    )
