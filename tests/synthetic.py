"""Run folders that look like real ones, made in milliseconds."""

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prunefl.config import Config, dump, override

LAYERS = {"0.weight": 800, "3.weight": 51_200, "7.weight": 6_422_528, "9.weight": 126_976}
SHAPES_OF_LAYERS = {
    "0.weight": [32, 1, 5, 5],
    "3.weight": [64, 32, 5, 5],
    "7.weight": [2048, 3136],
    "9.weight": [62, 2048],
}
TOTAL = sum(LAYERS.values())
# accuracy reached, rounds to get there, final density of each layer
SHAPES: dict[str, tuple[float, float, tuple[float, ...]]] = {
    "prunefl": (0.850, 110, (0.95, 0.62, 0.11, 0.42)),
    "conventional": (0.853, 100, (1, 1, 1, 1)),
    "snip": (0.851, 130, (0.9, 0.5, 0.12, 0.3)),
    "synflow": (0.847, 150, (0.99, 0.8, 0.12, 0.2)),
    "online": (0.852, 110, (0.9, 0.9, 0.9, 0.9)),
    "iterative": (0.848, 120, (0.13, 0.13, 0.13, 0.13)),
    "initial-only": (0.81, 120, (0.6, 0.2, 0.04, 0.3)),
    "feddst": (0.846, 140, (1, 0.5, 0.12, 0.4)),
    "ticket": (0.850, 120, (0.95, 0.62, 0.11, 0.42)),
}
DENSE_SECONDS = {"compute": 11.2, "upload": 18.4, "download": 18.4, "overhead": 0.2}


def write_run(
    folder: Path,
    method: str,
    seed: int,
    *settings: str,
    rounds: int = 400,
    variant: Mapping[str, Any] | None = None,
    shape: tuple[float, float, tuple[float, ...]] | None = None,
    end: bool = True,
) -> Path:
    """Write a run folder as `prunefl run` would, with a plausible course, and return it."""
    folder.mkdir(parents=True)
    config = override(
        Config(),
        [f"run.method={method}", f"run.seed={seed}", f"run.rounds={rounds}", "data.name=femnist", *settings],
    )
    (folder / "config.toml").write_text(dump(config))
    if variant is not None:
        (folder / "variant.json").write_text(json.dumps(variant))
    lines = [json.dumps(record) for record in _records(method, seed, rounds, shape or SHAPES[method], end)]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def _records(method: str, seed: int, rounds: int, shape: Any, end: bool) -> list[dict[str, Any]]:
    lots = random.Random(f"{method}/{seed}")
    records: list[dict[str, Any]] = [
        {
            "kind": "run",
            "version": "0.1.0",
            "method": method,
            "seed": seed,
            "config_digest": "00",
            "model": "conv2",
            "data": "femnist",
            "prunable": TOTAL,
            "parameters": TOTAL + 2206,
            "layers": LAYERS,
            "clients": 10,
            "devices": ["raspberry-pi-4"] * 9 + ["x86"],
            "shapes": SHAPES_OF_LAYERS,
            "started": "2026-11-16 08:00:00 UTC",
            "machine": "a small machine, 2 cores, Linux",
            "device_notes": {"x86": "measured on one x86 machine; yours may be faster or slower"},
        }
    ]
    total = {"seconds": 0.0, "bytes_up": 0, "bytes_down": 0, "flops": 0.0, "wall_seconds": 0.0}
    reached, slowness, final = shape
    shown: dict[str, int] = {}
    if method in ("prunefl", "initial-only"):
        # round 1 trains what initial pruning left, so its record does not repeat the counts
        shown = _live(method, 1, rounds, final)
        records.append(_initial(total, shown))
    for number in range(1, rounds + 1):
        live = _live(method, number, rounds, final)
        record = _round(number, live, total, lots)
        if live == shown:
            del record["live"]
        shown = live
        if number % 10 == 0:
            noise = lots.gauss(0, 0.006) + 0.01 * math.sin(seed)
            record["accuracy"] = max(
                0.0, reached * (1 - math.exp(-((number / slowness) ** 0.7) * 1.6)) + noise
            )
            record["test_loss"] = 4 * math.exp(-number / slowness)
        records.append(record)
    if end:
        records.append(
            {"kind": "end", "accuracy": reached, "density": records[-1]["density"], "rounds": rounds}
        )
    return records


