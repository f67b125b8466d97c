"""Codex: rollouts, the logs of its sessions, read record by record.

Items have no ids, so a key is made of the words, in whichever lane they are, and how often they
came before in the file: a fork repeats its parent's past, and gets the same keys there.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import (
    PendingEvent,
    count_of,
    digest,
    key_of,
    observed,
    said,
    short_id,
    text_of,
)
from treering.formats.codex.events import UsageCounter, mcp_call_of, read_event
from treering.formats.codex.events import observation_of as event_observed
from treering.formats.codex.items import has_pictures, observation_of, read_item
from treering.formats.codex.records import QueuedRecord, RecordQueue, opened, score, timeless
from treering.formats.codex.straight_line import mark_of, read_straight
from treering.formats.codex.twins import LaneText, Twins
from treering.formats.format import Format, LogPlace, LogRetention
from treering.formats.loose import bounded, fields_of, usual_time_ms
from treering.formats.loose import name as name_of
from treering.formats.loose import time_ms as time_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import Path, PurePath

AGENT: Final = "codex"
_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
_ABOUT: Final = {
    "originator": "originator", "cli_version": "version", "model_provider": "provider",
    "source": "source", "history_mode": "history_mode",
}  # fmt: skip
_GIT: Final = {"branch": "branch", "commit_hash": "commit", "repository_url": "repository"}

MARK_CHARACTERS: Final = 8
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")

__all__ = ["FORMAT", "NAME", "CodexReader", "score"]

NAME: Final = AGENT
OPEN_CALLS_MAX: Final = 256
TURNS_MAX: Final = 200
"""Turns that can be rolled back."""

_STRAIGHT: Final = ("function_call", "function_call_output", "token_count")
"""Types of what records hold that are mostly read at once."""
_SKIPPED: Final = {
    "user": "repeats the user message",
    "assistant": "repeats the assistant's message",
    "thinking": "repeats the reasoning",
}


class _CodexState(msgspec.Struct):
    """The state kept from one record to the next."""

    opening: SessionHeader | None = None
    is_stated: bool = False
    """Whether a record described the session."""
    provider: str | None = None
    at: int = 0
    ts_ms: int = 1
    model: str | None = None
    surroundings: str | None = None
    """The digest of the last turn context."""
    context_tokens: int | None = None
    counts: UsageCounter = msgspec.field(default_factory=UsageCounter)
    turns: list[str] = []
    """The keys of the user's messages that count."""
    tools: dict[str, str] = {}
    """The names of open calls, by id."""
    twins: Twins = msgspec.field(default_factory=Twins)


