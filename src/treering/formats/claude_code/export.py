"""A session of any origin as a log that Claude Code can continue.

The messages are those that a model is shown: every call with its result right after it. Each line
names its ``event`` in a field of our own, ``treering``, so that a later import recognises it; a
line without an event was added by the export. The lines are read again while they are written:
what the reader would not make of one as it was recorded, the field holds as well.
"""

from __future__ import annotations

import re
from hashlib import sha256
from heapq import merge
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from treering.context.dialects.turns import (
    COMMON,
    CONTINUED,
    arguments_of,
    calls_with_results,
    is_blank,
    tool_names,
)
from treering.context.pairing import pair
from treering.derive.reports import REPORT, larger_report, report_of
from treering.derive.visible import UndoFilter
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.claude_code.lines import ERRORS, OURS, VERBATIM, name_in
from treering.formats.claude_code.results import INTERRUPTED
from treering.formats.loose import count
from treering.formats.parsed import LogRecord
from treering.model.events import Event
from treering.model.fields import instant
from treering.model.messages import AssistantMessage, UserMessage
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.formats.parsed import ParsedEvent
    from treering.model.messages import Call, ModelMessage, Result

UNKNOWN_MODEL: Final = "unknown"
MASK: Final = "[redacted:"
"""How a mask begins. A thought with one in it does not fit its signature any more."""
_NOTHING_USED: Final = {"input_tokens": 0, "output_tokens": 0}
_INPUT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""What Anthropic counts apart of the tokens that a model was given."""

VERSION: Final = "2.1.0"
"""The version of Claude Code whose lines these look like."""
COMPACTED: Final = "context.compacted"
THROUGH: Final = "through_seq"
"""What an import finds out again: the last event that a compaction replaced."""
_OPENING: Final = frozenset({"session.opened", "session.imported", "session.forked"})
"""Kinds that every import writes itself."""
_WHOSE: Final = {"isSidechain", "agentId", "attributionAgent", "parent_tool_use_id", "sessionId"}
"""Fields of a title: they say whose it is."""
_RESULT_BLOCKS: Final = frozenset({"text", "image"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ExportedSession(msgspec.Struct, frozen=True):
    """The log of a session."""

    lines: list[bytes]
    """Each with its newline."""
    left_out: int
    """How many of its events are not in it."""


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
) -> ExportedSession:
    """Return the lines of a session whose ``events`` are given in order.

    Undone events are left out; calls without a result get one that says so. What such a log has no
    line for is written in our own field: decisions, observations, goals, results without a call;
    and of all events, which ``beside`` gives, errors and usage: undone turns cost money as well.
    Erased events are left out, and those that only mean something in their own ledger: of runs,
    memory and state. The same events give the same lines.
    """
    every = list(events)
    beside = every if beside is None else list(beside)
    shown = _shown(every)
    messages, _ = pair(shown, policy or SyntheticPolicy())
    whose = {"isSidechain": False} if subagent is None else subagent.fields
    shared = {
        **whose,
        "userType": "external",
        "cwd": cwd,
        "sessionId": session_id,
        "version": version,
        "gitBranch": git_branch or "",
    }
    names = tool_names(messages, COMMON)
    drafts = _ExportLines(shared, {event.event_id: event for event in shown}, names)
    lines = list(drafts.session(messages))
    written = _checked(lines)
    ids = {event.event_id for event in shown}
    rest = [
        drafts.verbatim(event)
        for event in beside
        if event.event_id not in written
        and not event.redacted
        and event.kind in VERBATIM
        and (event.event_id in ids or event.kind in ERRORS or event.kind == REPORT)
    ]
    written |= {line.source.event_id for line in rest if line.source is not None}
    _link(ordered := list(merge(lines, rest, key=lambda line: line.seq)))
    return ExportedSession(
        [msgspec.json.encode(line.value) + b"\n" for line in ordered],
        sum(event.event_id not in written and event.kind not in _OPENING for event in beside),
    )


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


class _ExportLine(msgspec.Struct):
    """One line, and what it is of."""

    value: dict[str, Any]
    seq: int
    """Where it belongs: the seq of the first event of its message."""
    source: Event | None = None
    report: Event | None = None
    """The usage of its message, if that is to be read from it."""


class _ExportLines:
    """Makes the lines of one session."""

    def __init__(
        self, shared: dict[str, Any], events: dict[str, Event], names: dict[str, str]
    ) -> None:
        self._shared = shared
        self._events = events
        self._names = names
        self._answers = Answers(events.values())
        self._uuids: set[str] = set()
        self._seq = 0
        self._ts_ms = next((event.ts_ms for event in events.values()), 1)

    def session(self, messages: list[ModelMessage]) -> Iterator[_ExportLine]:
        """Yield the lines of messages, compactions and titles, in order."""
        compactions = self._compactions()
        spoken = list(self._spoken(messages, is_compacted=bool(compactions)))
        titles = [self._title(event) for event in self._events.values() if _title_in(event)]
        yield from merge(spoken, compactions, titles, key=lambda line: line.seq)

    def verbatim(self, event: Event) -> _ExportLine:
        """Return a line that holds an event besides the conversation verbatim."""
        self._at(event)
        shown = {"type": "system", "subtype": OURS, "content": event.summary, "level": "info"}
        return self._line(
            event, event.event_id, {**shown, "isMeta": True}, told=_event_fields(event)
        )

    def _spoken(self, messages: list[ModelMessage], *, is_compacted: bool) -> Iterator[_ExportLine]:
        if messages and not isinstance(messages[0], UserMessage) and not is_compacted:
            yield self._user(CONTINUED, None, "start", isMeta=True)
        for message in messages:
            self._seq = message.seq
            yield from self._message(message)

    def _message(self, message: ModelMessage) -> Iterator[_ExportLine]:
        if isinstance(message, AssistantMessage):
            yield from self._answer(message)
            return
        source = self._source(message.event_ids)
        name = f"seq {message.seq}"
        if message.mark == "interrupt":
            yield self._user([_text(_interruption(source))], source, name)
        elif not is_blank(message.text):
            yield self._user(self._prompt(message.text, source), source, name)

    def _compactions(self) -> list[_ExportLine]:
        """Return the two lines of each compaction with a summary."""
        lines: list[_ExportLine] = []
        boundary: Event | None = None
        for event in self._events.values():
            if event.kind == "compaction.ended" and not event.redacted:
                boundary = event
            if _summary_in(event):
                lines += self._compaction(event, boundary)
                boundary = None
        return lines

    def _compaction(self, event: Event, boundary: Event | None) -> Iterator[_ExportLine]:
        payload = event.payload or {}
        self._at(event if boundary is None else boundary)
        ours: dict[str, Any] = {} if boundary is None else {"told": _event_fields(boundary)}
        yield self._line(
            boundary,
            f"{event.event_id} boundary",
            {
                "logicalParentUuid": None,
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "level": "info",
                "compactMetadata": {
                    "trigger": "auto",
                    "preTokens": payload.get("from_tokens") or 0,
                },
            },
            **ours,
        )
        self._at(event)
        through = payload.get(THROUGH)
        kept = (
            earlier.event_id
            for earlier in self._events.values()
            if type(through) is int
            and through < earlier.seq < event.seq
            and earlier.kind in VERBATIM
            and earlier is not boundary
        )
        first = next(kept, None)
        line = self._user(
            _summary_in(event),
            event,
            event.event_id,
            isCompactSummary=True,
            isVisibleInTranscriptOnly=True,
        )
        if first is not None:
            line.value[OURS]["first"] = first
        yield line

    def _title(self, event: Event) -> _ExportLine:
        self._at(event)
        title = {
            "type": "custom-title",
            "customTitle": _title_in(event),
            **{name: value for name, value in self._shared.items() if name in _WHOSE},
            "timestamp": instant(event.ts_ms),
            OURS: {"event": event.event_id},
        }
        return _ExportLine(title, event.seq, event)

    def _user(self, content: Any, source: Event | None, name: str, **more: Any) -> _ExportLine:
        """Return a line in the user's place for the event ``source``."""
        message = {"role": "user", "content": content}
        return self._line(source, name, {"type": "user", "message": message, **more})

    def _answer(self, message: AssistantMessage) -> Iterator[_ExportLine]:
        name = message.event_ids[0]
        parts = [] if is_blank(message.text) else [(self._source((name,)), _text(message.text))]
        parts += [(self._source((call.event_id,)), self._call(call)) for call in message.calls]
        stop_reason = "tool_use" if message.calls else "end_turn"
        of = next(filter(None, (message_of(source) for source, _ in parts)), None)
        of = of or f"msg_{_digest(self._shared['sessionId'], name)[:24]}"
        asked: list[str] = []
        for number, (source, block) in enumerate(parts, 1):
            yield from self._thoughts(source)
            part = {
                "content": [block],
                "stop_reason": stop_reason if number == len(parts) else None,
            }
            line = self._said(source, f"{name} {number}", of, part)
            asked.append(line.value["uuid"])
            yield line
        texts = len(parts) - len(message.calls)
        for (call, result), uuid in zip(calls_with_results(message), asked[texts:], strict=True):
            yield self._result(call, result, uuid, f"{name} {call.call_id}")

    def _thoughts(self, source: Event | None) -> Iterator[_ExportLine]:
        """Yield the thoughts of the same message before ``source`` that are not written yet."""
        thoughts = self._answers.find(source).thoughts
        while source is not None and thoughts and thoughts[0].seq < source.seq:
            event = thoughts.pop(0)
            part = {"content": [thought_in(event)], "stop_reason": None}
            yield self._said(event, event.event_id, "", part)

    def _said(self, source: Event | None, name: str, of: str, part: dict[str, Any]) -> _ExportLine:
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
        line = self._line(source, name, {"type": "assistant", "message": message | part, **more})
        if answer.report is not None and answer.is_counted_alike:
            line.report = answer.report
            line.value[OURS]["usage"] = answer.report.event_id
        return line

    def _call(self, call: Call) -> dict[str, Any]:
        name, given = self._names[call.tool], arguments_of(call)
        return {"type": "tool_use", "id": call.call_id, "name": name, "input": given}

    def _result(self, call: Call, result: Result, asked: str, name: str) -> _ExportLine:
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
        return self._user([block], source, name, sourceToolAssistantUUID=asked, **more)

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

    def _at(self, event: Event) -> None:
        self._seq, self._ts_ms = event.seq, event.ts_ms

    def _line(
        self, source: Event | None, name: str, said: dict[str, Any], **ours: Any
    ) -> _ExportLine:
        event_id = None if source is None else source.event_id
        # The id of an event can be that of its line: it survives a program that drops our field.
        uuid = event_id if event_id is not None and _UUID.fullmatch(event_id) else None
        if uuid is None or uuid in self._uuids:
            uuid = str(UUID(_digest(self._shared["sessionId"], name)[:32], version=4))
        self._uuids.add(uuid)
        line = {
            "parentUuid": None,
            **self._shared,
            **said,
            "uuid": uuid,
            "timestamp": instant(self._ts_ms),
            OURS: {"event": event_id, **ours},
        }
        return _ExportLine(line, self._seq, source)


