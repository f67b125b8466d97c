"""Clawser's workspaces on disk: all versions of conversations and checkpoints are read.

    clawser_workspaces/{workspace}/.conversations/{conversation}/meta.json, events.jsonl   v2
    clawser/workspaces/{workspace}/…                                                       v2
    …/.conversations/{conversation}.json, clawser_conversations/{conversation}.bin         v1
    clawser_checkpoints/{workspace}/{conversation}.bin                                     v0

Newer versions are tried first. If one cannot be read, it is reported and the next is tried. Only
v2 is written; older files are never changed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from treering.errors import Corrupt, InvalidInput, NotFound, TooLarge
from treering.files import replacing
from treering.formats.clawser.log import EventLog, read_jsonl
from treering.formats.clawser.text import UnreadLine, parse, stringify, truthy
from treering.formats.loose import objects_in
from treering.model.fields import check_name

DEFAULT_WORKSPACE: Final = "default"
_LAYOUTS: Final = ("clawser_workspaces", "clawser/workspaces")
_CONVERSATIONS: Final = ".conversations"
_OLDER: Final = "clawser_conversations"
_OLDEST: Final = "clawser_checkpoints"
CONVERSATION: Final = ".bin"
"""The extension of a v1 or v0 conversation in a file of its own."""
_UNSAFE: Final = re.compile(r"[/\\]|\A\.{1,2}\Z")

_CARD: Final = "a card, which is read with its conversation"
_CHECKPOINT: Final = "a checkpoint, which repeats a conversation"
_SUPERSEDED: Final = "an older version of a conversation"

T = TypeVar("T")


def repeats(path: Path) -> str | None:
    """Return what a file of a workspace is if it only repeats a conversation, by its path."""
    folder = path.parent
    if path.name == "meta.json" and folder.parent.name == _CONVERSATIONS:
        return _CARD
    if path.name == "latest.bin" and _is_checkpoints(folder):
        return _CHECKPOINT
    is_older = path.suffix == ".json" and folder.name == _CONVERSATIONS
    if not is_older and not is_conversation(path):
        return None
    try:
        if is_older:
            read_folder(path.with_suffix(""))
            return _SUPERSEDED
        root, workspace_id = folder.parent, DEFAULT_WORKSPACE
        if root.name == _OLDEST:
            root, workspace_id = root.parent, folder.name
        newest = Workspace(root, workspace_id).read(path.stem).path
    except (InvalidInput, NotFound, Corrupt, TooLarge, OSError):
        return None
    return None if newest == path else _SUPERSEDED


def is_conversation(path: Path) -> bool:
    """Return whether a file's path is that of a v1 or v0 conversation."""
    folder = path.parent
    return path.suffix == CONVERSATION and (folder.name == _OLDER or folder.parent.name == _OLDEST)


