"""Factory Droid: stored sessions in Anthropic's blocks, and the streams of ``droid exec``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import CALLS, RESULTS, THOUGHTS, call_in, result_in
from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
    observation,
    outcome,
    said,
    thought,
    trouble,
    used,
)
from treering.formats.format import ChosenShare, Format, LogPlace, OwnShare
from treering.formats.loose import (
    blocks_of,
    count,
    digest,
    failed_by_words,
    fields_of,
    name,
    read_beside,
    stem,
    text_of,
    without_none,
    word,
)
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import ReaderState, RecordReader
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "droid"
SETTINGS: Final = ".settings.json"
"""How the name of a file ends that has the model and the tokens of a session."""
_REMINDER: Final = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_STREAMED: Final = frozenset({
    "system", "message", "tool_call", "tool_result", "completion", "error", "reasoning", "result",
})  # fmt: skip
_ATTACHED: Final = frozenset({"image", "document", "file"})
_OF_A_CALL: Final = ("toolCallId", "toolName", "toolId")


class DroidState(ReaderState, kw_only=True):
    """The state of a session."""

    model: str | None = None
    said: str = ""
    """A digest of the last answer."""


class DroidReader(RecordReader):
    """Reads one stored session, or one stream."""

    agent = NAME
    state_type = DroidState

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session that a record opens or names."""
        sort, now = word(record.get("type")), self.now
        stated = name(record.get("session_id")) or name(record.get("sessionId"))
        if sort == "session_start":
            stated = name(record.get("id")) or stated
        if sort == "system":
            now.model = name(record.get("model")) or now.model
        if sort not in {"session_start", "system"}:
            return stated
        title = word(record.get("sessionTitle")) or word(record.get("title"))
        parent = name(record.get("parent")) or name(record.get("callingSessionId"))
        return SessionHeader(
            session=stated or now.session or self.own_session(),
            agent=f"{self.agent}:subagent" if parent else self.agent,
            cwd=word(record.get("cwd")),
            title=shorten(title) if title else None,
            parent=parent,
            call_id=name(record.get("callingToolUseId")) if parent else None,
            forked_from=name(record.get("forkedFrom")),
            about=without_none(version=_short(record.get("version")), model=now.model),
        )

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the record's own id; a call and its result may have the same."""
        named = name(record.get("id"))
        return named if named is None or record.get("type") == "message" else _typed(record, named)

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a record; with the first one, also what its session used."""
        match record.get("type"):
            case "session_start":
                return self._used_in_all() or "opens the session"
            case "system" if record.get("subtype") == "init" or "cwd" in record:
                return "opens the session"
            case "message":
                return self._message(record)
            case "tool_call":
                return self._call(record)
            case "tool_result":
                return self._result(record)
            case "reasoning" if text := word(record.get("text")):
                return [thought(text, model=self.now.model)]
            case "completion" | "result":
                return self._completion(record)
            case "compaction_state" if summary := word(record.get("summaryText")):
                return [compacted(summary, by=self.agent)]
            case "error" if message := word(record.get("message")):
                return [trouble(message, code=word(record.get("source")) or "error")]
        return []

    def _used_in_all(self) -> list[EventContent]:
        """Return what the file beside a stored session says that it has used."""
        settings = read_beside(self.path, (stem(self.path) or "") + SETTINGS)
        self.now.model = name(settings.get("model")) or self.now.model
        usage = fields_of(settings.get("tokenUsage"))
        cached = count(usage.get("cacheReadTokens"))
        written = count(usage.get("cacheCreationTokens"))
        spent = used(
            input_tokens=count(usage.get("inputTokens")) + cached + written,
            output_tokens=count(usage.get("outputTokens")) + count(usage.get("thinkingTokens")),
            cached_tokens=cached,
            cache_creation_tokens=written,
            model=self.now.model,
            message_id="session",
            stated=usage,
        )
        if spent is None:
            return []
        return [msgspec.structs.replace(spent, key=f"used.{digest(usage)}")]

    def _message(self, record: dict[str, Any]) -> list[EventContent] | str:
        message = fields_of(record.get("message"))
        if not message:
            message = {"role": record.get("role"), "content": record.get("text")}
        role = word(message.get("role"))
        if role not in {"user", "assistant"}:
            return []
        model = name(message.get("model")) or (self.now.model if role == "assistant" else None)
        key = name(record.get("id")) or digest(record)
        named = without_none(model=model)
        contents = _blocks(self, role, message.get("content"), key, **named)
        if role == "user":
            return [_without_reminder(content) for content in contents] or "empty"
        texts = [
            content.payload["text"]
            for content in contents
            if content.kind == "conversation.assistant"
        ]
        self.now.said = digest(texts[-1]) if texts else self.now.said
        return contents or "empty"

    def _call(self, record: dict[str, Any]) -> list[EventContent]:
        call_id = name(record.get("toolCallId")) or name(record.get("id"))
        tool = name(record.get("toolName")) or name(record.get("toolId"))
        if call_id is None or tool is None:
            return []
        self.name_call(call_id, tool)
        return [called(call_id, tool, record.get("parameters", record.get("input")))]

    def _result(self, record: dict[str, Any]) -> list[EventContent]:
        call_id = name(record.get("toolCallId")) or name(record.get("id"))
        value = record.get("value", record.get("result", record.get("error")))
        fields = fields_of(value)
        output = fields["stdout"] if isinstance(fields.get("stdout"), str) else value
        code = fields.get("exitCode")
        stated = record.get("isError")
        failed = stated is True or (type(code) is int and code != 0)
        if stated is None and code is None:
            failed = failed_by_words(value) if isinstance(value, str | list) else "error" in fields
        rest = {at: item for at, item in fields.items() if at != "stdout"} if fields else {}
        tool = self.tool_of(call_id) or name(record.get("toolName")) or name(record.get("toolId"))
        return [outcome(call_id, tool, output, failed=failed, details=rest)]

    def _completion(self, record: dict[str, Any]) -> list[EventContent] | str:
        text = text_of(record.get("finalText", record.get("result")))
        contents: list[EventContent] = []
        if text.strip() and digest(text) != self.now.said:
            contents.append(said("assistant", text, model=self.now.model))
        usage = fields_of(record.get("usage"))
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        spent = used(
            input_tokens=count(usage.get("input_tokens")) + cached + written,
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=cached,
            cache_creation_tokens=written,
            model=self.now.model,
            stated=usage,
        )
        return [*contents, *([spent] if spent else [])] or "repeats the last answer"


def _left_out(path: Path) -> str | None:
    if not path.name.endswith(SETTINGS):
        return None
    is_beside = path.with_name(path.name.removesuffix(SETTINGS) + ".jsonl").exists()
    return "the settings of a session, which are read with it" if is_beside else None


_STORED: Final = OwnShare(lambda value: _is_own(value, is_stored=True))
_IN_STREAM: Final = OwnShare(lambda value: _is_own(value, is_stored=False))
score: Final = ChosenShare(
    lambda values: (
        _STORED if values and fields_of(values[0]).get("type") == "session_start" else _IN_STREAM
    )
)
"""Returns the share of values that are Droid's, stored or streamed."""

FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=DroidReader,
    places=(LogPlace(".factory", "sessions"),),
    left_out=_left_out,
)


def _blocks(
    reader: DroidReader, role: str, content: Any, key: str, **named: Any
) -> list[EventContent]:
    """Return the events of a message; ``key`` names its calls if they have no ids.

    ``named`` is kept with what is said: the model, the id of the message.
    """
    contents: list[EventContent] = []
    texts: list[str] = []
    attached: list[Any] = []
    for at, block in enumerate(blocks_of(content)):
        sort = word(block.get("type"))
        if sort == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif sort in THOUGHTS and word(block.get("thinking")):
            signature = block.get("signature")
            contents.append(thought(block["thinking"], signature=signature, **named))
        elif sort in CALLS:
            stated_id, tool, given = call_in(block)
            call_id = stated_id or f"{key}:{at}"
            reader.name_call(call_id, tool)
            contents.append(called(call_id, tool, given))
        elif sort in RESULTS:
            answered, tool_name, output, error = result_in(block)
            tool_name = reader.tool_of(answered) or tool_name
            contents.append(outcome(answered, tool_name, output, failed=error is not None))
        elif sort in _ATTACHED:
            attached.append(block)
        else:
            contents.append(observation(f"block: {sort}" if name(sort) else "block", block))
    text = "\n".join(text for text in texts if text.strip())
    if text or attached:
        spoken = said("user" if role == "user" else "assistant", text, attached=attached, **named)
        # Results come before what is said about them; thoughts and calls in their order.
        calls = (at for at, event in enumerate(contents) if event.kind == "tool.call")
        contents.insert(next(calls, len(contents)), spoken)
    return contents


def _is_own(value: dict[str, Any], *, is_stored: bool) -> bool | None:
    sort = word(value.get("type"))
    if sort == "session_start":
        return "id" in value and ("cwd" in value or "title" in value)
    if is_stored and sort == "message" and isinstance(value.get("message"), dict):
        return True
    if sort not in _STREAMED or not {"session_id", "sessionId"} & value.keys():
        return None if sort in {"todo_state", "session_end", "compaction_state"} else False
    match sort:
        case "tool_call" | "tool_result":
            return any(at in value for at in _OF_A_CALL)
        case "completion":
            return "finalText" in value
        case "message":
            return "role" in value and "text" in value and "message" not in value
    return None


def _without_reminder(content: EventContent) -> EventContent:
    """Return what a user said without what the program put before it, which is kept beside."""
    text = content.payload.get("text")
    if content.kind != "conversation.user" or not isinstance(text, str):
        return content
    reminders = _REMINDER.findall(text)
    rest = _REMINDER.sub("", text)
    if not reminders or not rest.strip():
        return content
    attached = content.payload.get("attached")
    return said(
        "user", rest, attached=attached, context=[reminder.strip() for reminder in reminders]
    )


def _typed(record: dict[str, Any], named: str) -> str:
    return f"{word(record.get('type')) or 'record'}:{named}"


def _short(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and len(str(value)) <= 100 else None
