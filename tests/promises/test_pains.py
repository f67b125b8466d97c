"""What people who run agents suffer from most, each as the sessions that it befell."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from builders import HERE, called, run_of, said
from context.histories import LOG, PROSE
from context.legality import check_legal
from context.provider_types import check_types
from treering.context.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering import Ledger, NewEvent, Session
    from treering.context.assemble import Context

WINDOW: Final = 8_000
"""The window of a small model."""


def asked(call_id: str, tool: str = "look", **fields: Any) -> NewEvent:
    return called(tool, payload={"call_id": call_id, "name": tool, "input": {}}, **fields)


def returned(call_id: str, output: str = "seen", **fields: Any) -> NewEvent:
    told = {"call_id": call_id, "name": "look", "output": output}
    return said("look returned", kind="tool.result", payload=told, **fields)


def answered(text: str, **fields: Any) -> NewEvent:
    return said(text, kind="conversation.assistant", **fields)


def legal(session: Session, max_tokens: int | None = WINDOW) -> Context:
    """Return the context of a session, which every provider takes."""
    for dialect in DIALECTS:
        context = session.context(max_tokens, dialect=dialect)
        check_legal(dialect, context.request)
        check_types(dialect, context.request)
    return session.context(max_tokens)


def codes(context: Context) -> list[str]:
    return [repair.code for repair in context.report]


def outputs(context: Context) -> dict[str, str]:
    return {
        message["tool_call_id"]: message["content"]
        for message in context.messages
        if message["role"] == "tool"
    }


def take_turn(session: Session, question: str, outputs: Sequence[str] = ()) -> Context:
    """Take a turn as an agent does: asked, shown, tools run, shown again, answered."""
    with session.turn() as turn:
        turn.user(question)
        context = turn.context(WINDOW)
        for output in outputs:
            with turn.tool("look", {"at": question}) as call:
                call.finish(output)
            context = turn.context(WINDOW)
        turn.assistant(f"About {question} I know enough.")
    return context


def words(session: Session) -> list[str]:
    return [str(message["content"]) for message in session.history()]


# 1. Orphan calls and results make a session unusable for good.


def test_pain_1_a_call_that_a_crash_left_without_a_result_is_answered(
    ledger: Ledger, session: Session
) -> None:
    ledger.append([said("Go."), asked("c1"), asked("c2"), returned("c1"), said("Are you there?")])

    context = legal(session)

    assert codes(context) == ["missing_result"]
    assert outputs(context)["c1"] == "seen"
    assert "gave no result" in outputs(context)["c2"]


def test_pain_1_a_result_whose_call_is_gone_is_dropped(ledger: Ledger, session: Session) -> None:
    ledger.append([returned("c9"), said("Go."), answered("Gone."), returned("c8")])

    context = legal(session)

    assert codes(context) == ["orphan_result", "orphan_result"]
    assert [message["content"] for message in context.messages] == ["Go.", "Gone."]


def test_pain_1_a_result_that_comes_when_its_run_is_over_finds_its_call(
    ledger: Ledger, session: Session
) -> None:
    first, *rest, last = run_of("r1", "Go.")
    ledger.append([first, *rest, asked("c1", run_id="r1"), last])
    ledger.append([said("Well?"), returned("c1", "rain")])

    context = legal(session)

    assert outputs(context) == {"c1": "rain"}
    assert codes(context) == ["moved_result"]


def test_pain_1_what_a_killed_turn_left_behind_stops_no_later_turn(
    ledger: Ledger, session: Session
) -> None:
    first, *rest, _ = run_of("r1", "Go.")
    ledger.append([first, *rest, asked("c1", run_id="r1")])

    context = take_turn(session, "the tide", ["high"])

    check_legal("openai-chat", context.request)
    assert "c1" not in outputs(context)
    legal(session)


def test_pain_1_one_bad_session_does_not_stop_the_others(ledger: Ledger, session: Session) -> None:
    ledger.append([returned("c9"), asked(""), asked("")])
    other = ledger.session("s2", scope=HERE, agent="lyria")

    context = take_turn(other, "the tide")

    assert context.report == []
    assert [message["content"] for message in context.messages] == ["the tide"]
    legal(session)


@pytest.mark.parametrize("keep", range(1, 8))
def test_pain_1_a_compaction_never_splits_a_batch_of_calls(
    ledger: Ledger, session: Session, keep: int
) -> None:
    ledger.append(
        [
            said("Go."), asked("a1"), returned("a1", "one"),
            said("On."), asked("b1"), asked("b2"), returned("b1", "two"), returned("b2", "three"),
            said("Wait."), asked("d1"), said("Still there?"), returned("d1", "four"),
            answered("Done."),
        ]
    )  # fmt: skip

    session.compact(keep=keep)

    context = legal(session)
    told = outputs(context)
    assert ("b1" in told) == ("b2" in told)
    assert set(codes(context)) <= {"moved_result"}
    assert told == {
        call_id: output
        for call_id, output in {"a1": "one", "b1": "two", "b2": "three", "d1": "four"}.items()
        if call_id in told
    }


def test_pain_1_a_turn_under_way_is_not_compacted_with_its_open_calls(session: Session) -> None:
    for number in range(6):
        take_turn(session, f"tide {number}", ["high"])
    with session.turn() as turn:
        turn.user("And now?")
        with turn.tool("look", call_id="open") as call:
            session.compact(keep=1)
            call.finish("low")

        context = turn.context(WINDOW)

    assert outputs(context)["open"] == "low"
    assert codes(context) == []


def test_pain_1_a_real_result_is_never_replaced_by_a_placeholder(
    ledger: Ledger, session: Session
) -> None:
    ledger.append(
        [
            said("Go."), asked("c1"), asked("c2"), said("Hurry."), answered("I do."),
            returned("c2", "second"), returned("c1", "first"), returned("c1", "placeholder"),
        ]
    )  # fmt: skip

    context = legal(session)

    assert outputs(context) == {"c1": "first", "c2": "second"}
    assert "missing_result" not in codes(context)


@pytest.mark.parametrize("call_id", ["", "toolu_1", "call_a|fc_b", "x" * 64])
def test_pain_1_ids_that_are_empty_doubled_or_odd_are_made_good(
    ledger: Ledger, session: Session, call_id: str
) -> None:
    turns = [
        [said(f"{number}?"), asked(call_id), returned(call_id, f"answer {number}")]
        for number in range(3)
    ]
    ledger.append([event for turn in turns for event in turn])

    context = legal(session)

    assert list(outputs(context).values()) == ["answer 0", "answer 1", "answer 2"]


def test_pain_1_the_ledger_keeps_what_was_repaired(ledger: Ledger, session: Session) -> None:
    ledger.append([returned("c9"), said("Go."), asked("c1")])
    before = list(session.events())

    context = legal(session)

    assert list(session.events()) == before
    known = {event.event_id for event in before}
    assert all(repair.event_id in known for repair in context.report)
    assert ledger.admin.verify().intact


# 3. A compaction loses what carried the load.


def exported(ledger: Ledger) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, session_id="s1", payloads="included")
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_pain_3_a_compaction_is_an_event_and_every_line_stays(
    ledger: Ledger, session: Session
) -> None:
    for number in range(30):
        take_turn(session, f"tide {number}", ["high"])
    events, history = list(session.events()), words(session)

    header = session.compact(keep=4)

    assert header is not None
    assert header.refs["through_seq"] < header.seq
    assert header.refs["from_tokens"] > header.refs["to_tokens"]
    assert list(session.events())[: len(events)] == events
    assert words(session) == history
    lines = str(exported(ledger))
    assert all(event.event_id in lines for event in session.headers())
    assert all(f"'tide {number}'" in lines for number in range(30))


def test_pain_3_the_model_is_shown_the_summary_and_the_rest_as_it_was(session: Session) -> None:
    session.append(
        [
            said("Move the crane. Never use the north pier."),
            answered("I decided to use the south pier, and wrote plans/crane.md."),
            *[said(f"{number}?") for number in range(10)],
        ]
    )

    session.compact(keep=3)

    summary, *rest = [str(message["content"]) for message in legal(session).messages]
    assert rest == ["7?", "8?", "9?"]
    for told in ("Never use the north pier", "south pier", "plans/crane.md"):
        assert told in summary


def test_pain_3_what_was_told_once_is_told_by_the_next_summary_too(session: Session) -> None:
    session.append([said("Move the crane. Never use the north pier.")])
    for number in range(5):
        session.append([said(f"{number}{at}?") for at in range(5)])
        assert session.compact(keep=2) is not None

    [summary, *_] = [str(message["content"]) for message in legal(session).messages]

    assert "Never use the north pier" in summary


def test_pain_3_what_the_model_saw_at_a_turn_is_known_after_compactions(session: Session) -> None:
    contexts = []
    for number in range(8):
        contexts.append(take_turn(session, f"tide {number}", [PROSE * 30, PROSE * 30]))
        session.compact(keep=3)

    for number, context in enumerate(contexts, start=1):
        shown = session.shown(turn=number)
        assert [one.exact for one in shown] == [True, True, True]
        assert shown[-1].context.messages == context.messages


def test_pain_3_a_turn_that_is_longer_than_the_window_does_not_forget_the_summary(
    session: Session,
) -> None:
    take_turn(session, "Move the crane. Never use the north pier.")
    for number in range(10):
        take_turn(session, f"tide {number}", [PROSE * 30] * 3)

    context = take_turn(session, "Read all of it.", [LOG * 100] * 45)

    summary, question, *_ = [str(message["content"]) for message in context.messages]
    assert "Never use the north pier" in summary
    assert question == "Read all of it."


def test_pain_3_a_summary_that_is_erased_gives_way_to_what_it_told(
    ledger: Ledger, session: Session
) -> None:
    session.append([said(f"{number}?") for number in range(10)])
    header = session.compact(keep=2)
    assert header is not None

    ledger.redact(HERE, event_id=header.event_id)

    assert [message["content"] for message in legal(session).messages] == [
        f"{number}?" for number in range(10)
    ]


# 4. A context that overflows once overflows for ever.


def test_pain_4_several_results_that_overflow_together_are_shortened_together(
    session: Session,
) -> None:
    question = "Read the three threads."
    sizes = (38_662, 155_016, 136_693)

    context = take_turn(session, question, [(LOG * 3_000)[:size] for size in sizes])

    assert context.tokens <= WINDOW
    assert context.messages[0]["content"] == question
    assert len(outputs(context)) == 3
    assert {len(output) > 1_000 for output in outputs(context).values()} == {True}


def test_pain_4_many_results_of_middle_size_in_one_turn_leave_its_question(
    session: Session,
) -> None:
    context = take_turn(session, "Read all of it.", [LOG * 100] * 45)

    assert context.tokens <= WINDOW
    assert context.messages[0]["content"] == "Read all of it."
    assert len(outputs(context)) > 5


def test_pain_4_a_single_result_that_is_larger_than_the_window_fits(session: Session) -> None:
    take_turn(session, "the tide", ["high"])

    context = take_turn(session, "the log", [LOG * 10_000])

    assert context.tokens <= WINDOW
    assert "chars omitted" in context.messages[-1]["content"]
    assert "the tide" in str(context.messages)


def test_pain_4_a_message_of_the_user_that_is_larger_than_the_window_fits(session: Session) -> None:
    context = take_turn(session, "Read this: " + PROSE * 2_000)

    assert context.tokens <= WINDOW
    assert context.messages[-1]["content"].startswith("Read this: ")
    assert "shortened_message" in codes(context)


def test_pain_4_an_overflow_compacts_once_a_turn_and_not_again(session: Session) -> None:
    for number in range(12):
        take_turn(session, f"log {number}", [LOG * 200] * 3)

    compactions: list[int] = []
    for header in session.headers():
        if header.kind == "run.ended":
            compactions.append(0)
        elif header.kind == "context.compacted":
            compactions[-1] += 1

    assert max(compactions) == 1
    assert [session.compact(WINDOW) for _ in range(3)] == [None, None, None]
    assert legal(session).tokens <= WINDOW


def test_pain_4_one_long_result_is_no_reason_to_compact(session: Session) -> None:
    take_turn(session, "the log", [LOG * 10_000])
    for number in range(20):
        take_turn(session, f"tide {number}")

    assert "context.compacted" not in {header.kind for header in session.headers()}
    assert "the log" in str(legal(session).messages)


def test_pain_4_a_long_session_stays_within_its_window_at_every_step(session: Session) -> None:
    contexts = [
        take_turn(session, f"log {number}", [LOG * 60 * (number % 5)] * 3) for number in range(25)
    ]

    assert all(0 < context.tokens <= WINDOW for context in contexts)
    assert all(
        f"log {number}" in str(context.messages[-8:]) for number, context in enumerate(contexts)
    )


def test_pain_4_words_about_an_overflow_are_words_like_any(session: Session) -> None:
    text = "Context overflow: prompt too large for the model. Try again with less input."

    context = take_turn(session, text, [text])

    assert context.report == []
    assert context.messages[0]["content"] == text


@pytest.mark.parametrize("max_tokens", [0, 10, 30, 100])
def test_pain_4_a_window_that_is_far_too_small_is_told_and_not_exceeded(
    session: Session, max_tokens: int
) -> None:
    take_turn(session, "the log " * 50, [LOG * 500])

    context = session.context(max_tokens)

    assert context.tokens <= max_tokens
    assert context.report


# 11. Forks, rewinds and undo are missing or lossy.


def test_pain_11_a_fork_at_an_event_leaves_its_parent_as_it_was(
    ledger: Ledger, session: Session
) -> None:
    for name in ("one", "two", "three"):
        take_turn(session, name)
    parent, history = list(session.events()), words(session)
    [at] = [event.event_id for event in parent if event.payload == {"text": "two"}]

    fork = session.fork("s2", at=at)
    take_turn(fork, "another three")

    assert list(session.events()) == parent
    assert words(session) == history
    assert words(fork)[:4] == history[:4]
    assert words(fork)[4] == "another three"
    assert ledger.admin.verify().intact


def test_pain_11_parent_and_fork_can_both_be_gone_on_with(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    fork = session.fork("s2")
    take_turn(session, "here")
    take_turn(fork, "there")

    listed = {one.session_id for one in ledger.sessions(HERE).items}
    assert listed == {"s1", "s2"}
    assert [words(one)[2] for one in (session, fork)] == ["here", "there"]
    assert [one.session.session_id for one in ledger.family(HERE, "s1").forks] == ["s2"]


def test_pain_11_an_undo_makes_no_session_and_deletes_nothing(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "one")
    take_turn(session, "two")
    before = list(session.events())

    session.undo()

    assert words(session)[0::2] == ["one"]
    assert "two" not in str(legal(session).messages)
    assert list(session.events())[: len(before)] == before
    assert len(list(session.events())) == len(before) + 1
    assert [one.session_id for one in ledger.sessions(HERE).items] == ["s1"]
    assert ledger.family(HERE, "s1").forks == ()


def test_pain_11_what_was_undone_can_be_had_again(session: Session) -> None:
    for name in ("one", "two", "three"):
        take_turn(session, name)
    history = words(session)

    session.undo(turns=2)
    session.redo()

    assert words(session) == history


def test_pain_11_after_an_undo_one_goes_on_as_if_it_had_not_been(session: Session) -> None:
    take_turn(session, "one", ["high"])
    take_turn(session, "a mistake", ["low"])

    session.undo()
    context = take_turn(session, "two", ["high"])

    assert "a mistake" not in str(context.messages)
    assert codes(context) == []
    check_legal("openai-chat", context.request)


def test_pain_11_an_undo_reaches_behind_a_compaction(session: Session) -> None:
    for number in range(8):
        take_turn(session, f"tide {number}")
    session.compact(keep=2)

    session.undo(turns=4)

    assert words(session)[0::2] == [f"tide {number}" for number in range(4)]
    shown = str(legal(session).messages)
    assert "tide 3" in shown
    assert "tide 4" not in shown


def test_pain_11_an_undo_in_a_fork_leaves_the_shared_past_to_the_parent(session: Session) -> None:
    take_turn(session, "one")
    take_turn(session, "two")
    fork = session.fork("s2")

    fork.undo()

    assert words(fork)[0::2] == ["one"]
    assert words(session)[0::2] == ["one", "two"]
