"""Sinks that write lines: every event to the log of Python, or to a transcript of its session."""

from __future__ import annotations

import logging
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.arguments import check_arguments
from treering.model.envelopes import ENVELOPE_SOURCES, ENVELOPE_VERSION
from treering.model.fields import instant
from treering.sinks.bundle_files import file_name
from treering.sinks.lines import LineFile, OpenFiles, ascii_line, json_line, renew_after_fork
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    import os

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


class TranscriptSink:
    """Appends safe summaries to ``<folder>/<scope>/<session>.jsonl``, without deltas.

    A ``durable`` sink follows the ledger and misses nothing; events delivered again after a crash
    are not repeated.
    """

    @check_arguments
    def __init__(
        self, folder: str | os.PathLike[str], *, durable: bool = False, name: str = "transcript"
    ) -> None:
        self.name = name
        self.delivery = Delivery(durable=durable, on_error="retry" if durable else "skip")
        self._folder = Path(folder)
        self._renew()
        renew_after_fork(self._renew)

    def _renew(self) -> None:
        self._files = OpenFiles(_Transcript)
        # A durable sink in several scopes is called by several threads.
        self._lock = threading.Lock()

    def accepts(self, event: SafeEvent, /) -> bool:
        """Return whether ``event`` is stored and therefore has a seq."""
        return event.seq is not None

    def handle(self, event: SafeEvent, /) -> None:
        """Write ``event`` to the file of its session."""
        seq = event.seq
        if seq is None:
            return
        with self._lock:
            transcript = self._files.at(_path(self._folder, event.scope, event.session_id))
            if self.delivery.durable and seq <= transcript.last_seq():
                return
            transcript.append(json_line(transcript_line(event)))
            transcript.seq = seq

    def close(self) -> None:
        """Close the files; the next event opens its file again."""
        with self._lock:
            self._files.close()


def transcript_line(event: SafeEvent) -> dict[str, Any]:
    """Return the transcript line of ``event``; private events have no summary."""
    return {
        "at": instant(event.ts_ms),
        "seq": event.seq,
        "kind": event.kind,
        "run_id": event.run_id,
        "source": event.source,
        "summary": event.summary,
        "part": event.part.as_refs(),
    }


@lru_cache(maxsize=1_024)
def _path(folder: Path, scope: str, session_id: str) -> Path:
    return folder / file_name(scope) / f"{file_name(session_id)}.jsonl"


class _Transcript(LineFile):
    """The file of one session."""

    seq: int | None = None
    """The last seq written, once known."""

    def last_seq(self) -> int:
        """Return the last seq in the file; 0 if it is empty."""
        if self.seq is None:
            self.seq = next(filter(None, map(_seq_of, self.lines_backwards())), 0)
        return self.seq


def _seq_of(line: bytes) -> int:
    try:
        return msgspec.json.decode(line, type=_TranscriptLine).seq
    except msgspec.MsgspecError:
        return 0  # An incomplete line after a crash.


class _TranscriptLine(msgspec.Struct):
    seq: int
