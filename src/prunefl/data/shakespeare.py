"""Plays as data: a client is a speaker, as in LEAF's Shakespeare task, and the next character is to be told."""

import re
from pathlib import Path

import numpy as np

from prunefl.core.randomness import Ints
from prunefl.data.federation import Federation
from prunefl.data.samples import Tensors
from prunefl.system.errors import PruneFLError

LETTERS = "\n" + "".join(map(chr, range(32, 127)))
"""All characters that are told apart; others are taken for the space."""

LENGTH = 80
"""Characters in a sample, as in LEAF."""

LEAST = 20
"""Samples that a speaker must have to be a client."""

SPEAKER = re.compile(r"^([A-Z][A-Za-z' ]{1,30})[:.]$")
"""A line of its own that says who speaks: "ROMEO:" or "First Citizen.", as public texts have it."""


def by_speaker(folder: Path | None) -> Federation:
    """Return the lines of each speaker of a play's text, the last tenth of them for testing.

    Args:
        folder: a text file (data.dir), in which speakers are named on lines of their own.
    """
    if folder is None or not folder.is_file():
        raise PruneFLError(
            f"data.dir={str(folder or '')!r}, must be a text file of plays, with speakers named like 'ROMEO:' on lines "
            "of their own (Project Gutenberg's Shakespeare is one)"
        )
    clients, tests = [], []
    for words in _spoken(folder.read_text(encoding="utf-8", errors="replace")).values():
        samples = (len(words) - 1) // LENGTH
        if samples < LEAST:
            continue
        held_out = samples // 10
        clients.append(_samples(words, 0, samples - held_out))
        tests.append(_samples(words, samples - held_out, samples))
    if not clients:
        least = f"{LEAST} times {LENGTH} characters"
        raise PruneFLError(f"data.dir={str(folder)!r}: no speaker with {least} was found in it")
    test = Tensors(*(np.concatenate([getattr(t, part) for t in tests]) for part in ("inputs", "labels")))
    cut = f"{len(clients)} clients, one for each speaker of {LEAST} samples or more"
    return Federation(clients, test, len(LETTERS), (LENGTH,), "shakespeare", cut, tuple(LETTERS))


def _spoken(text: str) -> dict[str, Ints]:
    """Return what each speaker says, as numbers of LETTERS."""
    said: dict[str, list[str]] = {}
    speaker = ""
    for line in text.splitlines():
        if found := SPEAKER.match(line.strip()):
            speaker = found[1].upper()
        elif speaker and line.strip():
            said.setdefault(speaker, []).append(line.strip())
    return {name: _numbers("\n".join(lines) + "\n") for name, lines in said.items()}


def _numbers(text: str) -> Ints:
    known = {letter: number for number, letter in enumerate(LETTERS)}
    return np.array([known.get(letter, known[" "]) for letter in text], np.int64)


def _samples(words: Ints, first: int, last: int) -> Tensors:
    """Return stretches of LENGTH characters, and the same one character on."""
    starts = np.arange(first, last)[:, None] * LENGTH + np.arange(LENGTH)
    return Tensors(words[starts], words[starts + 1])
