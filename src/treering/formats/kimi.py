"""Kimi CLI: its wire messages, in two protocols; subagents have separate files.

The older protocol wraps each message: ``{timestamp, message{type, payload}}``. The newer one
has types with dots, and repeats prompts and usage.
"""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING, Any, Final

import msgspec

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
    used,
)
from treering.formats.format import Format, LogPlace, OwnShare
from treering.formats.loose import (
    blocks_of,
    count,
    digest,
    failed_by_words,
    fields_of,
    name,
    objects_in,
    read_beside,
    text_of,
    without_none,
    word,
)
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import ReaderState, RecordReader
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import Path, PurePath

NAME: Final = "kimi"
LOG: Final = "wire.jsonl"
MAIN: Final = "main"
PROMPTS_MAX: Final = 32
_CHILDREN: Final = frozenset({"subagents", "agents"})
"""Folders of agents below that of their session."""
_FAMILIES: Final = frozenset({
    "turn", "context", "usage", "full_compaction", "llm", "config", "tools", "permission",
    "plan_mode", "profile", "runtime", "token_counting", "plugin", "goal", "subagent", "task",
    "background", "cron", "skill", "mcp",
})  # fmt: skip
_MESSAGES: Final = frozenset({
    "TurnBegin", "TurnEnd", "StepBegin", "StepInterrupted", "ContentPart", "ToolCall",
    "ToolCallPart", "ToolResult", "StatusUpdate", "CompactionBegin", "CompactionEnd",
    "ApprovalRequest", "ApprovalResponse", "SubagentEvent", "SteerInput",
})  # fmt: skip
_QUIET: Final = frozenset({"TurnEnd", "StepBegin", "CompactionBegin"})


class KimiState(ReaderState, kw_only=True):
    """The state of a session."""

    model: str | None = None
    prompts: list[str] = msgspec.field(default_factory=list)
    """Digests of prompts that the context has not repeated yet."""
    usage: str = ""
    """A digest of the usage of the last step."""


