"""Grok's updates: all that happened in a session, line by line, as its client received it.

    {"timestamp": 1790000000, "method": "session/update", "params": {"sessionId": …, "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "At no"}}}}

What is said comes in chunks, a line each. Nothing is ever removed: a rewind is a line as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import WaitingCalls
from treering.formats.codex.drafts import PendingEvent, short_id
from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
    interrupted,
    observation,
    outcome,
    said,
    shortened,
    thought,
    trouble,
    undone,
    used,
)
from treering.formats.format import OwnShare
from treering.formats.grok.history import (
    NAME,
    SESSION_KEY,
    asking,
    session_header,
    summary_of,
    title_of,
    token_counts,
)
from treering.formats.loose import blocks_of, count, fields_of, stem, text_of, without_none, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedRecord, content_key
from treering.formats.record_reader import milliseconds
from treering.formats.records import read_records
from treering.formats.sources import open_source
from treering.formats.whole import NOTHING, UNFINISHED, WholeReader, titled, version_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path, PurePath

    from treering.formats.format import DatabaseReader

_USER: Final = "user_message_chunk"
_ANSWER: Final = "agent_message_chunk"
_THOUGHT: Final = "agent_thought_chunk"
_CHUNKS: Final = frozenset({_USER, _ANSWER, _THOUGHT})
_ENDS: Final = frozenset(
    {"tool_call", "tool_call_update", "turn_completed", "rewind_marker", "compaction_checkpoint"}
)
"""Updates that end what is being said; others come in between."""
_STATES: Final = frozenset({"available_commands_update", "current_mode_update", "usage_update"})
_PROGRESS: Final = frozenset({"subagent_progress", "tool_progress"})
_DONE: Final = frozenset({"completed", "failed", "cancelled", "error"})
_FINE: Final = frozenset({"end_turn", "max_turn_requests", "max_tokens"})
_TOOL: Final = re.compile(r"[A-Za-z_][\w.:/-]*")
_TICKS: Final = 10_000_000_000
"""Of these, the costs are a dollar."""


def _is_own(value: dict[str, Any]) -> bool | None:
    update = fields_of(fields_of(value.get("params", value)).get("update"))
    if word(update.get("sessionUpdate")) is None:
        return False
    # A message of the protocol itself says so; a file of updates has times instead.
    return None if "jsonrpc" in value else True


score: Final = OwnShare(_is_own)
"""Returns the share of values that are updates of a session, as Grok writes them to a file."""


def records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    """Yield updates; the first chunk of a message represents all of it."""
    with open_source(path) as stream:
        yield from _merged(read_records(stream))


def _merged(lines: Iterable[LogRecord]) -> Iterator[LogRecord]:
    said_so_far: list[LogRecord] = []
    for line in lines:
        sort = _sort(line.value)
        if said_so_far and (sort in _ENDS or (sort in _CHUNKS and not _goes_on(said_so_far, line))):
            yield from _message(said_so_far)
            said_so_far = []
        if sort in _CHUNKS:
            said_so_far.append(line)
        else:
            yield line
    if said_so_far:
        yield from _message(said_so_far, is_last=True)


def _sort(value: Any) -> str | None:
    return word(_update(fields_of(value)).get("sessionUpdate"))


def _update(value: dict[str, Any]) -> dict[str, Any]:
    return fields_of(fields_of(value.get("params", value)).get("update"))


def _goes_on(before: Sequence[LogRecord], line: LogRecord) -> bool:
    """Return whether a chunk belongs to the message of the chunks before it."""
    last, this = _update(before[-1].value), _update(line.value)
    if last.get("sessionUpdate") != this.get("sessionUpdate"):
        return False
    prompts = [fields_of(update.get("_meta")).get("promptIndex") for update in (last, this)]
    messages = [update.get("messageId") for update in (last, this)]
    return all(None in pair or pair[0] == pair[1] for pair in (prompts, messages))


def _message(chunks: Sequence[LogRecord], *, is_last: bool = False) -> Iterator[LogRecord]:
    """Yield the chunks of a message: the first with the content of all, the others without."""
    contents = [_update(chunk.value).get("content") for chunk in chunks]
    blocks = [block for each in contents for block in (each if isinstance(each, list) else [each])]
    first = chunks[0].value
    envelope = {at: value for at, value in first.items() if at not in {"params", "update"}}
    update = {**_update(first), "content": blocks}
    params = {**fields_of(first.get("params", first)), "update": update}
    whole = {**envelope, "params": params, "is_last": is_last}
    yield msgspec.structs.replace(chunks[0], value=whole)
    for chunk in chunks[1:]:
        yield msgspec.structs.replace(chunk, value={"continues": True, "is_last": is_last})


class UpdatesReader(WholeReader):
    """Reads the updates of one session, with the files beside them."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._summary = summary_of(path)
        self._session = ""
        self._model = name_of(self._summary.get("current_model_id"))
        self._calls = WaitingCalls()
        self._last_call: str | None = None
        self._begun: dict[str, tuple[str, int | None]] = {}
        """The tools and the times of calls whose input has not arrived yet, by their ids."""
        self._prompts: dict[int, str] = {}
        """The keys of what users said, by the numbers of their prompts."""
        self._has_answer = False
        """Whether the agent has said something in this turn."""
        self._is_introduced = False
        """Whether anything was said so far."""

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        value = fields_of(record.value)
        params, update = fields_of(value.get("params", value)), _update(value)
        opening = self._open_session(params)
        meta = fields_of(params.get("_meta"))
        ts_ms = milliseconds(meta.get("agentTimestampMs")) or milliseconds(value.get("timestamp"))
        self._is_at(self._session, ts_ms)
        if value.get("is_last") is True and self.is_live:
            return [ParsedRecord(record=record, skipped=UNFINISHED)]
        if value.get("continues") is True:
            return [ParsedRecord(record=record, skipped="continues a message")]
        named = name_of(meta.get("eventId"))
        key = short_id(named) if named else self._key(self._session, value)
        parsed = self._parse(update or {"value": record.value}, key)
        contents = [] if isinstance(parsed, str) else parsed
        drafts = [
            _pending(content, key if at == 0 else f"{key}.{at}")
            for at, content in enumerate(contents)
        ]
        otherwise = parsed if isinstance(parsed, str) else NOTHING
        return [self._outcome(record, self._session, [*opening, *drafts], otherwise)]

    def _open_session(self, params: dict[str, Any]) -> list[PendingEvent]:
        """Open the session before its first update; return its title."""
        if self._session:
            return []
        otherwise = name_of(params.get("sessionId")) or stem(self._path) or NAME
        header = session_header(self._summary, self._path, agent=self.agent, otherwise=otherwise)
        self._session = self._open(header)
        self._is_at(self._session, milliseconds(self._summary.get("created_at")), is_about=True)
        title = title_of(self._summary)
        return [titled(title)] if title else []

    def _parse(self, update: dict[str, Any], key: str) -> list[EventContent] | str:
        """Return the events of an update, or why it has none."""
        sort = word(update.get("sessionUpdate")) or "update"
        if sort in _CHUNKS:
            return self._said(sort, update, key)
        match sort:
            case "tool_call" | "tool_call_update":
                return self._call(update, key)
            case "turn_completed":
                return self._ended(update, key)
            case "rewind_marker":
                return self._rewound(update)
            case "model_changed" | "model_auto_switched":
                model = update.get("model_id", update.get("modelId"))
                self._model = name_of(model) or self._model
        if sort in _STATES:
            return "a state of the program"
        if sort in _PROGRESS:
            return "progress"
        if summary := word(update.get("summary")) if "compact" in sort else None:
            return [compacted(summary, by=self.agent)]
        is_shorter = "compact" in sort and sort.endswith("completed")
        return [shortened(update) if is_shorter else observation(sort, update)]

    def _said(self, sort: str, update: dict[str, Any], key: str) -> list[EventContent] | str:
        blocks, meta = blocks_of(update.get("content")), fields_of(update.get("_meta"))
        self._model = name_of(meta.get("modelId")) or self._model
        key = version_key(key, blocks)
        text = "".join(text for block in blocks if isinstance(text := block.get("text"), str))
        attached = [block for block in blocks if not isinstance(block.get("text"), str)]
        spoken: EventContent | None = None
        if sort == _USER:
            spoken = asking(blocks)
            self._has_answer = False
            if spoken is not None:
                self._prompts[self._prompt(meta)] = key
        elif text.strip() or attached:
            message_id = name_of(update.get("messageId"))
            named = without_none(model=self._model, message_id=message_id)
            if sort == _ANSWER:
                self._has_answer = True
                spoken = said("assistant", text, attached=attached, **named)
            else:
                spoken = thought(text, **named)
        if spoken is None:
            spoken = observation(sort, update) if text.strip() else None
        if spoken is None:
            return "empty"
        opening = [] if self._is_introduced else [self._about()]
        self._is_introduced = True
        return [*opening, msgspec.structs.replace(spoken, key=key)]

    def _about(self) -> EventContent:
        """Return what the session is, by which it is known that its updates tell what was said."""
        about = observation("session", self.sessions[self._session].about)
        return msgspec.structs.replace(about, key=SESSION_KEY)

    def _prompt(self, meta: dict[str, Any]) -> int:
        """Return the number of a prompt, which may be missing."""
        stated = meta.get("promptIndex")
        return stated if type(stated) is int else max(self._prompts, default=-1) + 1

    def _call(self, update: dict[str, Any], key: str) -> list[EventContent] | str:
        """Return a call when its input arrives, and its result when it has ended."""
        is_new = update.get("sessionUpdate") == "tool_call"
        call_id = name_of(update.get("toolCallId"))
        call_id = call_id or (content_key(f"call.{key}") if is_new else self._last_call)
        given, has_ended = update.get("rawInput"), word(update.get("status")) in _DONE
        if is_new and call_id is not None:
            tool = _tool(update)
            self._calls.add(call_id, tool)
            self._last_call = call_id
            self._begun[call_id] = tool, self._now_ms.get(self._session)
        contents: list[EventContent] = []
        if call_id in self._begun and (given or has_ended):
            tool, ts_ms = self._begun.pop(call_id)
            details = without_none(title=update.get("title"), locations=update.get("locations"))
            call = called(call_id, tool, given or details)
            made_key = f"call:{short_id(call_id)}"
            contents.append(msgspec.structs.replace(call, key=made_key, ts_ms=ts_ms))
        if has_ended:
            call_id, tool_name = self._calls.take(call_id)
            result = _result(update, call_id or content_key(f"call.{key}"), tool_name)
            contents.append(result)
        return contents or ("repeated by a later update" if is_new else "progress")

    def _ended(self, update: dict[str, Any], key: str) -> list[EventContent] | str:
        """Return what a turn used, its answer if it was not streamed, and how it was ended."""
        contents: list[EventContent] = []
        answer, stopped = word(update.get("agent_result")), word(update.get("stop_reason"))
        if answer is not None and not self._has_answer:
            contents.append(said("assistant", answer, model=self._model, stop_reason=stopped))
        usage = fields_of(update.get("usage"))
        turn = short_id(name_of(update.get("prompt_id")) or key)
        by_model = fields_of(usage.get("modelUsage")) or {self._model or "": usage}
        for model, stated in by_model.items():
            named = f"{turn}.{model}" if len(by_model) > 1 else turn
            contents += _used(fields_of(stated), name_of(model), named)
        if stopped == "cancelled":
            contents.append(interrupted(stopped))
        elif stopped is not None and stopped not in _FINE:
            contents.append(trouble(answer or stopped, code=stopped))
        self._has_answer = False
        return contents or "ends a turn"

    def _rewound(self, update: dict[str, Any]) -> list[EventContent] | str:
        target = update.get("target_prompt_index", update.get("targetPromptIndex"))
        taken = sorted(at for at in self._prompts if type(target) is int and at >= target)
        keys = [self._prompts.pop(at) for at in taken]
        return [undone(keys[0], **without_none(to=target))] if keys else "takes nothing back"


