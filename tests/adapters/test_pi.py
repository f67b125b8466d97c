from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from adapters import pi_events as pi
from treering.adapters.pi import PiRecorder, record_pi
from treering.errors import InvalidInput, RunActive, RunInterrupted

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event
    from treering.spine.dispatcher import Spine

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
READ = ("call_1", "read", {"path": "notes.md"})
BROKEN = pi.assistant(stop_reason="error", error="overloaded")
RETRY = {
    "type": "auto_retry_start",
    "attempt": 1,
    "maxAttempts": 3,
    "delayMs": 2_000,
    "errorMessage": "overloaded",
}


def recorded(session: Session) -> list[Event]:
    return [event for event in session.events() if event.kind != "session.opened"]


def kinds(session: Session) -> list[str]:
    return [event.kind for event in recorded(session)]


def only(session: Session, kind: str) -> Event:
    (event,) = (event for event in session.events() if event.kind == kind)
    return event


def take(spine: Spine, session: Session, *events: dict[str, Any]) -> None:
    record_pi(spine, session, pi.lines(*events))


def test_each_stretch_from_agent_start_to_agent_end_is_a_run(
    spine: Spine, session: Session
) -> None:
    talk = [*pi.started(), *pi.user("hello"), *pi.answer("Hi."), *pi.ended()]

    receipt = record_pi(spine, session, pi.lines(*talk, *talk))

    assert receipt.runs == 2
    assert kinds(session) == 2 * [
        "run.started",
        "conversation.user",
        "conversation.assistant",
        "run.ended",
    ]


def test_a_bad_line_leaves_a_warning_with_its_number_and_the_rest_goes_on(
    spine: Spine, session: Session
) -> None:
    """Torn, welded, NUL-filled or half-written lines are reported and never stop the rest."""
    good = pi.lines(*pi.started(), *pi.user("hello"), *pi.answer("Hi."), *pi.ended())
    welded = good[0].strip() + good[1]
    torn: list[str | bytes] = [
        welded,
        '{"type": "mess',
        "\0\0\0\0",
        b'{"type": "\xff"}',
        "[1]",
        '{"kind": 1}',
        "\n",
    ]
    lines = [*good[:4], *torn, *good[4:]]

    receipt = record_pi(spine, session, lines)

    warnings = [event for event in recorded(session) if event.kind == "ops.warning"]
    assert [warning.payload["line"] for warning in warnings] == [5, 6, 7, 8, 9, 10]
    assert [warning.refs for warning in warnings] == 6 * [{"code": "bad_line"}]
    assert [bad.line for bad in receipt.bad_lines] == [5, 6, 7, 8, 9, 10]
    assert kinds(session)[-2:] == ["conversation.assistant", "run.ended"]
    assert receipt.bad == 6


def test_a_stream_that_breaks_off_interrupts_the_run_and_closes_its_calls(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.started(), *pi.user("hello"), pi.tool_started(READ))

    result = only(session, "tool.result")
    assert kinds(session)[-3:] == ["tool.result", "run.interrupted", "boundary.interrupt"]
    assert (result.refs["status"], result.refs["reason"]) == ("synthetic", "interrupted")
    assert result.refs["is_synthetic"] is True


def test_a_reader_that_raises_interrupts_the_run_too(spine: Spine, session: Session) -> None:
    def lines() -> Any:
        yield from pi.lines(*pi.started())
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        record_pi(spine, session, lines())

    assert "run.interrupted" in kinds(session)


def test_an_event_that_is_not_known_is_kept_as_an_observation(
    spine: Spine, session: Session
) -> None:
    odd = {"type": "mood_changed", "hook": "cheerful"}

    take(spine, session, *pi.started(), odd, *pi.ended())

    seen = only(session, "ops.observation")
    assert seen.payload == {"event": odd}
    assert seen.refs is None
    assert seen.run_id is not None
    assert seen.summary == "pi: mood_changed"


def test_what_happens_between_runs_is_part_of_none(spine: Spine, session: Session) -> None:
    header = {"type": "session", "version": 3, "id": "7f", "timestamp": "now", "cwd": "/src"}
    compaction: list[dict[str, Any]] = [
        {"type": "compaction_start", "reason": "threshold"},
        {
            "type": "compaction_end",
            "reason": "threshold",
            "result": {"summary": "…", "firstKeptEntryId": "3", "tokensBefore": 900},
            "aborted": False,
            "willRetry": False,
        },
    ]

    take(spine, session, header, *pi.started(), *pi.answer("Hi."), *pi.ended(), *compaction)

    assert only(session, "ops.observation").run_id is None
    assert only(session, "compaction.started").run_id is None
    assert only(session, "compaction.ended").refs == {"will_retry": False, "tokens_before": 900}


