"""The reader of pi's session logs: one file per session, in any of three format versions.

Version 1 has no ids, version 2 makes the entries a tree, version 3 renames a role. OpenClaw uses
the same format; OMP adds entries, a line for the title before the header, and folders of subagents.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from treering.formats.event_content import (
    EventContent,
    called,
    interrupted,
    observation,
    outcome,
    placed,
    said,
    trouble,
)
from treering.formats.format import ChosenShare, Format, LogPlace, OwnShare
from treering.formats.loose import (
    blocks_of,
    bounded,
    count,
    digest,
    fields_of,
    hint_of,
    name,
    says_beyond,
    text_of,
    time_ms,
    without_none,
    word,
)
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

NAME: Final = "pi"

HEADER: Final = "session"
ENTRIES: Final = frozenset({
    "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom",
    "custom_message", "label", "session_info", "reset", "leaf", "usage", "context_edit",
    "archive", "credential_pin", "mode_change", "model_usage", "reset_boundary",
    "service_tier_change", "session_init", "title_change", "ttsr_injection",
    "agent_status", "child_usage_attributed", "git_state", "session_state",
})  # fmt: skip
_ROLES: Final = frozenset({
    "user", "assistant", "toolResult", "bashExecution", "hookMessage", "custom", "system",
    "developer", "pythonExecution", "fileMention", "branchSummary", "compactionSummary",
})  # fmt: skip
_OWN_ROLES: Final = _ROLES - {"user", "assistant", "system", "developer"}
_BLOCKS: Final = frozenset({"text", "thinking", "image", "toolCall"})
_OF_AN_ANSWER: Final = ("api", "provider", "model", "usage", "stopReason")
_OF_ENTRIES: Final = {
    "model_change": "modelId",
    "thinking_level_change": "thinkingLevel",
    "compaction": "summary",
    "custom": "customType",
    "custom_message": "customType",
    "branch_summary": "fromId",
    "session_init": "systemPrompt",
    "title": "pad",
}
"""Entries that other formats rarely have, each with one of its fields."""
_FORKED_FROM: Final = ("parentSession", "branchedFrom")
_GIT: Final = {"branch": "branch", "commit": "commit", "repository": "repoUrl"}
_TIME_IN_NAME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9-]+Z_")
_UNNAMED: Final = "unnamed"
_BESIDE: Final = frozenset({"ops.observation", "usage.reported"})
"""Kinds outside the conversation: a branch that abandons only these hides nothing."""


def id_in_name(path: str) -> str | None:
    """Return the session id in a log's file name; the path may be of any operating system."""
    stem = re.split(r"[/\\]", path)[-1].split(".jsonl")[0]
    return name(_TIME_IN_NAME.sub("", stem, count=1))


