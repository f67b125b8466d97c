"""Activity of a period, and how two periods differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import HERE, NOON, said
from treering.derive.activity import Activity, ActivityCounter
from treering.derive.periods import MetricChange, Period, metric_changes
from treering.model.tools import ToolRecord


def activity_of(*events: treering.NewEvent) -> Activity:
    """Return what ``events`` come to."""
    tally = ActivityCounter()
    with treering.open(":memory:") as ledger:
        ledger.append(events)
        for event in ledger.events(HERE, first=1_000).items:
            tally.take(event)
        for record in ledger.tool_calls(HERE, first=1_000).items:
            tally.take_call(record)
    return tally.activity()


def call(tool: str, number: int, took_ms: int | None, status: str = "ok") -> list[Any]:
    """Return a call and its result; None is none."""
    refs = {"call_id": f"c{number}", "tool": tool}
    started = said(kind="tool.call", refs=refs, ts_ms=NOON)
    if took_ms is None:
        return [started]
    told = refs | {"status": status, "duration_ms": took_ms}
    return [started, said(kind="tool.result", refs=told, ts_ms=NOON)]


def used(tokens: int, message_id: str | None = None) -> treering.NewEvent:
    """Return a report of usage."""
    counts = {"model": "m", "input_tokens": tokens, "output_tokens": 1}
    return said(kind="usage.reported", payload={**counts, "message_id": message_id}, refs=counts)


def test_tools_are_told_by_how_they_ended_and_how_long_they_took() -> None:
    calls = [call("grep", number, number) for number in range(1, 101)]
    calls += [call("bash", 200, 9, "failed"), call("bash", 201, 9), call("bash", 202, None)]

    found = activity_of(*(event for one in calls for event in one))

    grep, bash = found.tools
    assert (grep.tool, grep.calls, grep.p50_ms, grep.p95_ms) == ("grep", 100, 50, 95)
    assert (bash.failed, bash.open, bash.failure_rate) == (1, 1, 0.5)
    assert found.all_tools.calls == 103


def test_a_call_of_a_model_that_is_reported_twice_counts_once() -> None:
    found = activity_of(used(10, "a"), used(30, "a"), used(5, "b"), used(7), used(7))

    assert found.usage.calls == 4
    assert found.usage.input_tokens == 30 + 5 + 7 + 7
    assert [one.model for one in found.by_model] == ["m"]


def test_alerts_and_receipts_are_counted_by_their_codes() -> None:
    found = activity_of(
        said(kind="ops.receipt", refs={"code": "autoRecall"}),
        said(kind="ops.receipt", refs={"code": "autoRecall"}),
        said(kind="ops.receipt", refs={"code": "autoCapture"}),
        said(kind="ops.receipt", refs={"deliverer": "telegram"}),
        said(kind="ops.alert"),
        said(kind="ops.error", refs={"error_class": "OSError"}),
    )

    assert found.receipts == {"autoRecall": 2, "autoCapture": 1, "telegram": 1}
    assert found.alerts == {"(no code)": 1}
    assert found.errors == {"OSError": 1}
    assert found.numbers()["receipts"] == 4


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_percentiles_are_near_the_true_ones(times: list[int]) -> None:
    tally = ActivityCounter()
    for number, took in enumerate(times):
        tally.take_call(_record(number, took))

    every = tally.activity().all_tools

    ranked = sorted(times)
    for percent, told in ((50, every.p50_ms), (95, every.p95_ms)):
        exact = ranked[-(-len(ranked) * percent // 100) - 1]
        assert told is not None
        assert 0 <= exact - told <= exact * 0.01


def _record(number: int, took: int) -> ToolRecord:
    absent = {
        name: None
        for name in ToolRecord.__struct_fields__
        if name not in {"position", "scope", "session_id", "agent_id", "status", "is_synthetic"}
    }
    fields: dict[str, Any] = absent | {"tool": "t", "duration_ms": took}
    return ToolRecord(
        position=number,
        scope=HERE,
        session_id="s1",
        agent_id="x",
        status="ok",
        is_synthetic=False,
        **fields,
    )


def test_the_period_before_is_as_long_and_ends_where_the_other_begins() -> None:
    period = Period(since_ms=1_000, until_ms=1_499)

    assert period.previous() == Period(since_ms=500, until_ms=999)
    assert Period(since_ms=1, until_ms=10).previous() is None


def test_drift_is_the_part_by_which_a_number_grew() -> None:
    found = metric_changes({"a": 15, "b": 3, "c": None}, {"a": 10, "b": 0, "d": 2})

    assert found == [
        MetricChange(name="a", now=15, before=10, change=0.5),
        MetricChange(name="b", now=3, before=0, change=None),
        MetricChange(name="c", now=None, before=None, change=None),
        MetricChange(name="d", now=None, before=2, change=None),
    ]
