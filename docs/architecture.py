"""Draws architecture.svg: the way of a round, and the rooms. From the root: python docs/architecture.py"""

from pathlib import Path

STYLE = """
  .card { fill: #ffffff; stroke: #d5dbe5 } .side { fill: #f4f6fa; stroke: #d5dbe5 }
  .box { fill: #ffffff; stroke: #8b98ad } .own { fill: #fdeef0; stroke: #d1495b }
  .room { fill: #eef3fb; stroke: #8b98ad }
  .arrow { stroke: #44546b; stroke-width: 1.6; fill: none } .tip { fill: #44546b }
  text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1d2736; font-size: 13px }
  .head { font-weight: 600; font-size: 15px } .small { fill: #4c5b72; font-size: 12px }
  .mono { font-family: ui-monospace, Menlo, "DejaVu Sans Mono", monospace; font-size: 12.5px }
  .tight { font-size: 12px } .mid { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .card { fill: #10161f; stroke: #344257 } .side { fill: #18202c; stroke: #344257 }
    .box { fill: #212c3b; stroke: #6d7f99 } .own { fill: #3a2028; stroke: #ff7a8a }
    .room { fill: #1f2b3d; stroke: #6d7f99 }
    .arrow { stroke: #b6c3d6 } .tip { fill: #b6c3d6 } text { fill: #e8eef7 } .small { fill: #b3c0d3 }
  }"""

ROOMS = (
    "system config core wire privacy data models devices local methods",
    "rounds engines runs export measure report experiments commands",
)
"""In the order of tests/test_imports.py."""

SERVER_FIRST = (
    ("box", "rounds/server  begin_round", "learning rate, masks that each client has"),
    ("own", "methods  cohort, work", "who takes part, and what they do"),
    ("box", "wire  pack", "values; masks only where they are new"),
)
CLIENT = (
    ("box", "rounds/client  handle", "with the client's own samples and memory"),
    ("box", "wire  unpack", "into a SparseState, or refused"),
    ("own", "methods  train", "the client's half: Work in, Update out"),
    ("box", "local  steps, gradient, loss", "one backend: torch and C++ kernels"),
    ("box", "wire  pack", "model, and a statistic if asked for"),
)
SERVER_THEN = (
    ("box", "rounds/updates  collect_updates", "unpacked and checked before believed"),
    ("own", "methods  check, cost, combine", "clock: slowest device; weighted mean"),
    ("own", "methods  next", "new masks: core/reconfigure, time_model"),
    ("box", "runs  evaluate, record, checkpoint", "one JSON line a round; reports read these"),
)
LEFT, RIGHT, WIDTH, STEP, HEIGHT = 28, 452, 320, 50, 42


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" xml:space="preserve">{words}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>'


def arrow(*points: tuple[float, float]) -> str:
    """Return a line through the points that ends in a tip."""
    path = " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M{path}" class="arrow" marker-end="url(#tip)"/>'


def boxes(x: float, top: float, first: int, entries: tuple[tuple[str, str, str], ...]) -> list[str]:
    """Return numbered boxes below each other, with arrows between them."""
    drawn = []
    for n, (kind, name, words) in enumerate(entries):
        y = top + n * STEP
        drawn += [
            rect(x, y, WIDTH, HEIGHT, kind),
            text(x + 10, y + 17, f"{first + n}", "head"),
            text(x + 38, y + 17, name, "mono"),
        ]
        drawn += [text(x + 38, y + 34, words, "small")]
        if n:
            drawn.append(arrow((x + WIDTH / 2, y - STEP + HEIGHT), (x + WIDTH / 2, y - 1)))
    return drawn


def rooms(top: float) -> list[str]:
    """Return the rooms in their order, in two rows."""
    drawn = []
    for row, names in enumerate(ROOMS):
        y, words = top + 36 * row, names.split()
        for n, name in enumerate(words):
            drawn += [
                rect(15 + 86 * n, y, 83, 28, "room"),
                text(56.5 + 86 * n, y + 19, name, "mid mono tight"),
            ]
    return drawn


def draw() -> str:
    """Return the picture as SVG."""
    server, client, then = 66, 116, 66 + 4 * STEP + 36
    bottom = then + 4 * STEP + 6
    body = [
        rect(0.5, 0.5, 799, bottom + 142, "card"),
        rect(16, 16, WIDTH + 24, bottom - 16, "side"),
        rect(RIGHT - 12, 16, WIDTH + 24, bottom - 16, "side"),
        text(LEFT, 38, "Server", "head"),
        text(LEFT + 66, 38, "holds the model, trains nothing", "small"),
        text(RIGHT, 38, "Client", "head"),
        text(RIGHT + 60, 38, "one of a cohort; its samples stay here", "small"),
        text(LEFT, 56, "red: what a method answers, all in one file", "small"),
        *boxes(LEFT, server, 1, SERVER_FIRST),
        *boxes(RIGHT, client, 4, CLIENT),
        *boxes(LEFT, then, 9, SERVER_THEN),
    ]
    out, home = server + 2 * STEP + HEIGHT / 2, client + 4 * STEP + HEIGHT / 2
    middle = (LEFT + WIDTH + RIGHT) / 2
    body += [
        arrow(
            (LEFT + WIDTH, out),
            (middle, out),
            (middle, client + HEIGHT / 2),
            (RIGHT - 2, client + HEIGHT / 2),
        ),
        arrow(
            (RIGHT, home), (middle, home), (middle, then + HEIGHT / 2), (LEFT + WIDTH + 2, then + HEIGHT / 2)
        ),
        text(middle, client + HEIGHT / 2 - 9, "Order", "mid"),
        text(middle, home + 20, "Reply", "mid"),
        text(middle, (out + home) / 2 - 8, "engines", "mid mono"),
        text(middle, (out + home) / 2 + 8, "carry", "mid small"),
        text(middle, (out + home) / 2 + 22, "bytes", "mid small"),
        text(RIGHT, client + 5 * STEP + 22, "engines/simulator: one process, worker threads", "small"),
        text(RIGHT, client + 5 * STEP + 40, "engines/flower: real machines, TLS, node keys", "small"),
        text(RIGHT, client + 5 * STEP + 58, "Both carry the same rounds, to the bit.", "small"),
        text(16, bottom + 28, "Rooms", "head"),
        text(80, bottom + 28, "src/prunefl: each imports only from itself and from those before it", "small"),
        *rooms(bottom + 42),
        text(
            16,
            bottom + 128,
            "C++ below them: src/kernels (sparse layers), src/core (sums, Algorithm 3), src/coding (bytes)",
            "small",
        ),
    ]
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" class="tip"/></marker>'
    )
    height = bottom + 143
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height:g}" width="800" height="{height:g}" '
        'role="img" aria-label="The way of a round through server and client, and the rooms of the package">\n'
        f"<style>{STYLE}\n</style>\n<defs>{tip}</defs>\n" + "\n".join(body) + "\n</svg>\n"
    )


if __name__ == "__main__":
    (Path(__file__).parent / "architecture.svg").write_text(draw())
