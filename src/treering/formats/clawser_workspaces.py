"""Clawser's workspaces on disk: conversations and checkpoints of every version, one written.

    clawser_workspaces/{workspace}/.conversations/{conversation}/meta.json, events.jsonl   v2
    clawser/workspaces/{workspace}/…                                                       v2
    …/.conversations/{conversation}.json, clawser_conversations/{conversation}.bin         v1
    clawser_checkpoints/{workspace}/{conversation}.bin                                     v0

What is newer is tried first. A level that cannot be read gives way to the next and is told of;
what lies there is never changed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from treering.errors import Corrupt, InvalidInput, NotFound
from treering.formats.clawser_checkpoints import Checkpoint, checkpoint_of, events_of
from treering.formats.clawser_files import read_bytes, replace_file
from treering.formats.clawser_log import EventLog, read_jsonl
from treering.formats.clawser_text import BadLine, parse, stringify
from treering.model.fields import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Version = Literal["v2", "v1", "v0"]
DEFAULT_WORKSPACE: Final = "default"
_LAYOUTS: Final = ("clawser_workspaces", "clawser/workspaces")
_CONVERSATIONS: Final = ".conversations"
_UNSAFE: Final = re.compile(r"[/\\]|\A\.{1,2}\Z")
_OWN_FIELDS: Final = frozenset(
    {"id", "title", "created", "updated", "event_count", "model", "name", "lastUsed"}
)

Found = TypeVar("Found")


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What ``meta.json`` says of a conversation."""

    id: str
    title: str
    created: int | None
    updated: int | None
    event_count: int
    model: str | None = None
    more: dict[str, Any] = {}
    """Fields that this version does not know; they are kept."""


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """A file that should have been read and could not."""

    path: Path
    message: str


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as it was read, and what could not be."""

    card: Card
    log: EventLog
    version: Version
    path: Path
    bad: int = 0
    """How many lines are no events."""
    bad_lines: tuple[BadLine, ...] = ()
    """The first of them."""
    passed_over: tuple[PassedOver, ...] = ()


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint, and where it is from."""

    checkpoint: Checkpoint
    version: Version
    path: Path
    passed_over: tuple[PassedOver, ...] = ()


