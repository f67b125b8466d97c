"""The log sink: structured lines through the standard library's logging."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from builders import HERE
from sinks.carried_events import called, returned, safe
from treering.sinks.log import LogSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.carried import SafeEvent


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "treering.events"):
        yield caplog


def logged(event: SafeEvent, log: pytest.LogCaptureFixture) -> dict[str, Any]:
    """Return the fields of the log line of ``event``."""
    LogSink().handle(event)
    fields: dict[str, Any] = json.loads(log.records[-1].getMessage())
    return fields


def test_an_event_becomes_one_line_of_json_with_the_fields_of_its_envelope(
    log: pytest.LogCaptureFixture,
) -> None:
    """001: "LogSink: structured logs"."""
    event = safe(**called(3))

    fields = logged(event, log)

    assert len(log.records) == 1
    beside = {"scope": HERE, "eventId": "e3", "summary": "tool.call happened"}
    envelope = event.envelope()
    assert envelope is not None
    assert fields == {**envelope.to_dict(), **beside}
    assert log.records[0].treering == fields  # type: ignore[attr-defined]


def test_a_kind_that_the_envelope_lacks_has_the_same_form_under_its_own_name(
    log: pytest.LogCaptureFixture,
) -> None:
    fields = logged(safe("usage.reported", 2, refs={"input_tokens": 5, "note": "no"}), log)

    like = logged(safe("ops.warning", 2), log)
    assert fields.keys() == like.keys()
    assert fields["kind"] == "usage.reported"
    assert fields["payload"] == {"inputTokens": 5}


def test_what_has_no_run_is_logged_without_one(log: pytest.LogCaptureFixture) -> None:
    fields = logged(safe("session.opened", run_id=None, run_seq=None), log)

    assert "runId" not in fields
    assert "seq" not in fields
    assert fields["sessionId"] == "s1"


def test_a_private_event_is_logged_without_its_summary(log: pytest.LogCaptureFixture) -> None:
    fields = logged(safe("conversation.user", summary="pssst", refs={"characters": 5}), log)

    assert "summary" not in fields
    assert fields["payload"] == {"chars": 5}


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (safe("run.started"), logging.INFO),
        (safe(**returned(2)), logging.INFO),
        (safe(**returned(2, status="failed")), logging.WARNING),
        (safe(**returned(2, status="synthetic")), logging.WARNING),
        (safe("run.interrupted"), logging.WARNING),
        (safe("ops.blocked"), logging.WARNING),
        (safe("ops.warning"), logging.WARNING),
        (safe("run.failed"), logging.ERROR),
        (safe("ops.error"), logging.ERROR),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_failures_are_logged_as_warnings_and_errors(
    log: pytest.LogCaptureFixture, event: SafeEvent, level: int
) -> None:
    logged(event, log)

    assert log.records[-1].levelno == level


def test_what_nobody_would_see_is_not_accepted() -> None:
    logger = logging.getLogger("treering.quiet")
    logger.setLevel(logging.WARNING)

    sink = LogSink(logger)

    assert not sink.accepts(safe("run.started"))
    assert sink.accepts(safe("run.failed"))
    assert LogSink(logger, logging.CRITICAL).accepts(safe("run.started"))


def test_a_line_is_plain_ascii_and_no_format_is_taken_for_one(
    log: pytest.LogCaptureFixture,
) -> None:
    text = "50 %s \u2028 \x1b[31m \x9b 東京"

    fields = logged(safe("ops.decision", summary=text), log)

    assert fields["summary"] == text
    assert log.records[0].getMessage().isascii()
    assert "\x1b" not in log.records[0].getMessage()


def test_the_sink_sets_nothing_up() -> None:
    logger = logging.getLogger("treering.nobody.listens")

    LogSink("treering.nobody.listens")

    assert logger.handlers == []
    assert logger.level == logging.NOTSET
