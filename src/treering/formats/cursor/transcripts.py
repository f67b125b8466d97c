"""Cursor's transcripts: a message a line, without ids and times.

    ~/.cursor/projects/PROJECT/agent-transcripts/SESSION/SESSION.jsonl
    ~/.cursor/projects/PROJECT/agent-transcripts/PARENT/subagents/SESSION.jsonl

Session, parent and project are in the path. Cursor's databases have the same conversations
with ids, times and results: a transcript adds nothing to a session that comes from one.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import WaitingCalls, block_events
from treering.formats.codex.drafts import observed
from treering.formats.cursor.composers import ComposerReader, is_row
from treering.formats.cursor.words import SESSION_KEY, asked
from treering.formats.grammar import share
from treering.formats.loose import bounded, fields_of, stem, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import ParsedRecord, SessionHeader
from treering.formats.whole import NOTHING, WholeReader, json_of, timed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.formats.codex.drafts import PendingEvent
    from treering.formats.parsed import LogRecord, ParsedEvent

NAME: Final = "cursor"
FOLDER: Final = "agent-transcripts"
SUBAGENTS: Final = "subagents"
_ROLES: Final = frozenset({"user", "assistant", "system", "tool"})
_ENVELOPE: Final = frozenset({"role", "message", "timestamp", "model"})
_TRUSTED: Final = ".workspace-trusted"
"""A file in the folder of a project, with the project's path."""


def score(values: Sequence[Any]) -> float:
    """Return the share of values that are lines of a transcript."""
    return share(_is_own(fields_of(value)) for value in values)


def _is_own(value: dict[str, Any]) -> bool | None:
    if value.get("type") == "turn_ended":
        return True if set(value) <= {"type", "status", "error", "timestamp"} else None
    message = fields_of(value.get("message"))
    bare = not {"type", "uuid", "sessionId", "id", "parentId"} & value.keys()
    return (
        bare
        and word(value.get("role")) in _ROLES
        and "content" in message
        and "role" not in message
    )


class TranscriptReader(WholeReader):
    """Reads the transcript of one session."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._calls = WaitingCalls()
        self._session = stem(path) or NAME
        self._parent = _parent(path)
        self._rows: ComposerReader | None = None
        """The reader of what are the rows of a database, written as lines."""

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        if is_row(record.value):
            if self._rows is None:
                self._rows = ComposerReader(self._path)
                self._rows.agent, self._rows.sessions = self.agent, self.sessions
            return self._rows.read(record)
        if not self.sessions:
            # Not before the first record: another agent may be named until then.
            subagent = f"{self.agent}:subagent" if self._parent else self.agent
            cwd = _project(self._path)
            self._open(
                SessionHeader(session=self._session, agent=subagent, parent=self._parent, cwd=cwd)
            )
        value, session = fields_of(record.value), self._session
        role, message = word(value.get("role")), fields_of(value.get("message"))
        if role is None or "content" not in message:
            sort = word(value.get("type")) or "record"
            events = [observed(self._key(session, value), sort, record.value)]
            return [self._outcome(record, session, timed(events, _time(value)), NOTHING)]
        model = name_of(value.get("model")) or name_of(message.get("model"))
        content = message["content"]
        if role == "user":
            content = (
                [asked(block) for block in content] if isinstance(content, list) else asked(content)
            )
        more = {} if model is None else {"model": model}
        events = block_events(
            "user" if role == "tool" else role,
            content,
            lambda block: self._key(session, block),
            self._calls,
            **(more if role == "assistant" else {}),
        )
        rest = {at: item for at, item in value.items() if at not in _ENVELOPE and item}
        if rest:
            events.append(observed(self._key(session, ["beside", rest]), "beside a message", rest))
        parsed = self._outcome(record, session, timed(events, _time(value)), "an empty message")
        return [parsed]

    def _events(self, session: str, drafts: Iterable[PendingEvent]) -> list[ParsedEvent]:
        events = super()._events(session, drafts)
        return [msgspec.structs.replace(event, unless=SESSION_KEY) for event in events]

    def state(self) -> Any:
        """Return the waiting calls and the contents so far; None if they are too many."""
        if self._rows is not None:
            return None
        times = {mark: count for (_, mark), count in self._counts.items()}
        now_ms = self._now_ms.get(self._session)
        return bounded({"times": times, "waiting": self._calls.state(), "now_ms": now_ms})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        stated = fields_of(state)
        times, waiting = stated.get("times"), stated.get("waiting")
        if not isinstance(times, dict) or not isinstance(waiting, list):
            raise ValueError("this is not a state of a transcript")  # noqa: TRY004  (as it is promised)
        self._counts.update(
            {(self._session, str(mark)): int(count) for mark, count in times.items()}
        )
        for call_id, tool in waiting:
            self._calls.add(str(call_id), str(tool))
        self._is_at(self._session, time_ms(stated.get("now_ms")), is_about=True)


def _time(value: dict[str, Any]) -> int | None:
    return time_ms(value.get("timestamp"))


def _parent(path: PurePath | None) -> str | None:
    """Return the session that began a subagent: its folder is named after it, or its only log."""
    if path is None or path.parent.name != SUBAGENTS:
        return None
    folder = path.parent.parent
    logs = [log.stem for log in Path(folder).glob("*.jsonl")]
    return name_of(logs[0] if len(logs) == 1 else folder.name)


def _project(path: PurePath | None) -> str | None:
    """Return the folder of a project, or its name in Cursor's folder if that is unknown.

    Cursor names it by its path with dashes for slashes, which does not lead back.
    """
    if path is None or FOLDER not in path.parts:
        return None
    folder = Path(*path.parts[: path.parts.index(FOLDER)])
    try:
        trusted = fields_of(json_of((folder / _TRUSTED).read_bytes()))
    except OSError:
        trusted = {}
    return word(trusted.get("workspacePath")) or _existing(folder.name) or folder.name or None


def _existing(dashed: str) -> str | None:
    """Return the folder on this machine whose path has this form."""
    ahead = [Path("/")]
    while ahead:
        folder = ahead.pop()
        made = _dashed(str(folder))
        if made == dashed:
            return str(folder)
        try:
            inside = [child for child in folder.iterdir() if _leads_to(_dashed(str(child)), dashed)]
        except OSError:
            continue
        ahead += [child for child in inside if child.is_dir()]
    return None


def _dashed(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def _leads_to(made: str, dashed: str) -> bool:
    return made == dashed or dashed.startswith(f"{made}-")
