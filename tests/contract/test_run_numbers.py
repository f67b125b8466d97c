"""The store numbers events of runs that are appended by hand: unique and increasing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger, Session


def numbers(session: Session, run_id: str) -> list[int | None]:
    return [header.run_seq for header in session.headers() if header.run_id == run_id]


def test_a_run_appended_by_hand_is_numbered_and_a_number_that_is_taken_is_refused(
    ledger: Ledger,
) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    ledger.append([said("begin", kind="run.started", run_id="r1"), said("a", run_id="r1")])
    ledger.append([said("b", run_id="r1", run_seq=7)])
    ledger.append([said("c", run_id="r1", event_id="e1")])
    for taken in (1, 7, 8):
        with pytest.raises(treering.InvalidInput, match="taken"):
            ledger.append([said("d", run_id="r1", run_seq=taken)])
    with pytest.raises(treering.InvalidInput, match="taken"):
        ledger.append([said("e", run_id="r2", run_seq=1), said("f", run_id="r2", run_seq=1)])

    assert numbers(session, "r1") == [1, 2, 7, 8]
    assert numbers(session, "r2") == []


def test_an_event_of_a_run_that_is_appended_again_is_known(ledger: Ledger) -> None:
    begin = [
        said("begin", kind="run.started", run_id="r1", event_id="e0"),
        said("a", run_id="r1", event_id="e1"),
        said("b", run_id="r1", event_id="e2", run_seq=5),
    ]
    first = ledger.append(begin)

    assert ledger.append(begin) == first
    assert ledger.append(begin[1:2]) == first[1:2]
    assert ledger.append(begin[2:]) == first[2:]
    with pytest.raises(treering.errors.DuplicateEvent):
        ledger.append([said("b", run_id="r1", event_id="e2", run_seq=99)])


def test_an_id_of_another_session_is_refused_in_a_run_of_a_new_one(ledger: Ledger) -> None:
    ledger.append([said("a", run_id="r1", event_id="e1")])

    with pytest.raises(treering.errors.DuplicateEvent):
        ledger.append([said("a", run_id="r1", event_id="e1", session_id="elsewhere")])


def test_numbers_are_those_of_a_run_in_its_session_and_scope(ledger: Ledger) -> None:
    headers = ledger.append(
        [
            said("one", run_id="r1"),
            said("two", run_id="r1", run_seq=7),
            said("three", run_id="r1", session_id="s2"),
            said("four", run_id="r1", scope="acme/other"),
            said("none"),
            said("five", run_id="r1"),
        ]
    )

    assert [header.run_seq for header in headers] == [1, 7, 1, 1, None, 8]


def test_two_that_have_the_ledger_open_take_turns_in_one_run(
    open_shared: Callable[[], Ledger],
) -> None:
    ledger, again = open_shared(), open_shared()
    for _ in range(3):
        for one in (ledger, again):
            one.append([said("a", run_id="r1")])
            one.append([said("aside"), said("b", run_id="r1"), said("c", run_id="r1")])
    with pytest.raises(treering.InvalidInput, match="its last is 18"):
        ledger.append([said("d", run_id="r1", run_seq=18)])
    ledger.append([said("e", run_id="r1", run_seq=30)])
    again.append([said("f", run_id="r1")])

    session = ledger.session("s1", scope=HERE, agent="lyria")
    assert numbers(session, "r1") == [*range(1, 19), 30, 31]
    assert ledger.admin.verify().intact


def test_a_run_that_is_carried_out_and_others_who_add_to_it_give_no_number_twice(
    open_shared: Callable[[], Ledger],
) -> None:
    ledger, other = open_shared(), open_shared()
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("hello")
        other.append([said("a", run_id=turn.run_id), said("b", run_id=turn.run_id)])
        with turn.tool("count", {}) as call:
            other.append([said("c", run_id=turn.run_id)])
            call.finish(1)
        ledger.append([said("d", run_id=turn.run_id)])
        other.append([said("e", run_id=turn.run_id), said("aside")])
        turn.delta("…")
        turn.assistant("hi")

    assert numbers(session, turn.run_id) == list(range(1, 12))
    assert ledger.admin.verify().intact
