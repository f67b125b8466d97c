"""The reader of receipts from OpenClaw and its memory plugins: recalls, captures and cron runs.

A recall or a capture becomes ops.receipt, a cron run ops.alert: its content is in the transcript of
its session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from treering.formats.event_content import EventContent, observation, placed
from treering.formats.format import Format, OwnShare
from treering.formats.loose import (
    bounded,
    count,
    digest,
    fields_of,
    name,
    storable,
    time_ms,
    without_none,
    word,
)
from treering.formats.parsed import (
    LogRecord,
    ParsedRecord,
    PromptReader,
    SessionHeader,
    content_key,
)
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import PurePath

NAME: Final = "openclaw-receipts"
AGENT: Final = "openclaw"

_SCHEMA: Final = re.compile(r"openclaw-mem(?:-engine)?\.[\w.-]+\.v\d+")
_LOGGED: Final = re.compile(r"openclaw-mem-engine:(auto\w+)\.receipt (\{.*\})", re.DOTALL)
"""How a plugin's logger writes a receipt."""
_NAMED: Final = re.compile(
    r"(?:[\w-]+[.:/])*auto[_-]?(recall|capture)(?:[.:_-]receipt)?(?:\.v\d+)?", re.IGNORECASE
)
"""The name of a receipt without a schema."""
_NAMES: Final = ("kind", "type", "event")
_STATUSES: Final = {"error": "failed", "failed": "failed", "skipped": "skipped"}
_TIMES: Final = ("ts", "ts_ms", "timestamp", "time", "createdAt", "generatedAt")
_LAST_KEYS_MAX: Final = 200


def content_of(record: dict[str, Any]) -> EventContent:
    """Return the event of a record: a receipt, a cron run, or an observation."""
    if _is_cron_run(record):
        return _cron_run(record)
    receipt = _receipt_in(record)
    if receipt is None:
        return observation(word(record.get("action")) or "record", record)
    content = _receipt(receipt)
    # Fields of a log line beside its receipt are kept, too.
    return content if receipt is record else replace(content, payload={**receipt, "logged": record})


class OpenClawReceiptsReader(PromptReader):
    """Reads receipts, of any number of jobs and sessions."""

    keys_are_global = False
    agent: str = AGENT

    def __init__(self, path: PurePath | None = None) -> None:
        self.sessions: dict[str, SessionHeader] = {}
        self._path = path
        self._counts: Counter[str] = Counter()
        """The number of occurrences of each recent content."""
        self._now_ms = 1

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        row = record.value
        if not isinstance(row, dict) or not row:
            return [ParsedRecord(record=record, skipped="no receipt")]
        receipt = _receipt_in(row) or row
        moments = (time_ms(fields.get(at)) for fields in (receipt, row) for at in _TIMES)
        self._now_ms = next((ts_ms for ts_ms in moments if ts_ms), self._now_ms)
        session, key = self._session_of(row, receipt), self._key_of(row)
        event = placed(content_of(row), session, key, self._now_ms)
        return [ParsedRecord(record=record, events=[event])]

    def state(self) -> Any:
        """Return the sessions so far and the recent contents; None if they are too large."""
        openings = {
            at: [header.agent, header.about.get("scope")] for at, header in self.sessions.items()
        }
        counts = [[*item] for item in self._counts.items()]
        return bounded({"sessions": openings, "counts": counts, "now_ms": self._now_ms})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or type(state.get("now_ms")) is not int:
            raise ValueError("not a state of this format")
        for session, (agent, scope) in fields_of(state.get("sessions")).items():
            self._open(session, agent, scope)
        self._counts = Counter(dict(state.get("counts") or ()))
        self._now_ms = state["now_ms"]

    def _session_of(self, row: dict[str, Any], receipt: dict[str, Any]) -> str:
        """Return the session of a record: that of its job, its session or its file."""
        key = word(row.get("sessionKey")) or word(receipt.get("sessionKey"))
        agent = _agent_of(key)
        scope = word(receipt.get("scope"))
        if _is_cron_run(row):
            session = f"cron:{row['jobId']}"
        else:
            where = name(receipt.get("sessionId")) or key
            where = where or (self._path.stem if self._path else NAME)
            # A session is in one scope; a file may contain several.
            session = f"receipts:{where}@{scope}" if scope else f"receipts:{where}"
        session = name(session) or f"receipts:{digest(session)}"
        self._open(session, agent or AGENT, scope)
        return session

    def _open(self, session: str, agent: str, scope: str | None) -> None:
        about = {} if scope is None else {"scope": scope}
        self.sessions.setdefault(session, SessionHeader(session=session, agent=agent, about=about))

    def _key_of(self, row: dict[str, Any]) -> str:
        content = digest(row)
        again = self._counts.pop(content, 0) + 1
        # Re-insert the content as the most recent; the oldest one makes room.
        self._counts[content] = again
        if len(self._counts) > _LAST_KEYS_MAX:
            del self._counts[next(iter(self._counts))]
        return content_key(f"rc-{content}" if again == 1 else f"rc-{content}~{again}")