def _checked(lines: list[_ExportLine]) -> set[str]:
    """Add to each line what is read otherwise of it; return the ids of the events that are read."""
    reader = ClaudeCodeReader()
    outcomes = [
        outcome
        for number, line in enumerate(lines)
        for outcome in reader.read(LogRecord(line.value, number, number, number + 1))
    ]
    written: set[str] = set()
    for outcome in [*outcomes, *reader.finish()]:
        line = lines[outcome.record.line]
        parsed = {event.key: event for event in outcome.events}
        source, report, ours = line.source, line.report, line.value[OURS]
        if report is not None and report.event_id in parsed and _is_read(report, parsed):
            written.add(report.event_id)
        else:
            ours.pop("usage", None)
        if source is not None and source.event_id in parsed:
            written.add(source.event_id)
            lacking = {} if source.redacted else _lacking(source, parsed[source.event_id])
            if lacking and "told" not in ours:
                ours["told"] = lacking
    return written


def _is_read(report: Event, parsed: dict[str, ParsedEvent]) -> bool:
    """Whether a report is among ``parsed`` as it was recorded."""
    read = parsed[report.event_id]
    return read.ts_ms == report.ts_ms and not _lacking(report, read)


def _event_fields(event: Event) -> dict[str, Any]:
    """Return an event as our field holds it."""
    return {"kind": event.kind, "summary": event.summary, "payload": event.payload,
            "refs": event.refs}  # fmt: skip