class PiReader:
    """Reads one file of entries."""

    keys_are_global = False
    """An entry id is random, of four billion, and unique only within its session."""
    copies_keep_times: ClassVar[bool] = True
    agent: str = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        self.sessions: dict[str, SessionHeader] = {}
        self._path = path
        self._session: str | None = None
        self._header: dict[str, Any] = {}
        self._title: str | None = None
        """The title in the line before the header."""
        self._entry_keys = EntryKeys()
        self._now_ms = 1
        self._leaf: tuple[str, str] | None = None
        """The last entry that moved the tip, and its target."""
        self._early: LogRecord | None = None
        """An entry that precedes its parent, or whose parent is missing."""

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; an entry with an unknown parent waits for one more."""
        early, self._early = self._early, None
        if early is not None:
            is_swapped = name(fields_of(record.value).get("id")) == _parent_in(early.value)
            both = (record, early) if is_swapped else (early, record)
            return [self._settle(entry) for entry in both]
        parent = _parent_in(record.value)
        if parent is not None and len(self._entry_keys) and parent not in self._entry_keys:
            self._early = record
            return []
        return [self._settle(record)]

    def finish(self) -> list[ParsedRecord]:
        """Return the outcome of an entry that is still waiting, if any."""
        early, self._early = self._early, None
        return [] if early is None else [self._settle(early)]

    def _settle(self, record: LogRecord) -> ParsedRecord:
        entry = record.value
        if isinstance(entry, dict) and _is_header(entry):
            return self._open(record, entry)
        if isinstance(entry, dict) and _is_title(entry):
            self._title = word(entry.get("title"))
            return ParsedRecord(record=record, skipped="the title of the session")
        if self._session is None:
            self._begin({})
        if not isinstance(entry, dict):
            self._entry_keys.add(None, None)
            return ParsedRecord(record=record, skipped="no entry")
        return self._read_entry(record, entry)

    def state(self) -> Any:
        """Return the keys of all entries; None if too large, without events, or one is waiting."""
        if self._session is None or not self._entry_keys.has_events or self._early is not None:
            return None
        state = {
            "id": name(self._header.get("id")),
            "session": self._session,
            "forked_from": self.sessions[self._session].forked_from,
            "agent": self.sessions[self._session].agent,
            "now_ms": self._now_ms,
            "leaf": self._leaf,
            **self._entry_keys.state(),
        }
        return bounded(state)

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or type(state.get("now_ms")) is not int:
            raise ValueError("not a state of this format")
        self._entry_keys = EntryKeys.of(state)
        self._now_ms = state["now_ms"]
        leaf = state.get("leaf")
        self._leaf = (str(leaf[0]), str(leaf[1])) if isinstance(leaf, list | tuple) else None
        session, forked_from = str(state.get("session")), name(state.get("forked_from"))
        self._session, self._header = session, {"id": state.get("id")}
        opening = self.opening(session, self._header)
        agent = name(state.get("agent")) or opening.agent
        self.sessions[session] = replace(opening, forked_from=forked_from, agent=agent)

    # Overridden for OpenClaw.

    def session_of(self, header: dict[str, Any]) -> str:
        """Return the session's id from its header, or from the file name."""
        named = id_in_name(self._path.name) if self._path else None
        return name(header.get("id")) or named or _UNNAMED

    def opening(self, session: str, header: dict[str, Any]) -> SessionHeader:
        """Return the session header."""
        named = next((path for at in _FORKED_FROM if isinstance(path := header.get(at), str)), None)
        parent = id_in_name(named) if named else None
        # What Prime delegates has its depth; other sessions with a parent are forks of it.
        is_child = count(header.get("rlmDepth")) > 0
        git = fields_of(header.get("git"))
        handled = {"type", "id", "timestamp", "cwd", "title", *_FORKED_FROM}
        title = self._title or word(header.get("title"))
        rest = {
            at: value
            for at, value in header.items()
            if at not in handled and (type(value) is int or name(value))
        }
        return SessionHeader(
            session=session,
            agent=self.agent,
            cwd=word(header.get("cwd")),
            title=shorten(title) if title else None,
            parent=parent if is_child else _caller(self._path),
            forked_from=None if is_child else parent,
            about={**rest, **without_none(**{at: name(git.get(of)) for at, of in _GIT.items()})},
        )

    def repeat_reason(self, entry: dict[str, Any]) -> str | None:
        """Return why an entry repeats earlier ones, or None."""
        del entry
        return None

    def adjusted(self, content: EventContent) -> EventContent:
        """Return the event to record for ``content``; OpenClaw adjusts some."""
        return content

    # Reading.

    def _open(self, record: LogRecord, header: dict[str, Any]) -> ParsedRecord:
        again = self._session is not None and self.session_of(header) == self._session
        if not again:
            self._entry_keys, self._leaf = EntryKeys(), None
            self._begin(header)
        self._now_ms = time_ms(header.get("timestamp")) or self._now_ms
        self._entry_keys.add(None, None)
        return ParsedRecord(
            record=record, skipped="opens the session" + (" again" if again else "")
        )

    def _begin(self, header: dict[str, Any]) -> None:
        session = self.session_of(header)
        self._session = session
        self._header = header
        self.sessions.setdefault(session, self.opening(session, header))

    def _read_entry(self, record: LogRecord, entry: dict[str, Any]) -> ParsedRecord:
        content = digest(entry)
        named = name(entry.get("id"))
        if named and self._entry_keys.repeats(named, content):
            return ParsedRecord(record=record, skipped="repeats an entry")
        key = self._entry_keys.free_key(named or content_key(content))
        self._now_ms = self._time_of(entry)
        reason = self.repeat_reason(entry)
        contents = [] if reason else entry_contents(entry, key, self._entry_keys, self.agent)
        if entry.get("type") == "session_init" and (agent := name(entry.get("agent"))):
            opening = self.sessions[str(self._session)]
            self.sessions[str(self._session)] = replace(opening, agent=f"{self.agent}:{agent}")
        undo = self._undo(entry, key) if contents else None
        keys = _keys_of(contents, key)
        events = [
            placed(self.adjusted(event), str(self._session), event_key, self._now_ms)
            for event, event_key in zip(contents, keys, strict=True)
        ]
        events = [undo, *events] if undo else events
        counts = any(event.kind not in _BESIDE for event in events)
        self._entry_keys.add(
            key, events[0].key if events else None, content if named else "", counts=counts
        )
        if entry.get("type") == "leaf" and (target := name(entry.get("targetId"))):
            self._leaf = (key, target)
        return ParsedRecord(
            record=record, events=events, skipped=reason or (None if events else "empty")
        )

    def _undo(self, entry: dict[str, Any], key: str) -> ParsedEvent | None:
        """Return an undo that hides the entries this one does not continue from."""
        entry_keys = self._entry_keys
        if "parentId" not in entry:
            return None
        parent = entry["parentId"]
        if parent is None:
            # Some writers name no parents at all; then this is not a second root.
            is_message = word(entry.get("type")) in {"message", "branch_summary", "custom_message"}
            first = entry_keys.hidden_from(None) if entry_keys.is_tree and is_message else None
        else:
            entry_keys.is_tree = True
            if self._leaf and parent == self._leaf[0]:
                parent = self._leaf[1]
            first = entry_keys.hidden_from(parent) if isinstance(parent, str) else None
        if first is None:
            return None
        return ParsedEvent(
            session=str(self._session),
            key=f"{key}.undo",
            kind="session.undone",
            summary="another branch",
            ts_ms=self._now_ms,
            payload={"branch": parent},
            first=first,
        )

    def _time_of(self, entry: dict[str, Any]) -> int:
        stated = entry.get("timestamp"), fields_of(entry.get("message")).get("timestamp")
        return next((ts_ms for value in stated if (ts_ms := time_ms(value))), self._now_ms)


