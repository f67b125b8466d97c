"""Tapes: the append-only logs of republic and bub, one file per session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from treering.formats.event_content import EventContent, observation, outcome, placed, thought
from treering.formats.format import Format, OwnShare
from treering.formats.loose import (
    blocks_of,
    bounded,
    count,
    digest,
    fields_of,
    hint_of,
    items_of,
    name,
    text_of,
    time_ms,
    without_none,
    word,
)
from treering.formats.parsed import ParsedRecord, PromptReader, SessionHeader, content_key
from treering.model.codec import decode, encode
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

_UNNAMED: Final = "tool"
_KINDS: Final = {"user": "conversation.user", "assistant": "conversation.assistant"}
_CALLED: Final = frozenset({"id", "type", "name", "arguments", "function"})
_ERROR: Final = frozenset({"kind", "message", "details"})
"""The fields of an error in place of a result."""
_ANSWER: Final = frozenset({"tool_call_id", "content"})
_COUNTS: Final = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}
"""The providers' names for token counts."""

NAME: Final = "tape"

KINDS: Final = frozenset({
    "message", "system", "anchor", "tool_call", "tool_result", "error", "event",
})  # fmt: skip

SECONDS_MAX: Final = 100_000_000_000
"""Larger times are in milliseconds."""


class TapeReader(PromptReader):
    """Reads one tape.

    An event's key is a hash of its entry and all earlier ones: renaming a file changes no key, and
    a copy that was continued shares the keys of the copied part.
    """

    keys_are_global = True
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
        if run:
            contents = [replace(c, refs={**fields_of(c.refs), "tape_run": run}) for c in contents]
        events = [
            placed(content, self._session, content_key(f"{key}.{at}" if at else key), self._now_ms)
            for at, content in enumerate(contents)
        ]
        return [ParsedRecord(record=record, events=events, skipped=None if events else "empty")]

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


def _is_entry(value: dict[str, Any]) -> bool:
    return (
        word(value.get("kind")) in KINDS
        and isinstance(value.get("payload"), dict)
        and ("id" in value or "meta" in value)
        and "type" not in value
    )


score: Final = OwnShare(_is_entry)
"""Returns the share of values that are entries of a tape."""

FORMAT: Final = Format(name=NAME, score=score, reader=TapeReader)


def _time_of(value: Any) -> int | None:
    """Return the time of an entry in milliseconds; older tapes count seconds."""
    in_seconds = type(value) in {int, float} and value < SECONDS_MAX
    return time_ms(value * 1_000.0 if in_seconds else value)


class OpenCalls:
    """The calls without results so far: results come in order, and often without ids."""

    def __init__(self, waiting: list[tuple[str, str]] | None = None) -> None:
        self.waiting = waiting or []
        """The ids and tools of the calls."""

    def start(self, call: Any, key: str) -> EventContent | None:
        """Return a call as an event; None if it is waiting already."""
        stated = fields_of(call)
        function = fields_of(stated.get("function"))
        tool = name(function.get("name")) or name(stated.get("name")) or _UNNAMED
        call_id = name(stated.get("id")) or content_key(key)
        if any(waiting_id == call_id for waiting_id, _ in self.waiting):
            return None
        self.waiting.append((call_id, tool))
        given = _input(function.get("arguments", stated.get("arguments")))
        rest = {at: value for at, value in stated.items() if at not in _CALLED}
        return EventContent(
            kind="tool.call",
            summary=hint_of(tool, given),
            payload={**rest, "call_id": call_id, "name": tool, "input": given},
            refs={"call_id": call_id, "tool": tool},
        )

    def finish(self, result: Any, call_id: str | None = None) -> EventContent:
        """Return a result as an event of the call it names, or of the first waiting call."""
        stated = fields_of(result)
        call_id = call_id or name(stated.get("tool_call_id"))
        at = next((n for n, call in enumerate(self.waiting) if call[0] == call_id), None)
        if call_id is None and self.waiting:
            at = 0
        answered_id, tool = self.waiting.pop(at) if at is not None else (call_id, None)
        output = stated["content"] if set(stated) == _ANSWER else result
        failed = bool(stated) and {"kind", "message"} <= set(stated) <= _ERROR
        shown = str(stated["message"]) if failed else output
        text = shown if isinstance(shown, str | list) else encode(shown).decode()
        details = dict(stated) if failed else None
        return outcome(answered_id, tool, text, failed=failed, details=details)


