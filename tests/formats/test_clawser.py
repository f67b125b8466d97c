"""Clawser's event log, including its oddities."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.clawser_logs import T0, event, lines, log_of, logs, values, voyage
from treering import InvalidInput
from treering.formats.clawser import EventLog, read_jsonl
from treering.formats.clawser.text import BAD_LINES_MAX, parse, stringify

# Appending.


def test_an_id_is_the_time_and_a_number_that_rises() -> None:
    times = itertools.count(T0, 5)
    log = EventLog(clock=lambda: next(times))

    ids = [log.append("user_message", {"content": "ahoy"}, "user"), log.append("error")]

    assert ids == [f"evt_{T0}_0", f"evt_{T0 + 5}_1"]
    assert log.events == [
        {"id": f"evt_{T0}_0", "type": "user_message", "timestamp": T0,
         "data": {"content": "ahoy"}, "source": "user"},
        {"id": f"evt_{T0 + 5}_1", "type": "error", "timestamp": T0 + 5, "data": {},
         "source": "system"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "number"),
    [
        (["evt_1_0", "evt_1_1"], 2),
        (["evt_1_41"], 42),
        (["a", "b", "c"], 3),
        ([7, None, "evt_1_x"], 3),
        (["evt_1_5\n"], 1),
        (["evt_1_" + "9" * 5_000], 1),
    ],
)
def test_numbers_go_on_behind_those_that_were_loaded(ids: list[Any], number: int) -> None:
    log = log_of([{"id": one} for one in ids])

    assert log.append("error").endswith(f"_{number}")


def test_beyond_its_size_the_oldest_goes_and_numbers_go_on() -> None:
    log = EventLog(max_size=2, clock=lambda: T0)

    for _ in range(3):
        log.append("cache_hit")

    assert [one["id"] for one in log.events] == [f"evt_{T0}_1", f"evt_{T0}_2"]


def test_an_observer_hears_of_every_event_and_its_errors_are_nobodys_concern() -> None:
    heard: list[Any] = []

    def observe(told: dict[str, Any]) -> None:
        heard.append(told["type"])
        raise RuntimeError("deaf")

    log = EventLog(on_append=observe)
    log.append("cache_hit")
    log.append("error")

    assert heard == ["cache_hit", "error"]
    assert log.size == 2


def test_nobody_changes_an_event_from_outside() -> None:
    content = {"content": "ahoy", "parts": [1]}
    log = EventLog(on_append=lambda told: told["data"].clear())
    log.append("user_message", content)
    before = log.to_jsonl()

    content["parts"] = []
    log.events[0]["data"]["parts"].append(2)
    log.query()[0]["id"] = "x"
    found = log.slice_to_turn_end(log.events[0]["id"])
    assert found is not None
    found[0].clear()

    assert log.to_jsonl() == before


@pytest.mark.parametrize("content", [float("nan"), {1: 2}, {"a": object()}, [float("inf")]])
def test_what_is_no_json_is_refused(content: Any) -> None:
    log = EventLog()

    with pytest.raises(InvalidInput):
        log.append("error", content)

    assert log.size == 0


def test_a_cleared_log_numbers_from_the_start() -> None:
    log = log_of(voyage())

    log.clear()

    assert log.size == 0
    assert log.append("error").endswith("_0")


# Asking.


def test_a_query_gives_the_last_so_many_of_those_that_fit() -> None:
    log = log_of(
        [event(0, "b"), event(1, "a", "user"), event(2, "b", "user"), event(3, "a"), event(4, "c")]
    )

    def numbers(**asked: Any) -> list[int]:
        return [int(one["id"].split("_")[2]) for one in log.query(**asked)]

    assert numbers() == numbers(limit=0) == numbers(limit=-2) == [0, 1, 2, 3, 4]
    assert numbers(type="", source="") == [0, 1, 2, 3, 4]
    assert numbers(limit=2) == [3, 4]
    assert numbers(limit=9) == [0, 1, 2, 3, 4]
    assert numbers(type="a") == [1, 3]
    assert numbers(source="user") == [1, 2]
    assert numbers(type="a", source="user", limit=1) == [1]


def test_a_summary_counts_by_type_and_calls_the_nameless_undefined() -> None:
    log = log_of([event(0, "b"), event(1, "a"), event(2, "b"), 5, {"no": "id"}, {"type": 7}])

    assert log.summary() == {"b": 2, "a": 1, "undefined": 2, "7": 1}


# Lines.


def test_there_is_no_newline_at_the_end() -> None:
    assert log_of(voyage()).to_jsonl() == lines(voyage())
    assert EventLog().to_jsonl() == ""


@pytest.mark.parametrize("text", ["", " \n\t\n", None, b"", "\ufeff"])
def test_a_blank_text_is_an_empty_log(text: str | bytes | None) -> None:
    assert EventLog.from_jsonl(text).events == []


def test_nothings_are_passed_over_and_any_other_value_is_an_event() -> None:
    text = 'null\n0\nfalse\n""\n5\n"x"\n{"no":"id"}\n{}\n[]'

    reading = read_jsonl(text)

    assert reading.log.events == [5, "x", {"no": "id"}, {}, []]
    assert reading.bad == 0
    assert reading.log.append("error").endswith("_5")


def test_bad_lines_are_told_and_cost_no_other() -> None:
    whole = lines(voyage()).split("\n")
    torn = whole[3][:-9]
    welded = whole[4] + whole[5]
    body = [whole[0].encode(), b"\0" * 9, torn.encode(), b'"\xff"', b"  ", welded.encode(),
            b"[NaN]", b"1e999", b"[" * 300 + b"]" * 300, whole[6].encode() + b"\r"]  # fmt: skip

    reading = read_jsonl(b"\n".join(body) + b"\n")

    assert reading.log.events == [voyage()[0], voyage()[6]]
    assert (reading.lines, reading.bad) == (10, 7)
    assert [one.line for one in reading.bad_lines] == [2, 3, 4, 6, 7, 8, 9]
    assert reading.bad_lines[2].message == "not UTF-8"


def test_what_is_told_of_bad_lines_is_bounded_and_holds_nothing_of_them() -> None:
    reading = read_jsonl("{secret}\n" * (BAD_LINES_MAX + 5))

    assert reading.bad == BAD_LINES_MAX + 5
    assert len(reading.bad_lines) == BAD_LINES_MAX
    assert not any("secret" in one.message for one in reading.bad_lines)


def test_a_byte_order_mark_and_other_separators_break_no_line() -> None:
    said = event(0, "user_message", content="a\u2028b\x85c\x0bd")

    assert EventLog.from_jsonl("\ufeff" + lines([said])).events == [said]


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        (1.0, "1"), (1e16, "10000000000000000"), (1e21, "1e+21"), (1e-7, "1e-7"),
        (0.000001, "0.000001"), (1.25e-5, "0.0000125"), (-0.0, "0"), (5e-324, "5e-324"),
        (1.5e300, "1.5e+300"), (100.0, "100"), (-2.5, "-2.5"),
        (2.0**60, "1152921504606846976"),
        ("\ud800é\u2028\x01\x7f\n", '"\\ud800é\u2028\\u0001\x7f\\n"'),
        ({"b": [None, True], "a": {}}, '{"b":[null,true],"a":{}}'),
    ],
)  # fmt: skip
def test_values_are_spelt_as_a_browser_spells_them(value: Any, spelt: str) -> None:
    assert stringify(value) == spelt


@given(values)
def test_what_is_spelt_reads_as_it_was(value: Any) -> None:
    assert parse(stringify(value)) == value
    assert json.loads(stringify(value)) == value


@given(logs)
def test_a_log_is_the_same_after_its_lines(log: EventLog) -> None:
    text = log.to_jsonl()

    assert EventLog.from_jsonl(text) == log
    assert EventLog.from_jsonl(text.encode()).to_jsonl() == text


@given(st.binary() | st.text())
def test_no_text_breaks_the_reader(text: str | bytes) -> None:
    reading = read_jsonl(text)

    assert reading.bad + reading.log.size <= reading.lines


# Messages.


def test_messages_are_those_of_a_model_call() -> None:
    assert log_of(voyage()).derive_session_history("You are a pilot.") == [
        {"role": "system", "content": "You are a pilot."},
        {"role": "user", "content": "When is high tide?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "c1", "name": "tide",
             "function": {"name": "tide", "arguments": '{"port":"Bergen"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "tide", "content": "14:10"},
        {"role": "assistant", "content": "At 14:10."},
        {"role": "user", "content": "And the wind?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c2", "name": "wind",
             "function": {"name": "wind", "arguments": '{"port":"Bergen"}'}}]},
        {"role": "tool", "tool_call_id": "c2", "name": "wind", "content": "Error: no mast"},
    ]  # fmt: skip


def test_an_empty_system_prompt_is_none() -> None:
    assert log_of([]).derive_session_history("") == []


def test_a_call_before_any_answer_is_dropped_and_its_result_is_not() -> None:
    log = log_of([
        event(0, "agent_message", content="of the turn before"),
        event(1, "user_message", content="go"),
        event(2, "tool_call", call_id="c", name="t", arguments={}),
        event(3, "tool_result", call_id="c", name="t", result={"success": True, "output": "o"}),
    ])  # fmt: skip

    assert log.derive_session_history() == [
        {"role": "assistant", "content": "of the turn before"},
        {"role": "user", "content": "go"},
        {"role": "tool", "tool_call_id": "c", "name": "t", "content": "o"},
    ]


def test_a_call_after_a_result_belongs_to_the_same_answer() -> None:
    log = log_of([
        event(0, "agent_message", content=None),
        event(1, "tool_call", call_id="a", name="t", arguments=None),
        event(2, "tool_result", call_id="a", name="t", result={"success": 0, "error": ""}),
        event(3, "tool_call", call_id="b", name="u"),
    ])  # fmt: skip

    assert log.derive_session_history() == [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "name": "t", "function": {"name": "t", "arguments": "null"}},
            {"id": "b", "name": "u", "function": {"name": "u"}}]},
        {"role": "tool", "tool_call_id": "a", "name": "t", "content": "Error: unknown error"},
    ]  # fmt: skip


def test_a_result_without_a_result_is_an_unknown_error() -> None:
    log = log_of([event(0, "tool_result", call_id="c", name="t"), {"type": "tool_result"}])

    assert log.derive_session_history() == [
        {"role": "tool", "tool_call_id": "c", "name": "t", "content": "Error: unknown error"},
        {"role": "tool", "content": "Error: unknown error"},
    ]


# Tool calls.


def test_the_tool_call_log_is_newest_first_and_has_the_time_of_the_call() -> None:
    assert log_of(voyage()).derive_tool_call_log() == [
        {"name": "wind", "params": '{"port":"Bergen"}',
         "result": {"success": False, "output": "", "error": "no mast"}, "time": "2:13:28 PM"},
        {"name": "tide", "params": {"port": "Bergen"},
         "result": {"success": True, "output": "14:10"}, "time": "2:13:23 PM"},
    ]  # fmt: skip


def test_a_call_without_a_result_is_not_in_the_tool_call_log() -> None:
    assert log_of(voyage()[:4]).derive_tool_call_log() == []


def test_a_result_without_a_call_has_no_parameters_and_its_own_time() -> None:
    log = log_of([event(0, "tool_result", call_id="?", name="t", result={"success": True})])

    assert log.derive_tool_call_log() == [
        {"name": "t", "params": {}, "result": {"success": True}, "time": "2:13:20 PM"}
    ]


@pytest.mark.parametrize(
    ("timestamp", "zone", "shown"),
    [
        (T0, "Europe/Oslo", "4:13:20 PM"),
        (T0, "Asia/Kolkata", "7:43:20 PM"),
        (0, "UTC", "12:00:00 AM"),
        (43_200_000, "UTC", "12:00:00 PM"),
        (-1, "UTC", "11:59:59 PM"),
        (1.9, "UTC", "12:00:00 AM"),
        (8_640_000_000_000_000, "UTC", "12:00:00 AM"),
        (8_640_000_000_000_001, "UTC", "Invalid Date"),
        (-62_135_596_800_000, "America/New_York", "7:03:58 PM"),
        ("soon", "UTC", "Invalid Date"),
        (True, "UTC", "Invalid Date"),
        (10**400, "UTC", "Invalid Date"),
    ],
)
def test_times_are_shown_as_in_a_browser(timestamp: Any, zone: str, shown: str) -> None:
    log = log_of([{"type": "tool_result", "timestamp": timestamp, "data": {}}])

    assert log.derive_tool_call_log(time_zone=zone)[0]["time"] == shown


@pytest.mark.parametrize("zone", ["Moon/Tranquility", "", "../etc"])
def test_a_time_zone_that_there_is_not_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput, match="no time zone"):
        EventLog().derive_tool_call_log(time_zone=zone)


# Goals.


def test_goals_are_in_their_last_state() -> None:
    log = log_of([
        event(0, "goal_added", id="g1", description="one"),
        event(1, "goal_added", id="g2", description="two"),
        event(2, "goal_updated", id="g1", status="completed"),
        event(3, "goal_edited", id="g1", description="one!"),
        event(4, "goal_updated", id="?", status="lost"),
        event(5, "goal_removed", id="g2"),
    ])  # fmt: skip

    assert log.derive_goals() == [
        {"id": "g1", "description": "one!", "status": "completed", "created_at": T0,
         "updated_at": T0 + 3_000, "sub_goals": [], "artifacts": []}
    ]  # fmt: skip


def test_a_goal_that_is_added_again_takes_the_place_of_the_first() -> None:
    log = log_of([
        event(0, "goal_added", id="g1", description="one"),
        event(1, "goal_added", id="g2", description="two"),
        event(2, "goal_updated", id="g1", status="paused"),
        event(3, "goal_added", id="g1", description="anew"),
    ])  # fmt: skip

    found = log.derive_goals()

    assert [(goal["id"], goal["description"], goal["status"]) for goal in found] == [
        ("g1", "anew", "active"),
        ("g2", "two", "active"),
    ]


# Turns.


def test_a_slice_goes_to_the_end_of_the_turn() -> None:
    log = log_of(voyage())
    ids = [one["id"] for one in voyage()]

    def length(event_id: str) -> int:
        found = log.slice_to_turn_end(event_id)
        assert found == voyage()[: len(found or [])]
        return len(found or [])

    assert length(ids[0]) == 1
    assert [length(one) for one in ids[1:6]] == [6] * 5
    assert [length(one) for one in ids[6:]] == [11] * 5


def test_a_slice_to_an_unknown_event_is_none() -> None:
    assert log_of(voyage()).slice_to_turn_end("evt_0_0") is None


@given(logs)
def test_no_log_breaks_what_is_derived(log: EventLog) -> None:
    before = log.to_jsonl()

    for derived in (
        log.derive_session_history("s"),
        log.derive_tool_call_log(time_zone="Europe/Oslo"),
        log.derive_goals(),
        log.summary(),
    ):
        stringify(derived)
    log.slice_to_turn_end("x")

    assert log.to_jsonl() == before
