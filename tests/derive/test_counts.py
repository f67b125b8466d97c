"""Counts of a timeline."""

from __future__ import annotations

from builders import NOON
from derive.folds import counts
from derive.timelines import asked, erased, timeline, told, undone
from treering.model.views import Counts


def test_an_empty_timeline_counts_nothing() -> None:
    assert counts([]) == Counts(
        events=0, by_kind={}, erased=0, turns=0, tool_calls=0, open_runs=0,
        first_ms=None, last_ms=None,
    )  # fmt: skip


def test_everything_is_counted_whatever_became_of_it() -> None:
    events = timeline(
        told("run.started", "r1"),
        asked("r1"),
        told("tool.call", "r1"),
        told("run.failed", "r1"),
        told("run.started", "r2"),
        erased(asked("r2")),
        undone(1),
    )

    assert counts(events) == Counts(
        events=7,
        by_kind={
            "conversation.user": 2,
            "run.failed": 1,
            "run.started": 2,
            "session.undone": 1,
            "tool.call": 1,
        },
        erased=1,
        turns=2,
        tool_calls=1,
        open_runs=1,
        first_ms=NOON + 10,
        last_ms=NOON + 70,
    )


def test_times_may_come_out_of_order() -> None:
    events = timeline(*({"kind": "ops.alert", "ts_ms": at} for at in (NOON, NOON - 5, NOON + 3)))

    assert (counts(events).first_ms, counts(events).last_ms) == (NOON - 5, NOON + 3)