score: Final = OwnShare(lambda value: _is_cron_run(value) or _receipt_in(value) is not None)
"""Returns the share of values that are receipts."""

FORMAT: Final = Format(name=NAME, score=score, reader=OpenClawReceiptsReader)


def _is_cron_run(row: dict[str, Any]) -> bool:
    return (
        name(row.get("jobId")) is not None
        and word(row.get("action")) is not None
        and ("status" in row or "runAtMs" in row or "durationMs" in row)
    )


def _cron_run(row: dict[str, Any]) -> EventContent:
    job, status = row["jobId"], word(row.get("status")) or row["action"]
    duration = row.get("durationMs")
    text = word(row.get("error")) or word(row.get("summary"))
    return EventContent(
        kind="ops.alert",
        summary=shorten(f"cron {job} {status}" + (f": {text}" if text else "")),
        payload=row,
        refs=without_none(
            code=f"cron.{row['action']}",
            status=status,
            job_id=job,
            duration_ms=duration if type(duration) is int and duration >= 0 else None,
            run_at_ms=time_ms(row.get("runAtMs")),
            next_run_ms=time_ms(row.get("nextRunAtMs")),
            session_id=name(row.get("sessionId")),
            session_key=name(row.get("sessionKey")),
        ),
    )


def _receipt_in(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the receipt in a record or in a line of a log."""
    if _schema_of(row) is not None or _named(row) is not None:
        return row
    for value in row.values():
        match = _LOGGED.search(value) if isinstance(value, str) and "receipt" in value else None
        if match is None:
            continue
        try:
            receipt = json.loads(match[2])
        except (ValueError, RecursionError):
            continue
        if isinstance(receipt, dict) and storable(receipt):
            return {"schema": f"openclaw-mem-engine.{match[1]}.receipt.v1", **receipt}
    return None


def _schema_of(row: dict[str, Any]) -> str | None:
    schema = word(row.get("schema"))
    if schema and _SCHEMA.fullmatch(schema) and ".receipt." in schema:
        return schema
    # The receipts of its commands say what they are by their kind.
    kind = word(row.get("kind"))
    return kind if kind and _SCHEMA.fullmatch(kind) and type(row.get("ok")) is bool else None


def _named(row: dict[str, Any]) -> str | None:
    """Return autoRecall or autoCapture if a record is named as a receipt of one."""
    for field in _NAMES:
        text = row.get(field)
        # Nearly all texts lack the word, and matching takes longer than looking for it.
        if not isinstance(text, str) or "auto" not in text.lower():
            continue
        match = _NAMED.fullmatch(text)
        if match is not None:
            return f"auto{match[1].capitalize()}"
    return None


def _status_of(receipt: dict[str, Any], skipped: str | None) -> str:
    if receipt.get("ok") is False:
        return "failed"
    if receipt.get("skipped") is True or skipped:
        return "skipped"
    return _STATUSES.get((word(receipt.get("status")) or "").lower(), "ok")


def _receipt(receipt: dict[str, Any]) -> EventContent:
    schema = _schema_of(receipt)
    named = None if schema else _named(receipt)
    what = named or (schema or "").partition(".")[2].rpartition(".v")[0].removesuffix(".receipt")
    skipped = word(receipt.get("skipReason"))
    status = _status_of(receipt, skipped)
    final, injected = receipt.get("finalCount"), receipt.get("injectedCount")
    stored, seen = receipt.get("storedCount"), receipt.get("candidateExtractionCount")
    if status == "skipped":
        outcome = f"skipped: {skipped or 'no reason given'}"
    elif type(stored) is int:
        outcome = f"{stored} of {count(seen)} candidates stored"
    elif type(final) is int:
        outcome = f"{final} recalled, {count(injected)} injected"
    else:
        outcome = status
    return EventContent(
        kind="ops.receipt",
        summary=shorten(f"{what} {outcome}"),
        payload=receipt,
        refs=without_none(
            code=named or skipped or word(receipt.get("code")) or word(receipt.get("error")),
            status=status,
            receipt=shorten(schema, 100) if schema else None,
            duration_ms=_whole(receipt.get("durationMs") or receipt.get("duration_ms")),
            recalled=_whole(final),
            injected=_whole(injected),
            stored=_whole(stored),
            candidates=_whole(seen),
        ),
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _agent_of(key: str | None) -> str | None:
    """Return the agent in a session key: ``agent:main:telegram:dm:7``."""
    parts = (key or "").split(":")
    return name(parts[1]) if parts[0] == "agent" and len(parts) > 1 else None
