"""Clawser's event logs read line by line: what ``to_session`` records, under the same ids."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.clawser.kinds import NOTE, state
from treering.formats.clawser.sessions import event_id_of, known_by
from treering.formats.clawser.text import truthy
from treering.formats.loose import bounded, digest, fields_of, name, without_none, word
from treering.formats.telling import Opening, Outcome, Told

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.telling import Record

NAME: Final = "clawser"

_OWN_ID: Final = re.compile(r"evt_[0-9]+_[0-9]+")
_FIELDS: Final = frozenset({"id", "type", "timestamp", "data", "source"})
_CONVERSATIONS: Final = ".conversations"
_CARD: Final = "meta.json"
CARD_BYTES_MAX: Final = 1024 * 1024


def recognises(values: Sequence[Any]) -> bool:
    """Whether these are events of Clawser's."""
    found = [value for value in values if isinstance(value, dict)]
    ours = sum(_is_event(value) for value in found)
    return ours > 0 and ours * 2 > len(found)


class ClawserReader:
    """Reads the log of one conversation."""

    keys_are_global = True
    """A key holds the session, and is the event's id."""
    times_tell_apart = False

    def __init__(self, path: PurePath | None = None, title: str | None = None) -> None:
        parts = path.parts if path else ()
        lies_in = len(parts) > 2 and parts[-3] == _CONVERSATIONS
        stem = parts[-2] if lies_in else path.name.split(".jsonl")[0] if path else None
        workspace = name(parts[-4]) if lies_in and len(parts) > 3 else None
        self._session = name(stem) or NAME
        about = without_none(workspace=workspace)
        self.sessions: dict[str, Opening] = {
            self._session: Opening(session=self._session, agent=NAME, title=title, about=about)
        }
        self._seen: Counter[str] = Counter()
        """How often each event came, by digests of what it is known by."""

    def read(self, record: Record) -> list[Outcome]:
        """Return the outcome of ``record``: each is settled at once."""
        event = record.value
        if not truthy(event):
            return [Outcome(record=record, skipped="says nothing")]
        known = known_by(event)
        self._seen[digest(known)] += 1
        stated = state(event)
        noted = stated.payload[NOTE]
        if "line" not in noted:
            # The event's origin, which would say it, is the format's name here.
            noted = {**noted, "source": fields_of(event).get("source")}
        told = Told(
            session=self._session,
            key=event_id_of(self._session, known, self._seen[digest(known)]),
            kind=stated.kind,
            summary=stated.summary,
            ts_ms=stated.ts_ms,
            payload={**stated.payload, NOTE: noted},
            refs=stated.refs,
            source=stated.source,
        )
        return [Outcome(record=record, events=[told])]

    def finish(self) -> list[Outcome]:
        """Return nothing: nothing is held back."""
        return []

    def state(self) -> Any:
        """Return which events came, None if they are too many."""
        often = {at: times for at, times in self._seen.items() if times > 1}
        return bounded({"seen": " ".join(self._seen), "often": often})

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
        if not isinstance(state, dict) or not isinstance(state.get("seen"), str):
            raise ValueError("no state of this format")  # noqa: TRY004  (one error for all)
        self._seen = Counter(dict.fromkeys(state["seen"].split(), 1))
        self._seen |= Counter(fields_of(state.get("often")))


def beside_card(path: PurePath | None) -> ClawserReader:
    """Return a reader that knows what the conversation is called, if that is told beside it."""
    title = None
    if path is not None and path.name:
        card = Path(path).with_name(_CARD)
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if card.stat().st_size <= CARD_BYTES_MAX:
                stated = fields_of(msgspec.json.decode(card.read_bytes()))
                title = word(stated.get("title")) or word(stated.get("name"))
    return ClawserReader(path, title)


READER: Final = beside_card


def _is_event(value: dict[str, Any]) -> bool:
    named = value.get("id")
    return (
        isinstance(value.get("type"), str)
        and isinstance(value.get("data"), dict)
        and isinstance(named, str)
        and (_OWN_ID.fullmatch(named) is not None or set(value) == _FIELDS)
    )
