"""Live sinks: in order, after the fact, and never in anybody's way."""

from __future__ import annotations

import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import treering
from effort import PATIENCE_S
from listeners import (
    SCOPE,
    SOON,
    Door,
    Listener,
    Log,
    PrivateListener,
    fail_at,
    note,
    run_program,
    status_of,
)
from threads import in_threads
from treering import Ledger, NewEvent
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering.model.carried import SafeEvent

BRIEF = 0.05
"""A time limit in seconds that a sink is meant to break."""


@pytest.fixture
def book() -> Iterator[Ledger]:
    with treering.open(":memory:") as ledger:
        # What comes first is heard by nobody, so that tests count only their own events.
        note(ledger, "before")
        yield ledger


# Order.


def test_every_sink_hears_each_session_and_run_in_order(tmp_path: Path) -> None:
    """Sinks see events in order, after they are durable."""
    sinks: list[Listener | PrivateListener] = [
        Listener("one"),
        Listener("two"),
        PrivateListener("three"),
    ]
    with treering.open(tmp_path / "a.db", durability="normal") as ledger:
        spine = ledger.spine(sinks)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda number: _busy_agent(ledger, number), range(6)))
        assert spine.flush(SOON)
        kept = {
            session_id: [header.event_id for header in ledger.session(
                session_id, scope=SCOPE, agent="lyria").headers()]
            for session_id in ("s0", "s1", "s2")
        }  # fmt: skip

    for sink in sinks:
        for session_id, ids in kept.items():
            heard = [event for event in sink.heard if event.session_id == session_id]
            assert [event.event_id for event in heard if event.seq] == ids
        for run_id in {event.run_id for event in sink.heard} - {None}:
            counted = [event.run_seq for event in sink.heard if event.run_id == run_id]
            assert counted == list(range(1, len(counted) + 1))


def test_threads_that_record_to_one_session_are_heard_in_the_order_of_the_ledger(
    tmp_path: Path, hasty_threads: None
) -> None:
    """They share commits, and leave them in any order."""
    sinks = [Listener("one"), Listener("two")]
    with treering.open(tmp_path / "a.db") as ledger:
        spine = ledger.spine(sinks)

        def write() -> None:
            for _ in range(60):
                ledger.append([_event("s")])

        in_threads(*[write] * 8)
        assert spine.flush(SOON)

    for sink in sinks:
        assert [event.seq for event in sink.heard] == list(range(1, 481))


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Have threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _busy_agent(ledger: Ledger, number: int) -> None:
    """Make two runs, with events beside them from the session and from the ledger itself."""
    session = ledger.session(f"s{number % 3}", scope=SCOPE, agent="lyria")
    for _ in range(2):
        with session.turn(wait_s=SOON) as turn:
            turn.user("hello")
            for piece in range(5):
                turn.delta(f"piece {piece}")
                session.record("ops.decision", f"{number} decides")
                ledger.append([_event(session.session_id), _event(session.session_id)])
            turn.assistant("done")


def _event(session_id: str) -> NewEvent:
    return NewEvent(
        scope=SCOPE, session_id=session_id, kind="ops.observation", agent_id="lyria", summary="seen"
    )