def _is_checkpoints(folder: Path) -> bool:
    return folder.name in {".checkpoints", _OLDEST} or folder.parent.name == _OLDEST


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint and its origin."""

    checkpoint: Checkpoint
    version: Version
    path: Path
    passed_over: tuple[PassedOver, ...] = ()


class Workspace:
    """One workspace under ``root``. Creating it does not access the disk."""

    def __init__(self, root: Path | str, workspace_id: str = DEFAULT_WORKSPACE) -> None:
        self._root = Path(root)
        self._id = _safe_name(workspace_id, "workspace_id")
        self._folders = [self._root / layout / self._id for layout in _LAYOUTS]
        self._seen: dict[str, set[str]] = {}
        """The events of each conversation that were read or written here."""

    def __repr__(self) -> str:
        return f"Workspace({str(self._root)!r}, {self._id!r})"

    def conversations(self) -> list[str]:
        """Return the ids of all conversations of the workspace, of any version."""
        names: set[str] = set()
        for folder in self._folders:
            names |= {path.name for path in (folder / _CONVERSATIONS).glob("*/")}
            names |= {path.stem for path in (folder / _CONVERSATIONS).glob("*.json")}
        older = [self._root / _OLDEST / self._id]
        if self._id == DEFAULT_WORKSPACE:
            older.append(self._root / _OLDER)  # It has no workspaces.
        for folder in older:
            names |= {path.stem for path in folder.glob("*.bin") if path.stem != "latest"}
        return sorted(names)

    def read(self, conversation_id: str) -> ClawserConversation:
        """Return the newest readable version of a conversation, without writing anything.

        Raises NotFound if it does not exist, Corrupt if none of its files can be read.
        """
        name = _safe_name(conversation_id, "conversation_id")
        self._seen.setdefault(name, set())
        conversation, passed_over = _first_readable(self._levels(name), f"conversation {name}")
        self._seen[name] |= set(map(stringify, conversation.log.events))
        return msgspec.structs.replace(
            conversation, passed_over=(*conversation.passed_over, *passed_over)
        )

    def restore(self, conversation_id: str) -> ClawserConversation:
        """Return a conversation as ``read`` does, and write an older version as v2.

        The files of the older version are kept; v2 events that could not be read are set aside.
        """
        conversation = self.read(conversation_id)
        if conversation.version == "v2":
            return conversation
        with locked(self._folder(conversation.card.id)):
            # Another process may have restored it meanwhile, and continued from there.
            conversation = self.read(conversation_id)
            if conversation.version != "v2":
                set_aside(self._folder(conversation.card.id) / "events.jsonl")
                self._put(conversation.card, conversation.log)
        return conversation

    def write(
        self,
        log: EventLog,
        conversation_id: str,
        *,
        title: str | None = None,
        created: int | None = None,
        updated: int | None = None,
        model: str | None = None,
    ) -> Card:
        """Write a conversation as v2; omitted fields keep their value or come from the events.

        Each file is replaced as a whole, the events first. Events that were never read here are
        kept: those that others wrote meanwhile, or all if the conversation was not read.
        """
        name = _safe_name(conversation_id, "conversation_id")
        with locked(self._folder(name)):
            return self._write(
                log, name, title=title, created=created, updated=updated, model=model
            )

    def _write(
        self,
        log: EventLog,
        name: str,
        *,
        title: str | None,
        created: int | None,
        updated: int | None,
        model: str | None,
    ) -> Card:
        on_disk = self._on_disk(name)
        log = self._with_others(log, name, on_disk)
        folder = self._folder(name)
        is_elsewhere = on_disk is not None and on_disk.path.parent != folder
        old = on_disk.card if on_disk and is_elsewhere else card_at(folder, log, name)[0]
        card = Card(
            id=name,
            title=old.title if title is None else title,
            created=old.created if created is None else created,
            updated=times_of(log)[1] if updated is None else updated,
            event_count=log.size,
            model=old.model if model is None else model,
            more=old.more,
        )
        self._put(card, log)
        return card

    def read_checkpoint(self, conversation_id: str | None = None) -> Restored:
        """Return the newest checkpoint that can be read.

        If it is missing or broken, it is rebuilt from the events of ``conversation_id``, if given,
        before older versions are tried. Raises NotFound or Corrupt as ``read`` does.
        """
        v2 = [folder / ".checkpoints" / "latest.bin" for folder in self._folders]
        older = self._root / _OLDEST
        levels: list[tuple[Path, Callable[[Path], Restored]]] = [
            (path, _restored("v2")) for path in v2
        ]
        if conversation_id is not None:
            name = _safe_name(conversation_id, "conversation_id")
            levels += [(f / _CONVERSATIONS / name, _rebuilt) for f in self._folders]
            levels.append((self._root / _OLDER / f"{name}.bin", _restored("v1")))
        levels.append((older / self._id / "latest.bin", _restored("v0")))
        if self._id == DEFAULT_WORKSPACE:
            levels.append((older / "latest.bin", _restored("v0")))
        if conversation_id is not None:
            levels.append((older / self._id / f"{name}.bin", _restored("v0")))
        restored, passed_over = _first_readable(levels, f"checkpoint in workspace {self._id}")
        return msgspec.structs.replace(restored, passed_over=passed_over)

    def restore_checkpoint(self, conversation_id: str | None = None) -> Restored:
        """Return a checkpoint as ``read_checkpoint`` does, and write an older one as v2."""
        restored = self.read_checkpoint(conversation_id)
        if restored.version != "v2":
            self.write_checkpoint(restored.checkpoint)
        return restored

    def write_checkpoint(self, checkpoint: Checkpoint) -> Path:
        """Replace the checkpoint of the workspace and return its path."""
        path = self._folders[0] / ".checkpoints" / "latest.bin"
        replace_file(path, checkpoint.to_bytes())
        return path

    def _folder(self, name: str) -> Path:
        return self._folders[0] / _CONVERSATIONS / name

    def _levels(self, name: str) -> list[tuple[Path, Callable[[Path], ClawserConversation]]]:
        """Return the possible paths of a conversation with their readers, newest version first."""
        return [
            *((folder / _CONVERSATIONS / name, read_folder) for folder in self._folders),
            *((folder / _CONVERSATIONS / f"{name}.json", read_blob) for folder in self._folders),
            (self._root / _OLDER / f"{name}.bin", read_checkpoint_v1),
            (self._root / _OLDEST / self._id / f"{name}.bin", read_checkpoint_v0),
        ]

    def _on_disk(self, name: str) -> ClawserConversation | None:
        """Return the conversation on disk, or None if nothing of it can be read."""
        try:
            return _first_readable(self._levels(name), f"conversation {name}")[0]
        except (NotFound, Corrupt):
            return None

    def _with_others(
        self, log: EventLog, name: str, on_disk: ClawserConversation | None
    ) -> EventLog:
        """Return ``log`` with the events on disk that were neither read nor written here."""
        own, seen = Counter(map(stringify, log.events)), self._seen.get(name, set())
        self._seen[name] = seen | set(own)
        written = (
            [] if on_disk is None else [(stringify(event), event) for event in on_disk.log.events]
        )
        if all(line in own or line in seen for line, _ in written):
            return log
        # Events on disk keep their order; new ones are added after them.
        merged = [(line, event) for line, event in written if line in own or line not in seen]
        fresh = own - Counter(line for line, _ in merged)
        added: list[Any] = []
        for event in reversed(log.events):
            line = stringify(event)
            if fresh[line]:
                fresh[line] -= 1
                added.append(event)
        joined = EventLog()
        joined.load([*(event for _, event in merged), *reversed(added)])
        return joined

    def _put(self, card: Card, log: EventLog) -> None:
        path = self._folder(card.id) / "events.jsonl"
        # A line that is not an event is in no log: keep the old file so that it can be repaired.
        if path.exists() and read_jsonl(read_bytes(path)).bad:
            keep_copy(path)
        # The events first: a card must never count more events than exist.
        replace_file(path, log.to_jsonl().encode())
        replace_file(self._folder(card.id) / "meta.json", stringify(card_fields(card)).encode())


def _is_there(path: Path) -> bool:
    """Return whether a conversation exists here; its folder is created before its files."""
    return path.is_file() or any((path / name).exists() for name in ("events.jsonl", "meta.json"))


def _first_readable(
    levels: Sequence[tuple[Path, Callable[[Path], T]]], what: str
) -> tuple[T, tuple[PassedOver, ...]]:
    passed_over: list[PassedOver] = []
    for path, read in levels:
        if not _is_there(path):
            continue
        try:
            return read(path), tuple(passed_over)
        except (InvalidInput, OSError) as error:
            passed_over.append(PassedOver(path=path, message=str(error)))
    if not passed_over:
        raise NotFound(f"no {what}", hint="check the names of the folder and of both ids")
    tried = "; ".join(f"{file.path}: {file.message}" for file in passed_over)
    raise Corrupt(f"no file of {what} can be read: {tried}", hint="restore one from a backup")


def _restored(version: Version) -> Callable[[Path], Restored]:
    def read(path: Path) -> Restored:
        checkpoint = Checkpoint.from_bytes(read_bytes(path))
        return Restored(checkpoint=checkpoint, version=version, path=path)

    return read


def _rebuilt(folder: Path) -> Restored:
    conversation = read_folder(folder)
    checkpoint, counter = checkpoint_of(conversation.log), conversation.card.more.get(GOAL_COUNTER)
    if type(counter) is int and counter > checkpoint.goal_id_counter:
        checkpoint = msgspec.structs.replace(checkpoint, goal_id_counter=counter)
    return Restored(checkpoint=checkpoint, version="v2", path=conversation.path)


def _safe_name(text: str, field: str) -> str:
    """Return ``text`` if it is a safe file name. Raises InvalidInput otherwise."""
    if _UNSAFE.search(check_name(text, field)):
        raise InvalidInput(
            f"{field} {text!r} is not a file name", hint="leave out slashes and dots"
        )
    return text


Version = Literal["v2", "v1", "v0"]
GOAL_COUNTER: Final = "goalIdCounter"
"""The field of ``meta.json`` with the next goal's number, if the events do not imply it."""
_OWN_FIELDS: Final = frozenset(
    {"id", "title", "created", "updated", "event_count", "model", "name", "lastUsed"}
)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation's ``meta.json``."""

    id: str
    title: str
    created: int | None
    updated: int | None
    event_count: int
    model: str | None = None
    more: dict[str, Any] = {}
    """Unknown fields, which are kept."""


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be read."""

    path: Path
    message: str


class ClawserConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, and the problems found while reading it."""

    card: Card
    log: EventLog
    version: Version
    path: Path
    bad: int = 0
    """The number of lines that are not events."""
    bad_lines: tuple[UnreadLine, ...] = ()
    """The first of these lines."""
    passed_over: tuple[PassedOver, ...] = ()


