"""The ends of tool calls, synthetic results, and the shapes of inputs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from treering.model.tools import (
    REASONS,
    SHAPE_DEPTH_MAX,
    STATUSES,
    SyntheticPolicy,
    check_reason,
    shape_hash,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


def test_the_ways_a_call_can_stand_are_four() -> None:
    assert STATUSES == ("open", "ok", "failed", "synthetic")


def test_the_reasons_for_synthetic_results_are_a_closed_set() -> None:
    """Synthetic results policy is explicit and stable."""
    assert REASONS == (
        "missing_result", "interrupted", "crashed", "timeout", "denied", "aborted",
    )  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_a_text_that_names_the_tool(reason: Any) -> None:
    text = SyntheticPolicy().text("git_log", reason)

    assert text.startswith("[treering] git_log ")
    assert "{" not in text


def test_every_reason_has_a_text_of_its_own() -> None:
    texts = {SyntheticPolicy().text("git_log", reason) for reason in REASONS}  # type: ignore[arg-type]

    assert len(texts) == len(REASONS)


def test_a_policy_says_some_things_in_its_own_words() -> None:
    policy = SyntheticPolicy(texts={"denied": "{tool} is {reason}; {tool}!"})

    assert policy.text("shell", "denied") == "shell is denied; shell!"
    assert policy.text("shell", "timeout") == SyntheticPolicy().text("shell", "timeout")


@pytest.mark.parametrize("text", ["{0}", "{tool.name}", "{", "%s"])
def test_a_policy_s_text_is_no_template_of_python_s(text: str) -> None:
    assert SyntheticPolicy(texts={"denied": text}).text("shell", "denied") == text


def test_a_tool_s_name_that_looks_like_a_place_is_left_as_it_is() -> None:
    assert (
        SyntheticPolicy(texts={"denied": "<{reason}> {tool}"}).text("x", "denied") == "<denied> x"
    )


@pytest.mark.parametrize("reason", ["", "bored", "Timeout", "ok"])
def test_another_reason_is_refused(reason: str) -> None:
    for attempt in (lambda: check_reason(reason), lambda: SyntheticPolicy(texts={reason: "x"})):
        with pytest.raises(treering.InvalidInput) as refused:
            attempt()
        assert "missing_result" in (refused.value.hint or "")


# Shapes.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": "x"}, {"b": "other", "a": 2}),
        ([1, 2, 3], [7]),
        ([1, "x"], ["y", 2, 3]),
        (1, 1.5),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}, {"b": "z"}]}),
        ((1, 2), [3]),
    ],
)
def test_inputs_of_one_shape_share_its_hash(one: Any, other: Any) -> None:
    assert shape_hash(one) == shape_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": None}),
        ({"a": True}, {"a": 1}),
        ({}, []),
        ([], [1]),
        ({"a": {}}, {"a": {"b": 1}}),
        ("x", None),
    ],
)
def test_inputs_of_other_shapes_have_others(one: Any, other: Any) -> None:
    assert shape_hash(one) != shape_hash(other)


def test_what_lies_deep_down_is_not_told_apart() -> None:
    def nested(value: Any) -> Any:
        for _ in range(SHAPE_DEPTH_MAX + 1):
            value = {"a": value}
        return value

    assert shape_hash(nested({"b": 1})) == shape_hash(nested({"c": 1}))
    assert shape_hash({"a": {"b": 1}}) != shape_hash({"a": {"c": 1}})


@given(values)
def test_a_hash_is_short_steady_and_of_any_input(value: Any) -> None:
    found = shape_hash(value)

    assert found == shape_hash(value)
    assert len(found) == 16
    assert set(found) <= set("0123456789abcdef")


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_hash_tells_no_value(one: str, other: str) -> None:
    assert shape_hash({"password": one}) == shape_hash({"password": other})
