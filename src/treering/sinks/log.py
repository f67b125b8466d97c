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
    """Writes one record for each event; no handler, no format and no level is set up by it.

    The message is the event's envelope as JSON, with ``scope``, ``eventId`` and ``summary`` beside
    its fields; a kind that the envelope lacks has the same fields under the name it is stored by.
    The same fields are in the record's ``treering`` attribute, for formatters that want them.
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
        """Whether anybody would see ``event`` in the log."""
        return self._logger.isEnabledFor(self._level_of(event))

    def handle(self, event: SafeEvent, /) -> None:
        """Log ``event``: failures as warnings and errors, the rest at the level that was given."""
        fields = log_fields(event)
        self._logger.log(self._level_of(event), ascii_line(fields), extra={"treering": fields})

    def _level_of(self, event: SafeEvent) -> int:
        level = _LEVELS.get(event.kind)
        if level is None and event.kind == "tool.result":
            failed = getattr(event.part, "status", None) in {"failed", "synthetic"}
            level = logging.WARNING if failed else None
        return self._level if level is None else max(level, self._level)


def log_fields(event: SafeEvent) -> dict[str, Any]:
    """Return what the log says of ``event``: one form for all kinds."""
    envelope = event.envelope()
    found = _like_envelope(event) if envelope is None else envelope.to_dict()
    found["scope"] = event.scope
    if event.event_id is not None:
        found["eventId"] = event.event_id
    if event.summary is not None:
        found["summary"] = event.summary
    return found


def _like_envelope(event: SafeEvent) -> dict[str, Any]:
    found = {
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
    return {name: value for name, value in found.items() if value is not None}