def read_folder(folder: Path) -> ClawserConversation:
    """Return the conversation in a v2 folder. Raises InvalidInput if it has no events."""
    path = folder / "events.jsonl"
    if not path.exists():
        raise InvalidInput("it has no events.jsonl", hint="restore it from a backup")
    parsed = read_jsonl(read_bytes(path))
    if parsed.bad and not parsed.log.size:
        raise InvalidInput(
            f"none of {parsed.bad} lines is an event", hint="restore it from a backup"
        )
    card, broken = card_at(folder, parsed.log, folder.name)
    return ClawserConversation(
        card=card,
        log=parsed.log,
        version="v2",
        path=path,
        bad=parsed.bad,
        bad_lines=parsed.bad_lines,
        passed_over=broken,
    )


def card_at(folder: Path, log: EventLog, name: str) -> tuple[Card, tuple[PassedOver, ...]]:
    """Return a conversation's card, from its ``meta.json`` or else from its events."""
    path = folder / "meta.json"
    fields: dict[str, Any] = {}
    broken: tuple[PassedOver, ...] = ()
    if path.exists():
        try:
            fields = _read_object(path)
        except (InvalidInput, OSError) as error:
            broken = (PassedOver(path=path, message=str(error)),)
    return _card(fields, log, name), broken


