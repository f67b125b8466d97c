"""Sessions forked by several processes at once, some of which are killed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, HERE, exchange
from concurrency.processes import Colleague, begin_together, colleagues, ended_well, in_child
from concurrency.run_works import Author
from effort import PATIENCE_S
from run_records import runs
from treering import Conflict, InvalidInput, Ledger, NotFound, Session
from treering.errors import RunActive
from treering.ledger.pruning import REMAINS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path


FORKS = 12
UNDONE = 10
TURNED = {"session.undone", "session.redone"}
TURNS = 15


def session_of(ledger: Ledger, name: str = "s1") -> Session:
    return ledger.session(name, scope=HERE, agent="lyria")


def take_turn(session: Session, name: str) -> None:
    exchange(session, f"{name}?", f"{name}!")


def said_in(session: Session) -> list[str]:
    return [str(message["content"]) for message in session.history()]


def turns_of(*names: str) -> list[str]:
    return [text for name in names for text in (f"{name}?", f"{name}!")]


def forks_of(ledger: Ledger) -> set[str]:
    return {fork.session.session_id for fork in ledger.family(HERE, "s1").forks}


# What other processes do.


def fork_and_write(pipe: Connection, location: str, number: int) -> None:
    """Fork s1 again and again, and take a turn in each fork."""
    with treering.open(location) as ledger:
        pipe.send("ready")
        pipe.recv()
        for at in range(FORKS):
            name = f"p{number}-{at}"
            take_turn(session_of(ledger).fork(name), name)
        pipe.send("done")


def take_turns(pipe: Connection, location: str, _: int) -> None:
    """Take turns in s1, one after the other."""
    with treering.open(location) as ledger:
        pipe.send("ready")
        pipe.recv()
        for number in range(TURNS):
            take_turn(session_of(ledger), f"turn {number}")
        pipe.send("done")


def undo_often(pipe: Connection, location: str, _: int) -> None:
    """Undo turns of s1, one after the other."""
    with treering.open(location) as ledger:
        pipe.send("ready")
        pipe.recv()
        for _ in range(UNDONE):
            session_of(ledger).undo()
        pipe.send("done")


def undo_and_redo_until_told(pipe: Connection, location: str) -> None:
    """Undo and redo whatever there is, whenever nothing is under way."""
    session = session_of(treering.open(location))
    pipe.send("ready")
    while not pipe.poll():
        with contextlib.suppress(RunActive, NotFound, InvalidInput):
            session.undo()
            session.redo()
    pipe.send("done")


def race_for_a_name(pipe: Connection, location: str, number: int) -> None:
    """In each round, make a fork of the name that is told; tell whether that was done."""
    ledger = treering.open(location)
    pipe.send("ready")
    while (name := pipe.recv()) is not None:
        try:
            child = session_of(ledger).fork(name, agent=f"agent-{number}")
        except Conflict:
            pipe.send("lost")
        else:
            take_turn(child, f"won by {number}")
            pipe.send("won")


def fork_without_end(pipe: Connection, location: str) -> None:
    """Fork s1 and write to the fork, and tell the name of each fork that was made."""
    session = session_of(treering.open(location))
    for number in range(1_000_000):
        child = session.fork(f"fork-{number}")
        pipe.send(child.session_id)
        take_turn(child, "more")


def hold_turn_in_fork(pipe: Connection, location: str) -> None:
    """Begin a turn in a fork, and never end it."""
    child = session_of(treering.open(location)).fork("branch")
    run = child.turn()
    run.start()
    run.user("unanswered?")
    pipe.send("at work")
    pipe.recv()


def sweep_all(pipe: Connection, location: str, now_ms: int) -> None:
    """Prune all that is old."""
    ledger = treering.open(location)
    pipe.send("ready")
    ledger.sweep(HERE, now_ms=now_ms)
    pipe.send("done")


# What is left of it.


def test_processes_that_fork_the_same_session_each_have_their_forks(location: str) -> None:
    with treering.open(location) as ledger:
        take_turn(session_of(ledger), "first")
        with colleagues(2, fork_and_write, location) as forking:
            begin_together(forking)
            for colleague in forking:
                assert colleague.hear() == "done"

        names = {f"p{number}-{at}" for number in range(2) for at in range(FORKS)}
        assert forks_of(ledger) == names
        for name in names:
            assert said_in(session_of(ledger, name)) == turns_of("first", name)
        assert said_in(session_of(ledger)) == turns_of("first")
        assert ledger.admin.verify().intact


def test_a_fork_that_is_made_while_others_record_has_whole_turns_only(location: str) -> None:
    with treering.open(location) as ledger:
        take_turn(session_of(ledger), "first")
    recording = Colleague(take_turns, location, 0)
    with colleagues(1, fork_and_write, location) as forking:
        begin_together((recording, *forking))
        for colleague in (recording, *forking):
            assert colleague.hear() == "done"
        recording.join()

    with treering.open(location) as ledger:
        whole = turns_of("first", *(f"turn {number}" for number in range(TURNS)))
        assert said_in(session_of(ledger)) == whole
        for at in range(FORKS):
            child = session_of(ledger, f"p0-{at}")
            found = said_in(child)
            shared = found[:-2]
            assert found[-2:] == turns_of(f"p0-{at}")
            assert shared == whole[: len(shared)]
            assert len(shared) % 2 == 0
            assert {turn.state for turn in child.turns()} == {"ended"}
            runs(child)
        assert ledger.admin.verify().intact


def test_processes_that_undo_at_once_undo_each_a_turn_of_its_own(location: str) -> None:
    with treering.open(location) as ledger:
        for number in range(2 * UNDONE + 1):
            take_turn(session_of(ledger), f"turn {number}")
        with colleagues(2, undo_often, location) as undoing:
            begin_together(undoing)
            for colleague in undoing:
                assert colleague.hear() == "done"

        assert said_in(session_of(ledger)) == turns_of("turn 0")
        for _ in range(2 * UNDONE):
            session_of(ledger).redo()
        assert len(said_in(session_of(ledger))) == 2 * (2 * UNDONE + 1)


def test_no_turn_is_undone_in_its_midst(location: str) -> None:
    with treering.open(location) as ledger, Author(undo_and_redo_until_told, location) as author:
        session = session_of(ledger)
        assert author.hear() == "ready"
        for number in range(60):
            take_turn(session, f"turn {number}")
        author.tell("enough")
        assert author.hear() == "done"

        spans = [(events[0].seq, events[-1].seq) for events in runs(session).values()]
        turned = [one.seq for one in session.headers() if one.kind in TURNED]
        assert [(seq, span) for seq in turned for span in spans if span[0] < seq < span[1]] == []


def test_of_those_who_want_a_fork_of_one_name_one_makes_it(location: str) -> None:
    with treering.open(location) as ledger, colleagues(3, race_for_a_name, location) as racing:
        take_turn(session_of(ledger), "first")
        for colleague in racing:
            assert colleague.hear() == "ready"
        for number in range(8):
            for colleague in racing:
                colleague.tell(f"fork-{number}")
            outcomes = [colleague.hear() for colleague in racing]

            assert sorted(outcomes) == ["lost", "lost", "won"]
            child = session_of(ledger, f"fork-{number}")
            assert said_in(child)[2:] == turns_of(f"won by {outcomes.index('won')}")
            assert [header.kind for header in child.headers()].count("session.forked") == 1
        assert ledger.admin.verify().intact


@pytest.mark.parametrize("heard", [1, 5, 9])
def test_forks_that_were_made_outlive_a_kill(location: str, heard: int) -> None:
    with treering.open(location) as ledger:
        take_turn(session_of(ledger), "first")
    with Author(fork_without_end, location) as author:
        names = [author.hear() for _ in range(heard)]
        author.kill()

    with treering.open(location) as ledger:
        assert forks_of(ledger) >= set(names)
        for name in forks_of(ledger):
            child = session_of(ledger, name)
            assert said_in(child) in (turns_of("first"), turns_of("first", "more"))
            assert child.outline().state != "running"
            take_turn(child, "again")
            assert said_in(child)[-2:] == turns_of("again")
        assert said_in(session_of(ledger)) == turns_of("first")
        assert ledger.admin.verify().intact


def test_a_turn_in_a_fork_that_was_killed_is_closed_there_and_nowhere_else(location: str) -> None:
    with treering.open(location) as ledger:
        take_turn(session_of(ledger), "first")
        before = [header.event_id for header in session_of(ledger).headers()]
    with Author(hold_turn_in_fork, location) as author:
        assert author.hear() == "at work"
        author.kill()

    with treering.open(location) as ledger:
        child = session_of(ledger, "branch")
        assert [turn.state for turn in child.turns()] == ["ended", "interrupted"]
        assert said_in(child) == turns_of("first")
        assert [header.event_id for header in session_of(ledger).headers()] == before
        child.undo()
        assert said_in(child) == []


def test_parent_and_child_of_a_fork_of_processes_fork_sessions(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        session = session_of(ledger)
        take_turn(session, "first")

        def work(name: str) -> None:
            take_turn(session.fork(name), name)

        child = in_child(lambda: work("below"))
        work("above")

        assert ended_well(child)
        assert forks_of(ledger) == {"above", "below"}
        for name in ("above", "below"):
            assert said_in(session_of(ledger, name)) == turns_of("first", name)
        assert ledger.admin.verify().intact


@pytest.mark.parametrize("seen", [1, 8])
def test_a_sweep_that_was_killed_is_finished_by_the_next(location: str, seen: int) -> None:
    with treering.open(location) as ledger:
        for number in range(12):
            take_turn(session_of(ledger, f"s{number}"), "old")
        later = session_of(ledger, "s11").outline().updated_ms + 91 * DAY

        with Author(sweep_all, location, later) as author:
            assert author.hear() == "ready"
            closings: list[Any] = []
            for header in ledger.follow(HERE, idle_s=PATIENCE_S):
                closings += [header] if header.kind == "session.closed" else []
                if len(closings) == seen:
                    break
            author.kill()

        ledger.sweep(HERE, now_ms=later)

        for number in range(12):
            session = session_of(ledger, f"s{number}")
            assert session.outline().state == "pruned"
            kinds = [header.kind for header in session.headers()]
            assert kinds.count("episode.written") == kinds.count("session.closed") == 1
            assert [one for one in session.headers() if one.kind not in REMAINS] == []
        assert ledger.sweep(HERE, now_ms=later).pruned == []
        assert ledger.admin.verify().intact
