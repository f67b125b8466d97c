"""A session has one run at a time, whichever handle, ledger or process it belongs to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import treering
from builders import ELSEWHERE, HERE
from concurrency.processes import begin_together
from concurrency.run_works import Author, begin_in_turn, hold_run
from effort import PATIENCE_S
from run_records import ends, kinds, results, runs, started_elsewhere
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger, Session


def test_a_second_run_of_a_main_session_is_refused_at_once(session: Session) -> None:
    with session.turn() as first:
        with pytest.raises(treering.errors.RunActive, match=first.run_id) as refused:
            session.turn().start()
        first.user("undisturbed")

    assert refused.value.hint
    assert ends(session) == ["run.ended"]


def test_a_second_run_is_refused_to_another_handle(ledger: Ledger, session: Session) -> None:
    with session.turn(), pytest.raises(treering.errors.RunActive):
        ledger.session("s1", scope=HERE, agent="another").turn().start()

    assert ends(session) == ["run.ended"]


@pytest.mark.parametrize("place", [("s2", HERE), ("s1", ELSEWHERE)])
def test_other_sessions_are_not_in_the_way(ledger: Ledger, place: tuple[str, str]) -> None:
    one = ledger.session("s1", scope=HERE, agent="lyria")
    other = ledger.session(place[0], scope=place[1], agent="lyria")

    with one.turn(), other.turn():
        pass

    assert ends(one) == ends(other) == ["run.ended"]


def test_the_next_run_begins_when_the_first_is_over(session: Session) -> None:
    for _ in range(3):
        with session.turn():
            pass

    assert ends(session) == ["run.ended"] * 3


@pytest.mark.parametrize("end", ["end", "fail", "interrupt"])
def test_a_run_that_waits_begins_as_soon_as_the_first_is_over(session: Session, end: str) -> None:
    first = session.turn()
    first.start()
    waiting = threading.Event()

    def second() -> None:
        run = session.turn(wait_s=60)
        waiting.set()
        with run:
            run.user("my turn")

    def finish() -> None:
        waiting.wait(PATIENCE_S)
        first.user("still mine")
        getattr(first, end)(*(["no"] if end == "fail" else []))

    in_threads(second, finish)

    assert [len(events) for events in runs(session).values()] == [3, 3]
    assert len(ends(session)) == 2


def test_a_group_session_lets_the_second_wait_by_itself(ledger: Ledger) -> None:
    """Its mode says how long a second run waits when nobody else does."""
    session = ledger.session("s1", scope=HERE, agent="lyria", mode="group")
    together = threading.Barrier(4)

    def work() -> None:
        together.wait(PATIENCE_S)
        with session.turn() as run:
            run.user("hello")

    in_threads(*([work] * 4))

    assert ends(session) == ["run.ended"] * 4


def test_a_group_session_can_refuse_at_once(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria", mode="group")

    with session.turn(), pytest.raises(treering.errors.RunActive):
        session.turn(wait_s=0).start()


def test_of_threads_that_begin_at_once_exactly_one_gets_the_session(session: Session) -> None:
    together, done = threading.Barrier(6), threading.Barrier(6)
    refused: list[treering.errors.RunActive] = []

    def begin() -> None:
        run = session.turn()
        together.wait(PATIENCE_S)
        try:
            run.start()
        except treering.errors.RunActive as error:
            refused.append(error)
        done.wait(PATIENCE_S)
        if run.is_open:
            run.end()

    in_threads(*([begin] * 6))

    assert (len(refused), ends(session)) == (5, ["run.ended"])


# Ledgers and processes that share one place.


def test_a_second_run_is_refused_to_another_ledger_of_the_same_process(
    open_shared: Callable[[], Ledger],
) -> None:
    here, there = (open_shared().session("s1", scope=HERE, agent="lyria") for _ in range(2))

    with here.turn(), pytest.raises(treering.errors.RunActive):
        there.turn().start()
    with there.turn():
        pass

    assert ends(here) == ["run.ended"] * 2


def test_a_second_run_is_refused_while_another_process_is_at_work(
    location: str, open_shared: Callable[[], Ledger]
) -> None:
    session = open_shared().session("s1", scope=HERE, agent="lyria")

    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        with pytest.raises(treering.errors.RunActive):
            session.turn().start()
        author.tell("end")
        assert author.hear() == "run.ended"
        with session.turn():
            pass

    assert ends(session) == ["run.ended"] * 2


def test_a_process_that_is_stopped_still_has_its_session(
    location: str, open_shared: Callable[[], Ledger]
) -> None:
    with Author(hold_run, location, is_our_child=True) as author:
        assert author.hear() == "at work"
        with author.stopped():
            session = open_shared().session("s1", scope=HERE, agent="lyria")
            with pytest.raises(treering.errors.RunActive):
                session.turn().start()
            assert kinds(session)[-1] == "tool.call"
        author.tell("end")
        assert author.hear() == "run.ended"

    assert ends(session) == ["run.ended"]


def test_the_run_of_a_process_that_died_is_closed_when_it_is_found(
    location: str, open_shared: Callable[[], Ledger]
) -> None:
    """What a crash leaves open is found and closed with a synthetic result and a reason code."""
    session = open_shared().session("s1", scope=HERE, agent="lyria")
    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        author.kill()

    with session.turn() as run:
        run.user("on with it")

    assert ends(session) == ["run.interrupted", "run.ended"]
    assert results(session) == [
        {"call_id": "c1", "tool": "sleep", "status": "synthetic", "is_synthetic": True,
         "reason": "crashed"},
    ]  # fmt: skip
    assert next(iter(runs(session).values()))[-1].refs["reason"] == "crashed"


def test_processes_that_wait_for_each_other_all_have_their_turn(location: str) -> None:
    with Author(begin_in_turn, location, 6) as one, Author(begin_in_turn, location, 6) as other:
        begin_together((one, other))
        for author in (one, other):
            assert author.hear() == "done"

    with treering.open(location, mode="ro") as ledger:
        assert ends(ledger.session("s1", scope=HERE, agent="lyria")) == ["run.ended"] * 12


# Runs that nobody owns.


@pytest.mark.parametrize("refs", [{}, {"model": "m"}, {"owner": 7}])
def test_a_run_without_an_owner_stands_in_nobody_s_way(
    ledger: Ledger, session: Session, refs: dict[str, object]
) -> None:
    ledger.append([started_elsewhere(session, "r0", **refs)])

    with session.turn() as run:
        run.user("hello")
    interrupted = session.interrupt("stop")

    last = {run_id: events[-1].kind for run_id, events in runs(session).items()}
    assert last == {"r0": "run.started", run.run_id: "run.ended"}
    assert interrupted is None


def test_a_run_without_an_owner_is_left_open_by_who_opens_the_ledger(
    open_shared: Callable[[], Ledger],
) -> None:
    ledger = open_shared()
    session = ledger.session("s1", scope=HERE, agent="lyria")
    ledger.append([started_elsewhere(session, "r0")])

    open_shared()

    assert kinds(session) == ["run.started"]
