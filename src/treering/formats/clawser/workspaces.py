"""Clawser's workspaces on disk: all versions of conversations and checkpoints are read.

    clawser_workspaces/{workspace}/.conversations/{conversation}/meta.json, events.jsonl   v2
    clawser/workspaces/{workspace}/…                                                       v2
    …/.conversations/{conversation}.json, clawser_conversations/{conversation}.bin         v1
    clawser_checkpoints/{workspace}/{conversation}.bin                                     v0

Newer versions are tried first. If one cannot be read, it is reported and the next is tried. Only
v2 is written; older files are never changed.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.errors import Corrupt, InvalidInput, NotFound, TooLarge
from treering.formats.clawser.checkpoints import Checkpoint, checkpoint_of
from treering.formats.clawser.conversations import (
    GOAL_COUNTER,
    Card,
    ClawserConversation,
    PassedOver,
    Version,
    card_at,
    card_fields,
    keep_copy,
    locked,
    read_blob,
    read_bytes,
    read_checkpoint_v0,
    read_checkpoint_v1,
    read_folder,
    replace_file,
    set_aside,
    times_of,
)
from treering.formats.clawser.log import EventLog, read_jsonl
from treering.formats.clawser.text import stringify
from treering.model.fields import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
