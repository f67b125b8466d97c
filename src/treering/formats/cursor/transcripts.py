"""Cursor's transcripts: a message a line, without ids and times.

    ~/.cursor/projects/PROJECT/agent-transcripts/SESSION/SESSION.jsonl
    ~/.cursor/projects/PROJECT/agent-transcripts/PARENT/subagents/SESSION.jsonl

Session, parent and project are in the path. Cursor's databases have the same conversations
with ids, times and results: a transcript adds nothing to a session that comes from one.

    user:
    <user_query>
    Mend the lamp.
    </user_query>

    assistant:
    [Thinking]
      The fuse, maybe.
    [Tool call] Shell
      command=make
    [Tool result]
      done
    It was the fuse.

Bodies of thoughts, calls and results are indented. They are read as newer ones, in blocks.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePath
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import WaitingCalls
from treering.formats.codex.drafts import PendingEvent, observed
from treering.formats.cursor.composers import SESSION_KEY, ComposerReader, is_row, message_events
from treering.formats.loose import bounded, fields_of, stem, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader
from treering.formats.sources import open_source
from treering.formats.whole import NOTHING, WholeReader, json_of, timed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.formats.format import DatabaseReader

NAME: Final = "cursor"
FOLDER: Final = "agent-transcripts"
SUBAGENTS: Final = "subagents"
_ROLES: Final = frozenset({"user", "assistant", "system", "tool"})
_ENVELOPE: Final = frozenset({"role", "message", "timestamp", "model"})
_TRUSTED: Final = ".workspace-trusted"
"""A file in the folder of a project, with the project's path."""


def is_own(value: dict[str, Any]) -> bool | None:
    """Return whether a value is a line of a transcript; None if others write it, too."""
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
        key_of = partial(self._key, session)
        events = message_events(role, message["content"], key_of, self._calls, model)
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


PATTERNS: Final = tuple(f"agent-transcripts/{below}*.txt" for below in ("", "*/", "*/subagents/"))
_SPEAKERS: Final = frozenset({"user:", "assistant:"})
_MARK: Final = re.compile(r"\[(Thinking|Tool call|Tool result)\] ?(.*)")
_ARGUMENT: Final = re.compile(r"(\w[\w.-]*)=(.*)")
_PATCH: Final = re.compile(r"\*\*\* Begin Patch|@@")


def text_score(values: Sequence[Any]) -> float:
    """Return 1 for a text that begins with a user's words, and has the marks of a transcript."""
    lines = [line.strip() for line in values if isinstance(line, str)]
    has_marks = any(
        line == "assistant:" or line.startswith("<user_query>") or _MARK.match(line)
        for line in lines
    )
    return float(bool(lines) and lines[0] in _SPEAKERS and has_marks)


def records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    """Yield the messages of a transcript, as newer transcripts have them."""
    with open_source(path) as stream:
        text = stream.read().decode(errors="replace").replace("\x00", "\ufffd")
    role, number, offset, held = "", 1, 0, list[str]()
    for at, line in enumerate(text.removeprefix("\ufeff").splitlines(keepends=True), start=1):
        if line.strip() in _SPEAKERS and held:
            yield _message(role, held, number, offset)
            offset += sum(len(held_line.encode()) for held_line in held)
            number, held = at, []
        role = line.strip().rstrip(":") if line.strip() in _SPEAKERS else role
        held.append(line)
    if held:
        yield _message(role, held, number, offset)


def left_out(path: Path) -> str | None:
    """Return why a transcript is left out: it also exists in its newer form."""
    is_repeated = path.suffix == ".txt" and path.with_suffix(".jsonl").exists()
    return "an older form of the transcript beside it" if is_repeated else None


def _message(role: str, lines: Sequence[str], number: int, offset: int) -> LogRecord:
    end = offset + sum(len(line.encode()) for line in lines)
    value: dict[str, Any] = {"type": "text", "text": "".join(lines)}
    if role:
        body = [line.rstrip("\r\n") for line in lines[1:]]
        content = [*_blocks(body)] if role == "assistant" else "\n".join(body).strip()
        value = {"role": role, "message": {"content": content}}
    return LogRecord(value, number, offset, end)


def _blocks(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    mark: re.Match[str] | None = None
    held: list[str] = []
    for line in lines:
        next_mark = _MARK.fullmatch(line.strip())
        # What is not indented is said again.
        if next_mark is not None or (mark is not None and line[:1] not in {"", " ", "\t"}):
            yield from _block(mark, held)
            mark, held = next_mark, []
        if next_mark is None:
            held.append(line)
    yield from _block(mark, held)


def _block(mark: re.Match[str] | None, lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    body = dedent("\n".join(lines)).strip()
    if mark is None:
        if body:
            yield {"type": "text", "text": "\n".join(lines).strip()}
        return
    match mark[1]:
        case "Thinking":
            yield {"type": "thinking", "thinking": "\n".join(filter(None, (mark[2], body)))}
        case "Tool call":
            yield {"type": "tool_use", "name": mark[2].strip(), "input": _input(body)}
        case _:
            named = {"name": mark[2].strip()} if mark[2].strip() else {}
            yield {"type": "tool_result", **named, "content": body}


def _input(body: str) -> dict[str, Any]:
    """Return the input of a call: JSON, a patch, or a value a line."""
    stated = json_of(body) if body.startswith("{") else None
    if isinstance(stated, dict):
        return stated
    if _PATCH.match(body):
        return {"patch": body}
    given: dict[str, str] = {}
    name = "input"
    for line in body.splitlines():
        argument = _ARGUMENT.fullmatch(line)
        name = argument[1] if argument else name
        value = argument[2] if argument else line
        given[name] = f"{given[name]}\n{value}" if name in given else value
    return dict(given)
