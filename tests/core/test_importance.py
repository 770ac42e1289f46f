"""What importance comes to."""

import numpy as np

from prunefl.core import importance
from prunefl.core.masks import Masks


def test_the_mean_is_over_the_steps_and_nothing_was_collected_in_none():
    sums = {"w": np.array([[2.0, 4.0]], np.float32), "scale": np.array(6.0, np.float32)}
    found = importance.mean(sums, 2)
    assert {name: values.tolist() for name, values in found.items()} == {"w": [[1.0, 2.0]], "scale": 3.0}
    assert all(isinstance(v, np.ndarray) and v.dtype == np.float32 for v in found.values())
    nothing = importance.mean(importance.empty_sums({"w": (1, 2), "scale": ()}), 0)
    assert {name: values.tolist() for name, values in nothing.items()} == {"w": [[0.0, 0.0]], "scale": 0.0}


def test_the_fixed_gain_is_of_what_is_never_pruned():
    found = {"w": np.ones(4, np.float32), "b": np.full(3, 0.5, np.float32), "n": np.array(2.0, np.float32)}
    assert importance.fixed_gain(found, Masks.full({"w": (4,)})) == 3.5
