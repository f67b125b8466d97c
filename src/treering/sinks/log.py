"""The log sink: every event as a line of JSON, through the standard library's logging."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from treering.model.envelopes import ENVELOPE_SOURCES, ENVELOPE_VERSION
from treering.model.times import instant
from treering.sinks.lines import ascii_line

if TYPE_CHECKING:
    from treering.model.carried import SafeEvent

_LEVELS: Final = {
    "run.failed": logging.ERROR,
    "ops.error": logging.ERROR,
    "run.interrupted": logging.WARNING,
    "ops.alert": logging.WARNING,
    "ops.blocked": logging.WARNING,
    "ops.warning": logging.WARNING,
}


class LogSink:
    """Writes one log record for each event; it sets up no handler, format or level.

    The message is the event's envelope as JSON, with ``scope``, ``eventId`` and ``summary`` beside
    its fields; a kind without an envelope has the same fields under its stored name. The record's
    ``treering`` attribute has the same fields, for formatters.
    """

    def __init__(
        self,
        logger: str | logging.Logger = "treering.events",
        level: int = logging.INFO,
        *,
        name: str = "log",
    ) -> None:
        self.name = name
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def accepts(self, event: SafeEvent, /) -> bool:
        """Return whether the logger is enabled for ``event``."""
        return self._logger.isEnabledFor(self._level_of(event))

    def handle(self, event: SafeEvent, /) -> None:
        """Log ``event``: failures as warnings and errors, others at the given level."""
        fields = log_fields(event)
        self._logger.log(self._level_of(event), ascii_line(fields), extra={"treering": fields})

    def _level_of(self, event: SafeEvent) -> int:
        level = _LEVELS.get(event.kind)
        if level is None and event.kind == "tool.result":
            failed = getattr(event.part, "status", None) in {"failed", "synthetic"}
            level = logging.WARNING if failed else None
        return self._level if level is None else max(level, self._level)


def log_fields(event: SafeEvent) -> dict[str, Any]:
    """Return the log fields of ``event``, in one format for all kinds."""
    envelope = event.envelope()
    fields = _envelope_fields(event) if envelope is None else envelope.to_dict()
    fields["scope"] = event.scope
    if event.event_id is not None:
        fields["eventId"] = event.event_id
    if event.summary is not None:
        fields["summary"] = event.summary
    return fields


def _envelope_fields(event: SafeEvent) -> dict[str, Any]:
    fields = {
        "version": ENVELOPE_VERSION,
        "runId": event.run_id,
        "seq": event.run_seq,
        "at": instant(event.ts_ms),
        "agentId": event.agent_id,
        "sessionId": event.session_id,
        "sessionKey": event.session_key,
        "source": event.origin if event.origin in ENVELOPE_SOURCES else "runtime",
        "visibility": event.visibility,
        "kind": event.kind,
        "payload": event.part.as_payload(),
    }
    return {name: value for name, value in fields.items() if value is not None}