def _initial(total: dict[str, Any], live: dict[str, int]) -> dict[str, Any]:
    segments = [
        {
            "passes": 50,
            "steps": 500,
            "full_steps": 10,
            "accuracy": 0.3,
            "loss": 2.0,
            "live": {name: int(size * (1 - 0.17 * k)) for name, size in LAYERS.items()},
        }
        for k in range(5)
    ]
    now = {"seconds": 420.0, "bytes_up": 10, "bytes_down": 10, "flops": 2e11, "wall_seconds": 3.0}
    for key, value in now.items():
        total[key] += value
    return {
        "kind": "initial",
        "client": 9,
        "segments": segments,
        **now,
        "seconds": {"compute": 418.0, "upload": 1.0, "download": 1.0, "overhead": 0.0, "total": 420.0},
        "density": sum(live.values()) / TOTAL,
        "live": live,
        "total": dict(total),
    }


def _live(method: str, number: int, rounds: int, final: tuple[float, ...]) -> dict[str, int]:
    if method == "online":
        wave = 0.75 + 0.25 * math.cos(number / 9) * math.exp(-number / 120)
        return {name: int(size * wave) for name, size in LAYERS.items()}
    start = {"prunefl": 0.35, "snip": 1.0 if number == 1 else 0.0, "iterative": 1.0}.get(method, 0.0)
    stage = 20 * min(1.0, number // (rounds / 40) / 20) if method == "iterative" else number // 50
    left = start * 0.86**stage if method != "snip" else start
    return {
        name: int(size * (d + (1 - d) * left)) for (name, size), d in zip(LAYERS.items(), final, strict=True)
    }


def _round(number: int, live: dict[str, int], total: dict[str, Any], lots: random.Random) -> dict[str, Any]:
    share = sum(live.values()) / TOTAL
    parts = {
        name: seconds * (share if name.endswith("load") else 0.56 + 0.44 * share) * lots.uniform(0.99, 1.03)
        for name, seconds in DENSE_SECONDS.items()
    }
    num_bytes = int(10 * 4 * sum(live.values()))
    now = {
        "seconds": sum(parts.values()),
        "bytes_up": num_bytes,
        "bytes_down": num_bytes,
        "flops": 6e9 * share,
        "wall_seconds": 0.2,
    }
    for key, value in now.items():
        total[key] += value
    return {
        "kind": "round",
        "round": number,
        "loss": 4 / number,
        "density": share,
        "live": live,
        "collected": number % 50 == 0,
        "reconfigured": number % 50 == 0,
        "seconds": {**parts, "total": now["seconds"]},
        "bytes_up": num_bytes,
        "bytes_down": num_bytes,
        "flops": now["flops"],
        "wall_seconds": 0.2,
        "clients": list(range(10)),
        "predicted_seconds": 6.3 + 41.9 * share,
        "refused": {},
        "total": dict(total),
    }


def write_comparison(folder: Path, seeds: int = 3, rounds: int = 400) -> Path:
    """Write a folder with everything that a report can show."""
    for seed in range(seeds):
        for method in ("prunefl", "conventional", "snip", "synflow", "online", "iterative", "feddst"):
            write_run(folder / method / f"seed-{seed}", method, seed, rounds=rounds)
        for density, reached in ((0.3, 0.853), (0.01, 0.74)):
            write_run(
                folder / f"snip-{density}" / f"seed-{seed}",
                "snip",
                seed,
                f"pruning.density={density}",
                rounds=rounds,
                shape=(reached, 120, (density,) * 4),
                variant={"kind": "method", "settings": {"pruning.density": density}},
            )
        limits = {"pruning.density_limit": 0.3, "pruning.density_target": 0.05}
        write_run(
            folder / "prunefl-limited" / f"seed-{seed}",
            "prunefl",
            seed,
            *(f"{k}={v}" for k, v in limits.items()),
            rounds=rounds,
            shape=(0.842, 120, (0.05,) * 4),
            variant={"kind": "method", "settings": limits},
        )
        for label, reached in (("Lottery ticket", 0.851), ("Ticket, another seed's weights", 0.83)):
            write_run(
                folder / label / f"seed-{seed}",
                "ticket",
                seed,
                rounds=rounds,
                shape=(reached, 115, SHAPES["ticket"][2]),
                variant={"kind": "lottery", "label": label},
            )
    return folder


def rows(folder: Path) -> list[dict]:
    """Return a run's records."""
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def accuracies(folder: Path) -> list[float]:
    """Return the accuracy of each evaluation of a run."""
    return [100 * r["accuracy"] for r in rows(folder) if r["kind"] == "round" and r.get("accuracy")]
