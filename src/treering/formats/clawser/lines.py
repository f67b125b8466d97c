"""The reader of Clawser's event logs: the events of ``to_session``, under the same ids.

A conversation of an older version is one JSON value: a checkpoint, or an object that contains one.
It yields the events of ``Workspace.restore``, and its system messages.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treering.formats.clawser.checkpoints import Checkpoint, events_of, is_checkpoint
from treering.formats.clawser.kinds import NOTE, state
from treering.formats.clawser.log import event_id_of, identity_of
from treering.formats.clawser.text import truthy
from treering.formats.clawser.workspaces import repeats
from treering.formats.event_content import observation, placed
from treering.formats.format import Format, OwnShare
from treering.formats.loose import bounded, digest, fields_of, name, stem, without_none, word
from treering.formats.parsed import (
    ParsedEvent,
    ParsedRecord,
    PromptReader,
    SessionHeader,
    content_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

NAME: Final = "clawser"

_OWN_ID: Final = re.compile(r"evt_[0-9]+_[0-9]+")
_FIELDS: Final = frozenset({"id", "type", "timestamp", "data", "source"})
_CONVERSATIONS: Final = ".conversations"
_OLDER: Final = "clawser_checkpoints"
_CARD: Final = "meta.json"
NO_TIME_MS: Final = 1
"""The time of events without one: the importer uses the file's time instead."""
CARD_BYTES_MAX: Final = 1024 * 1024


class ClawserReader(PromptReader):
    """Reads the log of one conversation."""

    keys_are_global = True
    """A key contains the session, and is the event's id."""
    agent: str = NAME

    def __init__(self, path: PurePath | None = None, title: str | None = None) -> None:
        session, workspace = _path_parts(path)
        self._session = session or NAME
        about = without_none(workspace=workspace)
        self.sessions: dict[str, SessionHeader] = {
            self._session: SessionHeader(
                session=self._session, agent=NAME, title=title, about=about
            )
        }
        self._seen: Counter[str] = Counter()
        """The number of occurrences of each event, by a digest of its identity."""
        self._is_replaced_whole = False
        """Whether the file is of an older version, which is always rewritten whole."""

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        event = record.value
        if not truthy(event):
            return [ParsedRecord(record=record, skipped="says nothing")]
        if isinstance(event, dict) and _is_older(event):
            events = self._read_older(event)
            skipped = None if events else "a conversation in which nothing was said"
            return [ParsedRecord(record=record, events=events, skipped=skipped)]
        return [ParsedRecord(record=record, events=[self._event(event)])]

    def state(self) -> Any:
        """Return the events seen; None if they are too many or the file is always rewritten."""
        if self._is_replaced_whole:
            return None
        often = {at: times for at, times in self._seen.items() if times > 1}
        return bounded({"seen": " ".join(self._seen), "often": often})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or not isinstance(state.get("seen"), str):
            raise ValueError("not a state of this format")  # noqa: TRY004  (one error for all)
        self._seen = Counter(dict.fromkeys(state["seen"].split(), 1))
        self._seen |= Counter(fields_of(state.get("often")))

    def _event(self, event: Any) -> ParsedEvent:
        identity = identity_of(event)
        self._seen[digest(identity)] += 1
        stated = state(event)
        noted = stated.payload[NOTE]
        if "line" not in noted:
            # The event's origin holds the format's name here, so keep the source in the note.
            noted = {**noted, "source": fields_of(event).get("source")}
        return ParsedEvent(
            session=self._session,
            key=event_id_of(self._session, identity, self._seen[digest(identity)]),
            kind=stated.kind,
            summary=stated.summary,
            ts_ms=stated.ts_ms,
            payload={**stated.payload, NOTE: noted},
            refs=stated.refs,
            source=stated.source,
        )

    def _read_older(self, value: dict[str, Any]) -> list[ParsedEvent]:
        """Return the events of a conversation of an older version."""
        self._is_replaced_whole = True
        card, checkpoint = _card_and_checkpoint(value)
        opening = self.sessions[self._session]
        title = word(card.get("title")) or word(card.get("name"))
        about = without_none(
            **opening.about, model=name(card.get("model")), next_goal=checkpoint.goal_id_counter
        )
        self.sessions[self._session] = replace(opening, title=title or opening.title, about=about)
        times = (checkpoint.timestamp, card.get("lastUsed"), card.get("created"))
        at_ms = next((time for time in times if type(time) is int), NO_TIME_MS)
        events = [self._event(event) for event in events_of(checkpoint, at_ms=at_ms).events]
        return [*self._system_messages(checkpoint, at_ms), *events]

    def _system_messages(self, checkpoint: Checkpoint, at_ms: int) -> Iterator[ParsedEvent]:
        """Yield the messages that Clawser's own migration leaves out."""
        for number, message in enumerate(checkpoint.history):
            if fields_of(message).get("role") == "system":
                key = content_key(f"{NAME}:{digest([self._session, 'system', number, message])}")
                content = replace(observation("message", message), source="system")
                yield placed(content, self._session, key, at_ms)


def reader_with_title(path: PurePath | None) -> ClawserReader:
    """Return a reader that uses the title in the ``meta.json`` beside the file, if any."""
    title = None
    if path is not None and path.name:
        card = Path(path).with_name(_CARD)
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if card.stat().st_size <= CARD_BYTES_MAX:
                stated = fields_of(msgspec.json.decode(card.read_bytes()))
                title = word(stated.get("title")) or word(stated.get("name"))
    return ClawserReader(path, title)


score: Final = OwnShare(lambda value: _is_event(value) or _is_older(value))
"""Returns the share of values that are Clawser's events or older conversations."""

FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=reader_with_title,
    patterns=(
        "clawser_conversations/*.bin",
        "clawser_checkpoints/*/*.bin",
        "clawser_checkpoints/latest.bin",
        ".checkpoints/latest.bin",
    ),
    left_out=repeats,
)


def _path_parts(path: PurePath | None) -> tuple[str | None, str | None]:
    """Return the conversation and workspace of a file, if its path shows them."""
    parts = ("", "", "", *path.parts) if path else ("",) * 4
    if parts[-3] == _CONVERSATIONS:
        return name(parts[-2]), name(parts[-4])
    if parts[-2] == _CONVERSATIONS:
        return stem(path), name(parts[-3])
    return stem(path), name(parts[-2]) if parts[-3] == _OLDER else None


def _is_older(value: dict[str, Any]) -> bool:
    """Return whether ``value`` is a v1 or v0 conversation: a checkpoint, or an object with one."""
    return is_checkpoint(value) or is_checkpoint(value.get("checkpoint"))


def _card_and_checkpoint(value: dict[str, Any]) -> tuple[dict[str, Any], Checkpoint]:
    """Return the card and the checkpoint of a conversation of an older version."""
    if is_checkpoint(value):
        return {}, Checkpoint.from_json(value)
    return value, Checkpoint.from_json(value["checkpoint"])


def _is_event(value: dict[str, Any]) -> bool:
    named = value.get("id")
    return (
        isinstance(value.get("type"), str)
        and isinstance(value.get("data"), dict)
        and isinstance(named, str)
        and (_OWN_ID.fullmatch(named) is not None or set(value) == _FIELDS)
    )