class CodexReader:
    """Reads one rollout. All of it belongs to the file's own session, even what a fork repeats."""

    keys_are_global = False
    copies_keep_times = False
    agent: str = AGENT

    def __init__(self, path: PurePath | None) -> None:
        """Start without any record; ``path`` may hold the id of the session."""
        self._path = path
        self._now = _CodexState()
        self._repeats = KeyRepeats()
        self._waiting = RecordQueue()
        self._fork: QueuedRecord | None = None
        """The record that opens a fork; it comes last, since the past that it shares is first."""
        self.sessions: dict[str, SessionHeader] = {}

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the records that are complete with ``record``."""
        if not self._waiting.pages:
            outcome = self._read_straight(record)
            if outcome is not None:
                return [outcome]
        page = self._page(record)
        opening = self._now.opening
        if self._now.at == 1 and opening is not None and opening.forked_from is not None:
            self._fork = page
            return []
        return [self._settle(page) for page in self._waiting.add(page)]

    def finish(self) -> list[ParsedRecord]:
        """Return the records that still wait."""
        fork, self._fork = self._fork, None
        pages = self._waiting.release()
        return [self._settle(page) for page in (*pages, *([fork] if fork else []))]

    def state(self) -> Any:
        """Return the state to resume from; None if it is too large, or a record waits."""
        if self._waiting.pages or self._fork:
            return None
        opening = self._now.opening
        now = msgspec.structs.replace(self._now, opening=opening and opening.bare(), tools={})
        state = {
            "now": msgspec.to_builtins(now),
            "tools": [[*item] for item in self._now.tools.items()],
            "repeats": [*self._repeats.packed()],
        }
        return bounded(state)

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        try:
            once, again = msgspec.convert(state["repeats"], tuple[str, dict[str, int]])
            tools = msgspec.convert(state["tools"], list[tuple[str, str]])
            self._now = msgspec.convert(state["now"], _CodexState)
        except (TypeError, KeyError, msgspec.ValidationError) as error:
            raise ValueError("this is not a state of a rollout's reader") from error
        self._now.tools = dict(tools)
        self._repeats = KeyRepeats.unpack(once, again)
        self.sessions = {}
        if self._now.opening is not None:
            self.sessions[self._now.opening.session] = self._now.opening

    # A usual record, at once.

    def _read_straight(self, record: LogRecord) -> ParsedRecord | None:
        """Return the outcome of an ordinary record that no other one repeats; None if it may be."""
        value, now = record.value, self._now
        content = value.get("payload") if type(value) is dict else None
        if type(content) is not dict or now.opening is None:
            return None
        part = content.get("type")
        if part not in _STRAIGHT:
            return None
        sort, time = value.get("type"), value.get("timestamp")
        ts_ms = usual_time_ms(time) if type(time) is str else None
        if not ts_ms:
            return None
        session = now.opening.session
        if sort == "response_item":
            event = read_straight(content, now.tools, session, ts_ms)
            if event is None or self._repeats.is_repeat(mark_of(event)):
                return None
            now.at, now.ts_ms = now.at + 1, ts_ms
            self._follow(event)
            key = self._repeats.key(event.key)
            if key != event.key:
                event = msgspec.structs.replace(event, key=key)
        elif sort == "event_msg" and part == "token_count":
            now.at, now.ts_ms = now.at + 1, ts_ms
            report = self._count(content)
            if isinstance(report, str):
                return ParsedRecord(record=record, skipped=report)
            key = self._repeats.key(report.key)
            event = ParsedEvent(
                session=session,
                key=key,
                kind=report.kind,
                summary=report.summary,
                ts_ms=ts_ms,
                payload=report.payload,
                refs=report.refs or None,
            )
        else:
            return None
        return ParsedRecord(record=record, events=[event])

    # One record, read.

    def _page(self, record: LogRecord) -> QueuedRecord:
        value = fields_of(record.value)
        sort, content = opened(value)
        now = self._now
        now.at += 1
        now.ts_ms = (
            time_of(value.get("timestamp")) or time_of(content.get("timestamp")) or now.ts_ms
        )
        self._open(sort, content, record.value)
        parsed = self._parse(sort, content, record.value)
        parts, reason = ([], parsed) if isinstance(parsed, str) else (parsed, "says nothing")
        return QueuedRecord(record, now.at, now.ts_ms, parts, reason)

    def _open(self, sort: str, content: dict[str, Any], value: Any) -> None:
        """Note what the record says of the session; the first one says which it is."""
        earlier = self._now.opening
        if earlier is not None and sort != "session_meta":
            return
        stated = content if sort == "session_meta" else {}
        named = session_named(stated)
        if earlier is None:
            self._now.opening = opening_of(
                named or session_of(self._path, value), stated, agent=self.agent
            )
        elif named == earlier.session and not self._now.is_stated:
            self._now.opening = opening_of(named, stated, agent=self.agent)
        opening = self._now.opening
        if earlier is not opening and opening is not None:
            self._now.is_stated = bool(opening.about)
            self._now.provider = opening.about.get("provider")
            self.sessions[opening.session] = opening

    def _parse(
        self, sort: str, content: dict[str, Any], value: Any
    ) -> list[PendingEvent | LaneText] | str:
        if not content:
            return [observed(key_of([sort, timeless(value)]), sort, value)]
        if sort == "response_item":
            return self._item(content)
        if sort == "event_msg":
            return self._event(content)
        if sort == "turn_context":
            return self._context(content)
        if sort == "compacted":
            return [self._compacted(content)]
        if sort == "session_meta" and self._opens_another_fork(content):
            return "opens a session that this one continues"
        return [observed(key_of([sort, timeless(content)]), sort, content)]

    def _opens_another_fork(self, stated: dict[str, Any]) -> bool:
        """Whether a repeated record opens another fork, where it comes last."""
        opening = self._now.opening
        own = None if opening is None else opening.session
        return session_named(stated) != own and name_of(stated.get("forked_from_id")) is not None

    def _item(self, item: dict[str, Any]) -> list[PendingEvent | LaneText]:
        parts = read_item(item, self._now.tools)
        if has_pictures(item) and self._is_known(parts):
            return [observation_of(item)]
        return parts

    def _is_known(self, parts: list[PendingEvent | LaneText]) -> bool:
        """Whether a user's words were read before, so that only the pictures are new."""
        said_now = [part for part in parts if isinstance(part, LaneText) and part.role == "user"]
        return any(self._now.twins.repeats(part, self._now.at) for part in said_now)

    def _event(self, event: dict[str, Any]) -> list[PendingEvent | LaneText] | str:
        sort = event.get("type")
        if sort == "token_count":
            report = self._count(event)
            return report if isinstance(report, str) else [report]
        if sort == "thread_rolled_back" and (turns := count_of(event.get("num_turns"))):
            refs = {"turns": turns}
            key = key_of(["event", event])
            return [
                PendingEvent(
                    key=key,
                    kind="session.undone",
                    summary=f"{turns} turns rolled back",
                    payload=event,
                    refs=refs,
                )
            ]
        if sort == "mcp_tool_call_end":
            call_id = name_of(event.get("call_id"))
            is_known = call_id and self._repeats.has(f"call:{short_id(call_id)}")
            return [event_observed(event)] if is_known else [*mcp_call_of(event)]
        return [*read_event(event)]

    def _count(self, event: dict[str, Any]) -> PendingEvent | str:
        """Return what was used, or why that is not new."""
        now = self._now
        report = now.counts.report(event, now.model, now.provider)
        if isinstance(report, PendingEvent):
            now.context_tokens = report.refs.get("total_tokens", now.context_tokens)
        return report

    def _context(self, content: dict[str, Any]) -> list[PendingEvent | LaneText] | str:
        self._now.model = name_of(content.get("model")) or self._now.model
        mark = key_of(["turn_context", content])
        if mark == self._now.surroundings:
            return "repeats the turn context"
        self._now.surroundings = mark
        return [observed(mark, "turn_context", content)]

    def _compacted(self, content: dict[str, Any]) -> PendingEvent:
        summary = text_of(content.get("message"))
        tokens = self._now.context_tokens
        size = {} if tokens is None else {"from_tokens": tokens}
        rest = {name: value for name, value in content.items() if name not in {"message", "type"}}
        return PendingEvent(
            key=key_of(["compacted", content]),
            kind="context.compacted",
            summary=shorten(summary) if summary.strip() else "context compacted",
            payload={**rest, **size, "summary": summary, "by": NAME},
            refs={**size, "by": NAME},
        )

    # One record, settled.

    def _settle(self, page: QueuedRecord) -> ParsedRecord:
        events: list[ParsedEvent] = []
        reason = page.reason
        for part in page.parts:
            draft = self._say(part, page.at) if isinstance(part, LaneText) else self._note(part)
            if isinstance(draft, str):
                reason = draft
            else:
                events.append(self._parsed_event(draft, page.ts_ms))
        return ParsedRecord(record=page.record, events=events, skipped=None if events else reason)

    def _say(self, saying: LaneText, at: int) -> PendingEvent | str:
        if self._now.twins.repeats(saying, at):
            if saying.role == "thinking" and saying.more:
                # Its text was read before it could wait; what only the item holds is not lost.
                named = {name: value for name, value in saying.more.items() if name != "id"}
                key = self._repeats.key(key_of(["reasoning", named]))
                return said("thinking", key, "", **saying.more)
            return _SKIPPED[saying.role]
        self._now.twins.add(saying, at)
        key = self._repeats.key(key_of([saying.role, saying.text.strip()]))
        if saying.role == "user":
            self._now.turns = [*self._now.turns[1 - TURNS_MAX :], key]
        speaks = saying.role == "assistant" or "encrypted_content" in saying.more
        model = self._now.model if speaks else None
        return said(saying.role, key, saying.text, model=model, **saying.more)

    def _note(self, draft: PendingEvent) -> PendingEvent | str:
        if draft.kind in {"tool.call", "tool.result"}:
            if self._repeats.is_repeat(f"{draft.key}#{digest(draft.payload)}"):
                return "repeats the call" if draft.kind == "tool.call" else "repeats the result"
            self._follow(draft)
        key = self._repeats.key(draft.key)
        if draft.kind == "session.undone":
            return self._undo(draft, key)
        return draft if key == draft.key else msgspec.structs.replace(draft, key=key)

    def _follow(self, draft: PendingEvent | ParsedEvent) -> None:
        """Remember which calls are open, and of which tool."""
        refs, tools = draft.refs or {}, self._now.tools
        call_id = refs["call_id"]
        if draft.kind == "tool.result":
            tools.pop(call_id, None)
            return
        tools[call_id] = refs["tool"]
        if len(tools) > OPEN_CALLS_MAX:
            del tools[next(iter(tools))]

    def _undo(self, draft: PendingEvent, key: str) -> PendingEvent:
        """Return what the rollback hides, as far as the turns are known."""
        turns = self._now.turns
        if not turns:
            return observed(key, "thread_rolled_back", draft.payload)
        start = max(0, len(turns) - draft.refs["turns"])
        first = turns[start]
        self._now.turns = turns[:start]
        return msgspec.structs.replace(draft, key=key, first=first)

    def _parsed_event(self, draft: PendingEvent, ts_ms: int) -> ParsedEvent:
        opening = self._now.opening
        assert opening is not None  # noqa: S101  (the first record opens the session)
        return ParsedEvent(
            session=opening.session,
            key=draft.key,
            kind=draft.kind,
            summary=draft.summary,
            ts_ms=ts_ms,
            payload=draft.payload,
            refs=draft.refs or None,
            first=draft.first,
        )


