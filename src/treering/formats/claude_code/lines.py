"""The lines of a Claude Code log: which values are lines, and the fields that any line may have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from treering.formats.loose import usual_time_ms
from treering.model.codec import encode
from treering.model.fields import TIME_MS_MAX
from treering.model.kinds import KINDS
from treering.spine.words import shorten

NAME: Final = "claude-code"
OURS: Final = "treering"
"""The field of our own exports: the event of the line, and the usage report with it."""
ID_CHARACTERS_MAX: Final = 100
"""The longest id of a line, a session or an agent; longer ones are ignored."""
CALL_ID_CHARACTERS_MAX: Final = 400
"""The longest id of a call that results are found by."""
LOOKED_AT_CHARACTERS: Final = 2_000
"""Characters that a summary is made from: outputs may have millions."""

ERRORS: Final = frozenset({"ops.error", "ops.warning"})
"""Kinds of events that report a failure."""
VERBATIM: Final = frozenset(
    name
    for name in KINDS
    if name.startswith((
        "boundary.", "compaction.", "conversation.", "goal.", "ops.", "schedule.", "tool.",
        "usage.",
    ))
) | {"context.compacted", "session.titled"}  # fmt: skip
"""Kinds that our own exports can hold as they are recorded."""
SPOKEN: Final = frozenset({"user", "assistant"})
_NOTED: Final = frozenset({
    "agent-name", "ai-title", "attachment", "custom-title", "file-history-snapshot", "last-prompt",
    "mode", "permission-mode", "pr-link", "progress", "queue-operation", "summary", "system",
})  # fmt: skip
"""Types of lines beside what was said."""
_MARKS: Final = ("sessionId", "session_id", "parentUuid", "leafUuid", "snapshot", "attachment")
"""Such a line has at least one of these fields."""
_STREAMED: Final = ("uuid", "parent_tool_use_id", "sessionId")
"""A line of a Claude Code stream has at least one of these fields."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, and where it belongs."""

    value: dict[str, Any]
    sort: str
    """Its type."""
    key: str
    """Names its first event."""
    own_id: str | None
    """Its id, by which other lines refer to it; None if it has none."""
    parent: str | None
    """The id of the line that it follows."""
    session: str
    ts_ms: int
    message: dict[str, Any] = {}
    """Its message, empty if it has none."""
    mark: str = ""
    """A digest of what it says."""
    former_key: str | None = None
    """The key that earlier versions gave it, if it was another."""
    alternate_key: str | None = None
    """The key that it has if its own is taken; None if its key is made of its words."""


class LineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a line, before it has a key."""

    kind: str
    summary: str
    payload: Any
    refs: dict[str, Any] = {}
    key: str | None = None
    """Its own key, if it is not numbered within the line."""
    first: str | None = None


def is_line(value: Any) -> bool:
    """Whether ``value`` looks like a line of such a log."""
    if not isinstance(value, dict):
        return False
    sort, message = value.get("type"), value.get("message")
    if not isinstance(sort, str):
        return False
    if sort in SPOKEN:
        return isinstance(message, dict) and "content" in message
    return sort in _NOTED and any(mark in value for mark in _MARKS)


def is_own(value: Any) -> bool | None:
    """Whether ``value`` is Claude Code's; None if others with the same envelope write it, too."""
    line = value if isinstance(value, dict) else {}
    if is_line(line):
        message = line.get("message")
        role = message.get("role", line["type"]) if isinstance(message, dict) else line["type"]
        # A system line of another agent's has the same ids, and its words elsewhere. What others
        # stream names the session in the same way, and nothing else.
        is_spoken = line["type"] != "system" or "content" in line or "level" in line
        if line["type"] in SPOKEN and "session_id" in line:
            is_spoken = any(mark in line for mark in _STREAMED) or "id" in line["message"]
        return False if role != line["type"] else is_spoken or None
    if not isinstance(line.get("type"), str):
        return None  # All lines have a type: this is a piece of something else.
    if line["type"] in SPOKEN and isinstance(line.get("message"), dict) and line["message"]:
        return False
    has_envelope = any(mark in line for mark in ("uuid", "sessionId", "session_id"))
    return None if has_envelope else False


def lines_in(value: Any) -> list[Any]:
    """Return the lines that a value holds: itself, or those of an export in one piece."""
    if isinstance(value, dict):
        listed = None
        if "type" not in value:
            listed = next((part for part in value.values() if _all_lines(part)), None)
        return [value] if listed is None else listed
    return value if _all_lines(value) else [value]


def observed(line: LogLine, what: str, **more: Any) -> LineEvent:
    """Return a line verbatim, as an observation."""
    return LineEvent(
        kind="ops.observation",
        summary=shorten(what),
        payload={**line.value, "record": line.sort, **more},
        refs={"observed": what},
    )


def name_in(value: Any, *fields: str, most: int = ID_CHARACTERS_MAX) -> str | None:
    """Return the first of ``fields`` that can name something, in ``most`` characters."""
    if isinstance(value, dict):
        for field in fields:
            name = value.get(field)
            if (
                type(name) is str
                and 0 < len(name) <= most
                and name.isprintable()
                and not name.isspace()
            ):
                return name
    return None


def time_in(value: dict[str, Any]) -> int | None:
    """Return when a line was written; that of a snapshot is inside it."""
    snapshot = value.get("snapshot")
    inside = snapshot.get("timestamp") if isinstance(snapshot, dict) else None
    for stamp in (value.get("timestamp"), inside, value.get("_audit_timestamp")):
        ts_ms = _milliseconds(stamp)
        if ts_ms is not None and 0 < ts_ms <= TIME_MS_MAX:
            return ts_ms
    return None


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a content; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts = content if isinstance(content, list) else []
    return [
        part
        if isinstance(part, dict)
        else {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "value", "value": part}
        for part in parts
    ]


def text_of(content: Any) -> str:
    """Return the texts of a content."""
    texts = (block.get("text") for block in blocks_of(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def brief(text: str) -> str:
    """Return the beginning of ``text`` as a summary, however long it is."""
    return shorten(text[:LOOKED_AT_CHARACTERS])


def spelt(value: Any) -> bytes:
    """Return the canonical spelling of ``value``, to compare it with others."""
    return encode(value)


def _all_lines(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_line, value[:20]))


def _milliseconds(stamp: Any) -> int | None:
    if type(stamp) is int:
        return stamp
    if not isinstance(stamp, str):
        return None
    usual_ms = usual_time_ms(stamp)
    if usual_ms is not None:
        return usual_ms
    try:
        time = datetime.fromisoformat(stamp)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