def test_a_model_that_fails_for_good_fails_the_run(spine: Spine, session: Session) -> None:
    take(spine, session, *pi.started(), *pi.answer("Ha", error="bad key", stop_reason="error"),
         *pi.ended(pi.assistant(stop_reason="error", error="bad key")))  # fmt: skip

    assert kinds(session) == ["run.started", "ops.observation", "run.failed"]
    assert only(session, "run.failed").payload == {"reason": "bad key"}


def test_an_abort_interrupts_the_run(spine: Spine, session: Session) -> None:
    take(spine, session, *pi.started(), *pi.answer("Well", stop_reason="aborted"),
         *pi.ended(pi.assistant("Well", stop_reason="aborted")))  # fmt: skip

    assert only(session, "conversation.assistant").refs["stop_reason"] == "aborted"
    assert only(session, "run.interrupted").payload == {"reason": "aborted"}


def test_a_failure_outside_of_the_loop_is_told_by_the_last_event_alone(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.started(), *pi.user("hello"), *pi.ended(BROKEN))

    assert only(session, "run.failed").payload == {"reason": "overloaded"}


def test_a_retry_is_a_warning_and_the_run_goes_on(spine: Spine, session: Session) -> None:
    take(
        spine,
        session,
        *pi.started(),
        *pi.user("hello"),
        *pi.ended(BROKEN),
        RETRY,
        *pi.started(),
        *pi.answer("Hi."),
        *pi.ended(),
    )

    assert kinds(session) == [
        "run.started",
        "conversation.user",
        "ops.warning",
        "conversation.assistant",
        "run.ended",
    ]
    assert only(session, "ops.warning").refs == {"code": "retry"}


def test_retries_that_all_fail_fail_the_run(spine: Spine, session: Session) -> None:
    given_up = {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "down"}

    take(spine, session, *pi.started(), *pi.ended(BROKEN), RETRY, *pi.started(),
         *pi.ended(BROKEN), given_up, {"type": "queue_update"})  # fmt: skip

    assert kinds(session) == [
        "run.started",
        "ops.warning",
        "ops.warning",
        "run.failed",
        "ops.observation",
    ]


@pytest.mark.parametrize("prefix", ["", "auto_"])
@pytest.mark.parametrize(("will_retry", "end"), [(True, "run.ended"), (False, "run.failed")])
def test_a_compaction_after_an_overflow_is_part_of_the_run_that_it_saves(
    spine: Spine, session: Session, prefix: str, end: str, *, will_retry: bool
) -> None:
    phases: list[dict[str, Any]] = [
        {"type": f"{prefix}compaction_start", "reason": "overflow"},
        {"type": f"{prefix}compaction_end", "aborted": False, "willRetry": will_retry},
    ]
    again = [*pi.started(), *pi.answer("Hi."), *pi.ended()] if will_retry else []

    take(spine, session, *pi.started(), *pi.ended(BROKEN), *phases, *again)

    started, ended = only(session, "compaction.started"), only(session, "compaction.ended")
    assert started.run_id == ended.run_id == only(session, end).run_id
    assert ended.refs == {"will_retry": will_retry}


def test_a_result_whose_event_was_lost_is_taken_from_its_message(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.started(), pi.tool_started(READ), *pi.result_message(READ, "text"),
         *pi.ended())  # fmt: skip

    assert only(session, "tool.result").payload["output"] == "text"


def test_a_result_whose_call_was_lost_is_recorded_with_a_call(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.started(), pi.tool_ended(READ, "text"), *pi.ended())

    assert kinds(session) == ["run.started", "tool.call", "tool.result", "run.ended"]


def test_a_result_that_is_told_twice_is_recorded_once(spine: Spine, session: Session) -> None:
    twice = [pi.tool_ended(READ, "text"), pi.tool_ended(READ, "text")]

    take(spine, session, *pi.started(), pi.tool_started(READ), *twice, *pi.ended())

    assert kinds(session).count("tool.result") == 1


def test_a_run_whose_start_was_lost_is_recorded_all_the_same(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.user("hello"), *pi.answer("Hi."), *pi.ended())

    assert kinds(session)[0] == "run.started"
    assert kinds(session)[-1] == "run.ended"


def test_a_run_whose_end_was_lost_does_not_run_into_the_next(
    spine: Spine, session: Session
) -> None:
    take(spine, session, *pi.started(), *pi.user("one"), *pi.started(), *pi.user("two"),
         *pi.ended())  # fmt: skip

    ends = [kind for kind in kinds(session) if kind.startswith("run.")]
    assert ends == ["run.started", "run.interrupted", "run.started", "run.ended"]


