"""Clawser's logs as sessions: nothing is lost or doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

import treering
from builders import HERE
from effort import rounds
from formats.clawser_logs import T0, event, log_of, logs, voyage
from treering.formats.clawser import EventLog, ImportedLog, from_session, to_session
from treering.formats.clawser.kinds import KINDS, state

if TYPE_CHECKING:
    from treering import Ledger, Session
    from treering.model.events import Event


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.session("conv_1", scope=HERE, agent="lyria")


def imported(session: Session) -> list[Event]:
    """Return the events of the session except its opening."""
    return [one for one in session.events() if one.kind != "session.opened"]


def test_a_log_comes_back_as_it_was(session: Session) -> None:
    log = log_of(voyage())

    taken = to_session(log, session)

    assert taken == ImportedLog(events=11, added=11, changed=0)
    assert from_session(session) == log
    assert from_session(session).to_jsonl() == log.to_jsonl()


def test_taking_it_in_twice_adds_nothing(session: Session) -> None:
    to_session(log_of(voyage()[:7]), session)
    before = list(session.headers())

    again = to_session(log_of(voyage()[:7]), session)
    grown = to_session(log_of(voyage()), session)

    assert (again.added, grown.added) == (0, 4)
    assert list(session.headers())[: len(before)] == before
    assert from_session(session) == log_of(voyage())


def test_another_agent_may_take_it_in_again(ledger: Ledger, session: Session) -> None:
    to_session(log_of(voyage()), session)

    other = ledger.session("conv_1", scope=HERE, agent="nyx")

    assert to_session(log_of(voyage()), other).added == 0


def test_an_event_that_was_changed_is_told_of_and_the_first_one_stays(session: Session) -> None:
    to_session(log_of(voyage()), session)
    edited = voyage()
    edited[1]["data"]["content"] = "something else"

    taken = to_session(log_of(edited), session)

    assert taken == ImportedLog(events=11, added=0, changed=1)
    assert from_session(session) == log_of(voyage())


def test_the_same_ids_in_two_conversations_are_two_events(ledger: Ledger) -> None:
    first = ledger.session("conv_1", scope=HERE, agent="lyria")
    second = ledger.session("conv_2", scope=HERE, agent="lyria")

    to_session(log_of(voyage()), first)
    to_session(log_of(voyage()), second)

    assert from_session(first) == from_session(second) == log_of(voyage())


def test_two_events_of_one_id_both_come_back(session: Session) -> None:
    twins = [event(0, "error", message="a"), event(0, "error", message="b"), 5, 5]

    to_session(log_of(twins), session)
    to_session(log_of(twins), session)

    assert from_session(session).events == twins


def test_messages_are_told_in_the_ledgers_words(session: Session) -> None:
    to_session(log_of(voyage()[1:3]), session)

    asked, answered = imported(session)

    assert (asked.kind, asked.source, asked.origin, asked.ts_ms) == (
        "conversation.user", "user", "user", T0 + 1_000,
    )  # fmt: skip
    assert asked.summary == "When is high tide?"
    assert asked.refs == {"characters": 18}
    assert asked.payload == {"text": "When is high tide?", "clawser": {"id": voyage()[1]["id"]}}
    assert (answered.kind, answered.source) == ("conversation.assistant", "agent")


def test_tool_calls_are_tool_calls_of_the_ledger(ledger: Ledger, session: Session) -> None:
    to_session(log_of(voyage()), session)

    records = list(session.tool_calls())

    assert [(one.call_id, one.tool, one.status) for one in records] == [
        ("c1", "tide", "ok"),
        ("c2", "wind", "failed"),
    ]
    call, result = (one for one in imported(session) if (one.refs or {}).get("call_id") == "c2")
    assert call.refs == {"call_id": "c2", "tool": "wind"}
    assert call.payload["input"] == '{"port":"Bergen"}'
    assert (result.source, result.origin) == ("system", "system")
    assert result.refs == {"call_id": "c2", "tool": "wind", "status": "failed"}
    assert result.payload == {
        "call_id": "c2",
        "name": "wind",
        "status": "failed",
        "output": "",
        "error": {"class": "Error", "message": "no mast"},
        "clawser": {"id": voyage()[9]["id"]},
    }


@pytest.mark.parametrize(
    ("name", "content", "kind", "fields"),
    [
        ("goal_added", {"id": "g", "description": "d"}, "goal.added",
         {"id": "g", "description": "d"}),
        ("goal_added", {"id": "g", "description": "d", "status": "s", "parent": "p"}, "goal.added",
         {"id": "g", "description": "d", "status": "s", "parent": "p"}),
        ("goal_updated", {"id": "g", "status": "s"}, "goal.updated", {"id": "g", "status": "s"}),
        ("goal_edited", {"id": "g", "description": "d"}, "goal.updated",
         {"id": "g", "description": "d"}),
        ("goal_removed", {"id": "g"}, "goal.removed", {"id": "g"}),
        ("memory_stored", {"id": "m", "key": "k", "category": "c"}, "memory.stored",
         {"id": "m", "key": "k", "category": "c"}),
        ("memory_forgotten", {"id": "m"}, "memory.forgotten", {"id": "m"}),
        ("scheduler_added", {"id": "j", "schedule_type": "once", "prompt": "p"}, "schedule.added",
         {"id": "j", "schedule_type": "once", "prompt": "p"}),
        ("scheduler_added", {"id": "j", "spec": {"x": 1}}, "schedule.added",
         {"id": "j", "spec": {"x": 1}}),
        ("scheduler_fired", {"id": "j", "prompt": "p"}, "schedule.fired",
         {"id": "j", "prompt": "p"}),
        ("scheduler_fired", {"job_id": "j", "prompt": "p"}, "schedule.fired",
         {"id": "j", "prompt": "p"}),
        ("scheduler_removed", {"id": "j"}, "schedule.removed", {"id": "j"}),
        ("context_compacted", {"from_tokens": 9, "to_tokens": 2, "messages_removed": 4},
         "context.compacted", {"from_tokens": 9, "to_tokens": 2, "messages_removed": 4}),
        ("context_compacted", {"oldTokens": 9, "newTokens": 2, "messagesSummarized": 4},
         "context.compacted", {"oldTokens": 9, "newTokens": 2, "messagesSummarized": 4}),
        ("autonomy_blocked", {"reason": "r"}, "ops.blocked", {"reason": "r"}),
        ("cache_hit", {"hash": "h"}, "ops.cache_hit", {"hash": "h"}),
        ("error", {"message": "m", "stack": "s"}, "ops.error", {"message": "m", "stack": "s"}),
        ("idle_resume", {"after": 3}, "ops.observation", {"type": "idle_resume"}),
    ],
)  # fmt: skip
def test_each_type_has_its_kind_and_its_fields(
    name: str, content: dict[str, Any], kind: str, fields: dict[str, Any]
) -> None:
    stated = state(event(0, name, **content))

    assert stated.kind == kind
    assert {field: stated.payload[field] for field in stated.payload if field != "clawser"} == (
        fields
    )
    assert "line" not in stated.payload["clawser"]


def test_what_the_fields_do_not_say_is_kept_beside_them(session: Session) -> None:
    odd = [
        event(0, "user_message", "robot", content=[{"kind": "image"}], z=1, a=2),
        event(1, "tool_call", "agent", call_id="c", name="t", arguments={"b": 1, "a": {"d": 1}}),
        {"type": "error", "id": "evt_1_1", "extra": True},
        {**event(2, "error"), "timestamp": 1.5},
        {**event(3, "error"), "timestamp": -4, "source": ""},
        {**event(5, "error"), "timestamp": 1_400_000_000},
        {"type": "error", "id": "evt_1400000000_6"},
        event(4, "error", message="\ud800", clawser={"x": "\0"}),
    ]

    to_session(log_of(odd), session)

    assert from_session(session).to_jsonl() == log_of(odd).to_jsonl()
    first = imported(session)[0]
    assert (first.source, first.origin) == ("user", "robot")
    assert first.payload["clawser"]["data"] == {"content": [{"kind": "image"}], "a": 2, "z": 1}


@settings(max_examples=rounds(20, times=30))
@given(logs)
def test_every_log_comes_back_through_a_ledger(log: EventLog) -> None:
    with treering.open(":memory:") as ledger:
        session = ledger.session("conv_1", scope=HERE, agent="lyria")
        to_session(log, session)
        found = from_session(session)

        assert found == log
        assert found.to_jsonl() == log.to_jsonl()
        assert to_session(log, session).added == 0
        assert ledger.admin.verify().intact


@given(logs)
def test_each_event_is_told_of_the_same_way_whenever_it_is_told(log: EventLog) -> None:
    assert [state(one) for one in log.events] == [state(one) for one in log.events]


def test_a_session_of_the_ledgers_own_goes_out_in_clawsers_words(session: Session) -> None:
    with session.turn() as run:
        run.user("ahoy")
        with run.tool("tide", {"port": "Bergen"}, call_id="c1") as call:
            call.finish("14:10")
        run.tools.started("wind", {}, call_id="c2").fail(ValueError("no mast"))
        run.tools.started("hang", {}, call_id="c3").give_up("timeout")
        run.assistant("aye")
    session.record("goal.added", "a goal", payload={"id": "g", "description": "reach Bergen"})

    log = from_session(session)

    assert [one["type"] for one in log.events] == [
        "user_message", "tool_call", "tool_result", "tool_call", "tool_result", "tool_call",
        "tool_result", "agent_message", "goal_added",
    ]  # fmt: skip
    said = [one["data"] for one in log.events]
    assert said[0] == {"content": "ahoy"}
    assert said[1] == {"call_id": "c1", "name": "tide", "arguments": {"port": "Bergen"}}
    assert said[2]["result"] == {"success": True, "output": "14:10"}
    assert said[4]["result"] == {"success": False, "error": "no mast"}
    assert said[6]["result"]["success"] is False
    assert isinstance(said[6]["result"]["error"], str)
    assert {one["source"] for one in log.events} == {"user", "agent", "system"}
    assert log.derive_goals()[0]["description"] == "reach Bergen"


def test_a_session_is_not_taken_into_itself(session: Session) -> None:
    with session.turn() as run:
        run.user("ahoy")
    to_session(log_of(voyage()), session)

    taken = to_session(from_session(session), session)

    assert (taken.added, taken.changed) == (0, 0)


def test_what_was_erased_is_there_and_says_so(ledger: Ledger, session: Session) -> None:
    to_session(log_of(voyage()[1:5]), session)

    ledger.redact(HERE, session_id="conv_1")
    log = from_session(session)

    assert [one["type"] for one in log.events] == [one["type"] for one in voyage()[1:5]]
    assert log.events[0]["data"] == {"content": "[REDACTED]"}
    assert "Bergen" not in log.to_jsonl()
    assert to_session(log_of(voyage()[1:5]), session).added == 0


def test_every_type_has_a_kind_that_the_ledger_knows() -> None:
    from treering.model.kinds import parse_kind

    assert {name: parse_kind(name).name for name in KINDS} == KINDS