def _never_deleted(_: Path) -> LogRetention:
    return LogRetention(days=None, source="it deletes no sessions by itself")


FORMAT: Final = Format(
    name=NAME,
    version=2,
    score=score,
    reader=CodexReader,
    places=(
        LogPlace(".codex", "sessions", "CODEX_HOME", _never_deleted),
        LogPlace(".codex", "archived_sessions", "CODEX_HOME", _never_deleted),
    ),
)


class KeyRepeats(msgspec.Struct):
    """How often each content occurred in a file.

    A content is remembered by 48 bits, so that many fit into what is kept between two readings.
    """

    counts: dict[str, int] = {}

    def is_repeat(self, content: str) -> bool:
        """Return whether ``content`` has come before; count it if it has not."""
        mark = _mark(content)
        if mark in self.counts:
            return True
        self.counts[mark] = 1
        return False

    def key(self, content: str) -> str:
        """Return the key of ``content``: itself, with a number from the second time on."""
        mark = _mark(content)
        count = self.counts[mark] = self.counts.get(mark, 0) + 1
        return content if count == 1 else f"{content}.{count}"

    def has(self, content: str) -> bool:
        """Whether ``content`` has come before."""
        return _mark(content) in self.counts

    def packed(self) -> tuple[str, dict[str, int]]:
        """Return the marks of contents that came once, as one text, and counts of the others."""
        once = "".join(mark for mark, count in self.counts.items() if count == 1)
        return once, {mark: count for mark, count in self.counts.items() if count > 1}

    @classmethod
    def unpack(cls, once: str, again: dict[str, int]) -> KeyRepeats:
        """Return the counts that ``packed`` returned."""
        starts = range(0, len(once), MARK_CHARACTERS)
        return cls({once[at : at + MARK_CHARACTERS]: 1 for at in starts} | again)


