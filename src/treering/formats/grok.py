"""The readers of Grok Build: the updates of a session, and the history of messages it sends.

    ~/.grok/sessions/PROJECT/SESSION/updates.jsonl         all that happened, with times
    ~/.grok/sessions/PROJECT/SESSION/chat_history.jsonl    what the model is sent, without times
    ~/.grok/sessions/PROJECT/SESSION/summary.json          the project, the branch, the title

Grok rewrites the history when it compacts it, and only adds to the updates. So the history is read
only where the updates do not tell what was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from treering.formats.blocks import WaitingCalls
from treering.formats.codex.drafts import PendingEvent, short_id
from treering.formats.cursor.composers import asked
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
    titled,
    trouble,
    undone,
    used,
)
from treering.formats.format import DatabaseReader, Format, LogPlace, OwnShare
from treering.formats.loose import (
    blocks_of,
    count,
    digest,
    failed_by_words,
    fields_of,
    items_of,
    name,
    objects_in,
    read_beside,
    stem,
    text_of,
    time_ms,
    without_none,
    word,
)
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.formats.record_reader import RecordReader, milliseconds
from treering.formats.records import read_records
from treering.formats.sources import open_source
from treering.formats.whole import NOTHING, UNFINISHED, WholeReader, json_of, version_key
from treering.formats.whole import titled as title_event
from treering.spine.words import shorten

NAME: Final = "grok"
HISTORY: Final = "chat_history.jsonl"
UPDATES: Final = "updates.jsonl"
SESSION_KEY: Final = "session"
"""The key of the first event of a session whose updates were read."""
SUBAGENTS: Final = frozenset({"subagent", "subagent_fork"})
_START_BYTES: Final = 256 * 1024
_SAID: Final = re.compile(rb'"user_message_chunk"')
_ENDED: Final = re.compile(rb'"turn_completed"')
_SPAWNED: Final = b'"subagent_spawned"'
_TOKENS: Final = {
    "input_tokens": ("inputTokens", "totalInputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "totalOutputTokens", "output_tokens"),
    "cached_tokens": ("cachedReadTokens", "cacheReadTokens", "cached_tokens"),
}


def tells_all(updates: Path) -> bool:
    """Return whether there are updates that tell what was said, as far as they were written."""
    try:
        with updates.open("rb") as stream:
            start = stream.read(_START_BYTES)
    except OSError:
        return False
    return _SAID.search(start) is not None or _ENDED.search(start) is None


def summary_of(path: PurePath | None) -> dict[str, Any]:
    """Return the summary of the session beside a log; {} if there is none."""
    return read_beside(path, "summary.json")


def title_of(summary: dict[str, Any]) -> str | None:
    """Return the title of a session."""
    return word(summary.get("generated_title")) or word(summary.get("session_summary"))


def session_header(
    summary: dict[str, Any], path: PurePath | None, *, agent: str, otherwise: str
) -> SessionHeader:
    """Return the header of the session in a folder; ``otherwise`` is its name if nothing tells."""
    stated = fields_of(summary.get("info"))
    is_in_place = path is not None and path.name.startswith((HISTORY, UPDATES))
    folder = name(path.parent.name) if path is not None and is_in_place else None
    session = name(stated.get("id")) or folder or otherwise
    parent = name(summary.get("parent_session_id")) or name(summary.get("parentSessionId"))
    is_child = word(summary.get("session_kind")) in SUBAGENTS
    if is_child and parent is None and path is not None:
        parent = _parent(Path(path).parent, session)
    kind = name(summary.get("agent_name"))
    remotes = summary.get("git_remotes")
    remote = remotes[0] if isinstance(remotes, list) and remotes else None
    title = title_of(summary)
    return SessionHeader(
        session=session,
        agent=f"{agent}:{kind or 'subagent'}" if is_child else agent,
        cwd=word(stated.get("cwd"))
        or word(summary.get("git_root_dir"))
        or (_project(path) if path is not None and is_in_place else None),
        title=shorten(title) if title else None,
        parent=parent if is_child and parent != session else None,
        forked_from=None if is_child or parent == session else parent,
        about=without_none(
            branch=name(summary.get("head_branch")),
            commit=name(summary.get("head_commit")),
            repository=name(remote),
            model=name(summary.get("current_model_id")),
        ),
    )


def _project(path: PurePath) -> str | None:
    """Return the project that the folder above that of a session is named after."""
    folder = unquote(path.parent.parent.name)
    is_whole = PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()
    return folder if is_whole else None


def token_counts(stated: dict[str, Any]) -> dict[str, int]:
    """Return the tokens in a report of Grok's; those from a cache are among the input."""
    stated = {**stated, **fields_of(stated.get("tokenUsage")), **fields_of(stated.get("usage"))}
    return {
        ours: next((number for at in theirs if (number := count(stated.get(at)))), 0)
        for ours, theirs in _TOKENS.items()
    }