def _keys_of(contents: Sequence[EventContent], key: str) -> list[str]:
    """Return a key for each event of an entry: its message has the entry's own key."""
    spoken = (at for at, content in enumerate(contents) if content.kind.startswith("conversation."))
    first = next(spoken, 0)
    return [key if at == first else f"{key}.{at + (at < first)}" for at in range(len(contents))]


def _is_header(value: dict[str, Any]) -> bool:
    return (
        value.get("type") == HEADER
        and "message" not in value
        and isinstance(value.get("id"), str)
        and ("cwd" in value or "version" in value or "timestamp" in value)
    )


def _is_title(value: dict[str, Any]) -> bool:
    """Return whether a value is the line that OMP keeps the title in, padded to be replaced."""
    return value.get("type") == "title" and "pad" in value


def _caller(path: PurePath | None) -> str | None:
    """Return the session that started a subagent: the folder of its log is named after it."""
    folder = "" if path is None else path.parent.name
    return id_in_name(folder) if _TIME_IN_NAME.match(folder) else None


def _parent_in(value: Any) -> str | None:
    return name(fields_of(value).get("parentId"))


def _is_own(entry: dict[str, Any]) -> bool | None:
    """Return whether a value is pi's or OpenClaw's; None if other formats have it too."""
    if _is_header(entry):
        return True
    type_ = word(entry.get("type"))
    if type_ is not None and _OF_ENTRIES.get(type_) in entry:
        return True
    # Version 1 has neither id nor parent, later versions have both.
    if "timestamp" not in entry or ("id" in entry) != ("parentId" in entry):
        return False
    if type_ not in ENTRIES:
        # A later version has more types of entries.
        return None if type_ is not None and "id" in entry else False
    return _is_own_message(fields_of(entry.get("message"))) if type_ == "message" else None


