"""The inbox of a queue session: in order, one at a time, none lost and none done twice."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from concurrency.processes import begin_together
from concurrency.run_works import Author, take_and_hold, work_off
from effort import PATIENCE_S
from ports import store_of
from run_records import Doorkeeper, ends, kinds, runs
from threads import in_threads
from treering.ledger.inbox import ATTEMPTS_MAX
from treering.model.events import Header
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger, Session


@pytest.fixture
def inbox(ledger: Ledger) -> Session:
    """Return a fresh queue session."""
    return ledger.session("inbox", scope=HERE, agent="lyria", mode="queue")


def work(session: Session, *, wait_s: float = 0.0) -> str | None:
    """Deal with the next message; return its text."""
    run = session.take(wait_s=wait_s)
    if run is None:
        return None
    with run:
        assert run.message is not None
        return run.message.text


def done(session: Session) -> list[str]:
    """Return the texts that runs which ended well have dealt with, in order."""
    ended = {run_id for run_id, events in runs(session).items() if events[-1].kind == "run.ended"}
    return [
        event.payload["text"]
        for event in session.events()
        if event.kind == "conversation.user" and event.run_id in ended
    ]


# Order.


def test_messages_are_taken_in_the_order_they_came(inbox: Session) -> None:
    for text in ("one", "two", "three"):
        inbox.post(text)

    assert [work(inbox) for _ in range(4)] == ["one", "two", "three", None]


def test_a_message_is_a_turn_that_has_begun(inbox: Session) -> None:
    inbox.post("hello", event_id="m1", channel="telegram", media=["a.png"])

    run = inbox.take()

    assert run is not None
    assert run.is_open
    assert run.message is not None
    assert (run.message.event_id, run.message.text, run.message.attempt) == ("m1", "hello", 1)
    assert run.message.content == {"channel": "telegram", "media": ["a.png"]}
    with run:
        run.assistant("hello yourself")
    assert kinds(inbox) == [
        "session.opened", "inbox.received", "run.started", "inbox.taken", "conversation.user",
        "conversation.assistant", "run.ended",
    ]  # fmt: skip
    said = next(event for event in inbox.events() if event.kind == "conversation.user")
    assert said.payload == {"text": "hello", "channel": "telegram", "media": ["a.png"]}
    assert said.refs["message"] == "m1"


def test_messages_are_taken_one_at_a_time(inbox: Session) -> None:
    inbox.post("one")
    inbox.post("two")

    first = inbox.take()
    assert first is not None
    while_at_work = inbox.take()
    first.end()

    assert while_at_work is None
    assert work(inbox) == "two"


def test_a_message_that_comes_while_another_is_dealt_with_comes_next(inbox: Session) -> None:
    inbox.post("one")
    first = inbox.take()
    assert first is not None
    inbox.post("two")
    first.end()

    assert [work(inbox), work(inbox)] == ["two", None]


def test_an_inbox_with_nothing_in_it_begins_no_run(ledger: Ledger, inbox: Session) -> None:
    keeper = Doorkeeper()
    ledger.spine([keeper])

    assert [inbox.take() for _ in range(3)] == [None] * 3

    assert set(kinds(inbox)) <= {"session.opened"}
    assert keeper.asked == []


def test_another_turn_of_the_session_goes_before(inbox: Session) -> None:
    inbox.post("one")

    with inbox.turn():
        while_at_work = inbox.take()

    assert while_at_work is None
    assert work(inbox) == "one"


# Again and again.


def test_the_same_message_again_puts_nothing_in(inbox: Session) -> None:
    first = inbox.post("hello", event_id="m1")
    again = inbox.post("hello", event_id="m1")
    taken = work(inbox)
    later = inbox.post("hello", event_id="m1")

    assert first.event_id == again.event_id == later.event_id
    assert (taken, work(inbox)) == ("hello", None)


def test_another_message_under_the_same_id_is_refused(inbox: Session) -> None:
    inbox.post("hello", event_id="m1")

    with pytest.raises(treering.errors.DuplicateEvent):
        inbox.post("good-bye", event_id="m1")

    assert [work(inbox), work(inbox)] == ["hello", None]


@pytest.mark.parametrize("end", ["fail", "interrupt"])
def test_a_message_whose_run_did_not_end_well_comes_again_at_its_place(
    inbox: Session, end: str
) -> None:
    inbox.post("one", event_id="m1")
    inbox.post("two")
    first = inbox.take()
    assert first is not None
    getattr(first, end)("no")

    second = inbox.take()

    assert second is not None
    assert second.message is not None
    assert (second.message.event_id, second.message.attempt) == ("m1", 2)
    second.end()
    assert [work(inbox), work(inbox)] == ["two", None]
    assert done(inbox) == ["one", "two"]


def test_a_message_that_fails_too_often_is_set_aside_and_reported(inbox: Session) -> None:
    inbox.post("poison", event_id="m1")
    inbox.post("two")
    attempts = []
    for _ in range(ATTEMPTS_MAX):
        run = inbox.take()
        assert run is not None
        assert run.message is not None
        attempts.append((run.message.event_id, run.message.attempt))
        run.fail("no")

    assert attempts == [("m1", 1), ("m1", 2), ("m1", 3)]
    assert [work(inbox), work(inbox)] == ["two", None]
    (report,) = [header for header in inbox.headers() if header.kind == "ops.error"]
    assert report.refs == {"code": "message_set_aside", "message": "m1"}


def test_the_last_message_is_set_aside_too_and_once(ledger: Ledger, inbox: Session) -> None:
    inbox.post("poison", event_id="m1")
    for _ in range(ATTEMPTS_MAX):
        run = inbox.take()
        assert run is not None
        run.fail("no")
    fresh = ledger.session("inbox", scope=HERE, agent="another")

    assert [inbox.take(), fresh.take(), inbox.take(), fresh.take()] == [None] * 4

    assert kinds(inbox).count("ops.error") == 1
    assert len(ends(inbox)) == ATTEMPTS_MAX


def test_many_who_find_the_last_message_tried_too_often_report_it_once(
    open_shared: Callable[[], Ledger],
) -> None:
    sessions = [
        open_shared().session("inbox", scope=HERE, agent="lyria", mode="queue") for _ in range(3)
    ]
    for attempt in range(4):
        sessions[0].post(f"poison {attempt}")
        for _ in range(ATTEMPTS_MAX):
            run = sessions[0].take()
            assert run is not None
            run.fail("no")
        together = threading.Barrier(3)

        def look(session: Session, together: threading.Barrier = together) -> None:
            together.wait(PATIENCE_S)
            assert session.take() is None

        in_threads(*(partial(look, session) for session in sessions))

    assert sessions[0].take() is None
    assert kinds(sessions[0]).count("ops.error") == 4


def test_a_message_that_is_set_aside_can_be_posted_under_another_id(inbox: Session) -> None:
    inbox.post("poison", event_id="m1")
    for _ in range(ATTEMPTS_MAX):
        run = inbox.take()
        assert run is not None
        run.fail("no")

    inbox.post("poison", event_id="m2")

    assert [work(inbox), work(inbox)] == ["poison", None]


# Erased.


def test_a_message_that_was_erased_is_passed_over(ledger: Ledger, inbox: Session) -> None:
    for name in ("one", "two", "three"):
        inbox.post(name, event_id=name)

    ledger.redact(HERE, event_id="one")
    first = work(inbox)
    ledger.redact(HERE, event_id="three")

    assert (first, work(inbox)) == ("two", None)


def test_a_message_that_was_erased_between_attempts_does_not_come_again(
    ledger: Ledger, inbox: Session
) -> None:
    inbox.post("one", event_id="m1")
    inbox.post("two")
    run = inbox.take()
    assert run is not None
    run.fail("no")

    ledger.redact(HERE, event_id="m1")

    assert [work(inbox), work(inbox)] == ["two", None]


# Handles, threads and processes.


def test_a_handle_made_later_goes_on_where_others_were(ledger: Ledger, inbox: Session) -> None:
    for text in ("one", "two", "three"):
        inbox.post(text)
    first = work(inbox)
    other = ledger.session("inbox", scope=HERE, agent="another")

    assert [first, work(other), work(inbox), work(other), work(inbox)] == [
        "one", "two", "three", None, None,
    ]  # fmt: skip


def test_threads_that_share_a_handle_do_each_message_once_and_in_order(inbox: Session) -> None:
    texts = [f"message {number}" for number in range(24)]
    for text in texts:
        inbox.post(text)

    def worker() -> None:
        while work(inbox, wait_s=1) is not None:
            pass

    in_threads(*([worker] * 3))

    assert done(inbox) == texts


def test_who_waits_gets_a_message_as_soon_as_it_comes(inbox: Session) -> None:
    inbox.open()
    asked = threading.Event()
    got: list[str | None] = []

    def wait() -> None:
        asked.set()
        got.append(work(inbox, wait_s=120))

    def post() -> None:
        asked.wait(PATIENCE_S)
        inbox.post("hello")

    in_threads(wait, post)

    assert got == ["hello"]


def test_who_waits_in_vain_gets_nothing(inbox: Session) -> None:
    assert inbox.take(wait_s=0.05) is None


def test_the_message_of_a_process_that_died_comes_again_once(location: str) -> None:
    with treering.open(location) as ledger:
        inbox = ledger.session("inbox", scope=HERE, agent="lyria", mode="queue")
        for number in range(3):
            inbox.post(f"message {number}", event_id=f"m{number}")
        with Author(take_and_hold, location) as author:
            author.tell("take")
            assert author.hear() == ("m0", 1)
            author.tell("end")
            assert author.hear() == "ended"
            author.tell("take")
            assert author.hear() == ("m1", 1)
            author.kill()

        run = inbox.take()
        assert run is not None
        assert run.message is not None
        assert (run.message.event_id, run.message.attempt) == ("m1", 2)
        run.end()

        assert [work(inbox), work(inbox)] == ["message 2", None]
        assert done(inbox) == ["message 0", "message 1", "message 2"]
        assert ends(inbox).count("run.interrupted") == 1


def test_the_message_of_a_process_that_is_stopped_is_left_to_it(location: str) -> None:
    with treering.open(location) as ledger:
        inbox = ledger.session("inbox", scope=HERE, agent="lyria", mode="queue")
        inbox.post("mine", event_id="m1")
        with Author(take_and_hold, location, is_our_child=True) as author:
            author.tell("take")
            assert author.hear() == ("m1", 1)
            with author.stopped():
                assert inbox.take() is None
            author.tell("end")
            assert author.hear() == "ended"

        assert inbox.take() is None
        assert done(inbox) == ["mine"]


def test_two_processes_do_each_of_200_messages_once_and_in_order(location: str) -> None:
    texts = [f"message {number}" for number in range(200)]
    with treering.open(location) as ledger:
        inbox = ledger.session("inbox", scope=HERE, agent="lyria", mode="queue")
        for text in texts:
            inbox.post(text)

        with Author(work_off, location) as one, Author(work_off, location) as other:
            begin_together((one, other))
            did = [worker.hear() for worker in (one, other)]

        assert done(inbox) == texts
        assert sorted(did[0] + did[1]) == sorted(texts)
        assert ends(inbox) == ["run.ended"] * 200
        assert ledger.admin.verify().intact


# What it costs.


def test_a_session_with_a_long_past_is_read_from_its_last_taking(
    ledger: Ledger, inbox: Session
) -> None:
    """A handle reads back to the last taking, and on from what that says is done with."""
    for number in range(6):
        inbox.post(str(number))
        work(inbox)
    store = store_of(ledger)
    fresh = ledger.session("inbox", scope=HERE, agent="another")

    fresh._inbox._read_on()

    last_taken = [header for header in inbox.headers() if header.kind == "inbox.taken"][-1]
    assert fresh._inbox._settled() == last_taken.refs["settled_seq"]
    received = [header.seq for header in inbox.headers() if header.kind == "inbox.received"]
    assert received[-2] <= last_taken.refs["settled_seq"] < received[-1]
    assert store.reader.last_by_seq(Header, Scope(HERE), "inbox", before_seq=None, limit=1)[
        0
    ].seq == (fresh._inbox._read_to)
    assert fresh._inbox._waiting == {}


def test_what_waits_is_found_again_behind_a_message_that_failed(
    ledger: Ledger, inbox: Session
) -> None:
    for number in range(4):
        inbox.post(str(number))
    assert work(inbox) == "0"
    run = inbox.take()
    assert run is not None
    run.fail("no")

    fresh = ledger.session("inbox", scope=HERE, agent="another")

    assert [work(fresh) for _ in range(4)] == ["1", "2", "3", None]


# Refused.


@pytest.mark.parametrize("mode", [None, "main", "group"])
@pytest.mark.parametrize(
    "attempt", [lambda s: s.post("hello"), lambda s: s.take()], ids=["post", "take"]
)
def test_a_session_that_is_no_queue_has_no_inbox(
    ledger: Ledger, mode: Any, attempt: Callable[[Session], Any]
) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria", mode=mode)

    with pytest.raises(treering.InvalidInput, match=mode or "main") as refused:
        attempt(session)

    assert refused.value.hint == 'open it with mode="queue"'
    assert kinds(session) == []


def test_a_handle_that_names_no_mode_finds_the_queue(ledger: Ledger, inbox: Session) -> None:
    inbox.post("hello")

    assert work(ledger.session("inbox", scope=HERE, agent="another")) == "hello"


def test_a_message_that_is_no_json_is_refused(inbox: Session) -> None:
    for content in ({"text": "hello", "extra": {1, 2}}, {"text": 5}):
        with pytest.raises(treering.InvalidInput) as refused:
            inbox.post(**content)
        assert refused.value.hint

    assert inbox.take() is None


def test_messages_are_private(inbox: Session) -> None:
    assert inbox.post("hello").visibility == "private"
