"""Durable sinks: followers with a cursor of their own, which miss nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import treering
from effort import PATIENCE_S
from listeners import SCOPE, SOON, Door, Listener, PrivateListener, fail_at, note, status_of
from treering import Ledger, NewEvent
from treering.spine.ports import Delivery
from treering.spine.sink_queue import HUNG_CALLS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from postgres_server import Places
    from treering.model.carried import SafeEvent
    from treering.spine.dispatcher import Spine

RETRY = Delivery(durable=True, on_error="retry")
FAIL = Delivery(durable=True, on_error="fail")
BRIEF = Delivery(durable=True, on_error="retry", timeout_s=0.05)
"""For sinks that hang at every event."""
FAIR = Delivery(durable=True, on_error="retry", timeout_s=4)
"""For sinks that hang at some, and must not be taken to hang at others."""
OPENED = "session opened by lyria"


@pytest.fixture
def location(request: pytest.FixtureRequest, shared_database: str, tmp_path: Path) -> str:
    """Return where a ledger is that can be opened again, on each database in turn."""
    if shared_database == "file":
        return str(tmp_path / "a.db")
    places: Places = request.getfixturevalue("postgres")
    return places.fresh()


def listen(ledger: Ledger, *sinks: Listener) -> Spine:
    """Have durable sinks follow the scope."""
    spine = ledger.spine(sinks)
    spine.follow(SCOPE)
    return spine


def durable(
    do: Callable[[SafeEvent], object] | None = None, *, delivery: Delivery = RETRY
) -> Listener:
    return Listener("durable", do, delivery=delivery)


# What it hears.


def test_it_hears_what_was_recorded_before_it_came_and_what_comes(ledger: Ledger) -> None:
    note(ledger, "a")
    sink = durable()

    spine = listen(ledger, sink)
    note(ledger, "b")
    ledger.append(
        [
            NewEvent(
                scope=SCOPE, session_id="raw", kind="ops.decision", agent_id="lyria", summary="c"
            )
        ]
    )
    sink.await_event("c")
    assert spine.flush(SOON)

    assert sink.summaries == [OPENED, "a", "b", "c"]
    status = status_of(spine, "durable")
    assert (status.durable, status.delivered, status.failed, status.lost) == (True, 4, 0, 0)


def test_a_run_has_durable_sinks_follow_its_scope_by_itself(ledger: Ledger) -> None:
    sink = durable()
    spine = ledger.spine([sink])

    with ledger.session("s", scope=SCOPE, agent="lyria", key="tg:1").turn() as turn:
        turn.delta("not kept")
        turn.assistant("kept")
    assert spine.flush(SOON)

    assert [(event.kind, event.run_seq) for event in sink.heard] == [
        ("session.opened", None),
        ("run.started", 1),
        ("conversation.assistant", 3),
        ("run.ended", 4),
    ]
    assert {event.session_key for event in sink.heard} == {"tg:1"}


def test_flush_waits_for_all_that_was_recorded(ledger: Ledger) -> None:
    sink = durable()
    spine = listen(ledger, sink)

    for number in range(5):
        note(ledger, str(number))
        assert spine.flush(SOON)
        assert sink.summaries[-1] == str(number)


def test_it_never_hears_of_a_scope_that_nobody_asked_for(ledger: Ledger) -> None:
    """No sink in scope A returns a byte of scope B."""
    sink = durable()
    spine = listen(ledger, sink)
    other = ledger.session("s", scope="acme/other", agent="lyria")

    other.record("ops.decision", "elsewhere")
    note(ledger, "here")
    assert spine.flush(SOON)
    before = list(sink.summaries)
    spine.follow("acme/other")
    assert spine.flush(SOON)

    assert before == [OPENED, "here"]
    assert sink.summaries[2:] == [OPENED, "elsewhere"]


def test_private_content_comes_to_those_who_ask_for_it(ledger: Ledger) -> None:
    sink = PrivateListener(delivery=RETRY)
    spine = ledger.spine([sink])

    with ledger.session("s", scope=SCOPE, agent="lyria").turn() as turn:
        turn.user("hello")
    assert spine.flush(SOON)

    assert [event.payload for event in sink.heard if event.kind == "conversation.user"] == [
        {"text": "hello"}
    ]


def test_what_other_ledgers_record_is_heard(location: str) -> None:
    with treering.open(location) as ledger, treering.open(location) as other:
        sink = durable()
        listen(ledger, sink)

        note(other, "from elsewhere")

        sink.await_event("from elsewhere")


# Where it continues.


def test_it_goes_on_where_it_stood(location: str) -> None:
    heard = []
    for texts in ("ab", "cd", "", "e"):
        sink = durable()
        with treering.open(location) as ledger:
            spine = listen(ledger, sink)
            note(ledger, *texts)
            assert spine.flush(SOON)
        heard.append(sink.summaries)

    assert heard == [[OPENED, "a", "b"], ["c", "d"], [], ["e"]]


def test_each_scope_and_each_name_has_a_place_of_its_own(location: str) -> None:
    with treering.open(location) as ledger:
        spine = listen(ledger, durable())
        note(ledger, "a")
        ledger.session("s", scope="acme/other", agent="lyria").record("ops.decision", "b")
        assert spine.flush(SOON)

    same, other = durable(), Listener("another", delivery=RETRY)
    with treering.open(location) as ledger:
        spine = listen(ledger, same, other)
        spine.follow("acme/other")
        assert spine.flush(SOON)

    assert [(event.scope, event.summary) for event in same.heard] == [
        ("acme/other", OPENED),
        ("acme/other", "b"),
    ]
    assert sorted(str(text) for text in other.summaries) == ["a", "b", OPENED, OPENED]


def test_what_it_does_not_want_does_not_come_again(location: str) -> None:
    with treering.open(location) as ledger:
        spine = listen(ledger, Listener("durable", only="ops.alert", delivery=RETRY))
        note(ledger, "a")
        assert spine.flush(SOON)
        assert status_of(spine, "durable").delivered == 0

    sink = durable()
    with treering.open(location) as ledger:
        assert listen(ledger, sink).flush(SOON)

    assert not sink.heard


# Errors.


def test_an_error_is_tried_again_until_it_is_none_and_nothing_is_skipped(ledger: Ledger) -> None:
    tried: list[str | None] = []

    def do(event: SafeEvent) -> None:
        tried.append(event.summary)
        if event.summary == "b" and tried.count("b") < 4:
            raise OSError("away")

    sink = durable(do)
    spine = listen(ledger, sink)

    note(ledger, *"abc")
    assert spine.flush(SOON)

    assert tried == [OPENED, "a", "b", "b", "b", "b", "c"]
    assert sink.summaries == [OPENED, *"abc"]
    status = status_of(spine, "durable")
    assert (status.delivered, status.retried, status.failed) == (4, 3, 0)
    assert status.last_error == "OSError: away"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
def test_no_exception_ends_the_service_of_a_durable_sink(error: BaseException) -> None:
    failures = [error]

    def do(_: SafeEvent) -> None:
        if failures:
            raise failures.pop()

    with treering.open(":memory:") as ledger:
        sink = durable(do)
        spine = listen(ledger, sink)
        note(ledger, "a")
        assert spine.flush(SOON)

    assert sink.summaries == [OPENED, "a"]


def test_a_sink_that_stops_at_errors_goes_on_with_that_event_after_a_restart(location: str) -> None:
    with treering.open(location) as ledger:
        sink = durable(fail_at("b"), delivery=FAIL)
        spine = listen(ledger, sink)
        note(ledger, *"abc")
        assert spine.flush(SOON)
        status = status_of(spine, "durable")
    again = durable(delivery=FAIL)
    with treering.open(location) as ledger:
        assert listen(ledger, again).flush(SOON)

    assert sink.summaries == [OPENED, "a"]
    assert (status.stopped, status.failed, status.last_error) == (True, 1, "ValueError: b")
    assert again.summaries == ["b", "c"]


def test_a_durable_sink_that_would_skip_errors_is_refused(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match="would miss events") as refused:
        ledger.spine([durable(delivery=Delivery(durable=True))])

    assert "retry" in str(refused.value.hint)
    assert not ledger.spine().status()


def test_a_ledger_that_takes_no_cursor_serves_no_durable_sink(location: str) -> None:
    with treering.open(location) as ledger:
        note(ledger, "a")
    sink = durable()
    with treering.open(location, mode="ro") as ledger:
        spine = listen(ledger, sink)
        spine.flush(SOON)
        status = status_of(spine, "durable")

    assert not sink.heard
    assert status.stopped
    assert "read-only" in str(status.last_error)


def test_an_awaited_durable_sink_is_cancelled_in_time_and_tried_again() -> None:
    ends: list[str] = []

    class Awaited(Listener):
        async def handle(self, event: SafeEvent, /) -> None:  # type: ignore[override]
            if not ends and event.summary == "a":
                try:
                    await asyncio.Event().wait()
                finally:
                    ends.append("cancelled")
            self.remember(event)

    with treering.open(":memory:") as ledger:
        sink = Awaited("durable", delivery=FAIR)
        spine = listen(ledger, sink)
        note(ledger, "a", "b")
        assert spine.flush(SOON)
        status = status_of(spine, "durable")

    assert sink.summaries == [OPENED, "a", "b"]
    assert (ends, status.timeouts, status.retried) == (["cancelled"], 1, 1)


# Sinks that hang.


def test_an_event_that_a_sink_hung_at_is_tried_again(ledger: Ledger) -> None:
    door = Door()

    def do(event: SafeEvent) -> None:
        if event.summary == "a" and not door.threads:
            door.wait(PATIENCE_S)

    sink = durable(do, delivery=FAIR)
    spine = listen(ledger, sink)

    note(ledger, "a", "b")
    assert spine.flush(SOON)
    heard = list(sink.summaries)
    door.see_off()

    assert heard == [OPENED, "a", "b"]
    status = status_of(spine, "durable")
    assert (status.delivered, status.timeouts, status.retried) == (3, 1, 1)
    assert status.last_error == "took longer than 4 s"


def test_a_durable_sink_that_hangs_for_good_is_given_up_until_the_next_start(location: str) -> None:
    door = Door()
    with treering.open(location) as ledger:
        spine = listen(ledger, durable(door.wait, delivery=BRIEF))
        note(ledger, "a")
        assert spine.flush(SOON)
        status = status_of(spine, "durable")
    again = durable()
    with treering.open(location) as ledger:
        assert listen(ledger, again).flush(SOON)

    assert (status.stopped, status.timeouts) == (True, HUNG_CALLS_MAX)
    assert len(door.threads) == HUNG_CALLS_MAX
    assert again.summaries == [OPENED, "a"]
    door.see_off()


def test_closing_does_not_wait_for_a_sink_that_hangs_and_the_event_comes_again(
    location: str,
) -> None:
    door = Door()
    ledger = treering.open(location)
    listen(ledger, durable(lambda event: door.wait(PATIENCE_S) if event.summary == "b" else None))
    note(ledger, *"abc")
    door.await_guest()

    ledger._engine.close(timeout_s=0.1)
    ledger.close()

    again = durable()
    with treering.open(location) as ledger:
        assert listen(ledger, again).flush(SOON)
    assert again.summaries[-2:] == ["b", "c"]
    door.see_off()


def test_a_durable_sink_that_closes_the_ledger_is_not_kept_waiting_for_itself(
    location: str,
) -> None:
    ledger = treering.open(location)
    answers: list[bool] = []
    recorded, closed = threading.Event(), threading.Event()

    def do(event: SafeEvent) -> None:
        if event.summary == "a":
            assert recorded.wait(SOON)
            answers.append(spine.flush(SOON))
            ledger.close()
            closed.set()

    spine = listen(ledger, durable(do))
    note(ledger, "a", "b")
    recorded.set()

    assert closed.wait(SOON)
    assert answers == [False]
    again = durable()
    with treering.open(location) as ledger:
        assert listen(ledger, again).flush(SOON)
    assert again.summaries[-1] == "b"


def test_a_durable_sink_may_record_events_that_it_hears_too(ledger: Ledger) -> None:
    def echo(event: SafeEvent) -> None:
        if event.kind == "ops.decision":
            ledger.session("s", scope=SCOPE, agent="lyria").record(
                "ops.observation", f"heard {event.summary}"
            )

    sink = durable(echo)
    listen(ledger, sink)

    note(ledger, "a", "b")

    sink.await_event("heard b")
    assert set(sink.summaries) == {OPENED, "a", "b", "heard a", "heard b"}


# One at a time.


def test_of_two_ledgers_one_serves_a_sink_and_the_other_takes_over(location: str) -> None:
    first, second = durable(), durable()
    with treering.open(location) as other:
        with treering.open(location) as ledger:
            spine = listen(ledger, first)
            note(ledger, "a")
            assert spine.flush(SOON)
            standing_by = listen(other, second)
            note(other, "b")

            assert standing_by.flush(SOON)
            assert first.summaries == [OPENED, "a", "b"]
            assert not second.heard
        note(other, "c")
        second.await_event("c")

    assert second.summaries == ["c"]


def test_who_stands_by_says_so_when_the_other_is_behind(location: str) -> None:
    door = Door()
    with treering.open(location) as ledger, treering.open(location) as other:
        spine = listen(
            ledger, durable(lambda event: door.wait(PATIENCE_S) if event.summary == "a" else None)
        )
        note(ledger, "a")
        door.await_guest()
        standing_by = listen(other, durable())

        assert not standing_by.flush(0.6)
        door.open()
        assert standing_by.flush(SOON)
        assert spine.flush(SOON)


def test_a_durable_sink_that_is_added_late_follows_what_the_others_do(ledger: Ledger) -> None:
    early, late = durable(), Listener("late", delivery=RETRY)
    spine = listen(ledger, early)
    note(ledger, "a")

    ledger.spine([late])
    note(ledger, "b")
    assert spine.flush(SOON)

    assert early.summaries == late.summaries == [OPENED, "a", "b"]