def _pending(content: EventContent, key: str) -> PendingEvent:
    return PendingEvent(
        key=content.key or key,
        kind=content.kind,
        summary=content.summary,
        payload=content.payload,
        refs=content.refs or {},
        first=content.first,
        ts_ms=content.ts_ms,
    )


def _tool(update: dict[str, Any]) -> str:
    """Return the name of a tool; the title of a call may be a sentence."""
    stated = fields_of(fields_of(update.get("_meta")).get("x.ai/tool")).get("name")
    title = name_of(update.get("title"))
    short_title = title if title and _TOOL.fullmatch(title) else None
    named = name_of(stated) or name_of(update.get("name"))
    return named or short_title or name_of(update.get("kind")) or title or "tool"


def _result(update: dict[str, Any], call_id: str, tool: str | None) -> EventContent:
    content = update.get("content")
    blocks = blocks_of([content] if isinstance(content, dict) else content)
    # The protocol wraps a block into another one, except for edits.
    inner = [
        fields_of(block.get("content")) if block.get("type") == "content" else block
        for block in blocks
    ]
    raw = update.get("rawOutput", update.get("result"))
    output: Any = text_of(inner) or (text_of(raw) if isinstance(raw, str | list) else "") or raw
    edits = [block for block in blocks if block.get("type") == "diff"]
    code = fields_of(raw).get("exit_code", fields_of(raw).get("exitCode"))
    failed = word(update.get("status")) != "completed" or update.get("isError") is True
    failed = failed or (type(code) is int and code != 0)
    details = without_none(
        status=update.get("status") if failed else None,
        raw=raw if isinstance(raw, dict) and raw != output else None,
        edits=edits or None,
    )
    result = outcome(call_id, tool, output, failed=failed, details=details)
    return msgspec.structs.replace(result, key=f"result:{short_id(call_id)}")


def _used(stated: dict[str, Any], model: str | None, turn: str) -> list[EventContent]:
    counts, ticks = token_counts(stated), count(stated.get("costUsdTicks"))
    cost = ticks / _TICKS if ticks else None
    spent = used(**counts, model=model, message_id=turn, cost_usd=cost, stated=stated)
    if spent is None:
        return []
    return [msgspec.structs.replace(spent, key=version_key(f"{turn}.usage", stated))]
