from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import Any

import pytest

from effort import PATIENCE_S
from treering import InvalidInput
from treering.sinks.hooks import Hooks

Event = dict[str, Any]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def say(hooks: Hooks, name: str, *answers: Any) -> None:
    """Register one function for each of ``answers``, called in that order."""
    for answer in answers:
        hooks.on(name)(partial(lambda answer, _: answer, answer))


def message(text: str = "42") -> Event:
    return {"role": "toolResult", "content": [{"type": "text", "text": text}], "isError": False}


def test_hooks_are_asked_by_priority_and_then_in_order_of_registration(hooks: Hooks) -> None:
    """The order: "priority descending"."""
    order: list[str] = []
    for name, priority in [("low", -5), ("first", 0), ("high", 10), ("second", 0)]:
        told = partial(lambda name, _: order.append(name), name)
        hooks.on("before_tool_call", priority=priority)(told)

    hooks.modify("before_tool_call", {"params": {}}, {})

    assert order == ["high", "first", "second", "low"]


def test_the_last_system_prompt_wins(hooks: Hooks) -> None:
    """The rule: "before_agent_start systemPrompt last wins"."""
    say(hooks, "before_agent_start", {"systemPrompt": "A"}, {"systemPrompt": "B"}, {}, None)

    assert hooks.modify("before_agent_start", {"prompt": ""}, {}) == {"systemPrompt": "B"}


def test_prepended_contexts_are_joined_with_a_blank_line(hooks: Hooks) -> None:
    """The rule: prependContext is joined with two line ends."""
    say(
        hooks,
        "before_agent_start",
        {"prependContext": "one"},
        {"systemPrompt": "S"},
        {"prependContext": ""},
        {"prependContext": "two"},
    )

    assert hooks.modify("before_agent_start", {"prompt": ""}, {}) == {
        "systemPrompt": "S",
        "prependContext": "one\n\ntwo",
    }


@pytest.mark.parametrize(
    ("name", "answers", "merged"),
    [
        (
            "before_tool_call",
            [{"params": {"a": 1}, "blockReason": "why"}, {"params": {"b": 2}}, {"block": False}],
            {"params": {"b": 2}, "blockReason": "why", "block": False},
        ),
        (
            "before_tool_call",
            [{"params": {"a": 1}}, {"params": None, "block": None}],
            {"params": {"a": 1}},
        ),
        (
            "message_sending",
            [{"content": "one"}, {"cancel": True}, {"content": ""}, {"cancel": False}],
            {"content": "", "cancel": False},
        ),
        (
            "message_sending",
            [{"content": "one", "cancel": True}, {}],
            {"content": "one", "cancel": True},
        ),
    ],
)
def test_each_field_is_what_was_said_last(
    hooks: Hooks, name: str, answers: list[Event], merged: Event
) -> None:
    """The rule: "before_tool_call and message_sending `next ?? acc`"."""
    say(hooks, name, *answers)

    assert hooks.modify(name, {}, {}) == merged


def test_a_block_ends_the_asking(hooks: Hooks) -> None:
    """The rule: "`block:true` terminal"."""
    asked: list[str] = []
    hooks.on("before_tool_call", priority=1)(lambda _: {"block": True, "blockReason": "no"})
    hooks.on("before_tool_call")(lambda _: asked.append("later"))

    said = hooks.modify("before_tool_call", {"params": {}}, {})

    assert (said, asked) == ({"block": True, "blockReason": "no"}, [])


def test_modifying_hooks_run_one_after_the_other(hooks: Hooks) -> None:
    """Modifying hooks run in sequence: an asynchronous one ends before the next starts."""
    order: list[str] = []

    @hooks.on("before_agent_start")
    async def first(event: Event) -> None:
        order.append("first begins")
        await asyncio.sleep(0)
        order.append("first ends")

    hooks.on("before_agent_start")(lambda _: order.append("second"))
    hooks.modify("before_agent_start", {"prompt": ""}, {})

    assert order == ["first begins", "first ends", "second"]


