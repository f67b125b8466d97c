"""Receipts of OpenClaw and its memory plugins: recalls, captures, cron runs."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import pytest

import treering
from formats.logs.tellings import told, told_in_parts
from treering.formats import openclaw_mem, openclaw_receipts
from treering.formats.openclaw_receipts import OpenClawReceiptsReader
from treering.formats.registry import find_format
from treering.model.kinds import KINDS

NOON = 1_790_000_000_000
RECALL = {
    "schema": "openclaw-mem-engine.recall.receipt.v1",
    "skipped": False,
    "skipReason": None,
    "scope": "acme/app",
    "finalCount": 3,
    "injectedCount": 2,
}
CAPTURE = {
    "schema": "openclaw-mem-engine.autoCapture.receipt.v1",
    "candidateExtractionCount": 4,
    "storedCount": 1,
}
CRON = {
    "ts": NOON,
    "jobId": "weekly-report",
    "action": "finished",
    "status": "error",
    "error": "the model is overloaded",
    "durationMs": 1_234,
    "runAtMs": NOON - 1_234,
    "sessionId": "run-7",
    "sessionKey": "agent:lyria:cron:weekly-report",
}


def test_a_cron_run_is_an_alert_on_the_timeline_of_its_job() -> None:
    reader = OpenClawReceiptsReader()

    (event,) = told(reader, [CRON])

    assert (event.kind, event.session, event.ts_ms) == ("ops.alert", "cron:weekly-report", NOON)
    assert event.summary == "cron weekly-report error: the model is overloaded"
    assert event.payload == CRON
    assert event.refs == {
        "code": "cron.finished",
        "status": "error",
        "job_id": "weekly-report",
        "duration_ms": 1_234,
        "run_at_ms": NOON - 1_234,
        "session_id": "run-7",
        "session_key": "agent:lyria:cron:weekly-report",
    }
    assert reader.sessions["cron:weekly-report"].agent == "lyria"


@pytest.mark.parametrize(
    ("receipt", "summary", "refs"),
    [
        (
            {"kind": "autoCapture", "ok": True},
            "autoCapture ok",
            {"code": "autoCapture", "status": "ok"},
        ),
        (
            {"type": "memory.AUTORECALL", "finalCount": 3, "injectedCount": 2},
            "autoRecall 3 recalled, 2 injected",
            {"code": "autoRecall", "status": "ok", "recalled": 3, "injected": 2},
        ),
        (
            {"event": "openclaw-mem-engine:auto_capture.receipt", "status": "error"},
            "autoCapture failed",
            {"code": "autoCapture", "status": "failed"},
        ),
        (
            {"event": "autoRecall", "type": "lifecycle", "skipReason": "trivial_prompt"},
            "autoRecall skipped: trivial_prompt",
            {"code": "autoRecall", "status": "skipped"},
        ),
    ],
)
def test_a_receipt_may_say_what_it_is_by_its_name_alone(
    receipt: dict[str, Any], summary: str, refs: dict[str, Any]
) -> None:
    (event,) = told(OpenClawReceiptsReader(), [receipt])

    assert openclaw_receipts.score([receipt])
    assert (event.kind, event.summary, event.refs) == ("ops.receipt", summary, refs)
    assert event.payload == receipt


@pytest.mark.parametrize("kind", ["capture", "autoCaptured", "the autoCapture", "autopilot", 5])
def test_what_only_sounds_like_a_receipt_is_none(kind: Any) -> None:
    assert not openclaw_receipts.score([{"kind": kind, "ok": True}])


@pytest.mark.parametrize(
    ("receipt", "summary", "refs"),
    [
        (RECALL, "recall 3 recalled, 2 injected", {"status": "ok", "recalled": 3, "injected": 2}),
        (
            {**RECALL, "skipped": True, "skipReason": "trivial_prompt"},
            "recall skipped: trivial_prompt",
            {"status": "skipped", "code": "trivial_prompt"},
        ),
        (CAPTURE, "autoCapture 1 of 4 candidates stored", {"stored": 1, "candidates": 4}),
        (
            {"kind": "openclaw-mem.episodes.gc.v0", "ok": False, "error": "locked"},
            "episodes.gc failed",
            {"status": "failed", "code": "locked"},
        ),
    ],
)
def test_a_recall_or_a_capture_is_a_receipt(
    receipt: dict[str, Any], summary: str, refs: dict[str, Any]
) -> None:
    (event,) = told(OpenClawReceiptsReader(), [receipt])

    assert (event.kind, event.summary, event.payload) == ("ops.receipt", summary, receipt)
    assert event.refs is not None
    assert event.refs.items() >= refs.items()
    assert event.kind in KINDS


def test_a_receipt_that_a_logger_wrote_is_found_in_its_line() -> None:
    text = f"openclaw-mem-engine:autoCapture.receipt {json.dumps(CAPTURE)}"
    line = {"1": text, "time": "2026-09-21T14:13:20.000Z"}

    (event,) = told(OpenClawReceiptsReader(), [line])

    assert (event.kind, event.summary) == ("ops.receipt", "autoCapture 1 of 4 candidates stored")
    assert (event.ts_ms, event.payload["logged"]) == (NOON, line)


def test_receipts_of_two_scopes_are_in_two_sessions() -> None:
    reader = OpenClawReceiptsReader(PurePath("gateway.jsonl"))

    events = told(reader, [RECALL, {**RECALL, "scope": "other"}, CAPTURE])

    assert [event.session for event in events] == [
        "receipts:gateway@acme/app",
        "receipts:gateway@other",
        "receipts:gateway",
    ]
    assert reader.sessions["receipts:gateway@other"].about == {"scope": "other"}


def test_the_same_receipt_again_is_another_event_and_reading_again_is_not() -> None:
    first = told(OpenClawReceiptsReader(), [CAPTURE, CAPTURE, CRON])
    again = told(OpenClawReceiptsReader(), [CAPTURE, CAPTURE, CRON])

    assert len({event.key for event in first}) == 3
    assert first == again
    assert [event.ts_ms for event in first] == [1, 1, NOON]


@pytest.mark.parametrize("cut", range(6))
def test_a_reader_goes_on_where_another_stopped(cut: int) -> None:
    records = [CRON, RECALL, CAPTURE, CAPTURE, {"strange": 1}]
    whole = told(OpenClawReceiptsReader(), records)

    assert told_in_parts(OpenClawReceiptsReader, records, cut) == whole


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="not a state"):
        OpenClawReceiptsReader().resume({"else": 1})


def test_what_is_no_receipt_is_kept_as_an_observation() -> None:
    (event,) = told(OpenClawReceiptsReader(), [{"strange": 1}])

    assert (event.kind, event.payload) == ("ops.observation", {"record": "record", "strange": 1})


def name_of(values: list[Any]) -> str | None:
    found = find_format(values)
    return None if found is None else found.name


def test_receipts_are_told_from_other_logs() -> None:
    assert name_of([CRON, CRON]) == name_of([RECALL]) == openclaw_receipts.NAME
    spool = {"schema": openclaw_mem.SPOOL_SCHEMA, "event_id": "e", "type": "ops.alert"}
    assert name_of([spool]) == openclaw_mem.NAME
    assert not openclaw_receipts.score([CRON, {"a": 1}, {"b": 2}])
    assert not openclaw_receipts.score([])


def test_odd_receipts_are_read_without_a_fault() -> None:
    odd = [
        {**CRON, "durationMs": -1, "ts": "never", "sessionKey": 7},
        {**RECALL, "finalCount": "many", "scope": 3},
        {"x": "openclaw-mem-engine:autoRecall.receipt {broken}"},
        {**CRON, "jobId": "j" * 199, "status": None},
    ]

    events = told(OpenClawReceiptsReader(), odd)

    assert [event.kind for event in events] == [
        "ops.alert", "ops.receipt", "ops.observation", "ops.alert",
    ]  # fmt: skip
    with treering.open(":memory:") as ledger:
        ledger.append(
            [
                treering.NewEvent(
                    scope="s",
                    session_id=event.session,
                    kind=event.kind,
                    agent_id="x",
                    summary=event.summary,
                    payload=event.payload,
                    refs=event.refs,
                )
                for event in events
            ]
        )
