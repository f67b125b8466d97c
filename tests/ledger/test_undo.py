"""Undo and redo: turns are hidden and shown again, and nothing is ever deleted."""

from __future__ import annotations

from typing import Any

import pytest

from builders import HERE, exchange, run_of, said
from treering import InvalidInput, Ledger, NewEvent, NotFound, Session
from treering.errors import RunActive


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")


def take_turn(session: Session, *names: str) -> None:
    for name in names:
        exchange(session, f"{name}?", f"{name}!")


def fail_turn(session: Session, name: str) -> None:
    turn = session.turn()
    turn.start()
    turn.user(f"{name}?")
    turn.fail("no luck")


def words(session: Session) -> list[str]:
    return [str(told["content"]) for told in session.history()]


def asked(session: Session) -> list[str]:
    return [told["content"] for told in session.history() if told["role"] == "user"]


# What is undone.


def test_the_last_turn_is_hidden_and_nothing_of_it_is_deleted(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "one", "two")
    before = list(session.events())

    header = session.undo()

    assert words(session) == ["one?", "one!"]
    assert list(session.events())[: len(before)] == before
    assert header.kind == "session.undone"
    assert header.refs == {"from_seq": before[5].seq, "turns": 1}
    assert ledger.admin.verify().intact


def test_an_undone_turn_is_in_no_context_goal_or_memory(session: Session) -> None:
    take_turn(session, "one")
    with session.turn() as turn:
        turn.user("two?")
        turn.emit("goal.added", {"id": "g1", "description": "win"})
        turn.emit("memory.stored", {"id": "m1", "key": "k"})
        turn.emit("schedule.added", {"id": "c1", "prompt": "wake up"})
    assert (len(session.goals()), session.memory_refs, len(session.schedules())) == (1, ["m1"], 1)

    session.undo()

    assert [message["content"] for message in session.context().messages] == ["one?", "one!"]
    assert (session.goals(), session.memory_refs, session.schedules()) == ([], [], [])
    session.redo()
    assert (len(session.goals()), session.memory_refs, len(session.schedules())) == (1, ["m1"], 1)


def test_what_undone_turns_cost_is_still_spent(session: Session) -> None:
    with session.turn() as turn:
        turn.user("one?")
        turn.emit("usage.reported", {"model": "opus", "input_tokens": 10})

    session.undo()

    assert session.usage().total.input_tokens == 10
    assert session.summary().turns == 1
    assert [turn.is_undone for turn in session.turns()] == [True]


def test_turns_are_counted_by_runs_however_many_questions_one_has(session: Session) -> None:
    take_turn(session, "one")
    with session.turn() as turn:
        for name in ("two", "three"):
            turn.user(f"{name}?")
            turn.assistant(f"{name}!")

    header = session.undo()

    assert asked(session) == ["one?"]
    assert [turn.is_undone for turn in session.turns()] == [False, True, True]
    assert (header.refs["turns"], header.summary) == (2, "2 turns undone")
    again = session.redo()
    assert (again.refs["turns"], again.summary) == (2, "2 turns redone")


def imported(run_id: str, *texts: str) -> list[NewEvent]:
    """Return a run without a start, as other systems log it."""
    spoken = [
        event
        for text in texts
        for event in (
            said(f"{text}?", run_id=run_id),
            said(f"{text}!", run_id=run_id, kind="conversation.assistant"),
        )
    ]
    return [*spoken, said("over", run_id=run_id, kind="run.ended")]


def test_runs_without_a_start_are_undone_from_their_first_question(
    ledger: Ledger, session: Session
) -> None:
    ledger.append(imported("r1", "one"))
    ledger.append(imported("r2", "two", "three"))
    take_turn(session, "four")
    ledger.append(imported("r5", "five"))

    for left, turns in ((4, 1), (3, 1), (1, 2), (0, 1)):
        header = session.undo()
        assert asked(session) == ["one?", "two?", "three?", "four?"][:left]
        assert header.refs["turns"] == turns
        assert [turn.is_undone for turn in session.turns()].count(True) == 5 - left


def test_runs_without_a_start_that_alternate_are_undone_each_from_its_first_question(
    ledger: Ledger, session: Session
) -> None:
    first, second = imported("r1", "one", "three"), imported("r2", "two", "four")
    ledger.append([*first[:2], *second[:2], *first[2:4], *second[2:]])
    ledger.append(first[4:])

    assert session.undo().refs["turns"] == 3
    assert asked(session) == ["one?"]


def test_turns_without_runs_are_counted_by_questions(ledger: Ledger, session: Session) -> None:
    answer = {"kind": "conversation.assistant"}
    for name in ("one", "two", "three"):
        ledger.append([said(f"{name}?"), said(f"{name}!", **answer)])

    session.undo(turns=2)

    assert words(session) == ["one?", "one!"]


def test_turns_with_and_without_runs_are_counted_alike(ledger: Ledger, session: Session) -> None:
    ledger.append([said("one?"), said("one!", kind="conversation.assistant")])
    take_turn(session, "two")
    ledger.append([said("three?"), said("three!", kind="conversation.assistant")])
    take_turn(session, "four")

    for left in (3, 2, 1, 0):
        session.undo()
        assert asked(session) == ["one?", "two?", "three?"][:left]


def test_a_run_that_answers_a_question_asked_before_it_goes_with_that_question(
    session: Session,
) -> None:
    take_turn(session, "one")
    session.record("conversation.user", "two?", payload={"text": "two?"})
    with session.turn() as turn:
        turn.assistant("two!")

    session.undo()

    assert words(session) == ["one?", "one!"]


