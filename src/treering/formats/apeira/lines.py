"""The reader of Apeira's logs, which yields the events that ``to_session`` records.

Each event keeps its whole line, so that ``from_session`` can write the log back. A stored state,
one JSON value that contains a log, yields the same events as that log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.apeira.episodic import TYPES, Episode, next_after, parse_episode
from treering.formats.apeira.events import CONTEXT, OWN_FIELD, entry_of, item_in, name_in
from treering.formats.apeira.json import BLANKS, JsonParseError, copy, parse, stringify
from treering.formats.event_content import observation, placed
from treering.formats.format import Format, OwnShare
from treering.formats.loose import bounded, digest, fields_of, stem
from treering.formats.parsed import (
    ParsedEvent,
    ParsedRecord,
    PromptReader,
    SessionHeader,
    content_key,
)

if TYPE_CHECKING:
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

NAME: Final = "apeira"


class ApeiraReader(PromptReader):
    """Reads one log of episodes. They have no times, so all get the same one.

    An event's key is a hash of its episode and all earlier ones: renaming a file changes no key,
    and a copy that was continued shares the keys of the copied part.
    """

    keys_are_global = True
    agent: str = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        self._name = stem(path) or NAME
        self.sessions: dict[str, SessionHeader] = {}
        self._states = 0
        """The number of stored states read so far; each is a session of its own."""
        self._tools: dict[str, str] = {}
        self._begin(self._name)

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        value = record.value
        if isinstance(value, dict) and _is_state(value):
            events = self._read_state(value)
            skipped = None if events else "a state without episodes"
            return [ParsedRecord(record=record, events=events, skipped=skipped)]
        try:
            episode = parse_episode(stringify(copy(value)))
        except (InvalidInput, JsonParseError):
            other = self._observation(self._next_key(value), "line", {"value": value})
            return [ParsedRecord(record=record, events=[other])]
        return [ParsedRecord(record=record, events=[self._event(episode)])]

    def state(self) -> Any:
        """Return the next id, the last key and the tools by call id; None if that is too large.

        A stored state is always replaced whole, so it has no position to resume from.
        """
        if self._states:
            return None
        return bounded({"upcoming": self._upcoming, "key": self._key, "tools": self._tools})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        if not isinstance(state, dict) or type(state.get("upcoming")) is not int:
            raise ValueError("not a state of this format")
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
        """Return the events of a stored state: those of its log, then its context."""
        self._states += 1
        if self._states > 1:
            self._begin(f"{self._name}-{self._states}")
        events: list[ParsedEvent] = []
        for number, line in enumerate(state["episodic"].split("\n"), start=1):
            text = line.strip(BLANKS)
            if not text:
                continue
            try:
                events.append(self._event(parse_episode(text)))
            except JsonParseError as error:
                # Not part of the key chain: the log by itself reports this line as a fault or not
                # at all.
                key = content_key(f"{NAME}:{digest([self._key, number, text])}")
                fault = {"line": number, "text": text, "fault": str(error)}
                events.append(self._observation(key, "line", fault))
        context = state["context"]
        if context:
            first = events[0].key if events else self._session
            key = content_key(f"{NAME}:{digest([first, CONTEXT, context])}")
            own = {OWN_FIELD: {CONTEXT: True}}
            events.append(self._observation(key, CONTEXT, {CONTEXT: context, **own}))
        return events

    def _event(self, episode: Episode) -> ParsedEvent:
        # Apeira assigns increasing ids.
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
            # The ledger's own fields do not hold the source and the turn here.
            payload={**entry.payload, OWN_FIELD: {"line": stringify(episode)}},
            refs=entry.refs,
            source=entry.source,
        )

    def _next_key(self, value: Any) -> str:
        self._key = f"{NAME}:{digest([self._key, value])}"
        return content_key(self._key)

    def _observation(self, key: str, observed: str, record: dict[str, Any]) -> ParsedEvent:
        return placed(observation(observed, record), self._session, key, 1)


score: Final = OwnShare(lambda value: _is_episode(value) or _is_state(value))
"""Returns the share of values that are episodes or stored states."""

FORMAT: Final = Format(name=NAME, score=score, reader=ApeiraReader)


def _is_episode(value: dict[str, Any]) -> bool:
    return (
        value.get("type") in TYPES
        and type(value.get("id")) is int
        and isinstance(value.get("payload"), dict | list)
        and isinstance(value.get("meta"), dict | list)
    )


def _is_state(value: dict[str, Any]) -> bool:
    """Return whether ``value`` is a stored state: a context, and a text that starts like a log."""
    log = value.get("episodic")
    if not isinstance(value.get("context"), dict) or not isinstance(log, str):
        return False
    first = next((text for line in log.split("\n", 100) if (text := line.strip(BLANKS))), None)
    try:
        return first is None or isinstance(parse(first), dict)
    except JsonParseError:
        return first is not None and first.startswith("{")  # A truncated line.