class Workspace:
    """One workspace under ``root``. Making one reads and writes nothing."""

    def __init__(self, root: Path | str, workspace_id: str = DEFAULT_WORKSPACE) -> None:
        self._root = Path(root)
        self._id = _safe_name(workspace_id, "workspace_id")
        self._folders = [self._root / layout / self._id for layout in _LAYOUTS]

    def __repr__(self) -> str:
        return f"Workspace({str(self._root)!r}, {self._id!r})"

    def conversations(self) -> list[str]:
        """Return the ids of all conversations of the workspace, of any version."""
        names: set[str] = set()
        for folder in self._folders:
            names |= {path.name for path in (folder / _CONVERSATIONS).glob("*/")}
            names |= {path.stem for path in (folder / _CONVERSATIONS).glob("*.json")}
        older = [self._root / "clawser_checkpoints" / self._id]
        if self._id == DEFAULT_WORKSPACE:
            older.append(self._root / "clawser_conversations")  # It says nothing of workspaces.
        for folder in older:
            names |= {path.stem for path in folder.glob("*.bin") if path.stem != "latest"}
        return sorted(names)

    def read(self, conversation_id: str) -> Conversation:
        """Return a conversation, of the newest version that can be read; nothing is written.

        Raises NotFound if there is none, Corrupt if none of its files can be read.
        """
        name = _safe_name(conversation_id, "conversation_id")
        levels: list[tuple[Path, Callable[[Path], Conversation]]] = [
            *((folder / _CONVERSATIONS / name, _read_folder) for folder in self._folders),
            *((folder / _CONVERSATIONS / f"{name}.json", _read_blob) for folder in self._folders),
            (self._root / "clawser_conversations" / f"{name}.bin", _read_checkpoint_v1),
            (self._root / "clawser_checkpoints" / self._id / f"{name}.bin", _read_checkpoint_v0),
        ]
        found, passed_over = _first_readable(levels, f"conversation {name}")
        return msgspec.structs.replace(found, passed_over=(*found.passed_over, *passed_over))

    def restore(self, conversation_id: str) -> Conversation:
        """Return a conversation as ``read`` does; one of an older version is written as v2, too.

        The files of the older version stay as they are.
        """
        found = self.read(conversation_id)
        if found.version != "v2":
            card = found.card
            self.write(
                found.log, card.id, title=card.title, created=card.created, updated=card.updated,
                model=card.model,
            )  # fmt: skip
        return found

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
        """Write a conversation as v2; what is not given stays as it was, or is as the events say.

        Each file is replaced as a whole, the events first.
        """
        name = _safe_name(conversation_id, "conversation_id")
        folder = self._folders[0] / _CONVERSATIONS / name
        old = _card_at(folder, log, name)[0]
        card = Card(
            id=name,
            title=old.title if title is None else title,
            created=old.created if created is None else created,
            updated=_times(log)[1] if updated is None else updated,
            event_count=log.size,
            model=old.model if model is None else model,
            more=old.more,
        )
        replace_file(folder / "events.jsonl", log.to_jsonl().encode())
        replace_file(folder / "meta.json", stringify(_spelt(card)).encode())
        return card

    def read_checkpoint(self, conversation_id: str | None = None) -> Restored:
        """Return the newest checkpoint that can be read.

        One that is missing or broken is made anew from the events of ``conversation_id``, if it is
        given; only then are older versions tried. Raises NotFound or Corrupt as ``read`` does.
        """
        v2 = [folder / ".checkpoints" / "latest.bin" for folder in self._folders]
        older = self._root / "clawser_checkpoints"
        levels: list[tuple[Path, Callable[[Path], Restored]]] = [
            (path, _restored("v2")) for path in v2
        ]
        if conversation_id is not None:
            name = _safe_name(conversation_id, "conversation_id")
            levels += [(f / _CONVERSATIONS / name, _rebuilt) for f in self._folders]
            levels.append((self._root / "clawser_conversations" / f"{name}.bin", _restored("v1")))
        levels.append((older / self._id / "latest.bin", _restored("v0")))
        if self._id == DEFAULT_WORKSPACE:
            levels.append((older / "latest.bin", _restored("v0")))
        if conversation_id is not None:
            levels.append((older / self._id / f"{name}.bin", _restored("v0")))
        found, passed_over = _first_readable(levels, f"checkpoint in workspace {self._id}")
        return msgspec.structs.replace(found, passed_over=passed_over)

    def restore_checkpoint(self, conversation_id: str | None = None) -> Restored:
        """Return a checkpoint as ``read_checkpoint`` does; an older one is written as v2, too."""
        found = self.read_checkpoint(conversation_id)
        if found.version != "v2":
            self.write_checkpoint(found.checkpoint)
        return found

    def write_checkpoint(self, checkpoint: Checkpoint) -> Path:
        """Replace the checkpoint of the workspace; return where it lies."""
        path = self._folders[0] / ".checkpoints" / "latest.bin"
        replace_file(path, checkpoint.to_bytes())
        return path


def _first_readable(
    levels: Sequence[tuple[Path, Callable[[Path], Found]]], what: str
) -> tuple[Found, tuple[PassedOver, ...]]:
    passed_over: list[PassedOver] = []
    for path, read in levels:
        if not path.exists():
            continue
        try:
            return read(path), tuple(passed_over)
        except (InvalidInput, OSError) as error:
            passed_over.append(PassedOver(path=path, message=str(error)))
    if not passed_over:
        raise NotFound(f"no {what}", hint="check the names of the folder and of both ids")
    tried = "; ".join(f"{one.path}: {one.message}" for one in passed_over)
    raise Corrupt(f"no file of {what} can be read: {tried}", hint="restore one from a backup")


