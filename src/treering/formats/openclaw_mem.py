"""The reader of openclaw-mem's episodes: rows of its database, and lines of its spool.

Both have the same fields and the same event ids.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.format import DatabaseReader, Format, LogPlace, OwnShare
from treering.formats.loose import bounded, digest, fields_of, name, storable, time_ms, word
from treering.formats.parsed import (
    LogRecord,
    ParsedEvent,
    ParsedRecord,
    PromptReader,
    SessionHeader,
    content_key,
)
from treering.model.events import REDACTED, SUMMARY_CHARACTERS_MAX
from treering.model.kinds import EPISODE_KINDS
from treering.model.parts import part_of
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path, PurePath

NAME: Final = "openclaw-mem"

TABLE: Final = "episodic_events"
COLUMNS: Final = (
    "event_id", "ts_ms", "scope", "session_id", "agent_id", "type", "summary", "payload_json",
    "refs_json", "redacted", "schema_version",
)  # fmt: skip
ORDER: Final = "ts_ms"
"""The column to sort rows by: they may have been inserted out of order."""
SPOOL_SCHEMA: Final = "openclaw-mem.episodes.spool.v0"
ROW_SCHEMA: Final = "openclaw-mem.episodic.v0"
DEFAULT_SCOPE: Final = "global"
_JSON: Final = frozenset({"payload_json", "refs_json"})
_ENVELOPE: Final = frozenset({*COLUMNS, "schema", "payload", "refs", "rowid", "created_at"})


class OpenClawMemReader(PromptReader):
    """Reads rows or lines, of any number of sessions."""

    keys_are_global = True
    agent: str = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        self.sessions: dict[str, SessionHeader] = {}
        self._path = path
        self._unnamed: Counter[str] = Counter()
        """The number of occurrences of each content without an id."""
        self._now_ms = 1

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        row = record.value
        if not isinstance(row, dict) or not word(row.get("type")):
            return [ParsedRecord(record=record, skipped="no event")]
        row = _whole(row)
        self._now_ms = time_ms(row.get("ts_ms")) or self._now_ms
        return [ParsedRecord(record=record, events=[self._event(row)])]

    def state(self) -> Any:
        """Return the sessions so far; None if they are too many."""
        sessions = {
            at: [opening.agent, opening.about["scope"], opening.name or at]
            for at, opening in self.sessions.items()
        }
        return bounded({"sessions": sessions, "unnamed": self._unnamed, "now_ms": self._now_ms})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or type(state.get("now_ms")) is not int:
            raise ValueError("not a state of this format")
        for session, header in fields_of(state.get("sessions")).items():
            agent, scope, *own = map(str, header)
            self._open(session, agent, scope, own[0] if own else session)
        self._unnamed = Counter(fields_of(state.get("unnamed")))
        self._now_ms = state["now_ms"]

    def _event(self, row: dict[str, Any]) -> ParsedEvent:
        # Anybody may have typed the start of a summary: only the row's own field names a scope.
        scope = word(row.get("scope")) or DEFAULT_SCOPE
        summary = word(row.get("summary")) or str(row["type"])
        session = self._session_of(row, scope)
        kind = row["type"].strip().lower()
        payload, refs = row.get("payload"), row.get("refs")
        if kind not in EPISODE_KINDS:
            rest = {at: value for at, value in row.items() if at != "record"}
            kind, payload, refs = "ops.observation", {"record": kind, **rest}, {"observed": kind}
        elif extra := {at: value for at, value in row.items() if at not in _ENVELOPE}:
            payload = {**_wrapped(payload), "beside": extra}
        is_redacted = _is_marked(row.get("redacted"))
        if is_redacted:
            summary, payload, refs = REDACTED, None, {"redacted": True}
        elif len(summary) > SUMMARY_CHARACTERS_MAX or "\0" in summary:
            payload, summary = {**_wrapped(payload), "summary": summary}, shorten(summary)
        return ParsedEvent(
            session=session,
            key=name(row.get("event_id")) or self._key_of(row),
            kind=kind,
            summary=summary,
            ts_ms=self._now_ms,
            payload=payload,
            refs=_refs(kind, payload, refs),
            agent=name(row.get("agent_id")),
            is_redacted=is_redacted,
        )

    def _session_of(self, row: dict[str, Any], scope: str) -> str:
        """Return the row's session. The same id may occur in several scopes."""
        session = own = name(row.get("session_id")) or (self._path.stem if self._path else NAME)
        earlier = self.sessions.get(session)
        if earlier is not None and earlier.about["scope"] != scope:
            session = f"{session}@{scope}"
        self._open(session, name(row.get("agent_id")) or NAME, scope, own)
        return session

    def _open(self, session: str, agent: str, scope: str, own: str) -> None:
        opening = SessionHeader(session=session, agent=agent, about={"scope": scope}, name=own)
        self.sessions.setdefault(session, opening)

    def _key_of(self, row: dict[str, Any]) -> str:
        content = content_key(f"ep-{digest(row)}")
        self._unnamed[content] += 1
        again = self._unnamed[content]
        return content if again == 1 else f"{content}~{again}"


def _has_table(tables: Sequence[Any]) -> float:
    return float(any(fields_of(table).get("table") == TABLE for table in tables))


def _rows(path: Path, databases: DatabaseReader) -> Iterator[dict[str, Any]]:
    with databases.open(path) as database:
        yield from database.rows(TABLE, COLUMNS, order=[ORDER])


score: Final = OwnShare(
    lambda value: value.get("schema") == SPOOL_SCHEMA or value.get("schema_version") == ROW_SCHEMA
)
"""Returns the share of values that are lines of its spool or rows of its table."""

FORMAT: Final = (
    Format(
        name=NAME,
        score=score,
        reader=OpenClawMemReader,
        places=(LogPlace(".openclaw", "memory", "OPENCLAW_STATE_DIR"),),
    ),
    Format(name=NAME, score=_has_table, reader=OpenClawMemReader, content="sqlite", records=_rows),
)


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its JSON columns parsed; a spool line is returned unchanged."""
    texts = {at: row[f"{at}_json"] for at in ("payload", "refs") if f"{at}_json" in row}
    return {
        **{at: value for at, value in row.items() if at not in _JSON},
        **{at: _parsed(text) for at, text in texts.items()},
    }


def _is_marked(value: Any) -> bool:
    """Return whether a mark is set: in doubt, what may have been redacted is."""
    text = value.strip().lower() if isinstance(value, str) else value
    return bool(text) and text not in ("0", "false", "no")


def _refs(kind: str, payload: Any, refs: Any) -> dict[str, Any] | None:
    """Return the refs as an object, with the parts of the payload that may be shown."""
    shown = part_of(kind, payload).as_refs()
    stated = refs if isinstance(refs, dict) else {} if refs is None else {"refs": refs}
    return {**shown, **stated} or None


def _wrapped(payload: Any) -> dict[str, Any]:
    if payload is None:
        return {}
    return payload if isinstance(payload, dict) else {"payload": payload}


def _parsed(text: Any) -> Any:
    """Return the value of a JSON text; the text itself if the ledger cannot store the value."""
    if not isinstance(text, str):
        return None if text is None else str(text)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
    return value if storable(value) else text