def entry_contents(entry: dict[str, Any], key: str, calls: OpenCalls) -> list[EventContent]:
    """Return the events of an entry; none if it is empty."""
    payload = fields_of(entry.get("payload"))
    meta = fields_of(entry.get("meta"))
    if meta.get("context") is False:
        return [_observed(entry)]
    match entry.get("kind"):
        case "message":
            return _message(payload, entry, key, calls)
        case "anchor":
            return [_anchor(payload)]
        case "tool_call" if isinstance(payload.get("calls"), list):
            spoken = _message_contents("assistant", payload)
            return spoken + [
                content
                for at, call in enumerate(payload["calls"])
                if (content := calls.start(call, f"{key}:{at}"))
            ]
        case "tool_result" if isinstance(payload.get("results"), list):
            results = [calls.finish(result) for result in payload["results"]]
            # Calls that are still waiting have no result: later results belong to other calls.
            calls.waiting.clear()
            return results
        case "error":
            return [_error(payload)]
        case "event":
            used = _usage(payload, key)
            return [_observed(entry), *([used] if used else [])]
        case _:
            return [_observed(entry)]


def _message(
    payload: dict[str, Any], entry: dict[str, Any], key: str, calls: OpenCalls
) -> list[EventContent]:
    role = word(payload.get("role"))
    if role == "tool":
        return [calls.finish(payload.get("content"), name(payload.get("tool_call_id")))]
    if role is None or role not in _KINDS:
        return [_observed(entry)]
    started = (
        calls.start(call, f"{key}:{at}")
        for at, call in enumerate(items_of(payload.get("tool_calls")))
    )
    return [*_message_contents(role, payload), *(content for content in started if content)]


def _message_contents(role: str, payload: dict[str, Any]) -> list[EventContent]:
    thinking = next(
        (word(payload.get(at)) for at in ("reasoning_content", "reasoning") if payload.get(at)),
        None,
    )
    content = payload.get("content")
    text = text_of(content)
    contents = [thought(thinking)] if thinking else []
    others = [block for block in blocks_of(content) if "text" not in block]
    if text.strip() or others:
        own_fields = {"role", "content", "tool_calls", "reasoning", "reasoning_content", "calls"}
        rest = {at: value for at, value in payload.items() if at not in own_fields}
        parts = {"attached": others} if others else {}
        contents.append(
            EventContent(
                kind=_KINDS[role],
                summary=shorten(text),
                payload={**rest, **parts, "text": text},
                refs={"characters": len(text)},
            )
        )
    return contents


def _anchor(payload: dict[str, Any]) -> EventContent:
    title = word(payload.get("name")) or "anchor"
    state = payload.get("state")
    content = {"content": f"{title}: {encode(state).decode()}"} if state else {}
    rest = {at: value for at, value in payload.items() if at != "name"}
    return EventContent(
        kind="boundary.checkpoint",
        summary=shorten(title),
        payload={**rest, "title": title, **content},
    )


def _error(payload: dict[str, Any]) -> EventContent:
    message = word(payload.get("message")) or "an error"
    code = name(payload.get("kind"))
    described = without_none(message=message, code=code)
    return EventContent(
        kind="ops.error",
        summary=shorten(message),
        payload={**payload, **described},
        refs=without_none(code=code) or None,
    )


def _usage(payload: dict[str, Any], key: str) -> EventContent | None:
    report = fields_of(payload.get("data"))
    usage = fields_of(report.get("usage"))
    counts = {
        ours: next((amount for at in theirs if (amount := count(usage.get(at)))), 0)
        for ours, theirs in _COUNTS.items()
    }
    if not any(counts.values()):
        return None
    counts["total_tokens"] = counts["total_tokens"] or sum(counts.values())
    refs = {
        **counts,
        **without_none(model=name(report.get("model")), provider=name(report.get("provider"))),
        "message_id": content_key(key),
    }
    return EventContent(kind="usage.reported", summary="usage reported", payload=refs, refs=refs)


def _observed(entry: dict[str, Any]) -> EventContent:
    kind, payload = name(entry.get("kind")) or "entry", fields_of(entry.get("payload"))
    event_name = name(payload.get("name")) if kind == "event" else None
    return observation(f"{kind}: {event_name}" if event_name else kind, entry)


def _input(given: Any) -> Any:
    """Return the input of a call: its arguments parsed as JSON, or as text if they are not JSON."""
    if not isinstance(given, str):
        return {} if given is None else given
    try:
        parsed = decode(given.encode())
    except (ValueError, RecursionError):
        return given
    return parsed if isinstance(parsed, dict) else given
