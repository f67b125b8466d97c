"""Tool records, as events have them: one for each call, whatever came in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import HERE, NOON
from expected_calls import tool_calls
from treering.derive.tool_calls import SAME_ID_MAX, percentile_rank, record_of, settle
from treering.derive.tool_facts import fact_of
from treering.errors import Corrupt
from treering.model.events import Header
from treering.model.tools import ToolRecord

if TYPE_CHECKING:
    from collections.abc import Sequence


def happened(*events: tuple[str, dict[str, Any] | None], **fields: Any) -> list[Header]:
    """Return headers of a session: a kind and its refs each; ``_`` fields are the header's own."""
    return [header(seq, kind, refs, **fields) for seq, (kind, refs) in enumerate(events, start=1)]


def header(seq: int, kind: str, refs: dict[str, Any] | None, **fields: Any) -> Header:
    refs = dict(refs) if refs is not None else None
    own = {
        name[1:]: refs.pop(name) for name in list(refs or {}) if refs and name.startswith("_")
    } | fields
    return Header(
        position=own.get("position", seq * 10),
        seq=own.get("seq", seq),
        event_id=f"e{seq}",
        scope=HERE,
        session_id=own.get("session_id", "s1"),
        kind=kind,
        source="tool",
        origin=None,
        run_id=own.get("run_id"),
        run_seq=None,
        turn_id=own.get("turn_id"),
        agent_id="lyria",
        user_id=None,
        ts_ms=own.get("ts_ms", NOON + seq),
        recorded_ms=NOON,
        visibility="safe",
        summary="",
        refs=refs,
        payload_bytes=0,
        redacted=own.get("redacted", False),
        expired=False,
        schema_version=1,
        content_digest=b"",
        link=b"",
    )


def call(call_id: str = "c1", **refs: Any) -> tuple[str, dict[str, Any]]:
    return "tool.call", {"call_id": call_id, "tool": "git_log", **refs}


def result(call_id: str = "c1", status: str = "ok", **refs: Any) -> tuple[str, dict[str, Any]]:
    return "tool.result", {"call_id": call_id, "tool": "git_log", "status": status, **refs}


def outcomes(records: Sequence[ToolRecord]) -> list[tuple[Any, ...]]:
    return [(r.call_id, r.status, r.call_event_id, r.result_event_id) for r in records]


def test_a_call_and_its_result_are_one_record() -> None:
    """Seed 001: "name, call id, input shape hash, start time"; "end time, sizes, error"."""
    headers = happened(
        call(input_shape="ab12", input_bytes=7, _run_id="r1", _turn_id="t1"),
        result(status="failed", duration_ms=5, output_bytes=9, error_class="OSError", _run_id="r1"),
        ("run.failed", {"_run_id": "r1"}),
    )

    assert tool_calls(headers) == [
        ToolRecord(
            position=10, scope=HERE, session_id="s1", run_id="r1", turn_id="t1", agent_id="lyria",
            call_id="c1", tool="git_log", status="failed", is_synthetic=False, reason=None,
            error_class="OSError", started_ms=NOON + 1, ended_ms=NOON + 2, duration_ms=5,
            input_bytes=7, output_bytes=9, input_shape="ab12", call_event_id="e1",
            result_event_id="e2", late_status=None, late_event_id=None, run_state="failed",
        )
    ]  # fmt: skip


def test_a_call_without_a_result_is_open() -> None:
    [record] = tool_calls(happened(call(_run_id="r1")))

    assert (record.status, record.ended_ms, record.duration_ms) == ("open", None, None)
    assert record.run_state == "open"


def test_a_duration_that_nobody_stated_is_the_time_between() -> None:
    [record] = tool_calls(happened(call(), result(_ts_ms=NOON + 501)))

    assert record.duration_ms == 500


def test_an_approximate_time_gives_no_duration() -> None:
    [record] = tool_calls(happened(call(), result(time="approximate", _ts_ms=NOON + 501)))

    assert (record.status, record.duration_ms) == ("ok", None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "imported"])
def test_a_synthetic_outcome_has_no_duration_that_nobody_stated(order: tuple[int, int]) -> None:
    """The time until somebody looked says nothing about the tool."""
    pair = [
        call(_ts_ms=NOON),
        result(status="synthetic", reason="crashed", is_synthetic=True, _ts_ms=NOON + 86_400_000),
    ]

    [record] = tool_calls(happened(*(pair[at] for at in order)))

    assert (record.started_ms, record.ended_ms) == (NOON, NOON + 86_400_000)
    assert (record.reason, record.duration_ms) == ("crashed", None)


def test_a_synthetic_outcome_keeps_the_duration_that_was_stated() -> None:
    [record] = tool_calls(happened(call(), result(status="synthetic", duration_ms=30_000)))

    assert record.duration_ms == 30_000


def test_a_late_result_gives_a_synthetic_outcome_no_duration() -> None:
    [record] = tool_calls(
        happened(call(), result(status="synthetic"), result(late=True, duration_ms=7))
    )

    assert (record.late_status, record.duration_ms) == ("ok", None)


def test_a_record_without_any_event_is_corrupt_and_says_what_to_do() -> None:
    fact = fact_of(header(1, *call()))
    assert fact is not None
    known = settle([], fact)
    assert known is not None

    with pytest.raises(Corrupt) as refusal:
        record_of(known, None, None, None, states={})

    assert "treering rebuild" in str(refusal.value.hint)


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    [record] = tool_calls(happened(call(), result(_ts_ms=NOON - 5)))

    assert record.duration_ms == 0


