"""A session of any origin as a log that Claude Code can continue.

The messages are those that a model is shown: every call with its result right after it. Each line
names its ``event`` in a field of our own, ``treering``, so that a later import recognises it; a
line without an event was added by the export.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from treering.context.dialects.names import COMMON, tool_names
from treering.context.dialects.turns import CONTINUED, arguments_of, calls_with_results, is_blank
from treering.context.pairing import pair
from treering.derive.reports import REPORT, larger_report, report_of
from treering.derive.visible import UndoFilter
from treering.formats.claude_code.lines import ERRORS, OURS, VERBATIM, name_in
from treering.formats.claude_code.results import INTERRUPTED
from treering.formats.loose import count
from treering.model.events import Event
from treering.model.messages import AssistantMessage, UserMessage
from treering.model.times import instant
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.model.messages import Call, ModelMessage, Result

UNKNOWN_MODEL: Final = "unknown"
MASK: Final = "[redacted:"
"""How a mask begins. A thought with one in it does not fit its signature any more."""
_NOTHING_USED: Final = {"input_tokens": 0, "output_tokens": 0}
_INPUT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""What Anthropic counts apart of the tokens that a model was given."""

VERSION: Final = "2.1.0"
"""The version of Claude Code whose lines these look like."""
_RESULT_BLOCKS: Final = frozenset({"text", "image"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def write_session(
    events: Iterable[Event],
    *,
    session_id: str,
    cwd: str,
    version: str = VERSION,
    git_branch: str | None = None,
    policy: SyntheticPolicy | None = None,
    beside: Iterable[Event] | None = None,
    subagent: Subagent | None = None,
) -> Iterator[bytes]:
    """Yield the lines of a session whose ``events`` are given in order, each with its newline.

    Undone events are left out; calls without a result get one that says so; results without a call
    are dropped. What such a log has no line for is written in our own field: decisions,
    observations, alerts; and of all events, which ``beside`` gives, errors and usage: undone turns
    cost money as well. The same events give the same lines.
    """
    every = list(events)
    extra = [event for event in (every if beside is None else beside) if not event.redacted]
    shown = _shown(every)
    messages, _ = pair(shown, policy or SyntheticPolicy())
    aside = _aside(extra, shown, messages)
    pending = [event for event in aside if thought_in(event) is None]
    whose = {"isSidechain": False} if subagent is None else subagent.fields
    lines = _ExportLines(
        {
            **whose,
            "userType": "external",
            "cwd": cwd,
            "sessionId": session_id,
            "version": version,
            "gitBranch": git_branch or "",
        },
        {event.event_id: event for event in shown},
        tool_names(messages, COMMON),
    )
    compactions = [event for event in shown if _summary_in(event)]
    if messages and not isinstance(messages[0], UserMessage) and not compactions:
        yield lines.user(CONTINUED, None, "start", isMeta=True)
    for message in messages:
        while compactions and compactions[0].seq < message.seq:
            yield from lines.compaction(compactions.pop(0))
        while pending and pending[0].seq < message.seq:
            yield lines.verbatim(pending.pop(0))
        yield from lines.message(message)
    for event in compactions:
        yield from lines.compaction(event)
    for event in pending:
        yield lines.verbatim(event)
    for event in [*aside, *extra]:
        if lines.lacks(event):
            yield lines.verbatim(event)
    titled = [event for event in shown if _title_in(event)]
    if titled:
        title = {"type": "custom-title", "customTitle": _title_in(titled[-1]), **whose,
                "sessionId": session_id, OURS: {"event": titled[-1].event_id}}  # fmt: skip
        yield msgspec.json.encode(title) + b"\n"


class Subagent(msgspec.Struct, frozen=True, kw_only=True):
    """The subagent whose lines they are."""

    agent_id: str
    sort: str | None = None
    """Which agent it is: Explore, reviewer, …"""
    call_id: str | None = None
    """The call that started it."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields that each of its lines has."""
        fields = {"attributionAgent": self.sort, "parent_tool_use_id": self.call_id}
        stated = {name: value for name, value in fields.items() if value is not None}
        return {"isSidechain": True, "agentId": self.agent_id, **stated}


class _ExportLines:
    """Lines that follow each other."""

    def __init__(
        self, shared: dict[str, Any], events: dict[str, Event], names: dict[str, str]
    ) -> None:
        self._shared = shared
        self._events = events
        self._names = names
        self._answers = Answers(events.values())
        self._reported: set[tuple[str | None, str | None]] = set()
        """The calls of the model whose usage a line has: by message and request."""
        self._thought: set[str] = set()
        """The events of the thoughts that a line has."""
        self._last: str | None = None
        self._ts_ms = next((event.ts_ms for event in events.values()), 1)

    def message(self, message: ModelMessage) -> Iterator[bytes]:
        """Yield the lines of one message."""
        if isinstance(message, AssistantMessage):
            yield from self._answer(message)
            return
        source = self._source(message.event_ids)
        name = f"seq {message.seq}"
        if message.mark == "interrupt":
            yield self.user([_text(_interruption(source))], source, name)
        elif not is_blank(message.text):
            yield self.user(self._prompt(message.text, source), source, name)

    def compaction(self, event: Event) -> Iterator[bytes]:
        """Yield the two lines of a compaction."""
        self._ts_ms = event.ts_ms
        metadata = {"trigger": "auto", "preTokens": (event.payload or {}).get("from_tokens") or 0}
        before, self._last = self._last, None
        yield self._line(
            None,
            f"{event.event_id} boundary",
            {
                "logicalParentUuid": before,
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "level": "info",
                "compactMetadata": metadata,
            },
        )
        yield self.user(
            _summary_in(event),
            event,
            event.event_id,
            isCompactSummary=True,
            isVisibleInTranscriptOnly=True,
        )

    def verbatim(self, event: Event) -> bytes:
        """Return a line that holds an event besides the conversation verbatim."""
        self._ts_ms = event.ts_ms
        shown = {"type": "system", "subtype": OURS, "content": event.summary, "level": "info"}
        event_fields = {"kind": event.kind, "summary": event.summary, "payload": event.payload,
                "refs": event.refs}  # fmt: skip
        return self._line(event, event.event_id, {**shown, "isMeta": True}, told=event_fields)

    def lacks(self, report: Event) -> bool:
        """Whether it is a thought, or the usage of a model's call, that no line has."""
        if report.kind != REPORT:
            is_written = report.event_id in self._thought
            self._thought.add(report.event_id)
            return thought_in(report) is not None and not is_written
        call = message_of(report), name_in(report.refs, "request_id")
        return call == (None, None) or call not in self._reported

    def user(self, content: Any, source: Event | None, name: str, **more: Any) -> bytes:
        """Return a line in the user's place for the event ``source``."""
        message = {"role": "user", "content": content}
        return self._line(source, name, {"type": "user", "message": message, **more})

    def _answer(self, message: AssistantMessage) -> Iterator[bytes]:
        name = message.event_ids[0]
        parts = [] if is_blank(message.text) else [(self._source((name,)), _text(message.text))]
        parts += [(self._source((call.event_id,)), self._call(call)) for call in message.calls]
        stop_reason = "tool_use" if message.calls else "end_turn"
        of = next(filter(None, (message_of(source) for source, _ in parts)), None)
        of = of or f"msg_{_digest(self._shared['sessionId'], name)[:24]}"
        asked: list[str | None] = []
        for number, (source, block) in enumerate(parts, 1):
            yield from self._thoughts(source)
            part = {
                "content": [block],
                "stop_reason": stop_reason if number == len(parts) else None,
            }
            yield self._said(source, f"{name} {number}", of, part)
            asked.append(self._last)
        texts = len(parts) - len(message.calls)
        for (call, result), line in zip(calls_with_results(message), asked[texts:], strict=True):
            yield self._result(call, result, line, f"{name} {call.call_id}")

    def _thoughts(self, source: Event | None) -> Iterator[bytes]:
        """Yield the thoughts of the same message before ``source`` that are not written yet."""
        thoughts = self._answers.find(source).thoughts
        while source is not None and thoughts and thoughts[0].seq < source.seq:
            event = thoughts.pop(0)
            self._thought.add(event.event_id)
            part = {"content": [thought_in(event)], "stop_reason": None}
            yield self._said(event, event.event_id, "", part)

    def _said(self, source: Event | None, name: str, of: str, part: dict[str, Any]) -> bytes:
        """Return a line in the model's place: a part of its message, or else of ``of``."""
        if source is not None:
            self._ts_ms = source.ts_ms
        answer = self._answers.find(source)
        message = {
            "id": message_of(source) or of,
            "type": "message",
            "role": "assistant",
            "model": self._answers.model(source),
            "stop_sequence": None,
            "usage": answer.usage,
        }
        request = None if answer.report is None else name_in(answer.report.refs, "request_id")
        more = {} if request is None else {"requestId": request}
        used = {}
        if answer.report is not None and answer.is_counted_alike:
            used = {"usage": answer.report.event_id}
            self._reported.add((message_of(answer.report), request))
        return self._line(
            source, name, {"type": "assistant", "message": message | part, **more}, **used
        )

    def _call(self, call: Call) -> dict[str, Any]:
        name, given = self._names[call.tool], arguments_of(call)
        return {"type": "tool_use", "id": call.call_id, "name": name, "input": given}

    def _result(self, call: Call, result: Result, asked: str | None, name: str) -> bytes:
        source = self._source((result.event_id,) if result.event_id else ())
        payload = source.payload if source is not None else None
        payload = payload if isinstance(payload, dict) else {}
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call.call_id,
            "content": _blocks_in(payload.get("output")) or result.output,
        }
        if result.is_error:
            block["is_error"] = True
        detail = payload.get("detail")
        more = {} if detail is None else {"toolUseResult": detail}
        return self.user([block], source, name, sourceToolAssistantUUID=asked, **more)

    def _prompt(self, text: str, source: Event | None) -> Any:
        payload = source.payload if source is not None else None
        attached = payload.get("attachments") if isinstance(payload, dict) else None
        return [_text(text), *attached] if isinstance(attached, list) else text

    def _source(self, event_ids: Iterable[str]) -> Event | None:
        """Return the first event that is there, and keep its time."""
        source = next(
            (self._events[event_id] for event_id in event_ids if event_id in self._events), None
        )
        self._ts_ms = self._ts_ms if source is None else source.ts_ms
        return source

    def _line(self, source: Event | None, name: str, said: dict[str, Any], **ours: Any) -> bytes:
        parent, event_id = self._last, None if source is None else source.event_id
        digest = _digest(self._shared["sessionId"], name)
        # The id of an event can be that of its line: it survives a program that drops our field.
        own = event_id is not None and _UUID.fullmatch(event_id)
        self._last = event_id if own else str(UUID(digest[:32], version=4))
        line = {
            "parentUuid": parent,
            **self._shared,
            **said,
            "uuid": self._last,
            "timestamp": instant(self._ts_ms),
            OURS: {"event": event_id, **ours},
        }
        return msgspec.json.encode(line) + b"\n"


def _shown(events: Iterable[Event]) -> list[Event]:
    """Return ``events`` without the undone ones."""
    hidden = UndoFilter()
    shown = [event for event in reversed(list(events)) if hidden.is_visible(event)]
    shown.reverse()
    return shown


def _aside(
    extra: Iterable[Event], shown: Iterable[Event], messages: Iterable[ModelMessage]
) -> list[Event]:
    """Return what happened beside the conversation: errors, and what else was not undone."""
    message_event_ids = {event_id for message in messages for event_id in message.event_ids}
    other_ids = {event.event_id for event in shown} - message_event_ids
    return [
        event
        for event in extra
        if event.kind in ERRORS
        or (event.kind in VERBATIM - {REPORT} and event.event_id in other_ids)
    ]


def _summary_in(event: Event) -> str:
    payload = event.payload if isinstance(event.payload, dict) else {}
    summary = payload.get("summary") if event.kind == "context.compacted" else None
    return summary if isinstance(summary, str) and not is_blank(summary) else ""


def _title_in(event: Event) -> str:
    payload = event.payload if isinstance(event.payload, dict) else {}
    title = payload.get("title") if event.kind == "session.titled" else None
    return title if isinstance(title, str) else ""


def _interruption(source: Event | None) -> str:
    """Return the words that Claude Code writes for an interrupt."""
    payload = source.payload if source is not None else None
    words = payload.get("content") if isinstance(payload, dict) else None
    if isinstance(words, str) and words.startswith(INTERRUPTED):
        return words
    return f"{INTERRUPTED}]"


def _blocks_in(output: Any) -> list[Any] | None:
    """Return an output that already consists of Anthropic's blocks."""
    if not isinstance(output, list) or not output:
        return None
    sorts = {part.get("type") if isinstance(part, dict) else None for part in output}
    return output if sorts <= _RESULT_BLOCKS else None


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _digest(*names: str) -> str:
    return sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()


class ModelReply(msgspec.Struct):
    """What the events of one message of a model say of it."""

    model: str | None = None
    report: Event | None = None
    """What it used: of several reports the largest."""
    thoughts: list[Event] = []
    """Those that can be given back to a model, in their order."""

    @property
    def is_counted_alike(self) -> bool:
        """Whether its usage was reported in Anthropic's own fields, which say all of it.

        Other agents report theirs in fields of their own, or count cached tokens otherwise.
        """
        payload = None if self.report is None else self.report.payload
        given = payload.get("usage") if isinstance(payload, dict) else None
        report = None if self.report is None else report_of(self.report)
        if not isinstance(given, dict) or report is None:
            return False
        stated = sum(count(given.get(name)) for name in _INPUT)
        tokens = report.tokens
        return (stated, count(given.get("output_tokens"))) == (
            tokens.input_tokens,
            tokens.output_tokens,
        )

    @property
    def usage(self) -> dict[str, Any]:
        """Return what it used, as Anthropic counts: cached tokens are not part of the input."""
        report = None if self.report is None else report_of(self.report)
        if self.report is None or report is None:
            return _NOTHING_USED
        if self.is_counted_alike:
            given: dict[str, Any] = self.report.payload["usage"]
            return given
        tokens = report.tokens
        apart = tokens.cached_tokens + tokens.cache_write_tokens
        return {
            "input_tokens": max(0, tokens.input_tokens - apart),
            "output_tokens": tokens.output_tokens,
            "cache_read_input_tokens": tokens.cached_tokens,
            "cache_creation_input_tokens": tokens.cache_write_tokens,
        }


class Answers:
    """The messages of a session, by their ids."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._known: dict[str, ModelReply] = {}
        self._last = UNKNOWN_MODEL
        for event in events:
            name = message_of(event)
            if name is not None and not event.redacted:
                self._take(self._known.setdefault(name, ModelReply()), event)

    def find(self, event: Event | None) -> ModelReply:
        """Return what is known of the message that ``event`` is a part of."""
        return self._known.get(message_of(event) or "") or ModelReply()

    def model(self, event: Event | None) -> str:
        """Return the model that said it, or else the one that spoke last."""
        own = None if event is None else name_in(event.refs, "model")
        self._last = own or self.find(event).model or self._last
        return self._last

    def _take(self, answer: ModelReply, event: Event) -> None:
        answer.model = name_in(event.refs, "model") or answer.model
        if event.kind == REPORT:
            report = report_of(event)
            earlier = None if answer.report is None else report_of(answer.report)
            if report is not None and (earlier is None or larger_report(earlier, report) is report):
                answer.report = event
        elif thought_in(event) is not None:
            answer.thoughts.append(event)


def message_of(event: Event | None) -> str | None:
    """Return the id of the message that an event is a part of."""
    return None if event is None else name_in(event.refs, "message_id")


def thought_in(event: Event) -> dict[str, Any] | None:
    """Return the block of a thought that a model takes back: signed, and as it was."""
    refs = event.refs if isinstance(event.refs, dict) else {}
    payload = event.payload if isinstance(event.payload, dict) else {}
    if event.kind != "ops.observation" or refs.get("observed") != "thinking":
        return None
    words, sign, sealed = payload.get("thinking"), payload.get("signature"), payload.get("data")
    if any(isinstance(part, str) and MASK in part for part in (words, sign, sealed)):
        return None
    if isinstance(sealed, str) and sealed:
        return {"type": "redacted_thinking", "data": sealed}
    if isinstance(words, str) and isinstance(sign, str) and sign:
        return {"type": "thinking", "thinking": words, "signature": sign}
    return None