def test_a_failed_turn_is_no_turn_to_undo(session: Session) -> None:
    take_turn(session, "one", "two")
    fail_turn(session, "three")

    session.undo()

    assert asked(session) == ["one?"]


def test_a_mark_between_turns_goes_with_the_turn_before_it(session: Session) -> None:
    take_turn(session, "one")
    session.checkpoint("first half")
    take_turn(session, "two")
    session.checkpoint("second half")

    session.undo()
    assert len(session.context().messages) == 3
    session.undo()

    assert session.context().messages == []


def test_a_turn_taken_from_an_inbox_is_undone_and_stays_taken(ledger: Ledger) -> None:
    queue = ledger.session("s1", scope=HERE, agent="lyria", mode="queue")
    queue.post("one?")
    run = queue.take()
    assert run is not None
    run.end()

    queue.undo()

    assert words(queue) == []
    assert queue.take() is None


# What cannot be undone.


def test_a_turn_that_is_under_way_keeps_others_from_being_undone(session: Session) -> None:
    take_turn(session, "one", "two")
    session.undo()
    with session.turn() as turn:
        for refused in (session.undo, session.redo):
            with pytest.raises(RunActive):
                refused()
        turn.user("three?")

    assert asked(session) == ["one?", "three?"]


@pytest.mark.parametrize("turns", [0, -1, True, 1.0, "1", None])
def test_less_than_one_turn_cannot_be_undone(session: Session, turns: Any) -> None:
    take_turn(session, "one")

    with pytest.raises(InvalidInput, match="cannot undo"):
        session.undo(turns=turns)


def test_where_there_is_no_turn_nothing_is_undone_or_written(session: Session) -> None:
    for count in (0, 1):
        with pytest.raises(InvalidInput, match="cannot undo 1 turn: there are 0 turns"):
            session.undo()
        assert len(list(session.headers())) == count
        session.open()


def test_more_turns_than_there_are_cannot_be_undone(session: Session) -> None:
    take_turn(session, "one", "two", "three")
    session.undo()
    fail_turn(session, "four")

    with pytest.raises(InvalidInput, match="there are 2 turns") as refused:
        session.undo(turns=3)

    assert refused.value.hint == "undo 2"
    assert asked(session) == ["one?", "two?"]


# Redo.


def test_undo_and_redo_are_a_stack(session: Session) -> None:
    names = ["one?", "two?", "three?", "four?"]
    take_turn(session, "one", "two", "three", "four")
    session.undo()
    session.undo(turns=2)
    assert asked(session) == names[:1]

    session.redo()
    assert asked(session) == names[:3]
    session.redo()
    assert asked(session) == names
    with pytest.raises(NotFound):
        session.redo()


def test_what_was_redone_can_be_undone_again(session: Session) -> None:
    take_turn(session, "one", "two")
    for _ in range(3):
        session.undo()
        assert asked(session) == ["one?"]
        session.redo()
        assert asked(session) == ["one?", "two?"]

    session.undo(turns=2)
    assert asked(session) == []
    session.redo()
    assert asked(session) == ["one?", "two?"]


def test_a_new_turn_leaves_nothing_to_redo(session: Session) -> None:
    take_turn(session, "one", "two")
    session.undo()
    take_turn(session, "three")

    with pytest.raises(NotFound, match="nothing to redo"):
        session.redo()

    session.undo()
    session.redo()
    assert asked(session) == ["one?", "three?"]
    with pytest.raises(NotFound):
        session.redo()


def test_a_new_turn_without_a_run_leaves_nothing_to_redo(session: Session) -> None:
    take_turn(session, "one")
    session.undo()
    session.record("conversation.user", "two?", payload={"text": "two?"})

    with pytest.raises(NotFound):
        session.redo()


def test_a_turn_that_failed_leaves_what_can_be_redone(session: Session) -> None:
    take_turn(session, "one", "two")
    session.undo()
    fail_turn(session, "three")

    session.redo()

    assert asked(session) == ["one?", "two?"]


def test_where_nothing_was_undone_nothing_is_redone(session: Session) -> None:
    take_turn(session, "one")

    with pytest.raises(NotFound):
        session.redo()


def test_turns_undone_before_a_new_one_stay_hidden_when_that_is_undone_too(
    session: Session,
) -> None:
    take_turn(session, "one", "two")
    session.undo()
    take_turn(session, "three")
    session.undo(turns=2)

    assert asked(session) == []
    session.redo()
    assert asked(session) == ["one?", "three?"]


def test_what_was_erased_of_an_undone_turn_does_not_come_back(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "one", "secret")
    session.undo()
    hidden = next(header for header in session.headers() if header.summary == "secret?")

    ledger.redact(HERE, event_id=hidden.event_id)
    session.redo()

    assert asked(session)[0] == "one?"
    assert "secret?" not in asked(session)
    assert ledger.admin.verify().intact


def test_many_turns_are_undone_and_redone_across_pages(ledger: Ledger, session: Session) -> None:
    for number in range(700):
        ledger.append(run_of(f"r{number}", f"{number}?"))

    session.undo(turns=650)

    assert asked(session) == [f"{number}?" for number in range(50)]
    session.redo()
    assert len(asked(session)) == 700


def test_an_undo_that_says_nothing_sensible_hides_nothing(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    wrong: list[Any] = [None, {}, {"from_seq": "1"}, {"from_seq": 0}, {"from_seq": 9_999}, [1]]
    for refs in wrong:
        ledger.append([said("undone", kind="session.undone", refs=refs, payload=None)])

    assert asked(session) == ["one?"]
    assert [turn.is_undone for turn in session.turns()] == [False]