def test_a_second_result_makes_no_second_record() -> None:
    records = tool_calls(happened(call(), result(), result(status="failed")))

    assert outcomes(records) == [("c1", "ok", "e1", "e2")]
    assert records[0].late_event_id is None


def test_the_real_result_after_a_synthetic_one_is_linked_and_does_not_count() -> None:
    """Seed 001: "downstream consumers treat synthetic results explicitly"."""
    records = tool_calls(
        happened(
            call(_run_id="r1"),
            result(status="synthetic", reason="timeout", is_synthetic=True, _run_id="r1"),
            result(late=True, outcome="e2", run="r1"),
            result(status="failed", late=True, outcome="e2", run="r1"),
        )
    )

    assert outcomes(records) == [("c1", "synthetic", "e1", "e2")]
    [record] = records
    assert (record.is_synthetic, record.reason) == (True, "timeout")
    assert (record.late_status, record.late_event_id) == ("ok", "e3")


def test_a_result_that_version_0_1_marked_in_its_payload_alone_is_synthetic_all_the_same() -> None:
    [record] = tool_calls(happened(call(), result(status="synthetic")))

    assert (record.status, record.is_synthetic, record.reason) == ("synthetic", True, None)


def test_a_result_without_a_call_has_a_record_of_its_own() -> None:
    [record] = tool_calls(happened(result(duration_ms=3)))

    assert (record.status, record.started_ms, record.ended_ms) == ("ok", None, NOON + 1)
    assert (record.call_event_id, record.duration_ms) == (None, 3)


def test_a_result_that_was_imported_before_its_call_finds_it() -> None:
    records = tool_calls(happened(result(_ts_ms=NOON + 9), call(tool="grep", _ts_ms=NOON + 4)))

    assert outcomes(records) == [("c1", "ok", "e2", "e1")]
    assert (records[0].tool, records[0].duration_ms) == ("grep", 5)


def test_a_new_call_is_not_taken_for_that_of_an_old_orphan() -> None:
    records = tool_calls(happened(result(), call()))

    assert outcomes(records) == [("c1", "ok", None, "e1"), ("c1", "open", "e2", None)]


def test_a_call_id_that_comes_again_in_another_run_is_another_call() -> None:
    records = tool_calls(
        happened(
            call(_run_id="r1"),
            result(_run_id="r1"),
            call(_run_id="r2"),
            result(status="failed", _run_id="r2"),
        )
    )

    assert outcomes(records) == [("c1", "ok", "e1", "e2"), ("c1", "failed", "e3", "e4")]


def test_a_result_goes_to_its_own_run_before_any_other() -> None:
    records = tool_calls(
        happened(
            call(_run_id="r1"),
            call(_run_id="r2"),
            result(status="synthetic", reason="crashed", _run_id="r1"),
            result(_run_id="r2"),
            result(status="failed", late=True, run="r1"),
        )
    )

    assert [(r.run_id, r.status, r.late_status) for r in records] == [
        ("r1", "synthetic", "failed"),
        ("r2", "ok", None),
    ]


def test_without_runs_the_latest_open_call_gets_the_result() -> None:
    records = tool_calls(happened(call(), call(), result(), result(status="failed")))

    assert outcomes(records) == [("c1", "failed", "e1", "e4"), ("c1", "ok", "e2", "e3")]


def test_call_ids_of_different_sessions_have_nothing_to_do_with_each_other() -> None:
    records = tool_calls(happened(call(), result(_session_id="s2")))

    assert [(r.session_id, r.status) for r in records] == [("s1", "open"), ("s2", "ok")]


def test_events_without_a_call_id_stand_for_themselves() -> None:
    records = tool_calls(happened(("tool.call", None), ("tool.result", None), ("tool.call", {})))

    assert [(r.call_id, r.tool, r.status) for r in records] == [
        (None, None, "open"),
        (None, None, "ok"),
        (None, None, "open"),
    ]


@pytest.mark.parametrize(
    ("refs", "status"),
    [
        ({"status": "odd"}, "ok"),
        ({"status": "open"}, "ok"),
        ({"error_class": "OSError"}, "failed"),
        ({"status": "ok", "is_synthetic": True}, "synthetic"),
        ({"status": "failed", "duration_ms": "long", "output_bytes": -1}, "failed"),
    ],
)
def test_a_result_that_lacks_something_is_read_as_far_as_it_goes(
    refs: dict[str, Any], status: str
) -> None:
    [record] = tool_calls(happened(("tool.result", refs)))

    assert (record.status, record.duration_ms, record.output_bytes) == (status, None, None)


def test_what_was_redacted_takes_no_part() -> None:
    headers = [
        header(1, "tool.call", None, redacted=True),
        header(2, *result()),
        header(3, *call("c2")),
        header(4, "tool.result", None, redacted=True),
    ]

    assert outcomes(tool_calls(headers)) == [("c1", "ok", None, "e2"), ("c2", "open", "e3", None)]


def test_a_result_looks_no_further_back_than_the_limit() -> None:
    within = happened(*[call()] * SAME_ID_MAX, *[result()] * SAME_ID_MAX)
    beyond = happened(call(_run_id="r1"), *[call()] * SAME_ID_MAX, result(_run_id="r1"))

    assert {record.status for record in tool_calls(within)} == {"ok"}
    assert next(record.status for record in tool_calls(beyond)) == "open"


@pytest.mark.parametrize(
    ("percent", "count", "rank"),
    [(50, 1, 1), (50, 2, 1), (50, 3, 2), (90, 10, 9), (90, 11, 10), (99, 100, 99), (99, 101, 100)],
)
def test_a_percentile_is_the_nearest_rank(percent: int, count: int, rank: int) -> None:
    assert percentile_rank(percent, count) == rank
