"""Live sinks that fail, hang or are awaited: what becomes of their events, and of the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import treering
from effort import PATIENCE_S
from listeners import SOON, Door, Listener, Log, fail_at, note, status_of
from treering.spine.ports import Delivery, OnError
from treering.spine.sink_queue import HUNG_CALLS_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from treering import Ledger
    from treering.model.carried import SafeEvent

BRIEF = 0.05
"""A time limit in seconds that every event is meant to break."""
FAIR = 4
"""A time limit in seconds that only what hangs breaks, also where much else goes on."""


@pytest.fixture
def book() -> Iterator[Ledger]:
    with treering.open(":memory:") as ledger:
        # What comes first is heard by nobody, so that tests count only their own events.
        note(ledger, "before")
        yield ledger


# Errors.


def test_skip_goes_on_with_the_next_event(book: Ledger, log: Log) -> None:
    sink = Listener("frail", do=fail_at("bad"))
    spine = book.spine([sink])

    note(book, "a", "bad", "b")
    spine.flush(SOON)

    status = status_of(spine, "frail")
    assert sink.summaries == ["a", "b"]
    assert (status.delivered, status.failed, status.retried) == (2, 1, 0)
    assert status.last_error == "ValueError: bad"
    log.await_line("sink frail: ValueError: bad (1 failed)")


def test_retry_tries_again_before_anything_else_and_then_goes_on(book: Ledger) -> None:
    tried: list[str | None] = []

    def do(event: SafeEvent) -> None:
        tried.append(event.summary)
        if event.summary == "hopeless" or (event.summary == "bad" and tried.count("bad") < 2):
            raise OSError("away")

    sink = Listener(do=do, delivery=Delivery(on_error="retry", attempts_max=3))
    spine = book.spine([sink])

    note(book, "a", "bad", "hopeless", "b")
    assert spine.flush(SOON)

    status = status_of(spine, "listener")
    assert tried == ["a", "bad", "bad", "hopeless", "hopeless", "hopeless", "b"]
    assert sink.summaries == ["a", "bad", "b"]
    assert (status.delivered, status.failed, status.retried) == (3, 1, 3)


def test_fail_stops_the_sink_and_counts_the_rest_as_lost(book: Ledger, log: Log) -> None:
    door = Door()

    def do(event: SafeEvent) -> None:
        door.wait(PATIENCE_S)
        fail_at("bad")(event)

    sink = Listener(do=do, delivery=Delivery(on_error="fail"))
    other = Listener("other")
    spine = book.spine([sink, other])

    note(book, "a", "bad", "b", "c")
    door.open()
    assert spine.flush(SOON)
    note(book, "d")
    assert spine.flush(SOON)

    status = status_of(spine, "listener")
    assert (status.delivered, status.failed, status.lost) == (1, 1, 3)
    assert status.stopped
    assert status.waiting == 0
    assert other.summaries == ["a", "bad", "b", "c", "d"]
    log.await_line("sink listener: stopped after: ValueError: bad")


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "awaited"])
def test_no_exception_ends_the_service_of_a_sink(
    book: Ledger, error: BaseException, *, is_async: bool
) -> None:
    sink = Listener(do=fail_at("bad", error=error))

    async def handle(event: SafeEvent) -> None:
        Listener.handle(sink, event)

    if is_async:
        sink.handle = handle  # type: ignore[method-assign,assignment]
    spine = book.spine([sink])

    note(book, "a", "bad", "b")
    assert spine.flush(SOON)

    assert sink.summaries == ["a", "b"]
    assert status_of(spine, "listener").failed == 1
    assert type(error).__name__ in str(status_of(spine, "listener").last_error)


def test_an_error_without_words_is_told_by_its_name(book: Ledger) -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    spine = book.spine([Listener(do=fail_at("bad", error=Wordless()))])

    note(book, "bad", "b")
    assert spine.flush(SOON)

    assert status_of(spine, "listener").last_error == "Wordless"
    assert status_of(spine, "listener").delivered == 1


def test_errors_in_accepts_are_errors_of_the_sink(book: Ledger) -> None:
    class Choosy(Listener):
        def accepts(self, event: SafeEvent, /) -> bool:
            if event.summary == "bad":
                raise ValueError("cannot choose")
            return event.summary != "dull"

    sink = Choosy()
    spine = book.spine([sink])

    note(book, "a", "bad", "dull", "b")
    assert spine.flush(SOON)

    status = status_of(spine, "listener")
    assert sink.summaries == ["a", "b"]
    assert (status.delivered, status.failed, status.lost) == (2, 1, 0)


# Time-outs.


def test_a_hung_sink_is_left_behind_and_what_it_does_later_counts_for_nothing(book: Ledger) -> None:
    door = Door()
    sink = Listener(
        do=lambda event: door.wait(PATIENCE_S) if event.summary == "hangs" else None,
        delivery=Delivery(timeout_s=FAIR),
    )
    spine = book.spine([sink])

    note(book, "a", "hangs", "b")
    assert spine.flush(SOON)
    before = status_of(spine, "listener")
    door.see_off()
    note(book, "c")
    assert spine.flush(SOON)

    after = status_of(spine, "listener")
    assert (before.delivered, before.failed, before.timeouts) == (2, 1, 1)
    assert before.last_error == "took longer than 4 s"
    assert (after.delivered, after.failed, after.timeouts) == (3, 1, 1)


def test_a_sink_that_hangs_is_tried_again_if_it_wants_that(book: Ledger) -> None:
    door = Door()
    tried: list[str | None] = []

    def do(event: SafeEvent) -> None:
        tried.append(event.summary)
        if tried.count("hangs") == 1 and event.summary == "hangs":
            door.wait(PATIENCE_S)

    sink = Listener(do=do, delivery=Delivery(timeout_s=FAIR, on_error="retry"))
    spine = book.spine([sink])

    note(book, "hangs", "b")
    assert spine.flush(SOON)

    assert tried == ["hangs", "hangs", "b"]
    assert (status_of(spine, "listener").retried, status_of(spine, "listener").delivered) == (1, 2)
    door.see_off()


@pytest.mark.parametrize("on_error", ["skip", "retry"])
def test_a_sink_that_hangs_for_good_is_given_up(book: Ledger, on_error: OnError, log: Log) -> None:
    door = Door()
    delivery = Delivery(timeout_s=BRIEF, on_error=on_error, attempts_max=3)
    spine = book.spine([Listener(do=door.wait, delivery=delivery)])

    note(book, *(str(number) for number in range(12)))
    assert spine.flush(SOON)

    status = status_of(spine, "listener")
    assert status.stopped
    assert len(door.threads) == status.timeouts == HUNG_CALLS_MAX
    assert status.failed + status.lost == 12
    assert status.waiting == 0
    log.await_line("stopped after: took longer than 0.05 s")
    door.see_off()


def test_a_sink_that_is_merely_late_is_never_given_up(book: Ledger) -> None:
    doors: list[Door] = []

    def do(_: SafeEvent) -> None:
        doors.append(Door())
        for door in doors[:-1]:
            door.open()  # Those that were late before come through now.
        doors[-1].wait(PATIENCE_S)

    spine = book.spine([Listener(do=do, delivery=Delivery(timeout_s=BRIEF))])
    count = HUNG_CALLS_MAX + 3

    for number in range(count):
        note(book, str(number))
        assert spine.flush(SOON)
        for door in doors[:-1]:
            door.see_off()

    assert not status_of(spine, "listener").stopped
    assert status_of(spine, "listener").timeouts == count
    doors[-1].see_off()


class AsyncListener(Listener):
    """Awaits what it was given to do."""

    def __init__(
        self, do: Callable[[SafeEvent], Awaitable[None]], delivery: Delivery | None = None
    ) -> None:
        super().__init__(delivery=delivery)
        self._await = do

    async def handle(self, event: SafeEvent, /) -> None:  # type: ignore[override]
        await self._await(event)
        self.remember(event)


def test_a_coroutine_is_awaited_before_the_next_event(book: Ledger) -> None:
    steps: list[str] = []

    async def do(event: SafeEvent) -> None:
        steps.append(f"{event.summary} begins")
        await asyncio.sleep(0)
        steps.append(f"{event.summary} ends")

    spine = book.spine([AsyncListener(do)])

    note(book, "a", "b")
    spine.flush(SOON)

    assert steps == ["a begins", "a ends", "b begins", "b ends"]


def test_whatever_can_be_awaited_is(book: Ledger) -> None:
    class Later:
        """Something to await that is no coroutine."""

        def __init__(self, event: SafeEvent) -> None:
            self._event = event

        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            done.append(self._event.summary)

    class Plain(Listener):
        def handle(self, event: SafeEvent, /) -> Later:  # type: ignore[override]
            return Later(event)

    done: list[str | None] = []
    spine = book.spine([Plain()])

    note(book, "a", "b")
    spine.flush(SOON)

    assert done == ["a", "b"]


def test_a_coroutine_that_takes_too_long_is_cancelled(book: Ledger) -> None:
    ends: list[str] = []

    async def do(event: SafeEvent) -> None:
        if event.summary == "hangs":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

    sink = AsyncListener(do, Delivery(timeout_s=FAIR))
    spine = book.spine([sink])

    note(book, "a", "hangs", "b")
    assert spine.flush(SOON)

    status = status_of(spine, "listener")
    assert ends == ["cancelled"]
    assert sink.summaries == ["a", "b"]
    assert (status.delivered, status.failed, status.timeouts) == (2, 1, 1)
    assert status.last_error == "took longer than 4 s"


def test_a_time_out_of_the_sinks_own_is_an_error_like_any(book: Ledger) -> None:
    async def do(_: SafeEvent) -> None:
        raise TimeoutError("the server did not answer")

    spine = book.spine([AsyncListener(do)])

    note(book, "a")
    spine.flush(SOON)

    status = status_of(spine, "listener")
    assert (status.failed, status.timeouts) == (1, 0)
    assert status.last_error == "TimeoutError: the server did not answer"


def test_a_coroutine_that_blocks_its_loop_is_left_behind(book: Ledger) -> None:
    door = Door()

    async def do(event: SafeEvent) -> None:
        if event.summary == "hangs":
            door.wait(PATIENCE_S)

    sink = AsyncListener(do, Delivery(timeout_s=FAIR))
    spine = book.spine([sink])

    note(book, "hangs", "b")
    assert spine.flush(SOON)

    assert sink.summaries == ["b"]
    assert status_of(spine, "listener").timeouts == 1
    door.see_off()
