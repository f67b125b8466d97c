"""Turns of a timeline."""

from __future__ import annotations

from typing import Any

import pytest

from builders import NOON
from derive.folds import turns
from derive.timelines import asked, erased, redone, timeline, told, undone
from treering.model.views import RunState, TurnView


def stretches(*events: dict[str, Any]) -> list[tuple[int, int]]:
    return [(turn.first_seq, turn.last_seq) for turn in turns(timeline(*events))]


def states(*events: dict[str, Any]) -> list[RunState | None]:
    return [turn.state for turn in turns(timeline(*events))]


def started(run_id: str) -> dict[str, Any]:
    return told("run.started", run_id)


def ended(run_id: str) -> dict[str, Any]:
    return told("run.ended", run_id)


def test_a_turn_is_all_that_an_input_caused() -> None:
    events = timeline(
        told("session.opened"),
        started("r1"),
        asked("r1", "What changed?"),
        told("tool.call", "r1"),
        told("tool.result", "r1"),
        told("usage.reported", "r1", model="gpt-4o", output_tokens=3, input_tokens=0),
        told("conversation.assistant", "r1"),
        ended("r1"),
        told("ops.observation"),
    )

    (turn,) = turns(events)

    assert turn == TurnView(
        first_seq=2, last_seq=9, started_ms=NOON + 20, ended_ms=NOON + 90, input_event_id="e3",
        prompt="What changed?", turn_id="t1", run_ids=("r1",), state="ended", is_undone=False,
        tool_calls=1, usage=turn.usage,
    )  # fmt: skip
    assert [(used.model, used.output_tokens) for used in turn.usage] == [("gpt-4o", 3)]


def test_a_timeline_without_an_input_has_no_turn() -> None:
    assert stretches() == []
    assert stretches(told("session.opened"), started("r1"), ended("r1")) == []


def test_a_turn_begins_with_the_run_that_took_its_input() -> None:
    events = started("r1"), asked("r1"), ended("r1"), started("r2"), asked("r2"), ended("r2")

    assert stretches(*events) == [(1, 3), (4, 6)]


def test_inputs_without_runs_divide_a_timeline_by_themselves() -> None:
    assert stretches(asked(), told("conversation.assistant"), asked()) == [(1, 2), (3, 3)]


def test_each_input_of_one_run_is_a_turn() -> None:
    events = started("r1"), asked("r1"), asked("r1"), told("run.failed", "r1")

    assert stretches(*events) == [(1, 2), (3, 4)]
    assert states(*events) == ["failed", "failed"]


def test_a_run_without_an_input_belongs_to_the_turn_before_it() -> None:
    events = [started("r1"), asked("r1"), told("run.failed", "r1"), started("r2"), ended("r2")]

    (turn,) = turns(timeline(*events))

    assert (turn.last_seq, turn.run_ids, turn.state) == (5, ("r1", "r2"), "ended")
    assert stretches(*events, asked()) == [(1, 5), (6, 6)]


def test_a_run_that_began_and_has_no_input_yet_belongs_to_the_turn_before_it() -> None:
    assert stretches(asked(), started("r1")) == [(1, 2)]
    assert stretches(asked(), started("r1"), asked("r1")) == [(1, 1), (2, 3)]


def test_runs_side_by_side_divide_where_their_inputs_say() -> None:
    events = (
        asked("r1"),
        started("r2"),
        told("tool.call", "r1"),
        told("run.failed", "r1"),
        asked("r2"),
        ended("r2"),
    )

    assert stretches(*events) == [(1, 1), (2, 6)]
    assert states(*events) == ["failed", "ended"]


@pytest.mark.parametrize("state", ["ended", "failed", "interrupted"])
def test_a_turn_says_how_its_run_ended(state: RunState) -> None:
    assert states(started("r1"), asked("r1"), told(f"run.{state}", "r1")) == [state]


def test_a_turn_whose_run_goes_on_is_open_and_one_without_a_run_is_neither() -> None:
    assert states(started("r1"), asked("r1")) == ["open"]
    assert states(asked()) == [None]


def test_undone_turns_are_marked_until_they_are_redone() -> None:
    events = [asked(), asked(), undone(2)]

    assert [turn.is_undone for turn in turns(timeline(*events))] == [False, True]
    assert [turn.is_undone for turn in turns(timeline(*events, redone(3)))] == [False, False]


def test_an_erased_input_still_begins_its_turn() -> None:
    (turn,) = turns(timeline(erased(asked(None, "my secret"))))

    assert turn.prompt == "[REDACTED]"


def test_a_call_that_is_reported_again_is_counted_once_in_its_turn() -> None:
    report = told("usage.reported", "r1", message_id="m", input_tokens=0, output_tokens=3)
    events = started("r1"), report, asked("r1"), report, ended("r1")

    (turn,) = turns(timeline(*events))

    assert [used.output_tokens for used in turn.usage] == [3]


@pytest.mark.parametrize("end", ["run.failed", "run.interrupted", "tool.call"])
def test_a_run_that_did_not_come_to_its_input_does_not_change_how_the_turn_before_it_ended(
    end: str,
) -> None:
    before = started("r1"), asked("r1"), ended("r1")
    fails = [{**event, "turn_id": "t2"} for event in (started("r2"), told(end, "r2"))]

    assert states(*before, *fails) == ["ended"]
    assert states(*before, *fails, started("r3"), asked("r3")) == ["ended", "open"]
    assert states(started("r1"), asked("r1"), told("run.failed", "r1"), *fails) == ["failed"]


def test_a_second_attempt_at_the_same_turn_says_how_it_ended() -> None:
    first = {**asked("r1"), "turn_id": "t1"}
    again = {**told("run.failed", "r2"), "turn_id": "t1"}

    assert states(started("r1"), first, ended("r1"), started("r2"), again) == ["failed"]