def _read_folder(folder: Path) -> Conversation:
    path = folder / "events.jsonl"
    if not path.exists():
        raise InvalidInput("it has no events.jsonl", hint="restore it from a backup")
    found = read_jsonl(read_bytes(path))
    if found.bad and not found.log.size:
        raise InvalidInput(
            f"none of {found.bad} lines is an event", hint="restore it from a backup"
        )
    card, broken = _card_at(folder, found.log, folder.name)
    return Conversation(
        card=card, log=found.log, version="v2", path=path, bad=found.bad, bad_lines=found.bad_lines,
        passed_over=broken,
    )  # fmt: skip


def _card_at(folder: Path, log: EventLog, name: str) -> tuple[Card, tuple[PassedOver, ...]]:
    """Return what is known of a conversation: by its ``meta.json``, or else by its events."""
    path = folder / "meta.json"
    stated: dict[str, Any] = {}
    broken: tuple[PassedOver, ...] = ()
    if path.exists():
        try:
            stated = _read_object(path)
        except (InvalidInput, OSError) as error:
            broken = (PassedOver(path=path, message=str(error)),)
    return _card(stated, log, name), broken


def _card(stated: dict[str, Any], log: EventLog, name: str) -> Card:
    first, last = _times(log)
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


def _spelt(card: Card) -> dict[str, Any]:
    stated = {name: getattr(card, name) for name in Card.__struct_fields__ if name != "more"}
    return {**{name: one for name, one in stated.items() if one is not None}, **card.more}


def _read_blob(path: Path) -> Conversation:
    stated = _read_object(path)
    if not stated.get("checkpoint"):
        raise InvalidInput("it has no checkpoint", hint="restore it from a backup")
    checkpoint = Checkpoint.from_json(stated["checkpoint"])
    del stated["checkpoint"]
    times = (checkpoint.timestamp, stated.get("lastUsed"), stated.get("created"))
    return _migrated(checkpoint, path, "v1", stated, times)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = parse(read_bytes(path).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("not UTF-8", hint="restore it from a backup") from None
    if not isinstance(found, dict):
        raise InvalidInput("not an object", hint="restore it from a backup")
    return found


def _read_checkpoint_v1(path: Path) -> Conversation:
    checkpoint = Checkpoint.from_bytes(read_bytes(path))
    return _migrated(checkpoint, path, "v1", {}, (checkpoint.timestamp,))


def _read_checkpoint_v0(path: Path) -> Conversation:
    checkpoint = Checkpoint.from_bytes(read_bytes(path))
    return _migrated(checkpoint, path, "v0", {}, (checkpoint.timestamp,))


def _migrated(
    checkpoint: Checkpoint,
    path: Path,
    version: Version,
    stated: dict[str, Any],
    times: Sequence[Any],
) -> Conversation:
    # Not the clock: whoever reads it twice gets the same events.
    file_ms = path.stat().st_mtime_ns // 1_000_000
    at_ms = next((time for time in times if type(time) is int), file_ms)
    log = events_of(checkpoint, at_ms=at_ms)
    return Conversation(card=_card(stated, log, path.stem), log=log, version=version, path=path)


def _restored(version: Version) -> Callable[[Path], Restored]:
    def read(path: Path) -> Restored:
        checkpoint = Checkpoint.from_bytes(read_bytes(path))
        return Restored(checkpoint=checkpoint, version=version, path=path)

    return read


def _rebuilt(folder: Path) -> Restored:
    found = _read_folder(folder)
    return Restored(checkpoint=checkpoint_of(found.log), version="v2", path=found.path)


def _times(log: EventLog) -> tuple[int | None, int | None]:
    """Return the times of the first event and of the last, as far as they say."""

    def stated(events: Sequence[Any]) -> Iterator[int]:
        for event in events:
            time = event.get("timestamp") if isinstance(event, dict) else None
            if type(time) is int:
                yield time

    events = log.events
    return next(stated(events), None), next(stated(events[::-1]), None)


def _safe_name(text: str, field: str) -> str:
    """Return ``text`` if it can name a file, and no other place. Raises InvalidInput otherwise."""
    if _UNSAFE.search(check_name(text, field)):
        raise InvalidInput(f"{field} {text!r} names no file", hint="leave out slashes and dots")
    return text