def _parent(folder: Path, session: str) -> str | None:
    """Return the session that began a subagent: it says so in its updates, in a folder beside."""
    try:
        logs = sorted(folder.parent.glob(f"*/{UPDATES}"))
        begun = [(log, _children(log, log.stat().st_mtime_ns)) for log in logs]
    except OSError:
        return None
    return next((name(log.parent.name) for log, children in begun if session in children), None)


@lru_cache(maxsize=512)
def _children(updates: Path, _mtime_ns: int) -> frozenset[str]:
    """Return the sessions that a session began."""
    try:
        with updates.open("rb") as stream:
            lines = [fields_of(json_of(line)) for line in stream if _SPAWNED in line]
    except OSError:
        return frozenset()
    begun = (fields_of(fields_of(line.get("params")).get("update")) for line in lines)
    return frozenset(child for update in begun if (child := name(update.get("child_session_id"))))


_ROLES: Final = frozenset(
    {"system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"}
)
_BACKEND: Final = {
    "web_search_call": "web_search",
    "custom_tool_call": "x_search",
    "code_interpreter_call": "code_interpreter",
}
"""Items of an answer that are calls of the provider's own tools."""


class HistoryReader(RecordReader):
    """Reads one history, with the files beside it."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._summary = summary_of(path)
        self._is_new = True
        self.now.ts_ms = time_ms(self._summary.get("created_at")) or 1

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of the file, from its summary or its folder."""
        del record
        if self.now.session:
            return None
        return session_header(
            self._summary, self.path, agent=self.agent, otherwise=self.own_session()
        )

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a message; with the first one, also those of the files beside it."""
        contents = self._parse_message(record)
        if not self._is_new or isinstance(contents, str) or not contents:
            return contents
        self._is_new = False
        return [*contents, *self._beside()]

    def _events(
        self, contents: Sequence[EventContent], session: str, key: str
    ) -> list[ParsedEvent]:
        events = super()._events(contents, session, key)
        return [msgspec.structs.replace(event, unless=SESSION_KEY) for event in events]

    def _parse_message(self, record: dict[str, Any]) -> list[EventContent] | str:
        match _sort(record):
            case "user":
                return self._user(record)
            case "assistant":
                return self._assistant(record)
            case "reasoning":
                text = _reasoning(record)
                sealed = record.get("encrypted_content")
                return [thought(text, encrypted_content=sealed)] if text or sealed else []
            case "tool_result":
                return [self._result(record)]
            case "backend_tool_call":
                return self._backend(fields_of(record.get("kind")))
        return []

    def _user(self, record: dict[str, Any]) -> list[EventContent]:
        reason = word(record.get("synthetic_reason"))
        if reason is not None and reason != "interjection":
            return []
        spoken = asking(blocks_of(record.get("content")))
        if spoken is None:
            return []
        broken = word(record.get("prior_turn_interrupt"))
        return [spoken] if broken is None else [interrupted(broken), spoken]

    def _assistant(self, record: dict[str, Any]) -> list[EventContent] | str:
        model = name(record.get("model_id"))
        contents = self._raw_output(record.get("raw_output"), model)
        stated = fields_of(record.get("reasoning")) or {"text": record.get("reasoning_content")}
        if text := _reasoning(stated):
            contents.append(thought(text, model=model))
        answer = text_of(record.get("content"))
        if answer.strip():
            contents.append(said("assistant", answer, model=model))
        for at, entry in enumerate(items_of(record.get("tool_calls"))):
            call = fields_of(entry)
            function = fields_of(call.get("function")) or call
            call_id = name(call.get("id")) or name(call.get("tool_call_id"))
            call_id = call_id or f"{digest(record)}:{at}"
            tool = name(function.get("name")) or "tool"
            self.name_call(call_id, tool)
            given = function.get("arguments", call.get("input"))
            contents.append(called(call_id, tool, given))
        return contents or "empty"

    def _raw_output(self, items: Any, model: str | None) -> list[EventContent]:
        """Return what an answer has beside its words: thoughts, and calls of the provider's."""
        contents: list[EventContent] = []
        for item in objects_in(items):
            sort = word(item.get("type"))
            if sort == "reasoning" and (text := _reasoning(item)):
                contents.append(thought(text, model=model))
            elif sort in _BACKEND:
                contents += self._backend({"tool_type": _BACKEND[sort], **item})
        return contents

    def _result(self, record: dict[str, Any]) -> EventContent:
        call_id, output = name(record.get("tool_call_id")), record.get("content")
        stated = record.get("is_error")
        failed = stated is True or (stated is None and failed_by_words(output))
        tool = self.tool_of(call_id) or name(record.get("name"))
        return outcome(call_id, tool, output, failed=failed)

    def _backend(self, call: dict[str, Any]) -> list[EventContent]:
        """Return a call that the provider made and answered itself."""
        tool = name(call.get("tool_type"))
        if tool is None:
            return []
        call_id = name(call.get("id")) or digest(call)
        action = fields_of(call.get("action"))
        given = {at: value for at, value in action.items() if at != "sources"}
        given = given or {at: call[at] for at in ("input", "code") if at in call}
        failed = word(call.get("status")) in {"failed", "error", "incomplete"}
        output = call.get("output", action.get("sources", call.get("status")))
        return [called(call_id, tool, given), outcome(call_id, tool, output, failed=failed)]

    def _beside(self) -> list[EventContent]:
        """Return the title and the tokens of the session, as they are now."""
        about, signals = self._summary, read_beside(self.path, "signals.json")
        at_ms = time_ms(about.get("updated_at"))
        title = title_of(about)
        contents: list[EventContent | None] = [titled(title) if title else None]
        counts = token_counts(signals)
        model = name(about.get("current_model_id"))
        if counts["input_tokens"] or counts["output_tokens"]:
            spent = used(**counts, model=model, message_id="session", stated=signals)
            contents.append(spent)
        return [
            msgspec.structs.replace(
                content, key=f"{content.kind}.{digest(content.payload)}", ts_ms=at_ms
            )
            for content in contents
            if content is not None
        ]