_OWN: Final = OwnShare(_is_own)
_AFTER_HEADER: Final = OwnShare(lambda value: _is_own(value) is not False)
"""After a header, ambiguous values count as the format's own."""


def family_share(values: Sequence[Any]) -> OwnShare:
    """Return what scores a file in the format of pi and OpenClaw."""
    first = next((fields_of(value) for value in values if not _is_title(fields_of(value))), {})
    return _AFTER_HEADER if _is_header(first) else _OWN


def _lacks_marks(values: Sequence[Any]) -> bool:
    from treering.formats import openclaw  # noqa: PLC0415  (it is built on this module)

    return not openclaw.has_marks(values)


score: Final = ChosenShare(family_share, _lacks_marks)
"""Returns the share of values that are pi's entries and not OpenClaw's."""

FORMAT: Final = Format(
    name=NAME,
    version=3,
    score=score,
    reader=PiReader,
    places=(LogPlace(".pi/agent", "sessions", "PI_CODING_AGENT_DIR"),),
)


def _is_own_message(message: dict[str, Any]) -> bool | None:
    role = word(message.get("role"))
    blocks = blocks_of(message.get("content"))
    if role not in _ROLES or any(word(block.get("type")) not in _BLOCKS for block in blocks):
        return False
    if role == "assistant":
        return any(field in message for field in _OF_AN_ANSWER)
    return True if role in _OWN_ROLES else None


BASH: Final = "bash"
"""A command that the user ran counts as a call of this tool."""
PYTHON: Final = "python"
"""So does code."""
_UNNAMED_TOOL: Final = "tool"
_FAILED: Final = frozenset({"error", "failed", "forbidden", "timeout"})
"""Statuses that OpenClaw's tools return for a failed call."""
_ENVELOPE: Final = frozenset({
    "api", "content", "model", "provider", "responseId", "responseModel", "role", "stopReason",
    "timestamp", "usage",
})  # fmt: skip
"""Fields of a message that mean nothing without its content."""
_OF_A_RESULT: Final = frozenset({
    "details", "isError", "role", "timestamp", "toolCallId", "toolName", "toolUseId",
})  # fmt: skip
_STOP_REASONS: Final = {"toolUse": "tool_use"}
"""Values that pi spells in its own way."""


def message_contents(message: dict[str, Any], key: str) -> list[EventContent]:
    """Return the events of a message; ``key`` is the key of its entry."""
    match message.get("role"):
        case "user":
            return _user(message)
        case "assistant":
            return _assistant(message, key)
        case "toolResult":
            return [_result(message)]
        case "bashExecution":
            return _command(message, key, BASH, "command")
        case "pythonExecution":
            return _command(message, key, PYTHON, "code")
        case role:
            observed = f"message: {role}" if name(role) else "message"
            return [observation(observed, message)]


def usage_content(report: dict[str, Any], key: str) -> EventContent | None:
    """Return the usage that a message or entry reports, or None if it is zero."""
    usage = fields_of(report.get("usage"))
    cached, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    # pi counts tokens read from or written to a cache apart from other input.
    sent = count(usage.get("input")) + cached + written
    received = count(usage.get("output"))
    total = count(usage.get("totalTokens")) or sent + received
    if not total:
        return None
    counts = without_none(
        model=name(report.get("model")),
        provider=name(report.get("provider")),
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=cached,
        cache_creation_tokens=written,
        total_tokens=total,
        message_id=name(report.get("responseId")) or key,
    )
    cost = usage.get("cost")
    return EventContent(
        kind="usage.reported",
        summary="usage reported",
        payload={**counts, "cost": cost} if cost else counts,
        refs=counts,
    )