def test_a_modifying_hook_that_fails_or_hangs_is_passed_over(hooks: Hooks) -> None:
    release = threading.Event()

    @hooks.on("before_tool_call", priority=2)
    def broken(event: Event) -> None:
        event["params"]["half"] = True
        raise LookupError("not there")

    @hooks.on("before_tool_call", priority=1, timeout_s=0.01)
    def hung(event: Event) -> Event:
        event["params"]["half"] = True
        release.wait(PATIENCE_S)
        return {"block": True}

    hooks.on("before_tool_call")(lambda event: {"params": {**event["params"], "safe": True}})
    said = hooks.modify("before_tool_call", {"params": {"q": 1}}, {})
    release.set()

    assert said == {"params": {"q": 1, "safe": True}}
    assert sorted((one.errors, one.timeouts) for one in hooks.metrics()) == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        ["block"],
        {"params": "q"},
        {"block": "yes"},
        {"blockReason": 4},
        {"params": {"x": {1}}},
    ],
)
def test_an_answer_of_a_wrong_type_is_ignored_with_a_warning(
    hooks: Hooks, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    say(hooks, "before_tool_call", answer)

    with caplog.at_level(logging.WARNING):
        said = hooks.modify("before_tool_call", {"params": {}}, {})

    assert said == {}
    assert "ignored" in caplog.text


def test_a_hook_that_watches_cannot_be_asked(hooks: Hooks) -> None:
    with pytest.raises(InvalidInput):
        hooks.modify("agent_end", {}, {})


def test_each_persist_hook_gets_what_the_one_before_made(hooks: Hooks) -> None:
    """The rule: "tool_result_persist synchronous, chained"."""
    for word in ("one", "two", "three"):

        @hooks.on("tool_result_persist")
        def add(event: Event, context: Event, word: str = word) -> Event:
            text = event["message"]["content"][0]["text"]
            return {"message": message(f"{text} {word}")}

    made = hooks.persist({"message": message("zero")}, {})

    assert made == message("zero one two three")


def test_a_persist_hook_may_change_the_message_in_place(hooks: Hooks) -> None:
    given = message("secret")

    @hooks.on("tool_result_persist")
    def mask(event: Event) -> None:
        event["message"]["content"][0]["text"] = "***"

    assert hooks.persist({"message": given}, {}) == message("***")
    assert given == message("secret")


def test_a_persist_hook_may_return_the_message_bare(hooks: Hooks) -> None:
    say(hooks, "tool_result_persist", message("bare"))

    assert hooks.persist({"message": message()}, {}) == message("bare")


@pytest.mark.parametrize("answer", [None, {}, {"message": None}])
def test_a_persist_hook_that_says_nothing_leaves_the_message_as_it_is(
    hooks: Hooks, answer: Any
) -> None:
    say(hooks, "tool_result_persist", answer)
    given = message()

    assert hooks.persist({"message": given}, {}) is given


@pytest.mark.parametrize("answer", [{"message": "text"}, {"message": {"content": {1, 2}}}])
def test_what_is_no_message_is_ignored_with_a_warning(
    hooks: Hooks, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    say(hooks, "tool_result_persist", answer)

    assert hooks.persist({"message": message()}, {}) == message()
    assert "invalid message" in caplog.text


def test_an_awaitable_from_a_persist_hook_is_ignored_with_a_warning(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    """The rule: "a returned promise is ignored with a warning"."""

    @hooks.on("tool_result_persist")
    async def awaited(event: Event, context: Event) -> Event:
        return {"message": message("never")}

    hooks.on("tool_result_persist")(lambda event: awaited(event, {}))
    hooks.on("tool_result_persist")(
        lambda event: {"message": message(event["message"]["content"][0]["text"] + "!")}
    )

    assert hooks.persist({"message": message("kept")}, {}) == message("kept!")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_persist_hook_that_fails_or_hangs_is_passed_over(hooks: Hooks) -> None:
    release = threading.Event()

    @hooks.on("tool_result_persist")
    def broken(event: Event) -> None:
        event["message"]["content"].clear()
        raise LookupError("not there")

    @hooks.on("tool_result_persist", timeout_s=0.01)
    def hung(event: Event) -> Event:
        release.wait(PATIENCE_S)
        return {"message": message("late")}

    made = hooks.persist({"message": message()}, {})
    release.set()

    assert made == message()
