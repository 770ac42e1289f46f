"""The picture of a profile: time of a step against the live weights of each layer, with the fitted lines."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prunefl.measure.profile import LayerProfile, Profile


def draw_profile(profile: "Profile", path: Path) -> Path:
    """Write the picture (the paper's figure of linearity, for every layer) and return where it is."""
    from matplotlib.figure import Figure

    columns = min(4, len(profile.layers))
    rows = -(-len(profile.layers) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for layer, axis in zip(profile.layers, axes, strict=False):
        _draw_layer(axis, layer)
    for spare in axes[len(profile.layers) :]:
        spare.set_visible(False)
    figure.suptitle("a training step while one layer's live weights vary")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _draw_layer(axis: Any, layer: "LayerProfile") -> None:
    live = [count for count, _ in layer.points]
    axis.plot(live, [1e3 * seconds for _, seconds in layer.points], "o", markersize=3, color="#2f6f9f")
    ends = [min(live), max(live)]
    axis.plot(ends, [1e3 * layer.line.seconds(n) for n in ends], color="#2f6f9f", linewidth=1)
    axis.axhline(1e3 * layer.with_dense, color="#e0a030", linewidth=1, linestyle="--")
    axis.set_title(f"{layer.name}, R² = {layer.line.r2:.3f}", fontsize=8)
    axis.set_xlabel("live weights (dashed: dense)", fontsize=7)
    axis.set_ylabel("ms", fontsize=7)
    axis.tick_params(labelsize=7)
    axis.set_ylim(bottom=0)
