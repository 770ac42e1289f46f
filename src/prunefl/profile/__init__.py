"""Measure this device: seconds of a training step by layer, dense and sparse, and its memory."""

from prunefl.profile.fit import Fit, fit_line
from prunefl.profile.measure import Check, LayerProfile, Profile, Task, profile
from prunefl.profile.outcome import measured, merged

__all__ = [
    "Check",
    "Fit",
    "LayerProfile",
    "Profile",
    "Task",
    "fit_line",
    "measured",
    "merged",
    "profile",
]
