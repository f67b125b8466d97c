"""Pairing: every call answered once and right behind it, and a report of what that took."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given

from context.histories import assistant, call, erased, event, histories, in_order, result, user
from treering.context.pairing import pair
from treering.context.texts import UNNAMED
from treering.model.events import REDACTED, Event
from treering.model.messages import AssistantMessage, ModelMessage, Repair, UserMessage
from treering.model.tools import SyntheticPolicy

POLICY: Final = SyntheticPolicy(texts={"missing_result": "nothing came of {tool}"})


def paired(*events: Event) -> tuple[list[ModelMessage], list[tuple[str, str | None]]]:
    """Return the messages of ``events``, numbered from 1, and each repair with its event."""
    messages, repairs = pair(in_order(*events), POLICY)
    return messages, [(repair.code, repair.event_id) for repair in repairs]


def answers(message: ModelMessage) -> list[tuple[str, str, str]]:
    """Return the calls of a message: id, tool and what came of each."""
    assert isinstance(message, AssistantMessage)
    assert [call.call_id for call in message.calls] == [one.call_id for one in message.results]
    return [(one.call_id, one.tool, one.output) for one in message.results]


# What needs no repair.


def test_words_calls_and_results_become_one_message_of_the_assistant() -> None:
    messages, repairs = paired(
        user("What is new?"), assistant("I look."), call("c1"), result("c1", "rain")
    )

    assert repairs == []
    assert messages[0] == UserMessage(text="What is new?", seq=1, event_ids=("e1",))
    assert messages[1].text == "I look."
    assert messages[1].event_ids == ("e2", "e3", "e4")
    assert answers(messages[1]) == [("c1", "look", "rain")]


def test_calls_that_are_made_together_stay_together_whatever_order_their_results_have() -> None:
    messages, repairs = paired(
        user(), call("a"), call("b"), result("b", "second"), result("a", "first")
    )

    assert repairs == []
    assert answers(messages[1]) == [("a", "look", "first"), ("b", "look", "second")]


def test_a_call_behind_a_result_is_a_message_of_its_own() -> None:
    messages, repairs = paired(call("a"), result("a"), call("b"), result("b"))

    assert repairs == []
    assert [len(answers(message)) for message in messages] == [1, 1]


def test_what_is_neither_said_nor_done_is_left_out() -> None:
    messages, repairs = paired(
        event("goal.added", {"id": 1}), event("boundary.segment", {"title": "one"}), user("Yes.")
    )

    assert [message.text for message in messages] == ["Yes."]
    assert repairs == []


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt", "overflow"])
def test_a_boundary_is_told_as_if_the_user_said_it(reason: str) -> None:
    [message], repairs = paired(
        event(f"boundary.{reason}", {"title": "a title", "content": "all is well"})
    )

    assert message == UserMessage(
        text=f"<{reason}>\nall is well\n</{reason}>",
        seq=1,
        event_ids=("e1",),
        mark=reason,  # type: ignore[arg-type]
    )
    assert repairs == []


def test_an_outcome_that_came_too_late_changes_nothing() -> None:
    messages, repairs = paired(
        call("c1"), result("c1", "none in time"), result("c1", "late", refs={"late": True})
    )

    assert answers(messages[0]) == [("c1", "look", "none in time")]
    assert repairs == []


# Each repair.


def test_a_result_without_a_call_is_dropped() -> None:
    messages, repairs = paired(user(), result("c9"), assistant())

    assert [message.text for message in messages] == ["What is new?", "Nothing."]
    assert repairs == [("orphan_result", "e2")]


@pytest.mark.parametrize("between", [(), (user("And?"),), (assistant("So."), user("And?"))])
def test_a_second_result_is_dropped(between: tuple[Event, ...]) -> None:
    messages, repairs = paired(call("c1"), result("c1", "first"), *between, result("c1", "second"))

    assert answers(messages[0]) == [("c1", "look", "first")]
    assert repairs == [("duplicate_result", f"e{3 + len(between)}")]


def test_of_two_results_before_their_call_the_first_counts() -> None:
    messages, repairs = paired(result("c1", "first"), result("c1", "second"), call("c1"))

    assert answers(messages[0]) == [("c1", "look", "first")]
    assert repairs == [("moved_result", "e1"), ("duplicate_result", "e2")]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    messages, repairs = paired(user(), call("c1", "fetch"), user("Well?"))

    assert answers(messages[1]) == [("c1", "fetch", "nothing came of fetch")]
    [made_up] = messages[1].results  # type: ignore[union-attr]
    assert (made_up.is_error, made_up.reason, made_up.event_id) == (True, "missing_result", None)
    assert repairs == [("missing_result", "e2")]


def test_a_result_that_came_before_its_call_is_moved_behind_it() -> None:
    messages, repairs = paired(result("c1", "rain"), user(), call("c1"))

    assert answers(messages[1]) == [("c1", "look", "rain")]
    assert repairs == [("moved_result", "e1")]


@pytest.mark.parametrize(
    "between",
    [user("Wait."), assistant("Hm."), event("boundary.interrupt", {"title": "stop"})],
    ids=lambda one: one.kind,
)
def test_a_result_is_moved_to_its_call_across_what_stands_between(between: Event) -> None:
    messages, repairs = paired(call("c1"), between, result("c1", "rain"))

    assert answers(messages[0]) == [("c1", "look", "rain")]
    assert len(messages) == 2
    assert repairs == [("moved_result", "e3")]


def test_a_result_finds_its_call_in_another_run() -> None:
    messages, repairs = paired(call("c1", run_id="r1"), result("c1", "rain", run_id="r2"))

    assert answers(messages[0]) == [("c1", "look", "rain")]
    assert repairs == []


def test_the_same_call_again_is_dropped_while_it_waits() -> None:
    messages, repairs = paired(
        call("c1", arguments={"a": 1}), call("c1", arguments={"a": 1}), result("c1", "rain")
    )

    assert answers(messages[0]) == [("c1", "look", "rain")]
    assert repairs == [("duplicate_call_id", "e2")]


def test_the_same_call_in_a_later_message_is_another_and_gets_the_result() -> None:
    messages, repairs = paired(call("c1"), user("Again."), call("c1"), result("c1", "rain"))

    assert [answers(messages[at])[0][2] for at in (0, 2)] == ["nothing came of look", "rain"]
    assert repairs == [("missing_result", "e1"), ("duplicate_call_id", "e3")]


def test_an_id_that_was_used_before_is_given_to_one_call_only() -> None:
    messages, repairs = paired(
        call("c1"), result("c1", "rain"), user(), call("c1", "write"), result("c1", "done")
    )

    [first], [second] = answers(messages[0]), answers(messages[2])
    assert first == ("c1", "look", "rain")
    assert second[0] != "c1"
    assert second[1:] == ("write", "done")
    assert repairs == [("duplicate_call_id", "e4")]


def test_a_result_goes_to_the_latest_call_with_its_id() -> None:
    messages, repairs = paired(
        call("c1", arguments={"at": 1}), user(), call("c1", arguments={"at": 2}), result("c1", "2")
    )

    assert [output for *_, output in answers(messages[0]) + answers(messages[2])] == [
        "nothing came of look",
        "2",
    ]
    assert ("missing_result", "e1") in repairs
    assert "moved_result" not in [code for code, _ in repairs]


def test_a_result_goes_to_the_call_of_its_own_run_before_any_later_one() -> None:
    messages, _ = paired(
        call("c1", arguments={"at": 1}, run_id="r1"),
        user(),
        call("c1", arguments={"at": 2}, run_id="r2"),
        result("c1", "1", run_id="r1"),
        result("c1", "2", run_id="r2"),
    )

    assert [output for *_, output in answers(messages[0]) + answers(messages[2])] == ["1", "2"]


def test_a_second_result_of_a_run_is_not_given_to_the_call_of_another() -> None:
    messages, repairs = paired(
        call("c1", arguments={"at": 1}, run_id="r1"),
        result("c1", "1", run_id="r1"),
        call("c1", arguments={"at": 2}, run_id="r2"),
        result("c1", "1 again", run_id="r1"),
    )

    assert [answers(one)[0][2] for one in messages] == ["1", "nothing came of look"]
    assert ("duplicate_result", "e4") in repairs


def test_calls_of_one_message_that_share_an_id_are_answered_in_their_order() -> None:
    messages, _ = paired(
        call("c1", arguments={"at": 1}),
        call("c1", arguments={"at": 2}),
        result("c1", "1"),
        result("c1", "2"),
    )

    assert [output for *_, output in answers(messages[0])] == ["1", "2"]


def test_an_early_result_is_not_given_to_the_call_of_another_run() -> None:
    messages, repairs = paired(result("c1", run_id="r1"), call("c1", run_id="r2"))

    assert answers(messages[0]) == [("c1", "look", "nothing came of look")]
    assert repairs == [("orphan_result", "e1"), ("missing_result", "e2")]


def test_a_call_without_an_id_is_given_one_and_finds_its_result_by_the_tool() -> None:
    messages, repairs = paired(
        call("", "look"), call("", "write"), result("", "done", "write"), result("", "rain", "look")
    )

    [(first_id, *first), (second_id, *second)] = answers(messages[0])
    assert (first, second) == (["look", "rain"], ["write", "done"])
    assert first_id != second_id
    assert all(one.startswith("call_") for one in (first_id, second_id))
    assert repairs == [("missing_call_id", "e1"), ("missing_call_id", "e2")]


def test_a_result_without_an_id_is_not_given_to_a_later_call_of_another_tool() -> None:
    messages, repairs = paired(result("", "rain", "look"), call("", "write"))

    assert answers(messages[0])[0][1:] == ("write", "nothing came of write")
    assert repairs == [("missing_call_id", "e2"), ("orphan_result", "e1"), ("missing_result", "e2")]


@pytest.mark.parametrize("text", ["", " \n\t", None, [], [{"type": "text", "text": ""}]])
def test_a_message_that_says_nothing_is_dropped(text: Any) -> None:
    messages, repairs = paired(user("Go."), assistant(text), user("Well?"))

    assert [message.text for message in messages] == ["Go.", "Well?"]
    assert repairs == [("empty_message", "e2")]


def test_calls_behind_an_empty_answer_do_not_join_the_answer_before_it() -> None:
    messages, repairs = paired(assistant("I look."), assistant(""), call("c1"), result("c1"))

    assert [message.text for message in messages] == ["I look.", ""]
    assert answers(messages[0]) == []
    assert len(answers(messages[1])) == 1
    assert repairs == [("empty_message", "e2")]


def test_erased_words_are_told_as_erased() -> None:
    messages, repairs = paired(erased(user("secret")), erased(assistant("secret")))

    assert [message.text for message in messages] == [REDACTED, REDACTED]
    assert repairs == [("erased", "e1"), ("erased", "e2")]


def test_an_erased_result_still_answers_its_call() -> None:
    messages, repairs = paired(call("c1", run_id="r1"), erased(result("c1", run_id="r1")))

    assert answers(messages[0]) == [("c1", "look", REDACTED)]
    assert repairs == [("erased", "e2")]


def test_an_erased_result_answers_no_call_of_another_run() -> None:
    messages, repairs = paired(call("c1", run_id="r1"), erased(result("c1", run_id="r2")))

    assert answers(messages[0]) == [("c1", "look", "nothing came of look")]
    assert repairs == [("missing_result", "e1"), ("erased", "e2")]


def test_an_erased_call_is_left_out_with_what_came_of_it() -> None:
    messages, repairs = paired(user(), erased(call("c1")), result("c1"))

    assert [message.text for message in messages] == ["What is new?"]
    assert repairs == [("erased", "e2"), ("orphan_result", "e3")]


def test_an_erased_boundary_is_not_shown() -> None:
    messages, _ = paired(erased(event("boundary.checkpoint", {"title": "here"})), user())

    assert [message.text for message in messages] == ["What is new?"]


# Odd names and shapes.


@pytest.mark.parametrize("given_id", ["a b", "日本", "x" * 41, "c|1", "c\n"])
def test_an_id_that_a_provider_refuses_becomes_one_that_it_takes(given_id: str) -> None:
    messages, repairs = paired(call(given_id), result(given_id, "rain"))

    [(call_id, _, output)] = answers(messages[0])
    assert call_id.startswith("call_")
    assert len(call_id) <= 40
    assert output == "rain"
    assert repairs == []


def test_an_odd_id_becomes_the_same_in_every_context() -> None:
    alone, _ = paired(call("a b"), result("a b"))
    behind, _ = paired(user(), call("a b"), result("a b"))

    assert answers(alone[0]) == answers(behind[1])


@pytest.mark.parametrize("payload", [None, "look", ["look"], 7, {}, {"name": None}])
def test_a_call_of_any_shape_is_a_call(payload: Any) -> None:
    messages, repairs = paired(event("tool.call", payload))

    [(call_id, tool, _)] = answers(messages[0])
    assert call_id.startswith("call_")
    assert tool == UNNAMED
    assert repairs == [("missing_call_id", "e1"), ("missing_result", "e1")]


def test_ids_and_tools_are_found_in_refs_where_the_payload_has_none() -> None:
    refs = {"call_id": "c1", "tool": "look"}

    messages, repairs = paired(
        event("tool.call", {"input": {}}, refs=refs), event("tool.result", "rain", refs=refs)
    )

    assert answers(messages[0]) == [("c1", "look", "rain")]
    assert repairs == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("a", {"input": "a"}),
        ("[1]", {"input": "[1]"}),
        ("{", {"input": "{"}),
        ([1], {"input": [1]}),
        (None, {}),
    ],
)
def test_arguments_are_an_object_whatever_was_given(given: Any, wanted: Any) -> None:
    [message], _ = paired(event("tool.call", {"call_id": "c1", "name": "look", "input": given}))

    assert isinstance(message, AssistantMessage)
    assert message.calls[0].arguments == wanted


@pytest.mark.parametrize(
    ("said", "output", "is_error"),
    [
        ({"output": "rain"}, "rain", False),
        ({"output": {"b": 1, "a": [2]}}, '{"a":[2],"b":1}', False),
        ({"output": [{"type": "text", "text": "rain"}]}, "rain", False),
        ({"output": None}, "", False),
        ({"output": 0}, "0", False),
        ({"error": "no"}, "no", True),
        ({"error": {"class": "OSError", "message": "no"}}, "OSError: no", True),
        ({"status": "failed", "output": "no"}, "no", True),
        ({"status": "ok", "output": "rain", "error": None}, "rain", False),
        ({"content": "rain"}, "rain", False),
        ({"result": "rain"}, "rain", False),
    ],
)
def test_what_a_tool_gave_is_told_as_text(said: dict[str, Any], output: str, is_error: Any) -> None:
    [message], _ = paired(call("c1"), event("tool.result", {"call_id": "c1", **said}))

    assert isinstance(message, AssistantMessage)
    assert message.results[0].output == output
    assert message.results[0].is_error is is_error


@pytest.mark.parametrize(("reason", "told"), [("crashed", "crashed"), ("because", None)])
def test_a_synthetic_outcome_keeps_its_reason(reason: str, told: str | None) -> None:
    payload = {"call_id": "c1", "status": "synthetic", "reason": reason, "output": "none"}

    [message], repairs = paired(call("c1"), event("tool.result", payload))

    assert isinstance(message, AssistantMessage)
    assert (message.results[0].is_error, message.results[0].reason) == (True, told)
    assert repairs == []


# Whatever was recorded.


@given(histories())
def test_every_call_has_one_result_and_every_id_stands_once(events: list[Event]) -> None:
    messages, _ = pair(events, POLICY)

    ids: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            assert [one.call_id for one in message.calls] == [
                one.call_id for one in message.results
            ]
            ids += [one.call_id for one in message.calls]
    assert len(ids) == len(set(ids))


@given(histories())
def test_every_event_is_shown_or_reported_and_none_is_shown_twice(events: list[Event]) -> None:
    told = [one for one in events if one.kind in {"tool.call", "tool.result"} or _says(one)]

    messages, repairs = pair(events, POLICY)

    shown = [event_id for message in messages for event_id in message.event_ids]
    assert len(shown) == len(set(shown))
    assert {one.event_id for one in told} <= {*shown, *_reported(repairs), *_late(events)}


def _says(one: Event) -> bool:
    return one.kind.startswith("conversation.")


def _reported(repairs: list[Repair]) -> set[str]:
    return {repair.event_id for repair in repairs if repair.event_id is not None}


def _late(events: list[Event]) -> set[str]:
    refs = {one.event_id: one.refs for one in events if isinstance(one.refs, dict)}
    return {event_id for event_id, told in refs.items() if told.get("late") or told.get("run")}
