"""Claude Code: the logs of a session, of its subagents and of the sessions that continue it."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from treering.formats import retention
from treering.formats.claude_code.blocks import (
    call_of_task,
    is_unheard,
    numbered,
    said_by_assistant,
    said_by_user,
)
from treering.formats.claude_code.facts import FactRepeats, changed_in, facts_in, noted, titled
from treering.formats.claude_code.lines import (
    NAME,
    OURS,
    SPOKEN,
    VERBATIM,
    LineEvent,
    LogLine,
    is_own,
    lines_in,
    name_in,
    observed,
    spelt,
    time_in,
)
from treering.formats.claude_code.order import Order, remember, rewound
from treering.formats.claude_code.state import MARK_DIGITS, ClaudeCodeState, restored, written
from treering.formats.claude_code.straight_line import read_straight
from treering.formats.claude_code.usage import USED
from treering.formats.format import Format, LogPlace, OwnShare
from treering.formats.loose import digest
from treering.formats.parsed import (
    ParsedEvent,
    ParsedRecord,
    SessionHeader,
    content_key,
    is_content_key,
    without_mark,
)
from treering.model.codec import decode
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

__all__ = ["FORMAT", "NAME", "ClaudeCodeReader", "score"]

PUT_IN: Final = "put in by an export"
EVENT_ID_CHARACTERS_MAX: Final = 400
DESCRIPTION: Final = ".meta.json"
"""The end of the name of a file that describes a subagent."""
DESCRIPTION_BYTES_MAX: Final = 64 * 1024
HELD_MAX: Final = 256
"""Lines at the beginning of a file that wait for one that names their session."""

_DESCRIPTION: Final = re.compile(r"agent-.+\.meta\.json")
_AGENT_FILE: Final = re.compile(r"agent-(?P<id>.+)")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ClaudeCodeReader:
    """Reads one file. Lines keep their order, whatever their times are.

    A line that comes before its parent is read after that, if the parent comes soon.
    """

    keys_are_global: ClassVar[bool] = True
    copies_keep_times: ClassVar[bool] = True
    agent: str = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        stem = path.name.split(".jsonl")[0].removesuffix(".json") if path is not None else ""
        agent = _AGENT_FILE.fullmatch(stem)
        self._agent = agent["id"] if agent else None
        folder = path.parent if path is not None else None
        above = folder.parent.name if folder is not None and folder.name == "subagents" else ""
        self._stem = above if agent else stem
        """The session that the file is named after."""
        self._path = path
        self._past = ClaudeCodeState()
        self._held: list[LogRecord] = []
        self._order = Order()
        self._cwd: str | None = None
        """Where the first lines were written, for sessions that do not say so."""
        self._repeats = FactRepeats()
        self.description: dict[str, Any] | None = None
        """The description of a subagent; by default, from the file next to its log."""

    @property
    def sessions(self) -> dict[str, SessionHeader]:
        """Return the sessions that were found so far."""
        return self._past.sessions

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the events of ``record``; the first records wait until their session is known."""
        if self._past.settled:
            events = self._read_straight(record)
            if events is not None:
                return [ParsedRecord(record=record, events=events)]
            return self._take(record)
        self._held.append(record)
        enough = len(self._held) >= HELD_MAX or any(map(_settles, lines_in(record.value)))
        return self._release() if enough else []

    def _read_straight(self, record: LogRecord) -> list[ParsedEvent] | None:
        """Return the events of an ordinary line; None if it is not one."""
        if self._agent is not None or self._order.waiting or type(record.value) is not dict:
            return None
        return read_straight(record.value, self._past, self._repeats)

    def finish(self) -> list[ParsedRecord]:
        """Return the outcomes of records that still wait."""
        outcomes = self._release()
        return outcomes + [self._parse(record) for record in self._order.release()]

    def state(self) -> Any:
        """Return the state to resume from; None while lines or titles wait."""
        return None if self._held or self._order.waiting else written(self._past)

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        self._past, self._held, self._order = restored(state), [], Order()
        self._repeats = FactRepeats()

    def _release(self) -> list[ParsedRecord]:
        if not self._held:
            return []
        held, self._held = self._held, []
        self._settle([value for record in held for value in _dicts_in(record.value)])
        return [outcome for record in held for outcome in self._take(record)]

    def _take(self, record: LogRecord) -> list[ParsedRecord]:
        return [self._parse(ordered) for ordered in self._order.take(record, self._past.nodes)]

    def _settle(self, values: Sequence[dict[str, Any]]) -> None:
        """Find the session, folder and time of first lines that do not name them."""
        past = self._past
        past.settled = True
        stated = next(
            filter(None, (name_in(value, "sessionId", "session_id") for value in values)), None
        )
        named = name_in({"stem": self._stem}, "stem")
        past.session = named if named and _UUID.fullmatch(named) else stated or named
        first = sha256(spelt(values[:1])).hexdigest()[:16]
        past.session = past.session or content_key(f"{NAME}-{first}")
        self._cwd = next(
            (value["cwd"] for value in values if isinstance(value.get("cwd"), str)), None
        )
        past.ts_ms = next(filter(None, map(time_in, values)), 1)
        past.key = stated or content_key(first)  # Not the file's name: a copy may have another.

    # One record.

    def _parse(self, record: LogRecord) -> ParsedRecord:
        events: list[ParsedEvent] = []
        reason = "nothing in it"
        for value in lines_in(record.value):
            line_events, reason = self._events_of(
                value if isinstance(value, dict) else {"value": value}
            )
            events += line_events
        return ParsedRecord(record=record, events=events, skipped=None if events else reason)

    def _events_of(self, value: dict[str, Any]) -> tuple[list[ParsedEvent], str]:
        past = self._past
        past.next_line()
        line = self._line(value)
        changed = self._open(line)
        repeated: str | None = None
        reason = "nothing is said in it"
        ours = value.get(OURS)
        if line.sort == "system" and (exported := _exported_event(ours)) is not None:
            pieces = [exported]
        elif line.sort == "user" and line.message:
            pieces = said_by_user(line, past)
        elif line.sort == "assistant" and line.message:
            pieces, repeated = said_by_assistant(line, past)
            reason = "it repeats a part of the same message" if repeated else reason
        elif line.sort in SPOKEN or line.sort == "unknown":
            pieces = [observed(line, line.sort)]
        else:
            pieces = noted(line, past)
            reason = "the title is the same"
        if not pieces and repeated is None and is_unheard(line):
            pieces = [observed(line, line.sort)]
        if isinstance(ours, dict):
            pieces = _exported_pieces(ours, pieces)
            reason = reason if pieces else PUT_IN
            changed = []
        if line.own_id in past.leaves:
            title = past.leaves.pop(line.own_id).title
            piece = titled(title, line.session, past, chosen=False, key=f"{line.key}.title")
            pieces = [*pieces, piece]
        after = past.key_of(line.parent)
        events = rewound(line, pieces, past) + _name_events(line, [*changed, *pieces], after)
        remember(
            line, pieces, past, repeated, has_event=any(event.key == line.key for event in events)
        )
        return events, reason

    def _line(self, value: dict[str, Any]) -> LogLine:
        past = self._past
        past.ts_ms = time_in(value) or past.ts_ms
        stated = name_in(value, "sessionId", "session_id")
        past.session = stated or past.session
        own_id = name_in(value, "uuid")
        parent = name_in(value, "parentUuid", "logicalParentUuid")
        # A fork may give its lines new ids; they say whose copies they are.
        origin = value.get("forkedFrom")
        copied = None if origin is None else name_in(origin, "messageUuid")
        named = copied or own_id or self._key_of(value)
        session = self._session_of(value, stated, parent, named)
        mark = digest(_said_in(value))[:MARK_DIGITS]
        ours = None
        if OURS in value:
            ours = name_in(value[OURS], "event", most=EVENT_ID_CHARACTERS_MAX)
        home = name_in(origin, "sessionId") if copied else session
        key, alternate_key = (
            self._keys(named, own_id, home or session, mark) if ours is None else (ours, None)
        )
        past.key = key
        message = value.get("message")
        return LogLine(
            value=value,
            sort=name_in(value, "type") or "unknown",
            key=key,
            own_id=own_id,
            parent=parent,
            session=session,
            ts_ms=past.ts_ms,
            message=message if isinstance(message, dict) else {},
            mark=mark,
            former_key=None if ours or key == named or is_content_key(key) else named,
            alternate_key=alternate_key,
        )

    def _keys(
        self, named: str, own_id: str | None, session: str, mark: str
    ) -> tuple[str, str | None]:
        """Return the key of a line, by its id; and the key that it has if that one is taken.

        An id that is not a UUID is unique within its session only. A line that says something else
        under the id of an earlier one has a key made of its words.
        """
        if is_content_key(named):
            return named, None
        key = named if _UUID.fullmatch(named) else f"{session}/{named}"
        before = self._past.nodes.get(own_id or "")
        alternate_key = content_key(f"{key}~{mark}")
        is_free = before is None or before.mark in {"", mark}
        return (key, alternate_key) if is_free else (alternate_key, None)

    def _key_of(self, value: dict[str, Any]) -> str:
        """Return a name for a line without an id: by its words and the line before it."""
        fields = {
            name: part for name, part in value.items() if name not in {"sessionId", "session_id"}
        }
        return content_key(sha256(spelt([without_mark(self._past.key), fields])).hexdigest()[:32])

    def _session_of(
        self, value: dict[str, Any], stated: str | None, parent: str | None, key: str
    ) -> str:
        past = self._past
        session = past.session or NAME
        if stated is None and _UUID.fullmatch(self._stem):
            session = self._stem
        caller = name_in(value, "parent_tool_use_id")
        if not (self._agent or caller or value.get("isSidechain") is True):
            return session
        agent = name_in(value, "agentId") or self._agent or caller
        if agent is None:
            parents = past.session_of(parent)
            if parents is not None and parents.startswith(f"{session}/agent-"):
                return parents
        return f"{session}/agent-{agent or key}"

    # Sessions.

    def _open(self, line: LogLine) -> list[LineEvent]:
        """Note what a line says about its session; return what has changed."""
        past = self._past
        if self._repeats.holds(line.session, line.value, past):
            return []
        before = past.facts.get(line.session)
        header = past.sessions.get(line.session) or self._new_header(line)
        facts = facts_in(line)
        about = {name: fact for name, fact in facts.items() if name != "cwd"}
        opening = msgspec.structs.replace(
            header, cwd=header.cwd or facts.get("cwd") or self._cwd, about=about | header.about
        )
        if opening != header or line.session not in past.sessions:
            past.sessions[line.session] = opening
        changed = changed_in(line, facts, past)
        self._repeats.note(line, changed=past.facts.get(line.session) is not before)
        return changed

    def _new_header(self, line: LogLine) -> SessionHeader:
        parent, is_child, _ = line.session.rpartition("/agent-")
        if not is_child:
            forked = name_in(line.value.get("forkedFrom"), "sessionId")
            forked = None if forked == line.session else forked
            return SessionHeader(session=line.session, agent=self.agent, forked_from=forked)
        caller = name_in(line.value, "parent_tool_use_id")
        call_id, sort = call_of_task(line, self._past)
        description = self.description
        if description is None:
            description = described(self._path) if self._agent else {}
        sort = sort or name_in(line.value, "attributionAgent", "agentType")
        sort = sort or name_in(description, "agentType")
        title = description.get("description")
        return SessionHeader(
            session=line.session,
            agent=f"{self.agent}:{sort}" if sort else self.agent,
            title=shorten(title) if isinstance(title, str) and title.strip() else None,
            parent=parent,
            call_id=caller or call_id,
        )