def test_details_of_a_tool_are_kept_and_so_are_its_images(spine: Spine, session: Session) -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": "seen"}, picture], "details": {"width": 3}}
    end = pi.tool_ended(READ, "") | {"result": result}

    take(spine, session, *pi.started(), pi.tool_started(READ), end, *pi.ended())

    output = only(session, "tool.result").payload["output"]
    assert output["details"] == {"width": 3}
    assert output["content"][1] == picture


def test_pictures_of_users_and_tools_reach_the_next_request(spine: Spine, session: Session) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    asked = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    end = pi.tool_ended(READ, "") | {"result": {"content": [picture]}}

    take(spine, session, *pi.started(), {"type": "message_end", "message": asked},
         pi.tool_started(READ), end, *pi.ended())  # fmt: skip

    context = session.context(dialect="anthropic")
    assert json.dumps(context.request).count(PIXEL) == 2
    assert not context.report


def test_pictures_in_what_is_only_observed_are_told_by_their_size(
    spine: Spine, session: Session
) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}

    take(spine, session, *pi.started(),
         {"type": "message_end", "message": {"role": "custom", "content": [picture]}},
         *pi.ended())  # fmt: skip

    assert PIXEL not in json.dumps([event.payload for event in session.events()])


def test_input_tokens_count_what_came_from_a_cache(spine: Spine, session: Session) -> None:
    """Other runtimes include it in the input; pi counts it apart."""
    message = pi.assistant("Hi.")
    message["usage"] |= {"input": 5, "cacheRead": 90, "cacheWrite": 7, "output": 2,
                         "totalTokens": 104}  # fmt: skip

    take(spine, session, *pi.started(), {"type": "message_end", "message": message}, *pi.ended())

    usage = only(session, "usage.reported").refs
    assert usage["input_tokens"] == 102
    assert usage["cached_tokens"] == 90
    assert usage["total_tokens"] == 104


def test_thinking_is_private_and_told_beside_the_answer(spine: Spine, session: Session) -> None:
    message = pi.assistant("Hi.")
    message["content"].insert(0, {"type": "thinking", "thinking": "They greet me."})

    take(spine, session, *pi.started(), {"type": "message_end", "message": message}, *pi.ended())

    said = only(session, "conversation.assistant")
    assert said.payload["thinking"] == "They greet me."
    assert "greet" not in json.dumps(said.refs)


def test_a_tool_that_may_not_run_is_recorded_as_denied_and_what_it_did_as_late(
    ledger: Ledger, spine: Spine
) -> None:
    session = ledger.session("walled", scope="acme/app", agent="lyria", tools=["search"])

    take(spine, session, *pi.started(), pi.tool_started(READ), pi.tool_ended(READ, "text"),
         *pi.ended())  # fmt: skip

    denied, late = (event for event in session.events() if event.kind == "tool.result")
    assert only(session, "ops.blocked").refs["code"] == "not_permitted"
    assert denied.refs["reason"] == "denied"
    assert late.refs["late"] is True
    assert kinds(session)[-1] == "run.ended"


def test_an_interrupt_from_outside_is_told_once_and_the_rest_of_the_run_passed_over(
    spine: Spine, session: Session
) -> None:
    with PiRecorder(spine, session) as recorder:
        for event in [*pi.started(), *pi.user("hello"), pi.tool_started(READ)]:
            recorder.take(event)
        session.interrupt("enough")

        with pytest.raises(RunInterrupted):
            recorder.take(pi.answer("Hi.")[-1])
        recorder.take(pi.tool_ended(READ, "text"))
        recorder.take(pi.answer("Hi.")[-1])
        recorder.take(pi.ended()[0])
        recorder.take(pi.started()[0])

    late = [event for event in session.events() if event.kind == "tool.result"][-1]
    assert late.refs["late"] is True
    assert "conversation.assistant" not in kinds(session)
    assert kinds(session).count("run.started") == 2


def test_a_busy_session_takes_no_second_run(spine: Spine, session: Session) -> None:
    with spine.run(session), pytest.raises(RunActive):
        record_pi(spine, session, pi.lines(*pi.started()), wait_s=0)


def test_what_is_no_event_is_refused_one_by_one(spine: Spine, session: Session) -> None:
    with PiRecorder(spine, session) as recorder:
        for event in ({}, {"type": 7}, {"type": "message_end"}, {"type": "tool_execution_start"}):
            with pytest.raises(InvalidInput):
                recorder.take(event)
