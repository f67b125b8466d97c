"""Boundaries: marks in a session, of which a model is shown those that it has to know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import HERE, said
from context.legality import check_legal
from context.told import told
from treering import InvalidInput, Ledger, Session
from treering.context.dialects import DIALECTS, Dialect

if TYPE_CHECKING:
    from treering.model.kinds import Boundary

SHOWN: tuple[Boundary, ...] = ("checkpoint", "interrupt", "overflow")
UNSEEN: tuple[Boundary, ...] = ("intent", "segment")


def take_turn(session: Session, name: str) -> None:
    with session.turn() as turn:
        turn.user(f"{name}?")
        with turn.tool("look") as call:
            call.finish("seen")
        turn.assistant(f"{name}!")


def contents(session: Session) -> list[Any]:
    return [message["content"] for message in session.context().messages]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reason", SHOWN)
def test_a_mark_that_a_model_has_to_know_of_is_said_by_the_user(
    session: Session, reason: Boundary, dialect: Dialect
) -> None:
    take_turn(session, "one")
    session.boundary(reason, "a title", "the whole story")
    take_turn(session, "two")

    context = session.context(dialect=dialect)

    check_legal(dialect, context.request)
    said_by_user = [what[1] for what in told(dialect, context.request) if what[0] == "user"]
    assert f"<{reason}>\nthe whole story\n</{reason}>" in "\n".join(said_by_user)


@pytest.mark.parametrize("reason", SHOWN)
def test_a_mark_without_content_is_told_by_its_title(session: Session, reason: Boundary) -> None:
    session.boundary(reason, "a title")

    assert contents(session) == [f"<{reason}>\na title\n</{reason}>"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reason", UNSEEN)
def test_a_mark_for_people_and_queries_is_shown_to_no_model(
    session: Session, reason: Boundary, dialect: Dialect
) -> None:
    take_turn(session, "one")
    before = session.context(dialect=dialect)

    header = session.boundary(reason, "unseen-title", "unseen-content")

    after = session.context(dialect=dialect)
    assert after.request == before.request
    assert header.event_id not in after.event_ids
    assert session.history() == session.history(last=100)
    assert "unseen" not in str(session.history())


def test_marks_are_found_by_their_kind(ledger: Ledger, session: Session) -> None:
    for reason in (*SHOWN, *UNSEEN):
        session.boundary(reason, f"a {reason}", "told")

    for reason in (*SHOWN, *UNSEEN):
        [event] = ledger.events(HERE, kinds=[f"boundary.{reason}"]).items
        assert event.payload == {"title": f"a {reason}", "content": "told"}


@pytest.mark.parametrize("reason", ["Checkpoint", "", "end"])
def test_a_mark_that_is_none_is_refused(session: Session, reason: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid boundary"):
        session.boundary(reason, "a title")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reason", [*SHOWN, *UNSEEN])
def test_a_mark_between_a_call_and_its_result_parts_them_in_no_dialect(
    ledger: Ledger, session: Session, reason: Boundary, dialect: Dialect
) -> None:
    call = {"call_id": "c1", "name": "look", "input": {}}
    ledger.append([said("one?"), said("look", kind="tool.call", payload=call)])
    session.boundary(reason, "a title", "the whole story")
    result = {"call_id": "c1", "output": "seen"}
    ledger.append([said("seen", kind="tool.result", payload=result)])

    context = session.context(dialect=dialect)

    check_legal(dialect, context.request)
    assert "seen" in str(context.messages)
    assert ("the whole story" in str(context.messages)) == (reason in SHOWN)


def test_a_mark_that_was_erased_is_not_shown(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    header = session.checkpoint("secret")

    ledger.redact(HERE, event_id=header.event_id)

    assert len(session.context().messages) == 4
    assert "secret" not in str(session.context().messages)


def test_a_mark_in_a_turn_that_failed_is_not_shown(session: Session) -> None:
    turn = session.turn()
    turn.start()
    turn.emit("boundary.checkpoint", {"title": "too early"})
    turn.fail("no luck")

    assert session.context().messages == []


# Interrupts.


def test_the_turn_after_an_interrupt_sees_that_there_was_one(session: Session) -> None:
    take_turn(session, "one")
    turn = session.turn()
    turn.start()
    turn.user("two?")
    mark = session.interrupt("the user changed their mind")
    assert mark is not None
    with session.turn() as following:
        following.user("three?")
        messages = following.context().messages

    texts = [str(message["content"]) for message in messages]
    assert "two?" not in texts
    [seen] = [text for text in texts if text.startswith("<interrupt>")]
    assert seen.endswith("</interrupt>")
    assert texts.index(seen) == len(texts) - 2
    assert texts[-1] == "three?"
    assert mark.run_id is None
    assert mark.event_id in following.session.context(turn=following).event_ids


def test_an_interrupt_of_a_call_leaves_a_legal_context_in_every_dialect(session: Session) -> None:
    turn = session.turn()
    turn.start()
    turn.user("one?")
    turn.tools.started("sleep", call_id="c1")
    session.interrupt()

    for dialect in DIALECTS:
        context = session.context(dialect=dialect)
        check_legal(dialect, context.request)
        assert "<interrupt>" in str(context.messages)
        assert "c1" not in str(context.messages)


def test_where_nothing_is_under_way_an_interrupt_leaves_nothing(session: Session) -> None:
    take_turn(session, "one")

    assert session.interrupt() is None
    assert len(session.context().messages) == 4


# Failed turns.


@pytest.mark.parametrize("end", ["failed", "interrupted from within", "abandoned"])
def test_a_turn_that_did_not_end_well_reaches_neither_history_nor_context(
    session: Session, end: str
) -> None:
    take_turn(session, "one")
    turn = session.turn()
    turn.start()
    turn.user("two?")
    turn.emit("goal.added", {"id": "g1", "description": "win"})
    if end == "failed":
        turn.fail(ValueError("no luck"))
    elif end == "interrupted from within":
        turn.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    else:
        turn.__exit__(GeneratorExit, GeneratorExit(), None)

    assert len(session.history()) == 4
    assert len(session.context().messages) == 4
    assert session.goals() == []
    assert [one.state for one in session.turns()] == ["ended", turn.state]


def test_a_turn_under_way_is_seen_by_itself_alone(session: Session) -> None:
    with session.turn() as turn:
        turn.user("one?")
        assert session.history() == session.context().messages == []
        assert [message["content"] for message in turn.context().messages] == ["one?"]

    assert contents(session) == ["one?"]


# Starting again at a mark.


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt"])
def test_a_context_that_is_too_long_starts_again_at_the_last_mark(
    session: Session, reason: Boundary
) -> None:
    take_turn(session, "first " * 2_000)
    session.boundary(reason, "from here on")
    take_turn(session, "second")

    context = session.context(1_000)

    assert context.tokens <= 1_000
    assert "restarted" in [repair.code for repair in context.report]
    texts = [str(message["content"]) for message in context.messages]
    mark = next(at for at, text in enumerate(texts) if text.startswith(f"<{reason}>"))
    assert mark <= 1
    assert "second?" in texts


def test_a_context_that_is_too_long_does_not_start_again_at_an_overflow(session: Session) -> None:
    take_turn(session, "first " * 2_000)
    session.boundary("overflow", "too much")
    take_turn(session, "second")

    codes = [repair.code for repair in session.context(1_000).report]

    assert "restarted" not in codes
    assert "dropped_turn" in codes


@pytest.mark.parametrize("title", ["", "  ", "\n", None, 7])
def test_a_mark_without_a_title_is_refused(session: Session, title: Any) -> None:
    with pytest.raises(InvalidInput, match="a title is a text"):
        session.checkpoint(title)
    with pytest.raises(InvalidInput, match="a title is a text"):
        session.boundary("segment", title)

    assert list(session.headers()) == []
