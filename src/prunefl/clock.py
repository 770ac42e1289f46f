"""The simulated clock: every step computed and every byte sent is charged, in every method.

Bytes are `len(packed)`, never an estimate. A round lasts as long as its slowest participant, and the split
that is kept is that participant's, so that its parts add up to the round.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from prunefl.devices.device import Device
from prunefl.randomness import generator

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Seconds:
    """Seconds of one participant's round, by what they were spent on; also of a whole round."""

    compute: float = 0.0
    download: float = 0.0
    upload: float = 0.0
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.compute + self.download + self.upload + self.overhead


@dataclass(frozen=True)
class Work:
    """What one participant did in a round.

    Attributes:
        steps: training steps.
        live: live weights by layer.
        full_gradient: whether the steps computed the weight gradient at pruned positions too.
        download_bytes: length of each message from the server.
        upload_bytes: length of each message to the server.
    """

    steps: int
    live: Counts
    full_gradient: bool = False
    download_bytes: tuple[int, ...] = ()
    upload_bytes: tuple[int, ...] = ()


def participant_seconds(
    device: Device, work: Work, seed: int = 0, round: int = 0, client: int = 0
) -> Seconds:
    """Return what one participant's round takes on its device."""
    return Seconds(
        compute_seconds(device, work) * jitter_factor(device, seed, round, client),
        sum(device.link.download_seconds(size) for size in work.download_bytes),
        sum(device.link.upload_seconds(size) for size in work.upload_bytes),
        device.overhead,
    )


def compute_seconds(device: Device, work: Work) -> float:
    """Return the seconds of the steps, each layer at the cheaper of dense and sparse."""
    return work.steps * device.step_seconds(work.live, work.full_gradient) if work.steps else 0.0


def jitter_factor(device: Device, seed: int, round: int, client: int) -> float:
    """Return by how much this client is slower or faster in this round; the same whoever else takes part."""
    if device.jitter == 0:
        return 1.0
    draw = torch.randn((), generator=generator(seed, "jitter", round, client), dtype=torch.float64)
    return math.exp(device.jitter * float(draw))


def round_seconds(devices: Mapping[int, Device], works: Mapping[int, Work], seed: int, round: int) -> Seconds:
    """Return the seconds of a round: those of its slowest participant, by what they were spent on.

    Args:
        devices: client -> its device; more clients than took part are allowed.
        works: client -> what it did; the participants.
    """
    if not works:
        return Seconds()
    spent = [participant_seconds(devices[n], work, seed, round, n) for n, work in sorted(works.items())]
    return max(spent, key=lambda seconds: seconds.total)


def round_charge(
    devices: Mapping[int, Device],
    *,
    steps: int,
    live_counts: Counts,
    full_gradient: bool,
    download_bytes: Mapping[int, int],
    upload_bytes: Mapping[int, int],
    seed: int = 0,
    round: int = 0,
) -> Seconds:
    """Return the seconds of the usual round, in which all participants train the same masks equally long.

    Args:
        devices: participant -> its device.
        download_bytes, upload_bytes: participant -> bytes of its one message in each direction.
    """
    works = {
        n: Work(steps, live_counts, full_gradient, (download_bytes[n],), (upload_bytes[n],)) for n in devices
    }
    return round_seconds(devices, works, seed, round)
