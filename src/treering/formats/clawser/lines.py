"""The reader of Clawser's event logs: the events of ``to_session``, under the same ids.

A conversation of an older version is one JSON value: a checkpoint, or an object that contains one.
It yields the events of ``Workspace.restore``, and its system messages. Nothing in it has an id, and
each save changes its time, so its events are identified by their content.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treering.formats.clawser.kinds import NOTE, state
from treering.formats.clawser.log import event_id_of, identity_of
from treering.formats.clawser.text import stringify, truthy
from treering.formats.clawser.workspaces import Checkpoint, events_of, is_checkpoint, repeats
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
MIGRATION_MS_MAX: Final = 1_000
"""How long a migration may take: ``restore`` gives all events one time, Clawser does not."""


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
        self._contents: Counter[str] = Counter()
        """The number of occurrences of each content of an older version."""
        self._migrated = 0
        """The number of migrated events that the log begins with."""
        self._migrated_ms: int | None = None
        """The time of the first of them."""
        self._may_be_migrated = True
        """Whether all events so far may have been migrated from an older version."""
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
        parsed = self._event(event)
        if self._is_migrated(event):
            parsed = replace(parsed, former_key=self._key_by_content(event))
        return [ParsedRecord(record=record, events=[parsed])]

    def state(self) -> Any:
        """Return the events seen; None if they are too many or the file is always rewritten."""
        if self._is_replaced_whole:
            return None
        often = {at: times for at, times in self._seen.items() if times > 1}
        migrated = None
        if self._may_be_migrated:
            migrated = [self._migrated, self._migrated_ms, dict(self._contents)]
        return bounded({"seen": " ".join(self._seen), "often": often, "migrated": migrated})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or not isinstance(state.get("seen"), str):
            raise ValueError("not a state of this format")  # noqa: TRY004  (one error for all)
        self._seen = Counter(dict.fromkeys(state["seen"].split(), 1))
        self._seen |= Counter(fields_of(state.get("often")))
        migrated = state.get("migrated")
        self._may_be_migrated = isinstance(migrated, list)
        if isinstance(migrated, list):
            self._migrated, self._migrated_ms, contents = migrated
            self._contents = Counter(fields_of(contents))

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
        self._contents.clear()  # Each value is the whole conversation.
        card, checkpoint = _card_and_checkpoint(value)
        opening = self.sessions[self._session]
        title = word(card.get("title")) or word(card.get("name"))
        about = without_none(
            **opening.about, model=name(card.get("model")), next_goal=checkpoint.goal_id_counter
        )
        self.sessions[self._session] = replace(opening, title=title or opening.title, about=about)
        times = (checkpoint.timestamp, card.get("lastUsed"), card.get("created"))
        at_ms = next((time for time in times if type(time) is int), NO_TIME_MS)
        is_timed = checkpoint.timestamp is not None
        events = [
            self._older_event(event, is_timed=is_timed)
            for event in events_of(checkpoint, at_ms=at_ms).events
        ]
        return [*self._system_messages(checkpoint, at_ms), *events]

    def _older_event(self, event: Any, *, is_timed: bool) -> ParsedEvent:
        parsed = self._event(event)
        # ``to_session`` and earlier versions identify it by its number in this save. Without the
        # time of the save, another event may have had that number.
        former_key = parsed.key if is_timed else None
        return replace(parsed, key=self._key_by_content(event), former_key=former_key)

    def _key_by_content(self, event: dict[str, Any]) -> str:
        """Return a key made of an event's content and how often that occurred before."""
        content = digest(stringify([self._session, event.get("type"), event.get("data")]))
        self._contents[content] += 1
        return content_key(f"{NAME}:{content}~{self._contents[content]}")

    def _is_migrated(self, event: Any) -> bool:
        """Return whether ``event`` may have been migrated, and so imported by its content before.

        A migrated log begins with such events, numbered from 0 and made at one time.
        """
        fields = fields_of(event)
        at_ms = fields.get("timestamp")
        if not self._may_be_migrated or type(at_ms) is not int:
            self._may_be_migrated = False
            return False
        if self._migrated_ms is None:
            self._migrated_ms = at_ms
        self._may_be_migrated = (
            fields.get("id") == f"evt_{at_ms}_{self._migrated}"
            and 0 <= at_ms - self._migrated_ms <= MIGRATION_MS_MAX
        )
        self._migrated += 1
        return self._may_be_migrated

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