def asking(blocks: Sequence[dict[str, Any]]) -> EventContent | None:
    """Return what a user asked, without what Grok puts around it; None if that is all."""
    read = [asked(block) for block in blocks]
    texts = [block for block in read if block.get("type") == "text"]
    context = [block.get("text") for block in read if block.get("type") == "context"]
    context += [block["around"] for block in texts if "around" in block]
    attached = [block for block in read if block not in texts and block.get("type") != "context"]
    text = text_of(texts)
    if not text.strip() and not attached:
        return None
    return said("user", text, attached=attached, context=context or None)


def _sort(record: dict[str, Any]) -> str | None:
    """Return what a message is; older versions call it a role."""
    role = word(record.get("type")) or word(record.get("role"))
    return "tool_result" if role == "tool" else role


def _reasoning(record: dict[str, Any]) -> str:
    summary = record.get("summary")
    return text_of(summary) or text_of(record.get("content")) or text_of(record.get("text"))


def _is_own(value: dict[str, Any]) -> bool | None:
    sort = word(value.get("type"))
    if sort not in _ROLES or "message" in value or "uuid" in value or "timestamp" in value:
        return False
    match sort:
        case "assistant":
            return "model_id" in value or "tool_calls" in value
        case "tool_result":
            return "tool_call_id" in value and "content" in value
        case "backend_tool_call":
            return isinstance(value.get("kind"), dict)
        case "user":
            return True if {"prompt_index", "synthetic_reason"} & value.keys() else None
    return None


score: Final = OwnShare(_is_own)
"""Returns the share of values that are Grok's messages."""

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


def _is_own_update(value: dict[str, Any]) -> bool | None:
    update = fields_of(fields_of(value.get("params", value)).get("update"))
    if word(update.get("sessionUpdate")) is None:
        return False
    # A message of the protocol itself says so; a file of updates has times instead.
    return None if "jsonrpc" in value else True


score_updates: Final = OwnShare(_is_own_update)
"""Returns the share of values that are updates of a session, as Grok writes them to a file."""


def records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    """Yield updates; the first chunk of a message represents all of it."""
    with open_source(path) as stream:
        yield from _merged(read_records(stream))


def _merged(lines: Iterable[LogRecord]) -> Iterator[LogRecord]:
    said_so_far: list[LogRecord] = []
    for line in lines:
        sort = word(_update(fields_of(line.value)).get("sessionUpdate"))
        if said_so_far and (sort in _ENDS or (sort in _CHUNKS and not _goes_on(said_so_far, line))):
            yield from _message(said_so_far)
            said_so_far = []
        if sort in _CHUNKS:
            said_so_far.append(line)
        else:
            yield line
    if said_so_far:
        yield from _message(said_so_far, is_last=True)


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
        return [title_event(title)] if title else []

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


_EVENTS: Final = "events.jsonl"
_BESIDE: Final = frozenset({"summary.json", "signals.json", "prompt_context.json"})


def _left_out(path: Path) -> str | None:
    if path.name == HISTORY and tells_all(path.with_name(UPDATES)):
        return "a history, which the updates beside it tell in full"
    is_beside = path.name in _BESIDE
    if not is_beside and path.name != _EVENTS:
        return None
    if not any(path.with_name(log).exists() for log in (HISTORY, UPDATES)):
        return None
    return (
        "facts about a session, read with its log" if is_beside else "events that repeat a history"
    )


FORMAT: Final = (
    Format(
        name=NAME,
        score=score,
        reader=HistoryReader,
        version=2,
        places=(LogPlace(".grok", "sessions", "GROK_HOME"),),
        left_out=_left_out,
    ),
    Format(name=NAME, score=score_updates, reader=UpdatesReader, records=records, version=2),
)
