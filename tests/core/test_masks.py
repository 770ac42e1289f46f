"""Masks: the truth about the pattern."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prunefl.core import masks as m


def test_biases_and_normalisation_are_never_prunable():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    assert m.prunable_names(model) == ["0.weight", "3.weight"]


def test_excluded_names_are_left_out():
    model = nn.ModuleDict({"stem": nn.Linear(2, 2), "downsample": nn.Linear(2, 2)})
    assert m.prunable_names(model) == ["stem.weight"]


@given(st.integers(0, 2**20 - 1), st.integers(0, 2**20 - 1))
def test_two_masks_have_the_same_digest_only_if_they_are_equal(a, b):
    first, second = ({"w": torch.tensor([bool(x >> i & 1) for i in range(20)])} for x in (a, b))
    assert (m.digest(first) == m.digest(second)) == (a == b)


def test_a_digest_notices_what_is_written_into_a_mask():
    mask = torch.ones(8, dtype=torch.bool)
    before = m.digest({"w": mask})
    mask[3] = False
    assert m.digest({"w": mask}) != before


def test_a_digest_depends_on_name_and_shape():
    mask = torch.ones(6, dtype=torch.bool)
    named = {m.digest({"a": mask}), m.digest({"b": mask}), m.digest({"a": mask.view(2, 3)})}
    assert len(named) == 3


def test_survivors_keep_their_value_and_new_weights_start_at_zero_whatever_stood_there():
    weights = {"w": torch.tensor([1.0, 2.0, 3.0, 4.0]), "b": torch.tensor([9.0])}
    old = {"w": torch.tensor([True, True, False, False])}
    new = {"w": torch.tensor([True, False, True, False])}
    state = m.remask(weights, old, new)
    assert state["w"].tolist() == [1.0, 0.0]
    assert state["b"].tolist() == [9.0]


def test_perturbed_regrowth_touches_only_new_weights():
    weights = {"w": torch.tensor([1.0, 0.0])}
    old, new = {"w": torch.tensor([True, False])}, {"w": torch.tensor([True, True])}
    state = m.remask(weights, old, new, torch.Generator().manual_seed(0), 0.01)
    assert state["w"][0] == 1.0
    assert 0 < abs(float(state["w"][1])) < 0.1


def test_a_live_zero_stays_live():
    mask = {"w": torch.tensor([[True, False], [True, True]])}
    view = m.DenseView({"w": torch.tensor([0.0, 5.0, 0.0])}, mask)
    assert view["w"].tolist() == [[0.0, 0.0], [5.0, 0.0]]
    assert m.live_counts(mask) == {"w": 3}
