"""From a profile to a device file."""

import math
from dataclasses import replace

from prunefl.devices import DeviceFile, Measured, Shape, StepMemory
from prunefl.measure.profile.fit import fit_line
from prunefl.measure.profile.measure import OTHERS, Profile


def measured(
    profile: Profile, shape: Shape, model: str, memory: StepMemory | None = None, command: str = ""
) -> Measured:
    """Return the times of each layer such that the whole steps that were measured come out."""
    slopes = [layer.line.per_weight for layer in profile.layers]
    # In whole steps only differences between a layer's two forms show. What a form takes at no live weight is
    # in the constant, unless the dense one takes even less: then the sparse one's surplus is its own.
    gap = [
        layer.with_dense - layer.at_rest + t * round(OTHERS * layer.weights)
        for layer, t in zip(profile.layers, slopes, strict=True)
    ]
    fixed = [max(0.0, -g) for g in gap]
    constant = max(0.0, profile.constant - sum(fixed))
    full = [f + t * layer.weights for f, t, layer in zip(fixed, slopes, profile.layers, strict=True)]
    dense = _to_whole([max(0.0, g) for g in gap], full, profile.dense_step - constant)
    work = [shape.positions[layer.name] * layer.weights for layer in profile.layers]
    extra = fit_line(list(profile.importance_extra), list(profile.importance_extra.values()))
    shares = [w / sum(work) for w in work]  # only whole steps tell the surplus; it goes by FLOPs
    dense_added = [profile.dense_importance_extra * layer.weights for layer in profile.layers]
    total = sum(layer.weights for layer in profile.layers)
    return Measured(
        name=model,
        batch=profile.batch_size,
        constant=constant,
        weights=tuple(layer.weights for layer in profile.layers),
        positions=tuple(shape.positions[layer.name] for layer in profile.layers),
        layers=tuple(layer.name for layer in profile.layers),
        per_weight=tuple(slopes),
        fixed=tuple(fixed),
        dense=tuple(dense),
        importance_per_weight=tuple(
            t + extra.per_weight * share / layer.weights
            for t, share, layer in zip(slopes, shares, profile.layers, strict=True)
        ),
        importance_fixed=tuple(f + extra.fixed * share for f, share in zip(fixed, shares, strict=True)),
        importance_dense=tuple(d + a / total for d, a in zip(dense, dense_added, strict=True)),
        r2=tuple(max(0.0, layer.line.r2) for layer in profile.layers),
        overhead=profile.overhead,
        command=command,
        dense_bytes=memory.dense if memory else 0,
        sparse_bytes=memory.sparse if memory else 0,
        bytes_per_weight=memory.per_weight if memory else 0.0,
    )


def _to_whole(dense: list[float], sparse: list[float], whole: float) -> list[float]:
    """Return the dense times, scaled so that the full model takes as long as it did.

    A dense layer between sparse ones also pays for the change of order of its data, an all-dense model does not.

    Args:
        sparse: seconds of each layer's sparse form with no weight pruned; where that is less, it counts.
    """
    least = sum(s for d, s in zip(dense, sparse, strict=True) if s < d)
    rest = sum(d for d, s in zip(dense, sparse, strict=True) if s >= d)
    scale = (whole - least) / rest if rest > 0 and whole > least else 1.0
    return [d if s < d else scale * d for d, s in zip(dense, sparse, strict=True)]


def merged(old: DeviceFile, new: DeviceFile) -> DeviceFile:
    """Return the old file with the new file's models, and its link if one was given; other models stay."""
    names = {measured.name for measured in new.models}
    kept = tuple(measured for measured in old.models if measured.name not in names)
    link = new.link if math.isfinite(new.link.up) or math.isfinite(new.link.down) else old.link
    return replace(new, link=link, note=new.note or old.note, models=kept + new.models)