def _user(message: dict[str, Any]) -> list[EventContent]:
    blocks = blocks_of(message.get("content"))
    text = text_of(blocks)
    others = [block for block in blocks if block.get("type") != "text"]
    if not text.strip() and not others:
        return _unknown_content(message)
    return [said("user", text, attached=others)]


def _assistant(message: dict[str, Any], key: str) -> list[EventContent]:
    stop = word(message.get("stopReason"))
    common = without_none(
        model=name(message.get("model")),
        stop_reason=_STOP_REASONS.get(stop or "", stop),
        message_id=name(message.get("responseId")) or key,
    )
    maker = without_none(
        model=name(message.get("model")),
        provider=name(message.get("provider")),
        api=name(message.get("api")),
    )
    contents = [
        content
        for at, block in enumerate(blocks_of(message.get("content")))
        if (content := _block(block, common, maker, f"{key}:{at}")) is not None
    ]
    if ending := _ending(stop, word(message.get("errorMessage"))):
        contents.append(ending)
    if used := usage_content(message, key):
        contents.append(used)
    return contents or _unknown_content(message)


def _unknown_content(message: dict[str, Any]) -> list[EventContent]:
    """Return nothing for an empty message; one of an unknown shape is kept whole."""
    content = message.get("content")
    is_known = isinstance(content, str | list) or ("content" in message and content is None)
    is_empty = is_known and not says_beyond(message, _ENVELOPE)
    return [] if is_empty else [observation(f"message: {message['role']}", message)]


def _block(
    block: dict[str, Any], common: dict[str, Any], maker: dict[str, Any], call_id: str
) -> EventContent | None:
    rest = {at: value for at, value in block.items() if at not in {"type", "text"}}
    match block.get("type"):
        case "text":
            text = text_of([block])
            if not text.strip():
                return None
            stated = {at: value for at, value in common.items() if at != "message_id"}
            return EventContent(
                kind="conversation.assistant",
                summary=shorten(text),
                payload={**rest, "text": text, **stated},
                refs={"characters": len(text), **common},
            )
        case "thinking":
            refs = {"observed": "thinking", "message_id": common["message_id"], **maker}
            return EventContent(
                kind="ops.observation", summary="thinking", payload=rest, refs=refs, source="agent"
            )
        case "toolCall":
            return _call(rest, call_id)
        case block_type:
            return observation(f"block: {block_type}" if name(block_type) else "block", block)


def _call(block: dict[str, Any], call_id: str) -> EventContent:
    call_id = name(block.get("id")) or call_id
    tool = name(block.get("name")) or _UNNAMED_TOOL
    given = block.get("arguments")
    rest = {at: value for at, value in block.items() if at not in {"id", "name", "arguments"}}
    return EventContent(
        kind="tool.call",
        summary=hint_of(tool, given),
        payload={**rest, "call_id": call_id, "name": tool, "input": given},
        refs={"call_id": call_id, "tool": tool},
    )


def _ending(stop: str | None, error: str | None) -> EventContent | None:
    """Return the event of an interruption or an error that ended the answer."""
    if stop == "aborted":
        return interrupted(error)
    if stop == "error" or error:
        return trouble(error or "the model gave an error", code="model_error")
    return None


def _result(message: dict[str, Any]) -> EventContent:
    call_id = name(message.get("toolCallId")) or name(message.get("toolUseId"))
    details = fields_of(message.get("details"))
    content = message.get("content")
    if not isinstance(content, str | list | None):
        output: Any = content
    elif "content" in message:
        output = output_of(content)
    else:
        output = {at: value for at, value in message.items() if at not in _OF_A_RESULT} or ""
    return outcome(
        call_id,
        name(message.get("toolName")),
        output,
        failed=message.get("isError") is True or _reports_failure(details),
        duration_ms=details.get("durationMs"),
        # Some tools repeat their output in the details.
        details={at: value for at, value in details.items() if value != output},
    )


