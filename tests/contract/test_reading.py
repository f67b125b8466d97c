"""What every database promises about reading and following."""

from __future__ import annotations

import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, NOON, called, run_of, said
from effort import PATIENCE_S
from treering.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Header, Ledger, Page


def texts(page: Page[Header]) -> list[str]:
    return [header.summary for header in page.items]


def everything(read: Callable[[str | None], Page[Header]]) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = read(cursor)
        pages.append(texts(page))
        cursor = page.next_cursor
        assert page.has_more is (cursor is not None)
        if cursor is None:
            return pages


def test_a_query_goes_by_time_then_by_order_of_arrival(ledger: Ledger) -> None:
    ledger.append([said("late", ts_ms=NOON + 5), said("a", ts_ms=NOON), said("b", ts_ms=NOON)])

    assert texts(ledger.headers(HERE)) == ["a", "b", "late"]


def test_pages_forwards_join_to_the_whole(ledger: Ledger) -> None:
    ledger.append([said(str(n), ts_ms=NOON + n // 3) for n in range(10)])

    pages = everything(lambda after: ledger.headers(HERE, first=4, after=after))

    assert pages == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


def test_pages_backwards_join_to_the_whole_and_read_forwards(ledger: Ledger) -> None:
    ledger.append([said(str(n), ts_ms=NOON + n // 3) for n in range(10)])

    pages = everything(lambda after: ledger.headers(HERE, last=4, after=after))

    assert pages == [["6", "7", "8", "9"], ["2", "3", "4", "5"], ["0", "1"]]


@pytest.mark.parametrize("events", [3, 700, 1_300])
def test_recent_and_older_events_are_one_order(ledger: Ledger, events: int) -> None:
    """Events wait a little before they enter the orders of time; no query shows that."""
    times = [NOON + (n * 7919) % events for n in range(events)]
    for start in range(0, events, 100):
        ledger.append([said(str(t), ts_ms=t) for t in times[start : start + 100]])
    expected = [str(t) for t in sorted(times)]

    forwards = everything(lambda after: ledger.headers(HERE, first=97, after=after))
    backwards = everything(lambda after: ledger.headers(HERE, last=97, after=after))
    in_session = everything(
        lambda after: ledger.headers(HERE, session_id="s1", first=97, after=after)
    )

    assert list(chain(*forwards)) == expected
    assert list(chain(*reversed(backwards))) == expected
    assert list(chain(*in_session)) == expected


def test_a_query_keeps_to_its_session_kinds_and_times(ledger: Ledger) -> None:
    ledger.append(
        [
            said("a", ts_ms=NOON),
            called("grep", ts_ms=NOON + 1),
            said("b", ts_ms=NOON + 2, session_id="s2"),
            said("c", ts_ms=NOON + 3),
        ]
    )

    assert texts(ledger.headers(HERE, session_id="s1")) == ["a", "grep called", "c"]
    assert texts(ledger.headers(HERE, kinds=["tool.call"])) == ["grep called"]
    assert texts(ledger.headers(HERE, kinds=["tool_call", "user_message"], session_id="s1")) == [
        "a", "grep called", "c",
    ]  # fmt: skip
    assert texts(ledger.headers(HERE, since_ms=NOON + 1, until_ms=NOON + 2)) == ["grep called", "b"]
    assert texts(ledger.headers(HERE, kinds=["ops.alert"])) == []
    assert texts(ledger.headers(HERE, session_id="nobody")) == []


def test_one_scope_cannot_read_another(ledger: Ledger) -> None:
    """Promise 3: no query in scope A returns a byte of scope B."""
    ledger.append([said("secret", event_id="e1", scope=ELSEWHERE)])

    assert ledger.headers(HERE).items == []
    assert ledger.headers(HERE, session_id="s1").items == []
    assert list(ledger.session("s1", scope=HERE, agent="x").events()) == []
    assert list(ledger.follow(HERE, idle_s=0)) == []
    with pytest.raises(treering.NotFound):
        ledger.event(HERE, "e1")


def test_headers_have_no_payload(ledger: Ledger) -> None:
    """Promise 4: payloads are withheld by type."""
    ledger.append([said("hello")])

    assert not hasattr(ledger.headers(HERE).items[0], "payload")
    assert not hasattr(next(ledger.session("s1", scope=HERE, agent="x").headers()), "payload")
    assert not hasattr(next(ledger.follow(HERE)), "payload")
    assert ledger.events(HERE).items[0].payload == {"text": "hello"}
    assert next(ledger.follow_events(HERE)).payload == {"text": "hello"}


def test_a_cursor_serves_only_the_query_that_made_it(ledger: Ledger) -> None:
    ledger.append([said(str(n)) for n in range(3)])
    cursor = ledger.headers(HERE, first=1).next_cursor

    wrong: list[tuple[str, dict[str, Any]]] = [
        (ELSEWHERE, {"first": 1, "after": cursor}),
        (HERE, {"last": 1, "after": cursor}),
        (HERE, {"first": 1, "kinds": ["tool.call"], "after": cursor}),
        (HERE, {"first": 1, "after": "garbage!"}),
        (HERE, {"first": 1, "after": (cursor or "")[:-2]}),
    ]
    for scope, arguments in wrong:
        with pytest.raises(treering.errors.InvalidCursor) as refused:
            ledger.headers(scope, **arguments)
        assert refused.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        {"first": 0},
        {"first": 1_001},
        {"first": 1, "last": 1},
        {"since_ms": NOON, "until_ms": NOON - 1},
        {"since_ms": 0},
        {"kinds": ["nonsense"]},
        {"session_id": ""},
    ],
)
def test_a_query_that_makes_no_sense_is_refused(ledger: Ledger, arguments: dict[str, int]) -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        ledger.headers(HERE, **arguments)  # type: ignore[arg-type]

    assert refused.value.hint


def test_a_session_reads_in_its_own_order(ledger: Ledger) -> None:
    ledger.append([said(str(n), ts_ms=NOON - n) for n in range(5)])
    session = ledger.session("s1", scope=HERE, agent="lyria")

    assert [h.summary for h in session.headers()] == ["0", "1", "2", "3", "4"]
    assert [h.summary for h in session.headers(first=2)] == ["0", "1"]
    assert [h.summary for h in session.headers(last=2)] == ["3", "4"]
    assert [e.payload["text"] for e in session.events(last=0)] == []
    assert [e.payload["text"] for e in session.events(last=99)] == ["0", "1", "2", "3", "4"]


def test_long_sessions_are_read_whole(ledger: Ledger) -> None:
    ledger.append([said(str(n)) for n in range(2_345)])
    session = ledger.session("s1", scope=HERE, agent="lyria")

    assert [h.seq for h in session.headers()] == list(range(1, 2_346))
    assert [e.seq for e in session.events(first=1_500)] == list(range(1, 1_501))
    assert [e.seq for e in session.events(last=1_500)] == list(range(846, 2_346))


def test_large_payloads_are_read_a_few_at_a_time(ledger: Ledger) -> None:
    """Promise 10: a page of giants is cut short, and nothing is left out."""
    large = "x" * 6_000_000
    ledger.append([said(str(n), payload=large) for n in range(7)])
    session = ledger.session("s1", scope=HERE, agent="lyria")

    assert [e.seq for e in session.events()] == list(range(1, 8))
    assert [e.seq for e in session.events(last=5)] == list(range(3, 8))
    for direction in ("first", "last"):
        page = ledger.events(HERE, **{direction: 7})  # type: ignore[arg-type]
        seqs = [e.seq for e in page.items]
        assert (len(seqs), page.has_more) == (2, True)
        while page.next_cursor:
            page = ledger.events(HERE, **{direction: 7}, after=page.next_cursor)  # type: ignore[arg-type]
            seqs += [e.seq for e in page.items]
        assert sorted(seqs) == list(range(1, 8))
    assert len(ledger.headers(HERE).items) == 7
    assert [e.seq for e in ledger.follow_events(HERE, idle_s=0)] == list(range(1, 8))


def test_a_follower_catches_up_then_hears_what_comes(ledger: Ledger) -> None:
    """Promise 2: followers see events in order, after they are durable."""
    ledger.append([said("a"), said("b", scope=ELSEWHERE), said("c")])
    follower = ledger.follow(HERE)

    seen = [next(follower).summary, next(follower).summary]
    writer = threading.Thread(target=ledger.append, args=([said("d")],))
    writer.start()
    seen.append(next(follower).summary)
    writer.join(PATIENCE_S)

    assert seen == ["a", "c", "d"]


def test_a_follower_goes_on_from_its_cursor(ledger: Ledger) -> None:
    ledger.append([said(str(n)) for n in range(5)])
    follower = ledger.follow(HERE, idle_s=0)
    first = [next(follower).summary, next(follower).summary]
    cursor = follower.cursor
    follower.close()

    rest = [e.summary for e in ledger.follow(HERE, after=cursor, idle_s=0)]

    assert first + rest == ["0", "1", "2", "3", "4"]
    with pytest.raises(treering.errors.InvalidCursor):
        ledger.follow(ELSEWHERE, after=cursor)


def test_a_follower_ends_when_it_is_told_to(ledger: Ledger) -> None:
    stop = threading.Event()
    stop.set()

    assert list(ledger.follow(HERE, stop=stop)) == []


def test_a_follower_ends_when_its_ledger_is_closed(ledger: Ledger) -> None:
    ledger.append([said("hi")])
    follower = ledger.follow(HERE)
    next(follower)

    ledger.close()

    with pytest.raises(Closed):
        next(follower)


def test_a_committed_follower_gets_a_run_when_it_has_ended_well(ledger: Ledger) -> None:
    good = run_of("good", "a1", "a2")
    bad = run_of("bad", "b1", end="run.failed")
    ledger.append([good[0], bad[0], good[1], bad[1], said("free"), bad[2], good[2], good[3]])
    ledger.append([said("c1", run_id="open")])

    seen = [e.summary for e in ledger.follow(HERE, committed=True, idle_s=0)]

    assert seen == ["free", "run started", "a1", "a2", "run over"]


def test_a_committed_follower_that_stopped_before_an_end_gets_the_whole_run(ledger: Ledger) -> None:
    run = run_of("r1", "a1", "a2")
    ledger.append([said("free"), *run[:2]])
    follower = ledger.follow(HERE, committed=True, idle_s=0)
    assert [e.summary for e in follower] == ["free"]

    ledger.append(run[2:])
    rest = ledger.follow(HERE, after=follower.cursor, committed=True, idle_s=0)

    assert [e.summary for e in rest] == ["run started", "a1", "a2", "run over"]