class KimiReader(RecordReader):
    """Reads one file of a session or of a subagent."""

    agent = NAME
    state_type = KimiState

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of the file, from its folders and the state beside it."""
        now = self.now
        now.model = _model_in(record) or now.model
        cwd = word(record.get("cwd")) or word(
            fields_of(record.get("environmentDisclosure")).get("cwd")
        )
        if now.session:
            header = now.sessions.get(now.session)
            return (
                None
                if not cwd or header is None or header.cwd
                else msgspec.structs.replace(header, cwd=cwd)
            )
        session, agent = self._names()
        state = read_beside(self._root(), "state.json")
        title = word(state.get("title"))
        project = word(state.get("workDir")) or self._project()
        if agent is None:
            return SessionHeader(
                session=session,
                agent=self.agent,
                cwd=cwd or project,
                title=shorten(title) if title else None,
            )
        about = fields_of(fields_of(state.get("agents")).get(agent))
        kind = name(about.get("profileName")) or name(about.get("name"))
        return SessionHeader(
            session=f"{session}/{agent}",
            agent=f"{self.agent}:{kind or 'subagent'}",
            cwd=cwd or project,
            parent=session,
            call_id=name(about.get("toolCallId")) or name(about.get("parentToolCallId")),
        )

    def _names(self) -> tuple[str, str | None]:
        """Return the session's name, and the subagent's if the file is one's."""
        path = self.path
        if path is None or not path.name.startswith(LOG):
            return self.own_session(), None
        folder = path.parent
        if folder.parent.name in _CHILDREN:
            session = name(folder.parent.parent.name) or self.own_session()
            return session, None if folder.name == MAIN else name(folder.name)
        return name(folder.name) or self.own_session(), None

    def _root(self) -> PurePath | None:
        """Return a path in the folder of the session, where its state is."""
        if self.path is None:
            return None
        folder = self.path.parent
        is_child = folder.parent.name in _CHILDREN
        return (folder.parent.parent if is_child else folder) / LOG

    def _project(self) -> str | None:
        """Return the working folder, whose hash the project's folder is named after."""
        root = self._root()
        if root is None:
            return None
        hashed = root.parent.parent
        for entry in objects_in(read_beside(hashed.parent, "kimi.json").get("work_dirs")):
            folder = word(entry.get("path"))
            if folder and md5(folder.encode(), usedforsecurity=False).hexdigest() == hashed.name:
                return folder
        return None

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the id of an event of the loop; other records have none."""
        event = fields_of(record.get("event"))
        named = name(event.get("uuid")) or name(event.get("toolCallId"))
        return None if named is None else f"{word(event.get('type'))}:{named}"

    def title_of(self, record: dict[str, Any]) -> str:
        """Return the type of a record, or of what it wraps."""
        inner = fields_of(record.get("message")) or fields_of(record.get("event"))
        sort, wrapped = word(record.get("type")), word(inner.get("type"))
        return wrapped or sort or "record"

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a record, in either protocol."""
        message = fields_of(record.get("message"))
        if "type" not in record and isinstance(message.get("type"), str):
            return self._wire(message["type"], fields_of(message.get("payload")))
        match record.get("type"):
            case "metadata":
                return "opens the session"
            case "turn.prompt" | "turn.steer":
                return self._prompt(record)
            case "turn.cancel":
                return [interrupted()]
            case "context.append_message":
                return self._append(message)
            case "context.append_loop_event":
                return self._loop(fields_of(record.get("event")))
            case "context.apply_compaction" if summary := word(record.get("summary")):
                before = count(record.get("tokensBefore")) or None
                return [compacted(summary, by=self.agent, from_tokens=before)]
            case "usage.record":
                return self._usage_again(record)
        return []

    # The newer protocol.

    def _prompt(self, record: dict[str, Any]) -> list[EventContent]:
        text, attached = _content(record.get("input"))
        if not text.strip() and not attached:
            return []
        self.now.prompts = [*self.now.prompts, digest(text)][-PROMPTS_MAX:]
        return [said("user", text, attached=attached)]

    def _append(self, message: dict[str, Any]) -> list[EventContent] | str:
        text, attached = _content(message.get("content"))
        mark, prompts = digest(text), self.now.prompts
        if message.get("role") != "user" or not (text.strip() or attached):
            return []
        if mark in prompts:
            at = prompts.index(mark)
            self.now.prompts = [*prompts[:at], *prompts[at + 1 :]]
            return "repeats the prompt"
        by_user = fields_of(message.get("origin")).get("kind") in (None, "user")
        return [said("user", text, attached=attached)] if by_user else []

    def _loop(self, event: dict[str, Any]) -> list[EventContent] | str:
        match event.get("type"):
            case "step.begin":
                return "begins a step"
            case "content.part":
                return self._part(fields_of(event.get("part")))
            case "tool.call":
                more = without_none(description=event.get("description"))
                return self._call(
                    event.get("toolCallId"), event.get("name"), event.get("args"), more
                )
            case "tool.result":
                return self._result(event.get("toolCallId"), fields_of(event.get("result")))
            case "step.end":
                usage = fields_of(event.get("usage"))
                self.now.usage = digest(usage)
                step = name(event.get("messageId")) or name(event.get("uuid"))
                spent = _usage(usage, model=self.now.model, message_id=step)
                return [spent] if spent else "ends a step"
        return []

    def _usage_again(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the usage of a call outside the steps, such as a compaction."""
        usage = fields_of(record.get("usage"))
        before, self.now.usage = self.now.usage, ""
        if before and before == digest(usage):
            return "repeats the usage of the step"
        spent = _usage(usage, model=name(record.get("model")) or self.now.model)
        return [spent] if spent else "nothing was used"

    # The older protocol.

    def _wire(self, sort: str, payload: dict[str, Any]) -> list[EventContent] | str:
        match sort:
            case "TurnBegin" | "SteerInput":
                text, attached = _content(payload.get("user_input"))
                return [said("user", text, attached=attached)] if text.strip() or attached else []
            case "ContentPart":
                return self._part(payload)
            case "ToolCall":
                function = fields_of(payload.get("function"))
                return self._call(
                    payload.get("id"), function.get("name"), function.get("arguments")
                )
            case "ToolResult":
                value = fields_of(payload.get("return_value")) or fields_of(payload.get("result"))
                return self._result(payload.get("tool_call_id"), value)
            case "StatusUpdate":
                spent = _usage(
                    fields_of(payload.get("token_usage")),
                    model=self.now.model,
                    message_id=name(payload.get("message_id")),
                )
                return [spent] if spent else "a status"
            case "StepInterrupted":
                return [interrupted()]
            case "CompactionEnd":
                return [shortened(payload)]
            case "SubagentEvent":
                return self._subagent(payload)
        return "a mark" if sort in _QUIET and not payload else [observation(sort, payload)]

    def _subagent(self, payload: dict[str, Any]) -> list[EventContent]:
        """Return what a subagent did, from the log of the session that began it."""
        event = fields_of(payload.get("event"))
        caller = name(payload.get("task_tool_call_id")) or name(payload.get("parent_tool_call_id"))
        contents = self._wire(word(event.get("type")) or "event", fields_of(event.get("payload")))
        if caller is None or isinstance(contents, str):
            return []
        child = f"{self.now.session}/{caller}"
        if child not in self.now.sessions:
            self.now.sessions[child] = SessionHeader(
                session=child,
                agent=f"{self.agent}:subagent",
                parent=self.now.session,
                call_id=caller,
            )
        return [msgspec.structs.replace(content, session=child) for content in contents]

    # Both.

    def _part(self, part: dict[str, Any]) -> list[EventContent] | str:
        named = without_none(model=self.now.model)
        match part.get("type"):
            case "think":
                text = word(part.get("think")) or word(part.get("text"))
                sealed = part.get("encrypted")
                return (
                    [thought(text or "", signature=sealed, **named)] if text or sealed else "empty"
                )
            case "text" if isinstance(part.get("text"), str):
                text = part["text"]
                return [said("assistant", text, **named)] if text.strip() else "empty"
            case sort:
                return [observation(f"part: {sort}" if name(sort) else "part", part)]

    def _call(
        self, call_id: Any, tool: Any, given: Any, more: dict[str, Any] | None = None
    ) -> list[EventContent]:
        named, called_tool = name(call_id), name(tool)
        if named is None or called_tool is None:
            return []
        self.name_call(named, called_tool)
        return [called(named, called_tool, given, **(more or {}))]

    def _result(self, call_id: Any, value: dict[str, Any]) -> list[EventContent]:
        named = name(call_id)
        output = value.get("output")
        output = value.get("message") if output in (None, "", []) else output
        stated = value.get("isError", value.get("is_error"))
        failed = stated is True or (stated is None and failed_by_words(output))
        rest = {at: item for at, item in value.items() if at not in _OF_A_RESULT and item}
        if value.get("message") not in (None, output):
            rest["message"] = value["message"]
        return [outcome(named, self.tool_of(named), output, failed=failed, details=rest)]


_OF_A_RESULT: Final = frozenset({"output", "message", "isError", "is_error"})


def _left_out(path: Path) -> str | None:
    is_state = path.name == "state.json" and (
        path.with_name(LOG).exists() or (path.parent / "agents" / MAIN / LOG).exists()
    )
    if is_state:
        return "the state of a session, which is read with it"
    if path.name.startswith("context") and path.with_name(LOG).exists():
        return "a context that repeats a session"
    return None


def _is_own(value: dict[str, Any]) -> bool | None:
    sort = word(value.get("type"))
    if sort is None:
        message = fields_of(value.get("message"))
        return word(message.get("type")) in _MESSAGES and "timestamp" in value
    if sort == "metadata":
        return "protocol_version" in value
    family, dot, _ = sort.partition(".")
    is_known = bool(dot) and family in _FAMILIES
    return is_known and "time" in value and "data" not in value


score: Final = OwnShare(_is_own)
"""Returns the share of values that are Kimi's records."""

FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=KimiReader,
    places=(
        LogPlace(".kimi", "sessions", "KIMI_SHARE_DIR"),
        LogPlace(".kimi-code", "sessions", "KIMI_CODE_HOME"),
    ),
    left_out=_left_out,
)


def _model_in(record: dict[str, Any]) -> str | None:
    return name(record.get("modelAlias")) or (
        name(record.get("model")) if record.get("type") in ("usage.record", "llm.request") else None
    )


def _usage(usage: dict[str, Any], **named: Any) -> EventContent | None:
    """Return the usage of a call; both protocols count cached tokens separately."""

    def number(*names: str) -> int:
        return next((amount for at in names if (amount := count(usage.get(at)))), 0)

    cached = number("inputCacheRead", "input_cache_read")
    written = number("inputCacheCreation", "input_cache_creation")
    return used(
        input_tokens=number("inputOther", "input_other") + cached + written,
        output_tokens=number("output"),
        cached_tokens=cached,
        cache_creation_tokens=written,
        stated=usage,
        **named,
    )


def _content(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of an input, and its other parts."""
    blocks = blocks_of(content)
    return text_of(blocks), [block for block in blocks if block.get("type") != "text"]
