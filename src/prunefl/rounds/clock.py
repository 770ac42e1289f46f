"""The simulated clock: every step computed and every byte sent is charged, in every method.

Bytes are `len(packed)`, never an estimate. A round lasts as long as its slowest participant, and the split
that is kept is that participant's, so that its parts add up to the round.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from prunefl.core.randomness import generator
from prunefl.devices.device import Device


@dataclass(frozen=True)
class Seconds:
    """Seconds of a participant's round, or of a whole round, by what they were spent on."""

    compute: float = 0.0
    download: float = 0.0
    upload: float = 0.0
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.compute + self.download + self.upload + self.overhead


def participant_seconds(
    device: Device, compute: float, downloads: Iterable[int], uploads: Iterable[int], jitter: float = 1.0
) -> Seconds:
    """Return what a round takes on one device.

    Args:
        compute: seconds of its steps, from `Device.step_seconds`.
        downloads, uploads: bytes of each message from and to the server.
        jitter: from `jitter_factor`.
    """
    return Seconds(
        compute * jitter,
        sum(device.link.download_seconds(size) for size in downloads),
        sum(device.link.upload_seconds(size) for size in uploads),
        device.overhead,
    )


def jitter_factor(device: Device, seed: int, round: int, client: int) -> float:
    """Return by how much this client is slower or faster in this round; the same whoever else takes part."""
    if device.jitter == 0:
        return 1.0
    draw = torch.randn((), generator=generator(seed, "jitter", round, client), dtype=torch.float64)
    return math.exp(device.jitter * float(draw))


def slowest(participants: Iterable[Seconds]) -> Seconds:
    """Return the seconds of a round: those of the participant that everybody waits for."""
    return max(participants, key=lambda seconds: seconds.total, default=Seconds())
