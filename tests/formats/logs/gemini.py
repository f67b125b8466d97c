"""Sessions as the Gemini CLI writes them: one value, or lines."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.gemini import GeminiReader
from treering.formats.parsed import ParsedEvent, ParsedRecord, without_mark
from treering.formats.records import read_records
from treering.model.fields import instant

if TYPE_CHECKING:
    from pathlib import PurePath


T0: Final = 1_790_000_000_000
HEADER: Final = {"sessionId": "s1", "projectHash": "cafe", "startTime": instant(T0),
                 "lastUpdated": instant(T0), "kind": "main"}  # fmt: skip


def message(
    message_id: str, sort: str, content: Any = "", n: int = 0, **told: Any
) -> dict[str, Any]:
    """Return one message, ``n`` seconds into the session."""
    at = instant(T0 + n * 1_000)
    return {"id": message_id, "timestamp": at, "type": sort, "content": content, **told}


def user(message_id: str, text: Any, **told: Any) -> dict[str, Any]:
    return message(message_id, "user", text, **told)


def answer(message_id: str, text: Any = "", **told: Any) -> dict[str, Any]:
    return message(message_id, "gemini", text, **{"model": "gemini-3-pro", **told})


def call(call_id: str, status: str = "success", output: str | None = "14:10", **told: Any) -> Any:
    """Return a tool call, with its result if ``output`` is given."""
    field = "output" if status == "success" else "error"
    response = {"id": call_id, "name": "tide", "response": {field: output}}
    result = {} if output is None else {"result": [{"functionResponse": response}]}
    return {"id": call_id, "name": "tide", "args": {"port": "Bergen"}, "status": status,
            "timestamp": instant(T0 + 5_000), **result, **told}  # fmt: skip


TOKENS: Final = {"input": 100, "output": 7, "cached": 60, "thoughts": 5, "tool": 3, "total": 115}


def whole(*messages: dict[str, Any], **told: Any) -> dict[str, Any]:
    """Return a session as one value."""
    return {**HEADER, **told, "messages": [*messages]}


def read(
    *records: Any, path: PurePath | None = None, reader: GeminiReader | None = None
) -> list[ParsedRecord]:
    """Return the outcome of each of ``records``."""
    reader = reader or GeminiReader(path)
    written = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    found = [one for record in read_records(io.BytesIO(written)) for one in reader.read(record)]
    return [*found, *reader.finish()]


def plain_key(key: str | None) -> str:
    """Return a key without its version."""
    return re.sub(r"\.v[0-9a-f]{8}$", "", without_mark(key or ""))


def told(*records: Any, kind: str = "") -> list[ParsedEvent]:
    """Return the events of ``records`` whose kind begins with ``kind``."""
    found = [one for outcome in read(*records) for one in outcome.events]
    return [one for one in found if one.kind.startswith(kind) and one.key != "session"]
