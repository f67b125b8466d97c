"""Threads that share a ledger share commits, and nothing else."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from broken.disks import mounted
from broken.ledgers import SCOPE, open_ledger, said
from broken.stories import NAME
from broken.test_failing_syncs import FailingDisk
from concurrency.processes import check_order
from effort import PATIENCE_S, rounds
from ports import store_of
from threads import in_threads
from treering.errors import Conflict, DuplicateEvent, OutcomeUnknown, TreeringError
from treering.locks import Bell
from treering.storage.notifier import Notifier
from treering.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering.ledger.ledger import Ledger

THREADS = 8
APPENDS = 60


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(tmp_path / NAME) as ledger:
        yield ledger


def test_threads_lose_double_and_reorder_nothing(ledger: Ledger) -> None:
    heard: dict[int, list[tuple[str, int]]] = {number: [] for number in range(THREADS)}

    def write(number: int) -> None:
        dice = Random(number)
        for at in range(APPENDS):
            ids = [f"t{number}-{at}-{part}" for part in range(dice.choice((1, 1, 3)))]
            headers = ledger.append([said("x", event_id=event_id) for event_id in ids])
            heard[number] += [(header.event_id, header.seq) for header in headers]

    in_threads(*[partial(write, number) for number in range(THREADS)])

    acked = {pair for pairs in heard.values() for pair in pairs}
    session = ledger.session("s1", scope=SCOPE, agent="a")
    assert {(header.event_id, header.seq) for header in session.headers()} == acked
    assert check_order(ledger) == len(acked)
    for pairs in heard.values():
        seqs = [seq for _, seq in pairs]
        assert seqs == sorted(seqs)


def test_a_batch_of_one_thread_is_not_mixed_with_those_of_others(ledger: Ledger) -> None:
    def write(number: int) -> None:
        for _ in range(APPENDS):
            headers = ledger.append([said(f"by {number}") for _ in range(4)])
            seqs = [header.seq for header in headers]
            assert seqs == list(range(seqs[0], seqs[0] + 4))

    in_threads(*[partial(write, number) for number in range(4)])

    assert check_order(ledger) == 4 * APPENDS * 4


def test_a_caller_that_fails_touches_no_other_of_its_commit(ledger: Ledger) -> None:
    ledger.append([said("taken", event_id="taken")])
    outcomes: dict[str, object] = {}
    jobs: dict[str, Callable[[], object]] = {
        "good": lambda: ledger.append([said("good", event_id="good")]),
        "stale": lambda: ledger.append([said("stale", event_id="stale")], expected_seq=77),
        "double": lambda: ledger.append([said("another", event_id="taken")]),
        "half": lambda: ledger.append(
            [said("new", event_id="half"), said("another", event_id="taken")]
        ),
        "again": lambda: ledger.append([said("taken", event_id="taken")]),
        "elsewhere": lambda: ledger.append([said("x", session_id="s2")], expected_seq=0),
    }

    def attempt(name: str, job: Callable[[], object]) -> None:
        try:
            outcomes[name] = job()
        except TreeringError as error:
            outcomes[name] = error

    _in_one_commit(ledger, [partial(attempt, name, job) for name, job in jobs.items()])

    assert isinstance(outcomes["stale"], Conflict)
    assert isinstance(outcomes["double"], DuplicateEvent)
    assert isinstance(outcomes["half"], DuplicateEvent)
    assert isinstance(outcomes["good"], list)
    assert isinstance(outcomes["again"], list)
    assert isinstance(outcomes["elsewhere"], list)
    ids = {header.event_id for header in ledger.headers(SCOPE, session_id="s1").items}
    assert ids == {"taken", "good"}
    assert check_order(ledger) == 3


def test_a_commit_that_fails_names_to_each_caller_only_its_own_events(tmp_path: Path) -> None:
    disk, failures = FailingDisk(), []
    with mounted(disk) as vfs, open_ledger(tmp_path / NAME, vfs=vfs) as ledger:

        def attempt(event_id: str) -> None:
            try:
                ledger.append([said("x", event_id=event_id)])
            except OutcomeUnknown as error:
                failures.append((event_id, error.event_ids))

        # The first commits alone, the others together behind it.
        disk.fail(after=1, times=1)
        names = [f"e{number}" for number in range(4)]
        _in_one_commit(ledger, [partial(attempt, name) for name in names])
        disk.heal()
        for name in names:
            ledger.append([said("x", event_id=name)])

        assert len(failures) == 3
        assert all(event_ids == (event_id,) for event_id, event_ids in failures)
        assert check_order(ledger) == 4


def test_a_caller_that_is_interrupted_in_the_queue_holds_nobody_up(
    ledger: Ledger, interruptible: None
) -> None:
    database = _store(ledger)._database
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with database.lock:
            held.set()
            go.wait(PATIENCE_S)

    def interrupt() -> None:
        _until(lambda: len(_store(ledger)._commits._queue) == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    holder = threading.Thread(target=hold)
    leader = threading.Thread(target=lambda: ledger.append([said("led", event_id="led")]))
    interrupter = threading.Thread(target=interrupt)
    holder.start()
    held.wait(PATIENCE_S)
    leader.start()
    _until(lambda: bool(_store(ledger)._commits._group))
    interrupter.start()

    try:
        with pytest.raises(KeyboardInterrupt):
            ledger.append([said("interrupted", event_id="interrupted")])
    finally:
        go.set()
        for thread in (holder, leader, interrupter):
            thread.join(PATIENCE_S)
    ledger.append([said("after", event_id="after")])

    ids = [header.event_id for header in ledger.headers(SCOPE).items]
    assert ids == ["led", "after"]


ERASURES = rounds(15)


def test_a_ledger_that_is_being_written_and_erased_still_verifies(ledger: Ledger) -> None:
    done = threading.Event()
    for number in range(ERASURES):
        ledger.append([said("old", event_id=f"old{number}", session_id="s2")])

    def write() -> None:
        while not done.is_set():
            ledger.append([said("x"), said("y", session_id="s2")])

    def erase() -> None:
        for number in range(ERASURES):
            ledger.redact(SCOPE, event_id=f"old{number}")
        done.set()

    def verify() -> None:
        while not done.is_set():
            verification = ledger.admin.verify()
            assert verification.intact, verification.first_broken

    in_threads(*[write, erase, verify])

    assert ledger.admin.verify().intact


def _store(ledger: Ledger) -> SqliteStore:
    store = store_of(ledger)
    assert isinstance(store, SqliteStore)
    return store


def _in_one_commit(ledger: Ledger, works: list[Callable[[], None]]) -> None:
    """Do ``works`` in threads, of which all but the first share one commit."""
    store = _store(ledger)
    with store._database.lock:
        threads = [threading.Thread(target=work) for work in works]
        for count, thread in enumerate(threads):
            thread.start()
            _until(partial(_is_queueing, store, count))
    for thread in threads:
        thread.join(PATIENCE_S)


def _is_queueing(store: SqliteStore, count: int) -> bool:
    return bool(store._commits._group) and len(store._commits._queue) == count


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_wait_ends_even_if_its_time_is_over_before_it_begins() -> None:
    def wait_often() -> None:
        notifier, bell = Notifier(), Bell()
        for _ in range(30_000):
            notifier.wait(1e-9)
            bell.wait(1e-9)

    # One that cannot be joined must not hold up the end of the tests.
    waiting = threading.Thread(target=wait_often, daemon=True)
    waiting.start()
    waiting.join(PATIENCE_S)

    assert not waiting.is_alive()


def test_of_many_who_wait_one_looks_for_news_and_tells_the_others() -> None:
    """As the followers of one process look for what another has written."""
    notifier, is_there = Notifier(), threading.Event()
    looks: Counter[int] = Counter()
    woken: list[bool] = []

    def wait(number: int) -> None:
        def look() -> bool:
            looks[number] += 1
            return is_there.is_set()

        woken.append(notifier.wait_until(look, PATIENCE_S))

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(10)]
    for number, thread in enumerate(threads):
        thread.start()
        _until(lambda number=number: looks[number] > 0)  # type: ignore[misc]
    _until(lambda: looks[0] >= 5)
    assert [looks[number] for number in range(1, 10)] == [1] * 9

    is_there.set()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert woken == [True] * 10


def test_another_looks_when_the_one_who_looked_stops_waiting() -> None:
    notifier, is_there = Notifier(), threading.Event()
    first_is_waiting, looks = threading.Event(), Counter[str]()
    woken: dict[str, bool] = {}

    def wait(name: str, timeout_s: float) -> None:
        def look() -> bool:
            looks[name] += 1
            first_is_waiting.set()
            return is_there.is_set()

        woken[name] = notifier.wait_until(look, timeout_s)

    first = threading.Thread(target=wait, args=("first", 0.2))
    first.start()
    assert first_is_waiting.wait(PATIENCE_S)
    others = []
    for name in ("second", "third"):
        others.append(threading.Thread(target=wait, args=(name, PATIENCE_S)))
        others[-1].start()
        _until(lambda name=name: looks[name] > 0)  # type: ignore[misc]
    first.join(PATIENCE_S)
    _until(lambda: looks["second"] >= 5)
    assert looks["third"] == 1, "one is enough"
    is_there.set()
    for other in others:
        other.join(PATIENCE_S)

    assert woken == {"first": False, "second": True, "third": True}


def test_a_bell_wakes_once_however_often_it_was_rung() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()

    assert bell.wait(PATIENCE_S)
    assert not bell.wait(0.0)
