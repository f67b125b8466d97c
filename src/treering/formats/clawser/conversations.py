"""One Clawser conversation on disk, in any of its versions."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.errors import InvalidInput, TooLarge
from treering.formats.clawser.checkpoints import Checkpoint, checkpoint_of, events_of
from treering.formats.clawser.log import EventLog, read_jsonl
from treering.formats.clawser.text import UnreadLine, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
