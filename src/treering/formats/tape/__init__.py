"""Tapes: the append-only logs of republic and bub, one file per session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.format import Format
from treering.formats.grammar import share
from treering.formats.loose import bounded, digest, fields_of, name, time_ms, word
from treering.formats.parsed import ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.formats.tape.entries import OpenCalls, entry_contents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

NAME: Final = "tape"

KINDS: Final = frozenset({
    "message", "system", "anchor", "tool_call", "tool_result", "error", "event",
})  # fmt: skip

SECONDS_MAX: Final = 100_000_000_000
"""Larger times are in milliseconds."""


def score(values: Sequence[Any]) -> float:
    """Return the share of values that are entries of a tape."""
    return share(_is_entry(fields_of(value)) for value in values)


class TapeReader:
    """Reads one tape.

    An event's key is a hash of its entry and all earlier ones: renaming a file changes no key, and
    a copy that was continued shares the keys of the copied part.
    """

    keys_are_global = True
    copies_keep_times = False
    agent: str = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        # An archive, <name>.jsonl.<time>.bak, belongs to the same tape.
        named = name(path.name.split(".jsonl")[0]) if path else None
        self._session = named or NAME
        self.sessions: dict[str, SessionHeader] = {
            self._session: SessionHeader(session=self._session, agent=NAME)
        }
        self._calls = OpenCalls()
        self._key = ""
        """The key of the last entry."""
        self._content = ""
        """A digest of the last entry."""
        self._now_ms = 1

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        entry = record.value
        if not isinstance(entry, dict):
            return [ParsedRecord(record=record, skipped="no entry")]
        stated = entry.get("date"), entry.get("timestamp")
        self._now_ms = next((ts_ms for value in stated if (ts_ms := _time_of(value))), self._now_ms)
        key = self._key_of(entry)
        contents = entry_contents(entry, key, self._calls)
        run = name(fields_of(entry.get("meta")).get("run_id"))
        events = [
            ParsedEvent(
                session=self._session,
                key=content_key(f"{key}.{at}" if at else key),
                kind=content.kind,
                summary=content.summary,
                ts_ms=self._now_ms,
                payload=content.payload,
                refs={**fields_of(content.refs), "tape_run": run} if run else content.refs,
                source=content.source,
            )
            for at, content in enumerate(contents)
        ]
        return [ParsedRecord(record=record, events=events, skipped=None if events else "empty")]

    def finish(self) -> list[ParsedRecord]:
        """Return an empty list: records are never held back."""
        return []

    def state(self) -> Any:
        """Return the state with the waiting calls; None if it is too large."""
        return bounded(
            {
                "waiting": self._calls.waiting,
                "key": self._key,
                "content": self._content,
                "now_ms": self._now_ms,
            }
        )

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or type(state.get("now_ms")) is not int:
            raise ValueError("not a state of this format")
        waiting = [(str(call_id), str(tool)) for call_id, tool in state.get("waiting") or []]
        self._calls = OpenCalls(waiting)
        self._key, self._content = str(state.get("key")), str(state.get("content"))
        self._now_ms = state["now_ms"]

    def _key_of(self, entry: dict[str, Any]) -> str:
        """Return an entry's key; an entry with a number that is repeated at once keeps its key."""
        content = digest(entry)
        if content != self._content or type(entry.get("id")) is not int:
            self._key, self._content = f"{NAME}:{digest([self._key, content])}", content
        return self._key


FORMAT: Final = Format(name=NAME, score=score, reader=TapeReader)


def _time_of(value: Any) -> int | None:
    """Return the time of an entry in milliseconds; older tapes count seconds."""
    in_seconds = type(value) in {int, float} and value < SECONDS_MAX
    return time_ms(value * 1_000.0 if in_seconds else value)


def _is_entry(value: dict[str, Any]) -> bool:
    return (
        word(value.get("kind")) in KINDS
        and isinstance(value.get("payload"), dict)
        and ("id" in value or "meta" in value)
        and "type" not in value
    )