def _lacking(event: Event, read: ParsedEvent) -> dict[str, Any]:
    """Return how ``event`` differs from what is read from its line.

    Of a payload, the fields that differ and the names of those that it does not have.
    """
    aimed = {THROUGH} if event.kind == COMPACTED else set()
    differing: dict[str, Any] = {}
    if event.kind != read.kind:
        differing["kind"] = event.kind
    if event.summary != read.summary:
        differing["summary"] = event.summary
    if _without(event.refs or {}, aimed) != _without(read.refs or {}, aimed):
        differing["refs"] = event.refs
    payload, has = _without(event.payload, aimed), _without(read.payload, aimed)
    if payload != has:
        differing["payload"] = payload
    if payload != has and isinstance(payload, dict) and isinstance(has, dict):
        differing["payload"] = {
            name: value for name, value in payload.items() if name not in has or has[name] != value
        }
        differing["dropped"] = [name for name in has if name not in payload]
    return differing


def _without(fields: Any, names: set[str]) -> Any:
    if not names or not isinstance(fields, dict):
        return fields
    return {name: value for name, value in fields.items() if name not in names}


def _link(lines: Iterable[_ExportLine]) -> None:
    """Let each line name the one before it."""
    last: str | None = None
    for line in lines:
        value = line.value
        if "logicalParentUuid" in value:
            value["logicalParentUuid"] = last
        elif "uuid" in value:
            value["parentUuid"] = last
        last = value.get("uuid", last)


def _shown(events: Iterable[Event]) -> list[Event]:
    """Return ``events`` without the undone ones."""
    hidden = UndoFilter()
    shown = [event for event in reversed(list(events)) if hidden.is_visible(event)]
    shown.reverse()
    return shown


def _summary_in(event: Event) -> str:
    payload = event.payload if isinstance(event.payload, dict) else {}
    summary = payload.get("summary") if event.kind == COMPACTED else None
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
