"""Apeira's logs read line by line: what ``to_session`` records, of whichever session it is.

Each line is kept whole beside what it says, so that ``from_session`` gives the log back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.apeira.events import OWN_FIELD, entry_of, item_in, name_in
from treering.formats.apeira.json import NotJson, copy, stringify
from treering.formats.apeira.reading import TYPES, next_after, parse_episode
from treering.formats.loose import bounded, digest, fields_of, name
from treering.formats.sayings import observation
from treering.formats.telling import Opening, Outcome, Told, of_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.apeira.reading import Episode
    from treering.formats.telling import Record

NAME: Final = "apeira"


def recognises(values: Sequence[Any]) -> bool:
    """Whether these are episodes."""
    found = [value for value in values if isinstance(value, dict)]
    ours = sum(_is_episode(value) for value in found)
    return ours > 0 and ours * 2 > len(found)


class ApeiraReader:
    """Reads one log of episodes. They have no times: all are of the same.

    A key stands for an episode and all before it, so a log is the same under whatever name, and one
    that was copied and goes on shares what was copied.
    """

    keys_are_global = True
    times_tell_apart = False

    def __init__(self, path: PurePath | None = None) -> None:
        self._session = (name(path.name.split(".jsonl")[0]) if path else None) or NAME
        self.sessions: dict[str, Opening] = {
            self._session: Opening(session=self._session, agent=NAME)
        }
        self._upcoming = 1
        self._key = ""
        """The key of the last line."""
        self._tools: dict[str, str] = {}

    def read(self, record: Record) -> list[Outcome]:
        """Return the outcome of ``record``: each is settled at once."""
        try:
            episode = parse_episode(stringify(copy(record.value)))
        except (InvalidInput, NotJson):
            return [Outcome(record=record, events=[self._other(record.value)])]
        # As Apeira reads them: ids only ever rise.
        episode["id"] = max(episode["id"], self._upcoming)
        self._upcoming = next_after(episode["id"])
        return [Outcome(record=record, events=[self._told(episode)])]

    def finish(self) -> list[Outcome]:
        """Return nothing: nothing is held back."""
        return []

    def state(self) -> Any:
        """Return the numbers, and the tools by their calls; None if these are too many."""
        return bounded({"upcoming": self._upcoming, "key": self._key, "tools": self._tools})

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
        if not isinstance(state, dict) or type(state.get("upcoming")) is not int:
            raise ValueError("no state of this format")
        self._upcoming, self._key = state["upcoming"], str(state.get("key"))
        self._tools = fields_of(state.get("tools"))

    def _told(self, episode: Episode) -> Told:
        entry = entry_of(episode, self._tools)
        item = item_in(episode)
        call_id, tool = name_in(item, "call_id"), name_in(item, "name")
        if item.get("type") == "function_call" and call_id and tool:
            self._tools.setdefault(call_id, tool)
        return Told(
            session=self._session,
            key=self._next_key(stringify(episode)),
            kind=entry.kind,
            summary=entry.summary,
            ts_ms=1,
            # The ledger's own fields do not hold its source and its turn here.
            payload={**entry.payload, OWN_FIELD: {"line": stringify(episode)}},
            refs=entry.refs,
            source=entry.source,
        )

    def _next_key(self, value: Any) -> str:
        self._key = f"{NAME}:{digest([self._key, value])}"
        return of_words(self._key)

    def _other(self, value: Any) -> Told:
        saying = observation("line", {"value": value})
        return Told(
            session=self._session,
            key=self._next_key(value),
            kind=saying.kind,
            summary=saying.summary,
            ts_ms=1,
            payload=saying.payload,
            refs=saying.refs,
        )


READER: Final = ApeiraReader


def _is_episode(value: dict[str, Any]) -> bool:
    return (
        value.get("type") in TYPES
        and type(value.get("id")) is int
        and isinstance(value.get("payload"), dict | list)
        and isinstance(value.get("meta"), dict | list)
    )