def _mark(content: str) -> str:
    return (
        b2a_base64(sha256(content.encode()).digest()[:6], newline=False)
        .translate(_URL_SAFE)
        .decode()
    )


def session_named(stated: dict[str, Any]) -> str | None:
    """Return the id that the opening record of a session states."""
    return name_of(stated.get("id")) or name_of(stated.get("session_id"))


def session_of(path: PurePath | None, first: Any) -> str:
    """Return the id of a session that no record names: from its file, or its first record."""
    ids = _UUID.findall(path.name) if path is not None else []
    return ids[-1].lower() if ids else f"codex-{content_key(digest(first))}"


def opening_of(session: str, stated: dict[str, Any], *, agent: str = AGENT) -> SessionHeader:
    """Return how a session was opened; ``stated`` is its opening record, empty if it has none."""
    spawned = _spawned(stated.get("source"))
    role = name_of(spawned.get("agent_role")) or name_of(spawned.get("agent_type"))
    parent = name_of(spawned.get("parent_thread_id")) or name_of(stated.get("parent_thread_id"))
    cwd = stated.get("cwd")
    return SessionHeader(
        session=session,
        agent=f"{agent}:{role}" if role and name_of(f"{agent}:{role}") else agent,
        cwd=cwd if isinstance(cwd, str) and cwd else None,
        parent=parent if parent != session else None,
        forked_from=name_of(stated.get("forked_from_id")),
        about=_about(stated),
    )


def _spawned(source: Any) -> dict[str, Any]:
    """Return the session that started this one as a subagent; None if it is not one."""
    spawned = fields_of(fields_of(source).get("subagent"))
    return fields_of(spawned.get("thread_spawn")) or spawned


def _about(stated: dict[str, Any]) -> dict[str, Any]:
    git = fields_of(stated.get("git"))
    about = {ours: stated.get(theirs) for theirs, ours in _ABOUT.items()}
    about |= {ours: git.get(theirs) for theirs, ours in _GIT.items()}
    return {name: shorten(value) for name, value in about.items() if value and type(value) is str}