def _reports_failure(details: dict[str, Any]) -> bool:
    """Return whether a tool reports a failure that its result is not marked with."""
    code, status = details.get("exitCode"), word(details.get("status"))
    return (
        (type(code) is int and code != 0)
        or status in _FAILED
        or (status is None and word(details.get("error")) is not None)
    )


def output_of(content: Any) -> str | list[Any]:
    """Return a tool's output: its text if it has only text, else its parts."""
    blocks = blocks_of(content)
    if not blocks:
        return ""
    one_text = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return text_of(blocks) if one_text else blocks


def _command(message: dict[str, Any], key: str, tool: str, field: str) -> list[EventContent]:
    """Return what the user ran, which ``field`` holds, as a call and its result."""
    call_id = f"{tool}-{key}"
    output, given = text_of(message.get("output")), {field: message.get(field)}
    code = message.get("exitCode")
    own_fields = {"role", field, "output", "timestamp"}
    call = replace(called(call_id, tool, given), source="user")
    failed = message.get("cancelled") is True or (type(code) is int and code != 0)
    details = {at: value for at, value in message.items() if at not in own_fields}
    return [call, outcome(call_id, tool, output, failed=failed, details=details)]


_PARTS: Final = 3
_DIGITS: Final = 6
"""The digits kept of the digests of entries with ids."""


class EntryKeys:
    """Keys of entries, in the order in which they were written."""

    def __init__(self) -> None:
        self._firsts: list[str | None] = []
        """The key of each entry's first event; None if it has no events."""
        self._positions: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self.is_tree = False
        """Whether any entry names its parent."""
        self._last_message = -1
        """The position of the last entry with an event of the conversation."""

    @property
    def has_events(self) -> bool:
        """Return whether any entry has an event."""
        return any(first is not None for first in self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, key: str) -> bool:
        return key in self._positions

    def free_key(self, key: str) -> str:
        """Return ``key``, with a number appended if it is taken."""
        number = 1
        free = key
        while free in self._positions:
            number += 1
            free = f"{key}~{number}"
        return free

    def repeats(self, key: str, content: str) -> bool:
        """Return whether the entry with that ``key`` has the same content."""
        return self._digests.get(key) == content[:_DIGITS]

    def add(
        self, key: str | None, first: str | None, content: str = "", *, counts: bool = False
    ) -> None:
        """Add an entry whose events start with ``first``; without a key it is a position only."""
        if key is not None:
            self._positions[key] = len(self._firsts)
            self._digests[key] = content[:_DIGITS]
        if counts:
            self._last_message = len(self._firsts)
        self._firsts.append(first)

    def first_from(self, key: str) -> str | None:
        """Return the key of the first event of an entry or of a later one."""
        position = self._positions.get(key)
        return None if position is None else self.first_at(position)

    def hidden_from(self, parent: str | None) -> str | None:
        """Return the key of the first event to hide if the next entry continues from ``parent``.

        Return None if there is no such entry, or no conversation after it. A ``parent`` of None is
        the beginning.
        """
        position = -1 if parent is None else self._positions.get(parent)
        if position is None or position >= self._last_message:
            return None
        return self.first_at(position + 1)

    def first_at(self, position: int) -> str | None:
        """Return the key of the first event at or after the entry at ``place``."""
        if position < 0:
            return None
        rest = (self._firsts[at] for at in range(position, len(self._firsts)))
        return next((first for first in rest if first is not None), None)

    def state(self) -> Any:
        """Return a compact JSON form."""
        keys = dict(zip(self._positions.values(), self._positions, strict=True))
        lines = []
        for position, first in enumerate(self._firsts):
            key = keys.get(position, "")
            shown = "=" if first is not None and first == key else first or ""
            lines.append(f"{key}\t{shown}\t{self._digests.get(key, '')}")
        return {"entries": "\n".join(lines), "tree": self.is_tree, "weighty": self._last_message}

    @classmethod
    def of(cls, state: Any) -> EntryKeys:
        """Return the keys in ``state``. Raises ValueError if it is not such a state."""
        entry_keys = cls()
        if not isinstance(state, dict) or not isinstance(state.get("entries"), str):
            raise ValueError("not a state of entry keys")  # noqa: TRY004  (one error for all)
        for line in state["entries"].split("\n") if state["entries"] else ():
            parts = line.split("\t")
            if len(parts) != _PARTS:
                raise ValueError("not an entry of a state")
            key, shown, content = parts
            entry_keys.add(key or None, key if shown == "=" else shown or None, content)
        weighty = state.get("weighty")
        entry_keys._last_message = weighty if type(weighty) is int else len(entry_keys) - 1
        entry_keys.is_tree = state.get("tree") is True
        return entry_keys


