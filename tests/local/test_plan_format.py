"""Plans as text: they come back as they were, and whatever else arrives is refused in one line."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl import models
from prunefl.config.networks import NETWORKS
from prunefl.local.native import Plan, PlanError, decode_plan, encode_plan
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of
from tasks import small_network


def plan_of(name: str) -> Plan:
    shape, classes = (3, 64, 64) if name == "resnet18" else NETWORKS[name].input_shape, NETWORKS[name].classes
    network = network_of(models.build(name, classes=classes, input_shape=shape, seed=0), shape, classes)
    return compile_plan(network.module, network.template, shape)


def small_plan() -> Plan:
    network = small_network(normalised=True, dropout=True)
    return compile_plan(network.module, network.template, network.input_shape)


@pytest.mark.parametrize("name", models.BUILDERS)
def test_the_papers_networks_are_compiled_and_come_back_from_text(name: str) -> None:
    plan = plan_of(name)
    assert decode_plan(encode_plan(plan)) == plan
    assert plan.classes == NETWORKS[name].classes


def tables() -> dict[str, Any]:
    return json.loads(encode_plan(small_plan()))  # type: ignore[no-any-return]


WRONG: dict[str, tuple[list[Any], Any]] = {
    "version 2": (["plan"], 2),
    "of version '.n'": (["plan"], "\n"),
    "is not known": (["operations", 0, "do"], "os.system"),
    "must have do, of": (["operations", 0, "code"], "print(1)"),
    "stride": (["operations", 0, "stride"], [9, 9]),
    "not what it must be": (["operations", 0, "groups"], 1.0),
    "groups": (["operations", 0, "groups"], 3),
    "nobody reads value 0": (["operations", 0, "of"], [7]),
    "reads shape": (["input"], [64]),
    "0.weight is used 0 times": (["operations", 0, "weight"], "nobody"),
    "0.bias is used 0 times": (["operations", 0, "bias"], ""),
    "is used 2 times": (["operations", 8, "bias"], "5.bias"),
    "epsilon": (["operations", 1, "epsilon"], 0.0),
    "probability": (["operations", 7, "probability"], 1.5),
    "sides must be": (["tensors", 0, 1], [1 << 30, 1, 3, 3]),
    "more than 1,073,741,824 weights": (["tensors", 0, 1], [1 << 12, 1 << 12, 1 << 12, 8]),
    "smaller than the kernel": (["input"], [1, 1, 1]),
    "a name, a shape and": (["tensors", 0, 2], "pickled"),
    "1 or 3 dimensions": (["input"], [1, 8]),
    "whole numbers": (["input"], [1, None, 8]),
    "-1, 8.*sides must be 1 to": (["input"], [1, -1, 8]),
    "5.weight is used 2 times": (["operations", 8, "weight"], "5.weight"),
    "must be trained": (["tensors", 0, 2], "buffer"),
    "must not be prunable": (["tensors", 1, 2], "pruned"),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_plan_is_refused_in_one_line(words: str) -> None:
    given, (path, value) = tables(), WRONG[words]
    place: Any = given
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(PlanError, match=words) as caught:
        decode_plan(json.dumps(given))
    assert "\n" not in str(caught.value)
    decode_plan(json.dumps(tables()))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", "[" * 100_000, '{"plan": NaN}', "9" * 5000, " " * (1 << 20)]
)
def test_what_is_no_plan_at_all_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        decode_plan(text)


def plan_or_refusal(text: str) -> Plan | str:
    try:
        return decode_plan(text)
    except PlanError as error:
        return str(error)


TEXT = encode_plan(small_plan())
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers()),
)


def places(given: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to everything in nested tables."""
    items = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    return [path, *(found for key, value in items for found in places(value, (*path, key)))]


PLACES = [path for path in places(json.loads(TEXT)) if path]


@settings(deadline=None, max_examples=300)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_a_plan_with_parts_replaced_is_refused_or_is_a_plan(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    given = copy.deepcopy(json.loads(TEXT))
    for path, value in changes:
        place: Any = given
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue
    found = plan_or_refusal(json.dumps(given))
    if isinstance(found, Plan):
        assert decode_plan(encode_plan(found)) == found
    else:
        assert "\n" not in found


@settings(deadline=None, max_examples=300)
@given(at=st.integers(0, len(TEXT) - 1), character=st.characters(max_codepoint=127), length=st.integers(0, 3))
def test_a_plan_with_characters_replaced_is_refused_or_is_a_plan(
    at: int, character: str, length: int
) -> None:
    found = plan_or_refusal(TEXT[:at] + character + TEXT[at + length :])
    assert isinstance(found, Plan) or "\n" not in found
