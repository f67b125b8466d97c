"""Tool records: one for each call, found by session, tool, status, time, slowest and failing."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, said
from effort import PATIENCE_S
from expected_calls import tool_calls
from treering.derive.tool_calls import SAME_ID_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Ledger, NewEvent

STRETCHES: Final = 66_000
"""Events that take more than one stretch to catch up with."""


def call(call_id: str, tool: str = "git_log", **fields: Any) -> NewEvent:
    refs = {"call_id": call_id, "tool": tool, "input_bytes": 2, "input_shape": "ab12"}
    return said(f"{tool} called", **({"kind": "tool.call", "refs": refs} | fields))


def result(
    call_id: str, status: str = "ok", *, refs: dict[str, Any] | None = None, **fields: Any
) -> NewEvent:
    known = {"call_id": call_id, "tool": "git_log", "status": status} | (refs or {})
    return said("returned", **({"kind": "tool.result", "refs": known} | fields))


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    """Return a ledger with calls of all sorts, and one in another scope."""
    ledger.append(
        [
            call("a", ts_ms=NOON, run_id="r1"),
            result("a", ts_ms=NOON + 30, run_id="r1", refs={"output_bytes": 5}),
            call("b", "grep", ts_ms=NOON + 1, run_id="r1"),
            result("b", "failed", ts_ms=NOON + 900, refs={"error_class": "OSError"}),
            call("c", ts_ms=NOON + 2, session_id="s2"),
            result(
                "c",
                "synthetic",
                ts_ms=NOON + 3,
                session_id="s2",
                refs={"reason": "crashed", "is_synthetic": True},
            ),
            call("d", "grep", ts_ms=NOON + 4, session_id="s2"),
            said("over", kind="run.failed", run_id="r1"),
            call("a", "secret_tool", scope=ELSEWHERE),
        ]
    )
    return ledger


def found(ledger: Ledger, **filters: Any) -> list[str | None]:
    """Return the call ids of one page."""
    return [record.call_id for record in ledger.tool_calls(HERE, **filters).items]


ASKED: Final[list[tuple[dict[str, Any], list[str]]]] = [
    ({}, ["a", "b", "c", "d"]),
    ({"session_id": "s2"}, ["c", "d"]),
    ({"session_id": "s2", "call_id": "d"}, ["d"]),
    ({"session_id": "s1", "call_id": "d"}, []),
    ({"session_id": "unknown"}, []),
    ({"tool": "grep"}, ["b", "d"]),
    ({"tool": "secret_tool"}, []),
    ({"tool": "grep", "status": "open"}, ["d"]),
    ({"status": "failing"}, ["b", "c"]),
    ({"status": ["ok", "open"]}, ["a", "d"]),
    ({"status": "failing", "session_id": "s1"}, ["b"]),
    ({"reason": "crashed"}, ["c"]),
    ({"reason": "crashed", "session_id": "s1"}, []),
    ({"reason": "crashed", "status": "ok"}, []),
    ({"reason": "timeout"}, []),
    ({"run_id": "r1"}, ["a", "b"]),
    ({"run_id": "r1", "status": "failed"}, ["b"]),
    ({"since_ms": NOON + 1, "until_ms": NOON + 2}, ["b", "c"]),
    ({"tool": "grep", "since_ms": NOON + 2}, ["d"]),
    ({"first": 1}, ["a"]),
    ({"last": 2}, ["c", "d"]),
    ({"order": "slowest"}, ["b", "a"]),
    ({"order": "slowest", "first": 1, "status": "ok"}, ["a"]),
    ({"order": "slowest", "status": "open"}, []),
    ({"order": "slowest", "tool": "git_log"}, ["a"]),
    ({"order": "slowest", "status": "synthetic"}, []),
    ({"order": "slowest", "session_id": "s1"}, ["b", "a"]),
    ({"order": "slowest", "session_id": "s1", "tool": "grep"}, ["b"]),
    ({"order": "slowest", "until_ms": NOON}, ["a"]),
]
"""What is asked of the busy ledger, and the calls that it finds."""


def test_records_are_found_by_what_is_asked(busy: Ledger) -> None:
    """Queryable: by session, tool, status, time, slowest, failing. Promise 3: of one scope."""
    for filters, call_ids in ASKED:
        assert found(busy, **filters) == call_ids, filters


def test_a_record_shows_its_run_also_if_that_failed(busy: Ledger) -> None:
    """Promise 7: tool records, usage and audit reads show it, marked."""
    first, *_, last = busy.tool_calls(HERE).items

    assert (first.run_id, first.run_state) == ("r1", "failed")
    assert (last.run_id, last.run_state) == (None, None)


def test_input_and_output_are_fetched_with_the_events(ledger: Ledger) -> None:
    """Promise 4: payloads are withheld by type."""
    ledger.append([call("a", payload={"input": "private"}), result("a", payload={"output": 1})])

    [record] = ledger.tool_calls(HERE).items

    assert "private" not in repr(record)
    assert record.call_event_id is not None
    assert ledger.event(HERE, record.call_event_id).payload == {"input": "private"}


def test_what_happens_later_changes_the_record_that_is_there(ledger: Ledger) -> None:
    ledger.append([call("a", ts_ms=NOON)])
    [before] = ledger.tool_calls(HERE).items
    ledger.append([result("a", "synthetic", ts_ms=NOON + 5)])
    [between] = ledger.tool_calls(HERE).items
    ledger.append([result("a", ts_ms=NOON + 50), result("a", "failed")])

    [after] = ledger.tool_calls(HERE).items

    assert [record.status for record in (before, between, after)] == [
        "open",
        "synthetic",
        "synthetic",
    ]
    assert (between.late_status, after.late_status, after.duration_ms) == (None, "ok", None)


@pytest.mark.parametrize("order", ["time", "slowest"])
def test_pages_give_each_record_once(ledger: Ledger, order: Any) -> None:
    for number in range(25):
        ledger.append(
            [
                call(f"c{number}", ts_ms=NOON + number // 3),
                result(f"c{number}", ts_ms=NOON + 50, refs={"duration_ms": number // 4}),
            ]
        )
    whole = ledger.tool_calls(HERE, order=order, first=100).items
    pages, cursor = [], None

    while True:
        page = ledger.tool_calls(HERE, order=order, first=4, after=cursor)
        pages += page.items
        cursor = page.next_cursor
        if not page.has_more:
            break

    assert pages == whole
    assert len({record.call_id for record in pages}) == 25


def test_the_last_pages_go_on_towards_the_past(busy: Ledger) -> None:
    late = busy.tool_calls(HERE, last=3)
    early = busy.tool_calls(HERE, last=3, after=late.next_cursor)

    assert [record.call_id for record in late.items] == ["b", "c", "d"]
    assert [record.call_id for record in early.items] == ["a"]
    assert (late.has_more, early.has_more) == (True, False)


def test_a_cursor_of_another_query_is_refused(busy: Ledger) -> None:
    cursor = busy.tool_calls(HERE, first=1).next_cursor
    events = busy.headers(HERE, first=1).next_cursor

    for other, after in (({"tool": "grep"}, cursor), ({"order": "slowest"}, cursor), ({}, events)):
        with pytest.raises(treering.errors.InvalidCursor):
            busy.tool_calls(HERE, first=1, after=after, **other)  # type: ignore[arg-type]
    with pytest.raises(treering.errors.InvalidCursor):
        busy.tool_calls(ELSEWHERE, first=1, after=cursor)


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "broken"},
        {"reason": "because"},
        {"order": "fastest"},
        {"first": 0},
        {"first": 1_001},
        {"first": 1, "last": 1},
        {"order": "slowest", "last": 1},
        {"call_id": "a"},
        {"since_ms": NOON, "until_ms": NOON - 1},
        {"since_ms": -1},
        {"status": 3},
        {"status": 0},
        {"status": [None]},
        {"reason": 3},
        {"reason": ["crashed"]},
        {"order": ["time"]},
        {"first": "1"},
        {"first": True},
        {"last": 1.5},
        {"session_id": 3},
        {"session_id": "s1", "call_id": b"a"},
        {"tool": 3},
        {"tool": ["grep"]},
        {"tool": "\ud800"},
        {"run_id": 3},
        {"since_ms": "yesterday"},
        {"until_ms": 1.5},
        {"after": 3},
        {"after": "\ud800"},
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(unchanged: Ledger, filters: Any) -> None:
    with pytest.raises(treering.InvalidInput) as refusal:
        unchanged.tool_calls(HERE, **filters)

    assert refusal.value.hint


@pytest.mark.parametrize(
    "filters",
    [
        {"tool": 3},
        {"tool": "\ud800"},
        {"session_id": 3},
        {"since_ms": "x"},
        {"since_ms": 9, "until_ms": 1},
    ],
)
def test_statistics_of_what_makes_no_sense_are_refused_with_a_hint(
    unchanged: Ledger, filters: Any
) -> None:
    with pytest.raises(treering.InvalidInput) as refusal:
        unchanged.tool_statistics(HERE, **filters)

    assert refusal.value.hint


def test_a_tool_with_an_odd_name_can_be_asked_for(ledger: Ledger) -> None:
    ledger.append([call("a", "two\nlines"), call("b")])

    assert found(ledger, tool="two\nlines") == ["a"]


def test_statistics_are_per_tool_the_most_called_first(busy: Ledger) -> None:
    busy.append([call("e", ts_ms=NOON + 9), result("e", refs={"duration_ms": 10})])

    git_log, grep = busy.tool_statistics(HERE)

    assert (git_log.tool, git_log.calls, git_log.ok, git_log.synthetic) == ("git_log", 3, 2, 1)
    assert (git_log.p50_ms, git_log.p90_ms, git_log.max_ms, git_log.total_ms) == (10, 30, 30, 40)
    assert (git_log.output_bytes, git_log.last_ms) == (5, NOON + 9)
    assert (grep.tool, grep.calls, grep.failed, grep.open) == ("grep", 2, 1, 1)
    assert [one.tool for one in busy.tool_statistics(HERE, session_id="s1")] == ["git_log", "grep"]
    assert [one.calls for one in busy.tool_statistics(HERE, tool="grep", since_ms=NOON + 4)] == [1]
    assert busy.tool_statistics("nobody/here") == []


def test_percentiles_are_exact(ledger: Ledger) -> None:
    ledger.append(
        [result(f"c{number}", refs={"duration_ms": number * 7 % 101}) for number in range(1, 101)]
    )

    [one] = ledger.tool_statistics(HERE)

    assert (one.p50_ms, one.p90_ms, one.p99_ms, one.max_ms) == (50, 90, 99, 100)


def test_a_long_past_is_caught_up_with_step_by_step(ledger: Ledger) -> None:
    for start in range(0, STRETCHES, 1_000):
        ledger.append([said("x", session_id=f"s{n % 7}") for n in range(start, start + 998)])
        ledger.append([call(f"c{start}"), result(f"c{start - 1_000}")])
    steps: list[int] = []
    later: dict[str, Any] = {"since_ms": NOON + 3 * DAY, "until_ms": NOON + 4 * DAY}
    # A period without tool events is empty whatever has been followed.
    assert ledger.tool_calls(HERE, progress=steps.append, **later).items == []
    assert ledger.tool_statistics(HERE, progress=steps.append, **later) == []
    assert steps == []

    records = ledger.tool_calls(HERE, first=1_000, progress=steps.append).items

    assert records == sorted(
        tool_calls(ledger.follow(HERE, idle_s=0)), key=lambda r: (r.at_ms, r.position)
    )
    assert len(records) == STRETCHES // 1_000 + 1
    assert len(steps) >= 2
    assert sum(steps) <= STRETCHES


def test_an_id_that_comes_again_and_again_is_paired_as_the_fold_has_it(ledger: Ledger) -> None:
    """Whether the events are looked at together or one by one."""
    for number in range(3 * SAME_ID_MAX):
        ledger.append(
            [call("a", run_id=f"r{number}" if number % 50 else None, ts_ms=NOON + number)]
        )
        if number % 40 == 0:
            ledger.tool_calls(HERE, first=1)
        if number % 3 == 0:
            run = f"r{max(1, number - 30)}"
            ledger.append([result("a", run_id=run if (number - 30) % 50 else None)])
        if number % 60 == 59:
            ledger.append([result("a", "synthetic"), result("a"), result("a", "failed")])

    records = ledger.tool_calls(HERE, first=1_000).items

    assert records == sorted(
        tool_calls(ledger.follow(HERE, idle_s=0)), key=lambda r: (r.at_ms, r.position)
    )
    assert {record.status for record in records} == {"open", "ok", "failed", "synthetic"}


def test_several_who_catch_up_at_once_double_and_lose_nothing(
    places: Callable[..., Ledger],
) -> None:
    writer = places()
    for number in range(25):
        batch = [call(f"c{number % 50}-{n}", session_id=f"s{n % 3}") for n in range(100)]
        writer.append(
            [*batch, *[result(e.refs["call_id"], session_id=e.session_id) for e in batch]]
        )
    ledgers = [places() for _ in range(4)]
    answers: list[int] = []

    def ask(ledger: Ledger) -> None:
        answers.append(sum(one.calls for one in ledger.tool_statistics(HERE)))

    threads = [threading.Thread(target=ask, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert answers == [len(tool_calls(writer.follow(HERE, idle_s=0)))] * 4
    assert writer.admin.verify().intact


def test_one_who_may_not_write_gets_the_same_answer(places: Callable[..., Ledger]) -> None:
    writer, reader = places(), places(mode="ro")
    writer.append([call("a", ts_ms=NOON), result("a", ts_ms=NOON + 8), call("b", ts_ms=NOON + 9)])

    unfollowed = reader.tool_calls(HERE), reader.tool_statistics(HERE)
    writer.append([result("b", ts_ms=NOON + 10)])
    onwards = reader.tool_calls(HERE), reader.tool_statistics(HERE)
    followed = writer.tool_calls(HERE), writer.tool_statistics(HERE)
    fresh = places(mode="ro")

    assert [record.status for record in unfollowed[0].items] == ["ok", "open"]
    assert onwards == followed == (fresh.tool_calls(HERE), fresh.tool_statistics(HERE))


def test_one_who_may_not_write_notices_what_others_erase(places: Callable[..., Ledger]) -> None:
    writer, reader = places(), places(mode="ro")
    first, *_ = writer.append([call("a"), result("a"), call("b")])
    reader.tool_calls(HERE)

    writer.redact(HERE, event_id=first.event_id)

    assert [r.started_ms is None for r in reader.tool_calls(HERE).items] == [True, False]
    assert reader.tool_calls(HERE) == writer.tool_calls(HERE)
    assert reader.tool_statistics(HERE) == writer.tool_statistics(HERE)


@pytest.fixture(params=["file", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Ledger]]:
    """Open one ledger again and again."""
    on_server = request.param == "postgres"
    place = request.getfixturevalue("postgres").fresh() if on_server else tmp_path / "one.db"
    opened: list[Ledger] = []

    def opening(**settings: Any) -> Ledger:
        opened.append(treering.open(place, **settings))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()


# Erasing.


def test_a_call_that_is_redacted_leaves_its_result_alone(busy: Ledger) -> None:
    [record] = busy.tool_calls(HERE, session_id="s1", call_id="a").items

    busy.redact(HERE, event_id=str(record.call_event_id))

    [left] = busy.tool_calls(HERE, session_id="s1", call_id="a").items
    assert (left.call_event_id, left.status, left.started_ms) == (None, "ok", None)
    assert busy.admin.verify().intact


def test_a_duplicate_counts_once_the_first_is_gone(ledger: Ledger) -> None:
    ledger.append([call("a"), result("a"), result("a", "failed")])
    [before] = ledger.tool_calls(HERE).items

    ledger.redact(HERE, event_id=str(before.result_event_id))

    [after] = ledger.tool_calls(HERE).items
    assert (before.status, after.status) == ("ok", "failed")


def test_a_session_that_is_redacted_has_no_records(busy: Ledger) -> None:
    busy.tool_calls(HERE)

    busy.redact(HERE, session_id="s1")

    assert found(busy) == ["c", "d"]
    assert [one.calls for one in busy.tool_statistics(HERE)] == [1, 1]


def test_what_has_expired_has_no_records(busy: Ledger) -> None:
    busy.append([call("new", session_id="s2", ts_ms=NOON + 40 * DAY)])
    busy.tool_calls(HERE)

    busy.expire(HERE, now_ms=NOON + 45 * DAY)

    assert found(busy) == ["new"]
    assert busy.admin.verify().intact


def test_what_was_erased_before_anybody_asked_is_never_entered(busy: Ledger) -> None:
    busy.redact(HERE, session_id="s2")

    assert found(busy) == ["a", "b"]


def test_a_copy_has_the_same_records(busy: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    busy.redact(HERE, event_id=str(busy.tool_calls(HERE).items[0].result_event_id))
    target, stream = open_ledger(), io.BytesIO()
    target.append([said("here already", scope=ELSEWHERE, session_id="other")])

    busy.admin.export(HERE, stream, payloads="included")
    target.admin.restore(io.BytesIO(stream.getvalue()))

    def told(ledger: Ledger) -> list[dict[str, Any]]:
        records = ledger.tool_calls(HERE).items
        return [{**treering_fields(record), "position": None} for record in records]

    assert told(target) == told(busy)
    assert target.admin.verify().intact


def treering_fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_an_erasure_that_arrives_by_copy_takes_its_records_with_it(
    busy: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    busy.admin.copy_to(target, scope=HERE)
    assert found(target) == ["a", "b", "c", "d"]

    busy.redact(HERE, session_id="s1")
    busy.admin.copy_to(target, scope=HERE)

    assert found(target) == found(busy) == ["c", "d"]


def test_a_rebuild_changes_no_answer_and_counts_what_it_made(busy: Ledger) -> None:
    """Promise 6: drop every derived table, rebuild, get the same bytes."""
    before = busy.tool_calls(HERE), busy.tool_statistics(HERE)

    receipt = busy.admin.rebuild()

    assert receipt.tool_calls == 5
    assert (busy.tool_calls(HERE), busy.tool_statistics(HERE)) == before
