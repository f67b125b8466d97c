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
    read_blob,
    read_checkpoint_v0,
    read_checkpoint_v1,
    read_folder,
    times_of,
)
from treering.formats.clawser.files import keep_copy, locked, read_bytes, replace_file, set_aside
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
"""How a conversation of v1 or v0 ends that is a file by itself."""
_UNSAFE: Final = re.compile(r"[/\\]|\A\.{1,2}\Z")

_CARD: Final = "a card, which is read with its conversation"
_CHECKPOINT: Final = "a checkpoint, which repeats a conversation"
_SUPERSEDED: Final = "an older version of a conversation"

Found = TypeVar("Found")


def repeats(path: Path) -> str | None:
    """Return what a file of a workspace is, if it only repeats a conversation; by its place."""
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
    """Whether a file that is no log by its name lies where a conversation of v1 or v0 does."""
    folder = path.parent
    return path.suffix == CONVERSATION and (folder.name == _OLDER or folder.parent.name == _OLDEST)


def _is_checkpoints(folder: Path) -> bool:
    return folder.name in {".checkpoints", _OLDEST} or folder.parent.name == _OLDEST


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
            older.append(self._root / _OLDER)  # It says nothing of workspaces.
        for folder in older:
            names |= {path.stem for path in folder.glob("*.bin") if path.stem != "latest"}
        return sorted(names)

    def read(self, conversation_id: str) -> ClawserConversation:
        """Return a conversation, of the newest version that can be read; nothing is written.

        Raises NotFound if there is none, Corrupt if none of its files can be read.
        """
        name = _safe_name(conversation_id, "conversation_id")
        self._seen.setdefault(name, set())
        found, passed_over = _first_readable(self._levels(name), f"conversation {name}")
        self._seen[name] |= set(map(stringify, found.log.events))
        return msgspec.structs.replace(found, passed_over=(*found.passed_over, *passed_over))

    def restore(self, conversation_id: str) -> ClawserConversation:
        """Return a conversation as ``read`` does; one of an older version is written as v2, too.

        The files of the older version stay as they are; events of v2 that could not be read are
        set aside.
        """
        found = self.read(conversation_id)
        if found.version == "v2":
            return found
        with locked(self._folder(found.card.id)):
            # Another process may have restored it meanwhile, and gone on from there.
            found = self.read(conversation_id)
            if found.version != "v2":
                set_aside(self._folder(found.card.id) / "events.jsonl")
                self._put(found.card, found.log)
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

        Each file is replaced as a whole, the events first. Events that were never read here stay:
        those that others have written since, and all of them if the conversation was not read.
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
        found = self._on_disk(name)
        log = self._with_others(log, name, found)
        folder = self._folder(name)
        is_elsewhere = found is not None and found.path.parent != folder
        old = found.card if found and is_elsewhere else card_at(folder, log, name)[0]
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

        One that is missing or broken is made anew from the events of ``conversation_id``, if it is
        given; only then are older versions tried. Raises NotFound or Corrupt as ``read`` does.
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

    def _folder(self, name: str) -> Path:
        return self._folders[0] / _CONVERSATIONS / name

    def _levels(self, name: str) -> list[tuple[Path, Callable[[Path], ClawserConversation]]]:
        """Return where a conversation may lie and how it is read there, the newest first."""
        return [
            *((folder / _CONVERSATIONS / name, read_folder) for folder in self._folders),
            *((folder / _CONVERSATIONS / f"{name}.json", read_blob) for folder in self._folders),
            (self._root / _OLDER / f"{name}.bin", read_checkpoint_v1),
            (self._root / _OLDEST / self._id / f"{name}.bin", read_checkpoint_v0),
        ]

    def _on_disk(self, name: str) -> ClawserConversation | None:
        """Return a conversation as it lies on disk now; None if nothing of it can be read."""
        try:
            return _first_readable(self._levels(name), f"conversation {name}")[0]
        except (NotFound, Corrupt):
            return None

    def _with_others(self, log: EventLog, name: str, found: ClawserConversation | None) -> EventLog:
        """Return ``log`` with the events on disk that were neither read nor written here."""
        own, seen = Counter(map(stringify, log.events)), self._seen.get(name, set())
        self._seen[name] = seen | set(own)
        written = [] if found is None else [(stringify(one), one) for one in found.log.events]
        if all(line in own or line in seen for line, _ in written):
            return log
        # What is on disk keeps its order; what is new here comes behind it.
        kept = [(line, one) for line, one in written if line in own or line not in seen]
        fresh = own - Counter(line for line, _ in kept)
        behind: list[Any] = []
        for event in reversed(log.events):
            line = stringify(event)
            if fresh[line]:
                fresh[line] -= 1
                behind.append(event)
        joined = EventLog()
        joined.load([*(one for _, one in kept), *reversed(behind)])
        return joined

    def _put(self, card: Card, log: EventLog) -> None:
        path = self._folder(card.id) / "events.jsonl"
        # A line that is no event is in no log: whoever can mend it needs the old file.
        if path.exists() and read_jsonl(read_bytes(path)).bad:
            keep_copy(path)
        # The events first: a card never promises more of them than there are.
        replace_file(path, log.to_jsonl().encode())
        replace_file(self._folder(card.id) / "meta.json", stringify(card_fields(card)).encode())


def _is_there(path: Path) -> bool:
    """Whether something was written there. A folder comes first, and its files soon after."""
    return path.is_file() or any((path / name).exists() for name in ("events.jsonl", "meta.json"))


def _first_readable(
    levels: Sequence[tuple[Path, Callable[[Path], Found]]], what: str
) -> tuple[Found, tuple[PassedOver, ...]]:
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
    tried = "; ".join(f"{one.path}: {one.message}" for one in passed_over)
    raise Corrupt(f"no file of {what} can be read: {tried}", hint="restore one from a backup")


def _restored(version: Version) -> Callable[[Path], Restored]:
    def read(path: Path) -> Restored:
        checkpoint = Checkpoint.from_bytes(read_bytes(path))
        return Restored(checkpoint=checkpoint, version=version, path=path)

    return read


def _rebuilt(folder: Path) -> Restored:
    found = read_folder(folder)
    checkpoint, kept = checkpoint_of(found.log), found.card.more.get(GOAL_COUNTER)
    if type(kept) is int and kept > checkpoint.goal_id_counter:
        checkpoint = msgspec.structs.replace(checkpoint, goal_id_counter=kept)
    return Restored(checkpoint=checkpoint, version="v2", path=found.path)


def _safe_name(text: str, field: str) -> str:
    """Return ``text`` if it can name a file, and no other place. Raises InvalidInput otherwise."""
    if _UNSAFE.search(check_name(text, field)):
        raise InvalidInput(f"{field} {text!r} names no file", hint="leave out slashes and dots")
    return text