def _card(stated: dict[str, Any], log: EventLog, name: str) -> Card:
    first, last = times_of(log)
    title = stated.get("title", stated.get("name"))
    created = stated.get("created")
    updated = stated.get("updated", stated.get("lastUsed"))
    model = stated.get("model")
    return Card(
        id=name,
        title=title if isinstance(title, str) else name,
        created=created if type(created) is int else first,
        updated=updated if type(updated) is int else last,
        event_count=log.size,
        model=model if isinstance(model, str) else None,
        more={key: value for key, value in stated.items() if key not in _OWN_FIELDS},
    )


def card_fields(card: Card) -> dict[str, Any]:
    """Return the content of ``meta.json``."""
    stated = {name: getattr(card, name) for name in Card.__struct_fields__ if name != "more"}
    return {**{name: value for name, value in stated.items() if value is not None}, **card.more}


def read_blob(path: Path) -> ClawserConversation:
    """Return the conversation in a v1 JSON file. Raises InvalidInput if it is not one."""
    stated = _read_object(path)
    if not stated.get("checkpoint"):
        raise InvalidInput("it has no checkpoint", hint="restore it from a backup")
    checkpoint = Checkpoint.from_json(stated["checkpoint"])
    del stated["checkpoint"]
    times = (checkpoint.timestamp, stated.get("lastUsed"), stated.get("created"))
    return _migrated(checkpoint, path, "v1", stated, times)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = parse(read_bytes(path).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("not UTF-8", hint="restore it from a backup") from None
    if not isinstance(value, dict):
        raise InvalidInput("not an object", hint="restore it from a backup")
    return value


def read_checkpoint_v1(path: Path) -> ClawserConversation:
    """Return the conversation in a v1 checkpoint. Raises InvalidInput if it is not one."""
    checkpoint = Checkpoint.from_bytes(read_bytes(path))
    return _migrated(checkpoint, path, "v1", {}, (checkpoint.timestamp,))


def read_checkpoint_v0(path: Path) -> ClawserConversation:
    """Return the conversation in a v0 checkpoint. Raises InvalidInput if it is not one."""
    checkpoint = Checkpoint.from_bytes(read_bytes(path))
    return _migrated(checkpoint, path, "v0", {}, (checkpoint.timestamp,))


def _migrated(
    checkpoint: Checkpoint,
    path: Path,
    version: Version,
    stated: dict[str, Any],
    times: Sequence[Any],
) -> ClawserConversation:
    # Not the clock: reading a file twice must give the same events.
    file_ms = path.stat().st_mtime_ns // 1_000_000
    at_ms = next((time for time in times if type(time) is int), file_ms)
    log = events_of(checkpoint, at_ms=at_ms)
    if checkpoint.goal_id_counter > checkpoint_of(log).goal_id_counter:
        # Removed goals had numbers, too.
        stated = {**stated, GOAL_COUNTER: checkpoint.goal_id_counter}
    return ClawserConversation(
        card=_card(stated, log, path.stem), log=log, version=version, path=path
    )


def times_of(log: EventLog) -> tuple[int | None, int | None]:
    """Return the times of the first and the last event that have one."""

    def stated(events: Sequence[Any]) -> Iterator[int]:
        for event in events:
            time = event.get("timestamp") if isinstance(event, dict) else None
            if type(time) is int:
                yield time

    events = log.events
    return next(stated(events), None), next(stated(events[::-1]), None)


try:
    import fcntl
except ImportError:  # Windows has no flock: write from one process at a time there.
    fcntl = None  # type: ignore[assignment]

FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest file to read: files are held in memory."""


def read_bytes(path: Path) -> bytes:
    """Return a file's content. Raises TooLarge, or OSError if it cannot be read."""
    size = path.stat().st_size
    if size > FILE_BYTES_MAX:
        raise TooLarge(f"{path.name} has {size} bytes", hint="split it by lines")
    return path.read_bytes()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a conversation against other processes, creating its folder if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            file = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def set_aside(path: Path) -> None:
    """Rename an unreadable file, so that it is not overwritten."""
    if path.exists():
        path.rename(_unused_name(path))


def keep_copy(path: Path) -> None:
    """Save a copy of a file under another name beside it."""
    replace_file(_unused_name(path), path.read_bytes())


def _unused_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.broken-{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def replace_file(path: Path, body: bytes) -> None:
    """Replace ``path`` with ``body``, durably: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(body)


_SHAPES: Final = (
    ("history", "goals", "schedulerJobs"),
    ("session_history", "active_goals", "scheduler_jobs"),
    ("session_history", "active_goals", "scheduler_snapshot"),
)
"""The names of the messages, goals and jobs in each shape."""
_MARKS: Final = frozenset(
    {"goals", "schedulerJobs", "goalIdCounter"}
    | {"active_goals", "scheduler_jobs", "scheduler_snapshot", "agent_state"}
)
"""Fields that distinguish a checkpoint from other objects with a history."""
_NUMBERED: Final = re.compile(r"([0-9]{1,18})\Z")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an agent, for a quick restore; the events are authoritative."""

    history: list[Any]
    goals: list[Any]
    scheduler_jobs: list[Any]
    goal_id_counter: int
    """The number of the next goal."""
    timestamp: int | None = None
    """Its creation time, if stated."""

    def to_bytes(self) -> bytes:
        """Return the content of ``latest.bin``."""
        return stringify(
            {
                "history": self.history,
                "goals": self.goals,
                "schedulerJobs": self.scheduler_jobs,
                "goalIdCounter": self.goal_id_counter,
            }
        ).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Checkpoint:
        """Return the checkpoint in a file's bytes. Raises InvalidInput if they are not one."""
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _not_a_checkpoint("not UTF-8") from None
        return cls.from_json(parse(text))

    @classmethod
    def from_json(cls, value: Any) -> Checkpoint:
        """Return a checkpoint in any of its shapes. Raises InvalidInput if it is not one."""
        fields = _unwrapped(value)
        if not isinstance(fields, dict):
            raise _not_a_checkpoint("not an object")
        if not any(isinstance(fields.get(shape[0]), list) for shape in _SHAPES):
            raise _not_a_checkpoint("it has no history")
        history, goals, jobs = (_first(fields, names) for names in zip(*_SHAPES, strict=True))
        counter, timestamp = fields.get("goalIdCounter"), fields.get("timestamp")
        return cls(
            history=history,
            goals=goals,
            scheduler_jobs=jobs,
            goal_id_counter=counter if type(counter) is int else _next_goal(goals),
            timestamp=timestamp if type(timestamp) is int else None,
        )


def is_checkpoint(value: Any) -> bool:
    """Return whether ``value`` is a checkpoint in any of its shapes."""
    try:
        fields = _unwrapped(value)
    except InvalidInput:
        return False
    return (
        isinstance(fields, dict)
        and not _MARKS.isdisjoint(fields)
        and any(isinstance(fields.get(shape[0]), list) for shape in _SHAPES)
    )


def checkpoint_of(log: EventLog) -> Checkpoint:
    """Return the state that results from the events of ``log``."""
    goals = log.derive_goals()
    jobs: dict[str, Any] = {}
    for event in log.events:
        content = event.get("data") if isinstance(event, dict) else None
        if not isinstance(content, dict):
            continue
        key = stringify(content.get("id"))
        if event.get("type") == "scheduler_added":
            jobs[key] = content
        elif event.get("type") == "scheduler_removed":
            jobs.pop(key, None)
    return Checkpoint(
        history=log.derive_session_history(),
        goals=goals,
        scheduler_jobs=list(jobs.values()),
        goal_id_counter=_next_goal(goals),
    )


def events_of(checkpoint: Checkpoint, *, at_ms: int) -> EventLog:
    """Return a log with the events for a checkpoint's content, all at ``at_ms``.

    System messages are left out. A tool message becomes the result if it is JSON, otherwise the
    output.
    """
    log = EventLog(clock=lambda: at_ms)
    for message in checkpoint.history:
        for event in _events_of_message(message if isinstance(message, dict) else {}):
            log.append(*event)
    for goal in checkpoint.goals:
        if isinstance(goal, dict):
            extra = _some(goal, "sub_goals", "artifacts", "progress")
            more = {name: value for name, value in extra.items() if value not in (None, [])}
            log.append("goal_added", {**_some(goal, "id", "description"), **more})
            if goal.get("status", "active") != "active":
                log.append("goal_updated", _some(goal, "id", "status"))
    for job in checkpoint.scheduler_jobs:
        if isinstance(job, dict):
            log.append("scheduler_added", job)
    continued = EventLog()  # Events that are added later have their own times.
    continued.load(log.events)
    return continued


def _events_of_message(message: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    match message.get("role"):
        case "user":
            yield "user_message", _some(message, "content"), "user"
        case "assistant":
            content = message.get("content")
            yield "agent_message", {"content": content if truthy(content) else ""}, "agent"
            for call in objects_in(message.get("tool_calls")):
                yield "tool_call", _called(call), "agent"
        case "tool":
            content = message.get("content")
            name = message.get("name")
            returned = {"name": name if truthy(name) else "tool", "result": _result(content)}
            if "tool_call_id" in message:
                returned = {"call_id": message["tool_call_id"], **returned}
            yield "tool_result", returned, "system"


def _called(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    inner = function if isinstance(function, dict) else {}
    names = (inner.get("name"), call.get("name"), "unknown")
    arguments = (inner.get("arguments"), call.get("arguments"), "{}")
    return {
        **({"call_id": call["id"]} if "id" in call else {}),
        "name": next(filter(truthy, names)),
        "arguments": next(filter(truthy, arguments)),
    }


def _result(content: Any) -> Any:
    try:
        return parse(content) if isinstance(content, str) else {"success": True, "output": content}
    except InvalidInput:
        return {"success": True, "output": content}


def _some(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _unwrapped(value: Any) -> Any:
    """Return ``value``, decoded if it is stored as bytes: a list, or an object of numbers."""
    if isinstance(value, dict) and value and all(key.isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    if isinstance(value, list) and value:
        try:
            return parse(bytes(value).decode("utf-8-sig"))
        except (TypeError, ValueError, UnicodeDecodeError):
            raise _not_a_checkpoint("not UTF-8") from None
    return value


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    for name in names:
        value = fields.get(name)
        if isinstance(value, dict):
            # A snapshot has its jobs in a field of its own.
            value = value.get("jobs")
        if isinstance(value, list):
            return value
    return []


def _next_goal(goals: list[Any]) -> int:
    ids = (str(goal.get("id")) for goal in goals if isinstance(goal, dict))
    return max([int(match[1]) + 1 for id_ in ids if (match := _NUMBERED.search(id_))], default=1)


def _not_a_checkpoint(reason: str) -> InvalidInput:
    return InvalidInput(f"not a checkpoint: {reason}", hint="read the events instead")
