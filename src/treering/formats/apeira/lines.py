"""Apeira's logs read line by line: what ``to_session`` records, of whichever session it is.

Each line is kept whole beside what it says, so that ``from_session`` gives the log back. A stored
state, which is one JSON value with the log in it, gives the same events as the log by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.apeira.events import CONTEXT, OWN_FIELD, entry_of, item_in, name_in
from treering.formats.apeira.json import BLANKS, JsonParseError, copy, parse, stringify
from treering.formats.apeira.reading import TYPES, next_after, parse_episode
from treering.formats.event_content import observation
from treering.formats.grammar import share
from treering.formats.loose import bounded, digest, fields_of, stem
from treering.formats.parsed import ParsedEvent, ParsedRecord, SessionHeader, of_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.apeira.reading import Episode
    from treering.formats.parsed import LogRecord

NAME: Final = "apeira"


def score(values: Sequence[Any]) -> float:
    """Return how much of a file is episodes, or stored states with some."""
    found = [fields_of(value) for value in values]
    return share(_is_episode(value) or _is_state(value) for value in found)


class ApeiraReader:
    """Reads one log of episodes. They have no times: all are of the same.

    A key stands for an episode and all before it, so a log is the same under whatever name, and one
    that was copied and goes on shares what was copied.
    """

    keys_are_global = True
    times_tell_apart = False

    def __init__(self, path: PurePath | None = None) -> None:
        self._name = stem(path) or NAME
        self.sessions: dict[str, SessionHeader] = {}
        self._states = 0
        """How many stored states were read; each is a session of its own."""
        self._tools: dict[str, str] = {}
        self._begin(self._name)

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``: each is settled at once."""
        value = record.value
        if isinstance(value, dict) and _is_state(value):
            events = self._read_state(value)
            skipped = None if events else "a state without episodes"
            return [ParsedRecord(record=record, events=events, skipped=skipped)]
        try:
            episode = parse_episode(stringify(copy(value)))
        except (InvalidInput, JsonParseError):
            return [ParsedRecord(record=record, events=[self._other(value)])]
        return [ParsedRecord(record=record, events=[self._told(episode)])]

    def finish(self) -> list[ParsedRecord]:
        """Return nothing: nothing is held back."""
        return []

    def state(self) -> Any:
        """Return the numbers, and the tools by their calls; None if these are too many.

        A stored state is replaced as a whole, so there is nothing to go on from.
        """
        if self._states:
            return None
        return bounded({"upcoming": self._upcoming, "key": self._key, "tools": self._tools})

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
        if not isinstance(state, dict) or type(state.get("upcoming")) is not int:
            raise ValueError("no state of this format")
        self._upcoming, self._key = state["upcoming"], str(state.get("key"))
        self._tools.update(fields_of(state.get("tools")))

    def _begin(self, session: str) -> None:
        self._session = session
        self.sessions[session] = SessionHeader(session=session, agent=NAME)
        self._upcoming = 1
        self._key = ""
        """The key of the last line."""
        self._tools = {}

    def _read_state(self, state: dict[str, Any]) -> list[ParsedEvent]:
        """Return what a stored state tells: its log, line by line, and its context behind it."""
        self._states += 1
        if self._states > 1:
            self._begin(f"{self._name}-{self._states}")
        events: list[ParsedEvent] = []
        for number, line in enumerate(state["episodic"].split("\n"), start=1):
            text = line.strip(BLANKS)
            if not text:
                continue
            try:
                events.append(self._told(parse_episode(text)))
            except JsonParseError as error:
                # It is not in the chain of keys: the log by itself has it as a fault, if at all.
                key = of_words(f"{NAME}:{digest([self._key, number, text])}")
                told = {"line": number, "text": text, "fault": str(error)}
                events.append(self._observation(key, "line", told))
        context = state["context"]
        if context:
            first = events[0].key if events else self._session
            key = of_words(f"{NAME}:{digest([first, CONTEXT, context])}")
            own = {OWN_FIELD: {CONTEXT: True}}
            events.append(self._observation(key, CONTEXT, {CONTEXT: context, **own}))
        return events

    def _told(self, episode: Episode) -> ParsedEvent:
        # As Apeira reads them: ids only ever rise.
        episode["id"] = max(episode["id"], self._upcoming)
        self._upcoming = next_after(episode["id"])
        entry = entry_of(episode, self._tools)
        item = item_in(episode)
        call_id, tool = name_in(item, "call_id"), name_in(item, "name")
        if item.get("type") == "function_call" and call_id and tool:
            self._tools.setdefault(call_id, tool)
        return ParsedEvent(
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

    def _other(self, value: Any) -> ParsedEvent:
        return self._observation(self._next_key(value), "line", {"value": value})

    def _observation(self, key: str, observed: str, record: dict[str, Any]) -> ParsedEvent:
        saying = observation(observed, record)
        return ParsedEvent(
            session=self._session,
            key=key,
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


def _is_state(value: dict[str, Any]) -> bool:
    """Whether this is a state as Apeira stores it: a context, and a log that begins as one."""
    log = value.get("episodic")
    if not isinstance(value.get("context"), dict) or not isinstance(log, str):
        return False
    first = next((text for line in log.split("\n", 100) if (text := line.strip(BLANKS))), None)
    try:
        return first is None or isinstance(parse(first), dict)
    except JsonParseError:
        return first is not None and first.startswith("{")  # A torn line.
