"""A run's folder as version 0.1 left it, written down here byte by byte: that version's code is gone."""

import json
import zlib
from pathlib import Path

import numpy as np
import safetensors.numpy

from prunefl import config as settings
from prunefl import models
from prunefl.config import Config

LAYERS = {"1.weight": (300, 784), "3.weight": (100, 300), "5.weight": (10, 100)}
CONFIG = settings.from_tables(
    {
        "run": {"method": "prunefl", "rounds": 2, "eval_every": 1},
        "data": {"name": "digits", "partition": "iid", "clients": 3},
        "model": {"name": "lenet300100"},
    }
)


def write_old_run(folder: Path, config: Config = CONFIG, finished: bool = True) -> dict[str, np.ndarray]:
    """Write records, two checkpoints and, if finished, the model; return its weights, zero where pruned."""
    folder.mkdir(parents=True)
    model = models.build("lenet300100", classes=10, input_shape=(1, 28, 28), seed=1)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    draw = np.random.default_rng(0)
    masks = {name: draw.random(shape) < 0.2 for name, shape in LAYERS.items()}
    live = {name: int(mask.sum()) for name, mask in masks.items()}
    values = weights | {name: weights[name][mask] for name, mask in masks.items()}
    bits = {name: np.packbits(mask, bitorder="little") for name, mask in masks.items()}
    records = [_first(), *(_round(number, live) for number in (1, 2))]
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in records]
    (folder / "config.toml").write_text(settings.dump(config))
    for done in (1, 2):
        length = sum(map(len, lines[: done + 1]))
        _checkpoint(folder / "checkpoints" / f"{done + 1:07d}", done, length, values, bits, live)
    if finished:
        _model(folder / "model.safetensors", values, bits)
        end = {"kind": "end", "rounds": 2, "accuracy": 0.6, "density": sum(live.values()) / 266200}
        lines.append(json.dumps(end) + "\n")
    (folder / "records.jsonl").write_text("".join(lines))
    return weights | {name: weights[name] * mask for name, mask in masks.items()}


def _first() -> dict[str, object]:
    sizes = {name: int(np.prod(shape)) for name, shape in LAYERS.items()}
    return {
        "kind": "run",
        "version": "0.1.0",
        "method": "prunefl",
        "seed": 0,
        "config_digest": "632c0edad4db8920",
        "model": "lenet300100",
        "data": "digits",
        "cut": "3 clients, equal shares at random",
        "prunable": 266200,
        "parameters": 266610,
        "layers": sizes,
        "live": sizes,
        "clients": 3,
        "devices": ["x86"] * 3,
        "device_notes": {"x86": "estimated from FLOPs"},
    }


def _round(number: int, live: dict[str, int]) -> dict[str, object]:
    seconds = {"compute": 0.2, "download": 0.3, "upload": 0.3, "overhead": 0.0, "total": 0.8}
    return {
        "kind": "round",
        "round": number,
        "loss": 2.0 / number,
        "collected": number == 2,
        "reconfigured": False,
        "predicted_seconds": 0.75,
        "clients": [0, 1, 2],
        "refused": {},
        "seconds": seconds,
        "bytes_up": 4000,
        "bytes_down": 5000,
        "flops": 6e7,
        "wall_seconds": 0.1,
        "density": sum(live.values()) / 266200,
        **({"live": live} if number == 1 else {}),
        "total": {
            "seconds": 0.8 * number,
            "bytes_up": 4000 * number,
            "bytes_down": 5000 * number,
            "flops": 6e7 * number,
            "wall_seconds": 0.1 * number,
        },
        "accuracy": 0.3 * number,
        "test_loss": 1.9 / number,
    }


def _checkpoint(
    path: Path,
    done: int,
    record_bytes: int,
    values: dict[str, np.ndarray],
    bits: dict[str, np.ndarray],
    live: dict[str, int],
) -> None:
    digest = "e758cd683840812a883a2ce5e78d1edc"
    client = {"masks": digest, "steps": 0, "file": ""}
    about = {
        "round": done,
        "pruned": True,
        "known": {str(number): digest for number in range(3)},
        "past": [digest],
        "shapes": LAYERS,
        "memory": {},
        "totals": {"seconds": 0.8 * done, "bytes_up": 4000, "bytes_down": 5000, "flops": 6e7},
        "evidence": {},
        "extra": {
            "wall": 0.1 * done,
            "record_bytes": record_bytes,
            "live": live,
            "engine": {str(number): client for number in range(3)},
        },
    }
    arrays = {f"values/{name}": value for name, value in values.items()}
    arrays |= {f"mask/{digest}/{name}": packed for name, packed in bits.items()}
    data = safetensors.numpy.save(arrays, {"about": json.dumps(about)})
    path.parent.mkdir(exist_ok=True)
    path.with_name(f"{path.name}-{zlib.crc32(data):08x}.safetensors").write_bytes(data)


def _model(path: Path, values: dict[str, np.ndarray], bits: dict[str, np.ndarray]) -> None:
    about = {"model": "lenet300100", "classes": 10, "input_shape": [1, 28, 28], "shapes": LAYERS}
    arrays = values | {f"mask:{name}": packed for name, packed in bits.items()}
    path.write_bytes(safetensors.numpy.save(arrays, {"prunefl": json.dumps(about)}))