def described(path: PurePath | None) -> dict[str, Any]:
    """Return the description of a subagent, from the file next to its log; {} if there is none."""
    if path is None:
        return {}
    beside = Path(path).with_name(path.name.split(".jsonl")[0] + DESCRIPTION)
    try:
        if beside.stat().st_size > DESCRIPTION_BYTES_MAX:
            return {}
        description = decode(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return description if isinstance(description, dict) else {}


def _name_events(
    line: LogLine, pieces: Sequence[LineEvent], after: str | None
) -> list[ParsedEvent]:
    """Return the events of a line: the first has its key, the others are numbered."""
    events: list[ParsedEvent] = []
    number = 0
    for piece in pieces:
        key, alternate_key = piece.key, None
        if key is None:
            key = numbered(line.key, number)
            alternate_key = line.alternate_key and numbered(line.alternate_key, number)
            number += 1
        events.append(
            ParsedEvent(
                session=line.session,
                key=key,
                kind=piece.kind,
                summary=piece.summary,
                ts_ms=line.ts_ms,
                payload=piece.payload,
                refs=piece.refs or None,
                after=after,
                first=piece.first,
                former_key=_former_key(line, key),
                alternate_key=alternate_key,
            )
        )
    return events


def _former_key(line: LogLine, key: str) -> str | None:
    """Return the key of earlier versions for an event whose id is unique in its session only."""
    is_lines = line.former_key is not None and key.startswith(line.key)
    return f"{line.former_key}{key.removeprefix(line.key)}" if is_lines else None


def _exported_pieces(ours: dict[str, Any], pieces: Sequence[LineEvent]) -> list[LineEvent]:
    """Return the events of a line of our own export: one, and what its message used."""
    if "event" in ours and ours["event"] is None:
        return []
    usage = name_in(ours, "usage", most=EVENT_ID_CHARACTERS_MAX)
    spoken = [_as_recorded(piece, ours) for piece in pieces if piece.kind != USED or "told" in ours]
    used = [piece for piece in pieces if piece.kind == USED and usage is not None]
    return spoken[:1] + [msgspec.structs.replace(piece, key=usage) for piece in used]


def _exported_event(ours: Any) -> LineEvent | None:
    """Return the event that a line of our own export holds verbatim."""
    event = ours.get("told") if isinstance(ours, dict) else None
    if not isinstance(event, dict) or event.get("kind") not in VERBATIM:
        return None
    refs, summary = event.get("refs"), event.get("summary")
    return LineEvent(
        kind=event["kind"],
        summary=shorten(summary) if isinstance(summary, str) else event["kind"],
        payload=event.get("payload"),
        refs=refs if isinstance(refs, dict) else {},
    )


def _as_recorded(piece: LineEvent, ours: dict[str, Any]) -> LineEvent:
    """Return the event of a line of our own export, with what was recorded of it otherwise."""
    stated, first = ours.get("told"), name_in(ours, "first", most=EVENT_ID_CHARACTERS_MAX)
    stated = stated if isinstance(stated, dict) else {}
    dropped = stated.get("dropped")
    payload = stated.get("payload", piece.payload)
    if isinstance(dropped, list) and isinstance(payload, dict) and isinstance(piece.payload, dict):
        payload = {
            name: value for name, value in piece.payload.items() if name not in dropped
        } | payload
    exported = _exported_event({
        "told": {"kind": piece.kind, "summary": piece.summary, "refs": piece.refs, **stated,
                 "payload": payload}
    })  # fmt: skip
    if exported is None:
        return piece
    return msgspec.structs.replace(exported, key=piece.key, first=first or piece.first)


def _said_in(value: dict[str, Any]) -> Any:
    """Return the words of a line: a copy may have other fields around them, and counts may grow."""
    message = value.get("message")
    if isinstance(message, dict):
        return [value.get("type"), message.get("content", message)]
    return [value.get("type"), message, value.get("content"), value.get("subtype")]


def _settles(value: Any) -> bool:
    """Whether a line says where the lines before it belong."""
    return isinstance(value, dict) and ("cwd" in value or "message" in value)


def _dicts_in(value: Any) -> list[dict[str, Any]]:
    return [line for line in lines_in(value) if isinstance(line, dict)]


def _left_out(path: Path) -> str | None:
    is_description = _DESCRIPTION.fullmatch(path.name)
    return "what a subagent is, which is read with its log" if is_description else None


score: Final = OwnShare(
    is_own, lambda values: [line for value in values for line in lines_in(value)]
)
"""Returns the share of values that are Claude Code's lines."""

FORMAT: Final = Format(
    name=NAME,
    version=2,
    score=score,
    reader=ClaudeCodeReader,
    places=(
        LogPlace(".claude", "projects", "CLAUDE_CONFIG_DIR", retention.claude),
        LogPlace(".config/claude", "projects", keeping=retention.claude),
    ),
    left_out=_left_out,
)
