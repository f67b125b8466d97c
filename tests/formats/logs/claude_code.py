"""Logs of Claude Code, written line by line: one call says what a line is about."""

from __future__ import annotations

import io
import json
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.records import read_records
from treering.model.fields import instant

if TYPE_CHECKING:
    from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord

SESSION: Final = "5e551011-0000-4000-8000-000000000001"
OTHER_SESSION: Final = "5e551011-0000-4000-8000-000000000002"
BEGUN: Final = 1_790_000_000_000


def uuid_of(number: int) -> str:
    """Return the id of the line of that number."""
    return f"11111111-0000-4000-8000-{number:012}"


class Log:
    """Lines that follow each other, unless one says what it follows."""

    def __init__(self, session: str = SESSION, *, first: int = 1, **shared: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self._numbers = count(first)
        self._last: str | None = None
        self._shared = {
            "sessionId": session,
            "cwd": "/srv/lighthouse",
            "version": "2.1.7",
            "gitBranch": "main",
            "isSidechain": False,
            "userType": "external",
            **shared,
        }

    def line(self, sort: str, **told: Any) -> str:
        """Add a line that follows the last one, and return its id."""
        number = next(self._numbers)
        line: dict[str, Any] = {
            "parentUuid": self._last,
            **self._shared,
            "type": sort,
            "uuid": uuid_of(number),
            "timestamp": instant(BEGUN + 1_000 * number),
            **told,
        }
        self.lines.append(line)
        self._last = str(line["uuid"])
        return self._last

    def note(self, sort: str, **told: Any) -> None:
        """Add a line without an id, a time or a place in the conversation."""
        self.lines.append({"type": sort, **told})

    def user(self, content: Any, **told: Any) -> str:
        """Add what a user said, or what is in the user's place."""
        return self.line("user", message={"role": "user", "content": content}, **told)

    def answer(
        self,
        *blocks: str | dict[str, Any],
        id: str = "msg_1",  # noqa: A002  (the log's word)
        usage: dict[str, Any] | None = None,
        model: str = "claude-opus-4-1",
        stop_reason: str | None = None,
        **told: Any,
    ) -> str:
        """Add a part of a model's message."""
        content = [text(one) if isinstance(one, str) else one for one in blocks]
        message: dict[str, Any] = {"role": "assistant", "id": id, "model": model}
        message |= {"content": content, "stop_reason": stop_reason}
        message |= {} if usage is None else {"usage": usage}
        return self.line("assistant", message=message, **told)

    def result(self, call_id: str, content: Any = "done", **told: Any) -> str:
        """Add the result of a call."""
        error = {"is_error": told.pop("is_error")} if "is_error" in told else {}
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **error}
        return self.user([block], **told)

    def content(self) -> bytes:
        """Return the file."""
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)


def text(words: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": words}


def call(call_id: str = "toolu_1", name: str = "Bash", **given: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def used(output: int, *, sent: int = 10, cached: int = 0, written: int = 0) -> dict[str, Any]:
    """Return what a message used."""
    return {
        "input_tokens": sent,
        "output_tokens": output,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }


def records_of(content: bytes) -> list[LogRecord]:
    """Return the records of a file that has no fault."""
    records = list(read_records(io.BytesIO(content)))
    assert [record for record in records if record.fault] == []
    return records


def outcomes_of(content: bytes, name: str = f"{SESSION}.jsonl") -> list[ParsedRecord]:
    """Return what becomes of every record of a file."""
    reader = ClaudeCodeReader(PurePath(name))
    found = [outcome for record in records_of(content) for outcome in reader.read(record)]
    return found + reader.finish()


def told_by(log: Log, name: str = f"{SESSION}.jsonl") -> list[ParsedEvent]:
    """Return the events that a log tells of."""
    return [event for outcome in outcomes_of(log.content(), name) for event in outcome.events]


def of_kind(events: list[ParsedEvent], *kinds: str) -> list[ParsedEvent]:
    """Return the events of some kinds."""
    return [event for event in events if event.kind in kinds]


def texts_in(events: list[ParsedEvent]) -> list[str]:
    """Return what was said, in order."""
    said = of_kind(events, "conversation.user", "conversation.assistant")
    return [event.payload["text"] for event in said]


def parts_of(log: Log) -> list[tuple[str, str]]:
    """Return the kinds of all events, with what they are about in a word."""
    return [(event.kind, event.summary) for event in told_by(log)]
