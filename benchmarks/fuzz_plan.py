"""Mutate plans and decode them: every one must be a plan or a PlanError. `fuzz_plan.py [COUNT] [SEED]`."""

import json
import random
import sys
import time
from typing import Any

from prunefl import models
from prunefl.local.native import PlanError, decode_plan, encode_plan
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of
from prunefl.models.transformer import vit

ODD = (
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    8,
    9,
    255,
    2**31,
    2**63,
    2**70,
    0.5,
    1e300,
    "",
    "relu",
    "conv",
    [],
    [1],
    {},
    "\n",
)


def seeds() -> list[str]:
    """Return plans to start from."""
    found = []
    for name, shape in {
        "lenet300100": (1, 28, 28),
        "conv2": (1, 28, 28),
        "mobilenetv3_small": (3, 32, 32),
    }.items():
        module = models.build(name, classes=10, input_shape=shape, seed=0)
        found.append(encode_plan(compile_plan(module, network_of(module, shape, 10).template, shape)))
    module = vit(10, 1, 8)
    found.append(encode_plan(compile_plan(module, network_of(module, (1, 8, 8), 10).template, (1, 8, 8))))
    return found


def places(given: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to everything in nested tables."""
    items = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    return [path, *(found for key, value in items for found in places(value, (*path, key)))]


def mutate_text(text: str, draw: random.Random) -> str:
    """Return a text with some characters replaced, cut out or doubled."""
    for _ in range(draw.randint(1, 3)):
        at, length = draw.randrange(len(text)), draw.randint(0, 4)
        text = (
            text[:at] + draw.choice([chr(draw.randrange(128)), "", text[at : at + 9]]) + text[at + length :]
        )
    return text


def mutate_value(text: str, ways: list[tuple[Any, ...]], draw: random.Random) -> str:
    """Return a plan's text with one value replaced."""
    given = json.loads(text)
    path = draw.choice(ways)
    if not path:
        return json.dumps(draw.choice(ODD))
    place = given
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = draw.choice(ODD)
    return json.dumps(given)


def main() -> None:
    """Decode so many mutated plans and say how they ended."""
    count, seed = (int(word) for word in [*sys.argv[1:], "100000", "0"][:2])
    draw, texts = random.Random(seed), seeds()
    ways, started, plans = [places(json.loads(text)) for text in texts], time.perf_counter(), 0
    for number in range(count):
        which = draw.randrange(len(texts)) if number % 8 == 0 else 0
        text = (
            mutate_text(texts[which], draw) if number % 2 else mutate_value(texts[which], ways[which], draw)
        )
        try:
            decode_plan(text)
            plans += 1
        except PlanError as error:
            if "\n" in str(error):
                raise
    print(f"{count} mutated plans, {plans} still plans, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
