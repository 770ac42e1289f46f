"""Measure this device: seconds of a training step by layer, dense and sparse, and its memory."""

from prunefl.measure.profile.fit import Fit, fit_line
from prunefl.measure.profile.measure import Check, LayerProfile, Profile, Task, profile
from prunefl.measure.profile.outcome import measured, merged

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
