"""What the core knows of a network: names, shapes, what may be pruned."""

import pytest

from prunefl.core.memory import Memory
from prunefl.core.network import Template, digest_shapes


def test_biases_and_normalisation_are_never_prunable():
    nn = pytest.importorskip("torch").nn
    from prunefl.local.torch_backend.network import network_of, prunable_names

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    assert prunable_names(model) == ["0.weight", "3.weight"]
    network = network_of(model, (1, 4, 4), 3)
    assert list(network.template.layers) == ["0.weight", "3.weight"]
    assert network.template.buffers == {"1.running_mean", "1.running_var"}
    assert network.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert network.positions == {"0.weight": 4, "3.weight": 1}
    assert network.full_masks.density == 1.0


def test_excluded_names_are_left_out():
    nn = pytest.importorskip("torch").nn
    from prunefl.local.torch_backend.network import prunable_names

    model = nn.ModuleDict({"stem": nn.Linear(2, 2), "downsample": nn.Linear(2, 2)})
    assert prunable_names(model) == ["stem.weight"]


TEMPLATE = Template(("b", "a", "mean"), ((2,), (3, 2), (3,)), frozenset({"a"}), frozenset({"mean"}))


def test_a_template_knows_shapes_parameters_and_layers_in_the_models_order():
    assert TEMPLATE.shape_of == {"b": (2,), "a": (3, 2), "mean": (3,)}
    assert list(TEMPLATE.parameters) == ["b", "a"]
    assert TEMPLATE.layers == {"a": (3, 2)}


def test_a_template_is_named_by_names_and_shapes_in_whatever_order():
    same = Template(("mean", "a", "b"), ((3,), (3, 2), (2,)), frozenset())
    assert TEMPLATE.digest == same.digest == digest_shapes(TEMPLATE.shape_of)
    others = [{"b": (2,), "a": (2, 3)}, {"b": (2,), "c": (3, 2)}, {"b": (2,)}, {"b": (2,), "a": (3, 2)}]
    assert len({digest_shapes(shapes) for shapes in others}) == 4


def test_a_template_refuses_prunable_names_that_it_does_not_have():
    with pytest.raises(ValueError, match=r"prunable=\['absent'\], must be among the template's names"):
        Template(("w",), ((2,),), frozenset({"absent"}))


def test_a_number_that_is_not_remembered_is_zero():
    memory = Memory({"drawn": 3.0})
    assert (memory.number("drawn"), memory.number("absent")) == (3.0, 0.0)