_PLACE: Final = frozenset({"type", "id", "parentId", "timestamp"})
"""Fields of an entry that identify and position it."""


def entry_contents(
    entry: dict[str, Any], key: str, entry_keys: EntryKeys, agent: str
) -> list[EventContent]:
    """Return the events of an entry; none if it is empty."""
    match entry.get("type"):
        case "message" if isinstance(entry.get("message"), dict):
            return message_contents(entry["message"], key)
        case "compaction" if word(entry.get("summary")):
            return [_compaction(entry, entry_keys, agent), *_usage(entry, key)]
        case "branch_summary" if word(entry.get("summary")):
            return [_branch_summary(entry), *_usage(entry, key)]
        case "session_info" | "title_change" if title := _title(entry):
            return [
                EventContent(
                    kind="session.titled", summary=shorten(title), payload={"title": title}
                )
            ]
        case "reset" | "reset_boundary":
            payload = {"title": "reset", **_content(entry)}
            return [EventContent(kind="boundary.segment", summary="reset", payload=payload)]
        case "usage" | "model_usage" if used := usage_content(entry, key):
            return [used]
        case type_:
            return [_observed(name(type_) or "entry", entry)]


def _compaction(entry: dict[str, Any], entry_keys: EntryKeys, agent: str) -> EventContent:
    first_id, index = entry.get("firstKeptEntryId"), entry.get("firstKeptEntryIndex")
    first = entry_keys.first_from(first_id) if isinstance(first_id, str) else None
    if first is None and type(index) is int:
        first = entry_keys.first_at(index)
    origin = without_none(from_tokens=count(entry.get("tokensBefore")) or None, by=agent)
    own_fields = {"summary", "tokensBefore", "firstKeptEntryId", "firstKeptEntryIndex", "usage"}
    rest = {at: value for at, value in _content(entry).items() if at not in own_fields}
    return EventContent(
        kind="context.compacted",
        summary=shorten(entry["summary"]),
        payload={**rest, "summary": entry["summary"], **origin},
        refs=origin,
        first=first,
    )


def _branch_summary(entry: dict[str, Any]) -> EventContent:
    rest = {at: value for at, value in _content(entry).items() if at not in {"summary", "usage"}}
    title = "what another branch came to"
    return EventContent(
        kind="boundary.checkpoint",
        summary=shorten(entry["summary"]),
        payload={**rest, "title": title, "content": entry["summary"]},
    )


def _title(entry: dict[str, Any]) -> str | None:
    title = word(entry.get("name")) or word(entry.get("title"))
    return title and title.strip()


def _usage(entry: dict[str, Any], key: str) -> list[EventContent]:
    used = usage_content(entry, key)
    return [used] if used else []


def _observed(type_: str, entry: dict[str, Any]) -> EventContent:
    content = observation(type_, {at: value for at, value in entry.items() if at != "type"})
    named = without_none(
        custom=name(entry.get("customType")),
        model=name(entry.get("modelId")) or name(entry.get("model")),
        provider=name(entry.get("provider")),
    )
    return replace(content, refs={**fields_of(content.refs), **named})


def _content(entry: dict[str, Any]) -> dict[str, Any]:
    return {at: value for at, value in entry.items() if at not in _PLACE}
