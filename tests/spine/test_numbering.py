"""Events of runs have unique, increasing numbers, and a run one start and one end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from listeners import SOON, Listener
from ports import store_of
from treering import Header, Ledger, Session

if TYPE_CHECKING:
    from pathlib import Path


def numbers(session: Session, run_id: str) -> list[int | None]:
    return [header.run_seq for header in session.headers() if header.run_id == run_id]


@pytest.mark.parametrize("end", ["run.ended", "run.failed", "run.interrupted", "lifecycle.ended"])
def test_a_run_that_is_under_way_cannot_be_ended_by_hand_and_ends_once(
    ledger: Ledger, end: str
) -> None:
    listener = Listener()
    spine = ledger.spine([listener])
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("hello")
        for append in (ledger.append, ledger.importing.append_missing):
            with pytest.raises(treering.InvalidInput, match="open here"):
                append([said("over", kind=end, run_id=turn.run_id)])
        turn.assistant("hi")

    assert turn.state == "ended"
    assert spine.flush(SOON)
    kinds = [event.kind for event in listener.heard]
    assert kinds.count("run.started") == kinds.count("run.ended") == 1
    assert not {"run.failed", "run.interrupted"} & set(kinds)


def test_a_run_that_another_process_ended_by_hand_says_how_and_its_sinks_hear_it_once(
    tmp_path: Path,
) -> None:
    listener = Listener()
    with treering.open(tmp_path / "a.db") as ledger, treering.open(tmp_path / "a.db") as other:
        spine = ledger.spine([listener])
        turn = ledger.session("s1", scope=HERE, agent="lyria").turn()
        with turn:
            turn.user("hello")
            other.append([said("over", kind="run.ended", run_id=turn.run_id)])
            with pytest.raises(treering.errors.RunClosed):
                turn.assistant("hi")
        assert spine.flush(SOON)

    assert turn.state == "ended"
    assert [event.kind for event in listener.heard].count("run.ended") == 1


def test_events_of_a_run_are_numbered_whichever_way_they_come(ledger: Ledger) -> None:
    listener = Listener()
    spine = ledger.spine([listener])
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("hello")
        session.record("ops.observation", "seen", run_id=turn.run_id)
        ledger.append([said("more", run_id=turn.run_id)])
        ledger.importing.append_missing([said("again", run_id=turn.run_id, event_id="e1")])
        turn.assistant("hi")
    assert spine.flush(SOON)

    assert numbers(session, turn.run_id) == [1, 2, 3, 4, 5, 6, 7]
    heard = [event for event in listener.heard if event.run_id == turn.run_id]
    assert [event.run_seq for event in heard] == [1, 2, 3, 4, 5, 6, 7]


def test_another_process_goes_on_where_the_numbers_of_a_run_are(tmp_path: Path) -> None:
    for text in ("a", "b", "c"):
        with treering.open(tmp_path / "a.db") as ledger:
            ledger.append([said(text, run_id="r1")])

    with treering.open(tmp_path / "a.db") as ledger:
        assert numbers(ledger.session("s1", scope=HERE, agent="lyria"), "r1") == [1, 2, 3]


def test_threads_that_append_to_one_run_give_no_number_twice(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    found: list[Header] = []

    def append() -> None:
        for number in range(20):
            found.extend(ledger.append([said(str(number), run_id="r1")]))

    with session.turn() as turn:

        def both() -> None:
            for number in range(10):
                session.record("ops.observation", str(number), run_id=turn.run_id)
                turn.emit("ops.observation", {"number": number})

        threads = [threading.Thread(target=work) for work in (append, append, both, both)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)

    assert numbers(session, "r1") == list(range(1, 41))
    assert numbers(session, turn.run_id) == list(range(1, 43))


def test_a_number_that_came_with_a_copy_is_not_given_again(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as source, treering.open(tmp_path / "b.db") as target:
        source.append([said("a", run_id="r1")])
        source.admin.copy_to(target)
        source.append([said("b", run_id="r1"), said("c", run_id="r1")])
        source.admin.copy_to(target)
        [header] = target.append([said("d", run_id="r1")])

    assert header.run_seq == 4


def test_threads_that_append_to_one_run_share_their_commits(tmp_path: Path) -> None:
    threads_count, each = 8, 20
    ready = threading.Barrier(threads_count)
    commits: list[str] = []
    with treering.open(tmp_path / "a.db") as ledger:
        with store_of(ledger)._database.reading_at_hand() as connection:  # type: ignore[attr-defined]
            connection.trace_v2(
                apsw.SQLITE_TRACE_STMT,
                lambda event: commits.append(event["sql"]) if event["sql"] == "COMMIT" else None,
            )

        def append() -> None:
            ready.wait(SOON)
            for number in range(each):
                ledger.append([said(str(number), run_id="r1")])

        threads = [threading.Thread(target=append) for _ in range(threads_count)]
        store: Any = store_of(ledger)
        with store._database.lock:  # One of them leads and waits for it, the others queue.
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + PATIENCE_S
            while len(store._commits._queue) < threads_count - 1:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        for thread in threads:
            thread.join(SOON)
        session = ledger.session("s1", scope=HERE, agent="lyria")
        assert numbers(session, "r1") == list(range(1, threads_count * each + 1))

    assert 0 < len(commits) < threads_count * each