def test_what_a_sink_hears_of_is_durable_already(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger, treering.open(path) as other:
        found: list[str] = []

        def look(event: SafeEvent) -> None:
            assert event.event_id
            found.append(other.event(SCOPE, event.event_id).summary)

        spine = ledger.spine([Listener(do=look)])
        note(ledger, "one", "two")

        assert spine.flush(SOON)
        assert found == ["session opened by lyria", "one", "two"]


def test_deltas_are_counted_and_carried_and_never_kept(book: Ledger) -> None:
    sink = PrivateListener()
    spine = book.spine([sink])

    session = book.session("s", scope=SCOPE, agent="lyria")
    with session.turn() as turn:
        turn.delta("Hel")
        turn.delta("lo")
        turn.assistant("Hello")
    spine.flush(SOON)

    deltas = [event for event in sink.heard if event.kind == "assistant.delta"]
    assert [(event.run_seq, event.seq, event.event_id) for event in deltas] == [
        (2, None, None),
        (3, None, None),
    ]
    assert [event.payload["text"] for event in deltas] == ["Hel", "lo"]
    kept = [header for header in session.headers() if header.run_id]
    assert [(header.kind, header.run_seq) for header in kept] == [
        ("run.started", 1),
        ("conversation.assistant", 4),
        ("run.ended", 5),
    ]


def test_an_event_that_is_appended_again_is_not_heard_again(book: Ledger) -> None:
    sink = Listener()
    spine = book.spine([sink])
    event = NewEvent(
        scope=SCOPE,
        session_id="s",
        kind="ops.decision",
        agent_id="lyria",
        summary="once",
        event_id="e1",
    )

    for _ in range(2):
        book.append([event, event])
    spine.flush(SOON)

    assert sink.summaries == ["once"]


def test_a_sink_that_changes_what_it_was_handed_changes_nothing_for_others(book: Ledger) -> None:
    def spoil(event: SafeEvent) -> None:
        event.refs["list"].append("spoilt")

    sinks = [Listener("a", do=spoil), Listener("b", do=spoil)]
    spine = book.spine(sinks)
    session = book.session("s", scope=SCOPE, agent="lyria")

    header = session.record("ops.decision", "kept", refs={"list": ["as it was"]})
    spine.flush(SOON)

    assert [sink.heard[0].refs["list"] for sink in sinks] == [["as it was", "spoilt"]] * 2
    assert header.refs == {"list": ["as it was"]}


# Slow sinks.


def test_a_slow_sink_keeps_nobody_waiting_and_its_loss_is_counted_and_told(
    book: Ledger, log: Log
) -> None:
    door = Door()
    slow = Listener("slow", do=door.wait, delivery=Delivery(queue_events_max=3))
    quick = Listener("quick")
    spine = book.spine([slow, quick])

    note(book, "0")
    door.await_guest()
    note(book, *"123456")

    quick.await_event("6")
    assert status_of(spine, "slow").lost == 4
    assert status_of(spine, "slow").waiting == 3
    log.await_line("sink slow: 4 events lost to it (queue full)")
    door.open()
    assert spine.flush(SOON)
    assert slow.summaries == ["0", "1", "2"]
    assert quick.summaries == list("0123456")
    note(book, "7")
    assert spine.flush(SOON)
    assert slow.summaries == ["0", "1", "2", "7"]


def test_a_log_that_records_events_does_not_stand_in_its_own_way(book: Ledger) -> None:
    """Who logs may record events himself, and be heard."""

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(book, record.getMessage())

    recorder = Recorder()
    logging.getLogger("treering.spine").addHandler(recorder)
    try:
        sink = Listener("frail", do=fail_at("bad"))
        book.spine([sink])
        note(book, "bad")
        sink.await_event("sink frail: ValueError: bad (1 failed)")
    finally:
        logging.getLogger("treering.spine").removeHandler(recorder)


# Sinks that record, flush and close.


def test_a_sink_may_record_events_that_it_hears_too(book: Ledger) -> None:
    def echo(event: SafeEvent) -> None:
        if event.kind == "ops.decision":
            session.record("ops.observation", f"heard {event.summary}")

    sink = Listener(do=echo)
    session = book.session("s", scope=SCOPE, agent="lyria")
    spine = book.spine([sink])

    note(book, "a", "b")
    assert spine.flush(SOON)

    assert set(sink.summaries) == {"a", "b", "heard a", "heard b"}
    assert sink.summaries == [header.summary for header in session.headers(last=4)]


def test_a_sink_may_record_in_the_very_run_that_it_hears_of(book: Ledger) -> None:
    session = book.session("s", scope=SCOPE, agent="lyria")
    answered = threading.Event()

    def do(event: SafeEvent) -> None:
        if event.kind == "conversation.user":
            turn.emit("ops.observation", {"code": "seen"}, summary="seen")
            answered.set()

    sink = Listener(do=do)
    spine = book.spine([sink])

    with session.turn() as turn:
        turn.user("hello")
        assert answered.wait(SOON)
        turn.assistant("done")
    assert spine.flush(SOON)

    assert [event.run_seq for event in sink.heard] == [1, 2, 3, 4, 5]
    assert sink.heard[2].kind == "ops.observation"


def test_who_is_interrupted_in_the_middle_of_recording_may_record(book: Ledger) -> None:
    """A signal, or a finalizer, runs wherever the thread happens to be."""
    sink = Listener()
    book.spine([sink])
    [queue] = book._engine.dispatcher.queues

    def interrupted() -> None:
        with queue._lock:
            note(book, "from a signal")

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(SOON)

    assert not thread.is_alive()
    sink.await_event("from a signal")


def test_a_sink_that_waits_for_itself_is_told_that_it_cannot(book: Ledger) -> None:
    answers: list[bool] = []
    other = Listener("other")
    spine = book.spine([Listener(do=lambda _: answers.append(spine.flush(SOON))), other])

    note(book, "a")
    assert spine.flush(SOON)

    assert answers == [False]
    assert other.summaries == ["a"]


def test_a_sink_that_closes_the_ledger_is_not_kept_waiting_for_itself(book: Ledger) -> None:
    """What waits for the others still comes; what waits for the sink itself is lost to it."""
    door, closed = Door(), threading.Event()

    def close(_: SafeEvent) -> None:
        door.wait(PATIENCE_S)
        book.close()
        closed.set()

    sink, other = Listener(do=close), Listener("other")
    spine = book.spine([sink, other])
    note(book, "a", "b")
    door.open()

    assert closed.wait(SOON)
    for thread in door.threads:
        thread.join(SOON)
    assert other.summaries == ["a", "b"]
    status = status_of(spine, "listener")
    assert (status.delivered, status.lost, status.waiting) == (1, 1, 0)
    with pytest.raises(treering.errors.Closed):
        note(book, "c")


# Opening and closing.


class Resource(Listener):
    """Notes when it is opened and closed, and what it had by then."""

    def __init__(self, name: str = "resource") -> None:
        super().__init__(name)
        self.life: list[str] = []

    def open(self) -> None:
        self.life.append("open")

    def close(self) -> None:
        self.life.append(f"close after {len(self.heard)}")


def test_a_sink_is_opened_when_added_and_closed_with_the_ledger_after_its_events() -> None:
    sink = Resource()
    ledger = treering.open(":memory:")
    ledger.spine([sink])

    note(ledger, *"abc")
    ledger.close()
    ledger.close()

    assert sink.life == ["open", "close after 4"]


def test_closing_waits_no_longer_than_it_may_and_counts_what_is_left(book: Ledger) -> None:
    door = Door()
    sink = Listener(do=door.wait)
    spine = book.spine([sink])
    note(book, "a", "b", "c")
    door.await_guest()

    book._engine.close(timeout_s=BRIEF)

    status = status_of(spine, "listener")
    assert (status.delivered, status.lost, status.waiting) == (0, 2, 1)
    door.see_off()
    assert status_of(spine, "listener").delivered == 1


def test_closing_gives_up_what_would_be_tried_again(book: Ledger) -> None:
    threads: list[threading.Thread] = []

    def do(_: SafeEvent) -> None:
        threads.append(threading.current_thread())
        raise OSError("away")

    delivery = Delivery(on_error="retry", attempts_max=1_000_000)
    spine = book.spine([Listener(do=do, delivery=delivery)])
    note(book, "bad", "b")

    book._engine.close(timeout_s=BRIEF)

    threads[0].join(SOON)
    assert (status_of(spine, "listener").failed, status_of(spine, "listener").lost) == (1, 1)


def test_a_closed_ledger_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    durable = Listener("durable", delivery=Delivery(durable=True, on_error="retry"))
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.spine([Listener(), durable]).follow(SCOPE)
        note(ledger, "a")
        started = set(threading.enumerate()) - before

    assert {thread.name for thread in started} > {"treering-sink-listener"}
    for thread in started:
        thread.join(SOON)
        assert not thread.is_alive(), thread.name


def test_flush_says_whether_all_was_heard(book: Ledger) -> None:
    door = Door()
    spine = book.spine([Listener(do=door.wait)])
    note(book, "a")

    assert not spine.flush(BRIEF)
    door.open()
    assert spine.flush(float("inf"))


def test_a_sink_added_in_the_middle_of_a_run_hears_the_rest(book: Ledger) -> None:
    early, late = Listener("early"), Listener("late")
    spine = book.spine([early])

    with book.session("s", scope=SCOPE, agent="lyria").turn() as turn:
        turn.emit("ops.decision", summary="first")
        assert book.spine([late]) is spine
        turn.emit("ops.decision", summary="second")
    spine.flush(SOON)

    assert [event.run_seq for event in early.heard] == [1, 2, 3, 4]
    assert [event.run_seq for event in late.heard] == [3, 4]


def test_sinks_may_be_added_while_threads_record(book: Ledger) -> None:
    sinks = [Listener(f"sink {number}") for number in range(8)]
    spine = book.spine()

    with ThreadPoolExecutor(4) as pool:
        writers = [
            pool.submit(note, book, *map(str, range(100)), session_id=f"w{number}")
            for number in range(4)
        ]
        for sink in sinks:
            book.spine([sink])
        for writer in writers:
            writer.result()
    assert spine.flush(SOON)

    for sink in sinks:
        for number in range(4):
            heard = [event.seq for event in sink.heard if event.session_id == f"w{number}"]
            assert heard == list(range(102 - len(heard), 102))


def test_two_sinks_of_one_name_are_refused(book: Ledger) -> None:
    sink = Listener()
    spine = book.spine([sink])

    for again in (sink, Listener()):
        with pytest.raises(treering.InvalidInput, match="already") as refused:
            book.spine([again])
        assert refused.value.hint
    note(book, "a")
    spine.flush(SOON)

    assert sink.summaries == ["a"]


@pytest.mark.parametrize(
    "delivery",
    [
        {"timeout_s": 3},
        Delivery(timeout_s=0),
        Delivery(timeout_s=float("nan")),
        Delivery(queue_events_max=0),
        Delivery(attempts_max=-1),
        Delivery(on_error="shrug"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_delivery_that_makes_no_sense_is_refused(book: Ledger, delivery: Any) -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        book.spine([Listener(delivery=delivery)])

    assert refused.value.hint
    assert book.spine().status() == []


def test_each_ledger_of_a_process_has_sinks_of_its_own(book: Ledger) -> None:
    ours, theirs = Listener(), Listener()
    with treering.open(":memory:") as other:
        spines = [book.spine([ours]), other.spine([theirs])]

        note(book, "ours")
        note(other, "theirs")
        assert all(spine.flush(SOON) for spine in spines)

    assert ours.summaries == ["ours"]
    assert theirs.summaries == ["session opened by lyria", "theirs"]


# Processes.


FORGETFUL = """
import json, sys, threading, treering

class Printer:
    name = "printer"
    def accepts(self, event): return event.kind == "ops.decision"
    def handle(self, event): threading.Event().wait(0.001); print(json.dumps(event.summary))

ledger = treering.open(":memory:")
ledger.spine([Printer()])
session = ledger.session("s", scope="acme/app", agent="lyria")
for number in range(50):
    session.record("ops.decision", str(number))
if sys.argv[1] == "exit":
    sys.exit(0)
elif sys.argv[1] == "thread":
    threading.Thread(target=session.record, args=("ops.decision", "50")).start()
"""


@pytest.mark.parametrize(("way", "count"), [("end", 50), ("exit", 50), ("thread", 51)])
def test_a_program_that_closes_nothing_loses_nothing(way: str, count: int) -> None:
    assert run_program(FORGETFUL, way) == [str(number) for number in range(count)]


FORKING = """
import json, os, sys, threading, treering

door = threading.Event()

class Printer:
    name = "printer"
    def accepts(self, event): return event.kind == "ops.decision"
    def handle(self, event):
        if os.getpid() == parent:
            door.wait(60)
        print(json.dumps([who(), event.summary, event.seq]), flush=True)

parent = os.getpid()
who = lambda: "parent" if os.getpid() == parent else "child"
ledger = treering.open(sys.argv[1])
spine = ledger.spine([Printer()])
session = ledger.session("s", scope="acme/app", agent="lyria")
for number in range(3):
    session.record("ops.decision", f"parent {number}")
child = os.fork()
if not child:
    for number in range(3):
        session.record("ops.decision", f"child {number}")
    ledger.close()
    os._exit(0)
os.waitpid(child, 0)
session.record("ops.decision", "parent 3")
door.set()
ledger.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_tells_of_its_own_events_and_not_of_its_parents(tmp_path: Path) -> None:
    told = run_program(FORKING, str(tmp_path / "a.db"))

    assert told == [
        *(["child", f"child {number}", number + 5] for number in range(3)),
        *(["parent", f"parent {number}", number + 2] for number in range(3)),
        ["parent", "parent 3", 8],
    ]
