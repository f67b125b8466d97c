"""pi's session logs: one file a session, in each of the three versions of its format.

The first has no ids, the second makes the entries a tree, the third renames a role. OpenClaw keeps
its sessions in the same format.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from treering.formats.grammar import share
from treering.formats.loose import blocks_of, bounded, digest, fields_of, name, time_ms, word
from treering.formats.parsed import ParsedEvent, ParsedRecord, SessionHeader, of_words
from treering.formats.pi.entries import entry_sayings
from treering.formats.pi.entry_keys import EntryKeys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.event_content import EventContent
    from treering.formats.parsed import LogRecord

NAME: Final = "pi"

HEADER: Final = "session"
ENTRIES: Final = frozenset({
    "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom",
    "custom_message", "label", "session_info", "reset", "leaf", "usage", "context_edit",
})  # fmt: skip
_ROLES: Final = frozenset({
    "user", "assistant", "toolResult", "bashExecution", "hookMessage", "custom", "system",
})  # fmt: skip
_OWN_ROLES: Final = _ROLES - {"user", "assistant", "system"}
_BLOCKS: Final = frozenset({"text", "thinking", "image", "toolCall"})
_OF_AN_ANSWER: Final = ("api", "provider", "model", "usage", "stopReason")
_OF_ENTRIES: Final = {
    "model_change": "modelId",
    "thinking_level_change": "thinkingLevel",
    "compaction": "summary",
    "custom": "customType",
    "custom_message": "customType",
    "branch_summary": "fromId",
}
"""Entries that others hardly write, and a field that each of them has."""
_FORKED_FROM: Final = ("parentSession", "branchedFrom")
_TIME_IN_NAME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9-]+Z_")
_UNNAMED: Final = "unnamed"
_BESIDE: Final = frozenset({"ops.observation", "usage.reported"})
"""Kinds that stand beside the talk: a branch that leaves behind nothing else hides nothing."""


def score(values: Sequence[Any]) -> float:
    """Return how much of a file is entries of pi's, and not OpenClaw's."""
    from treering.formats import openclaw  # noqa: PLC0415  (it is built on this module)

    return 0.0 if openclaw.has_marks(values) else family_score(values)


def family_score(values: Sequence[Any]) -> float:
    """Return how much of a file is entries in the format of pi and OpenClaw."""
    verdicts = [_is_own(value) for value in values]
    if values and _is_header(fields_of(values[0])):
        # Behind a header, what others may write as well is taken for what it belongs to.
        verdicts = [one is not False for one in verdicts]
    return share(verdicts)


def id_in_name(path: str) -> str | None:
    """Return the session's id in the name of its file; a path of any machine's will do."""
    stem = re.split(r"[/\\]", path)[-1].split(".jsonl")[0]
    return name(_TIME_IN_NAME.sub("", stem, count=1))


class PiReader:
    """Reads one file of entries."""

    keys_are_global = False
    """An entry's id is drawn from four billion, and unique within its session alone."""
    times_tell_apart: ClassVar[bool] = True
    agent: ClassVar[str] = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        self.sessions: dict[str, SessionHeader] = {}
        self._path = path
        self._session: str | None = None
        self._header: dict[str, Any] = {}
        self._trail = EntryKeys()
        self._now_ms = 1
        self._leaf: tuple[str, str] | None = None
        """The last entry that moved the tip, and where to."""
        self._early: LogRecord | None = None
        """An entry that stands before the one that it goes on from, or after one that is lost."""

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; one whose parent is not known waits for the next."""
        early, self._early = self._early, None
        if early is not None:
            is_swapped = _id_in(record.value) == _parent_in(early.value)
            both = (record, early) if is_swapped else (early, record)
            return [self._settle(one) for one in both]
        parent = _parent_in(record.value)
        if parent is not None and len(self._trail) and parent not in self._trail:
            self._early = record
            return []
        return [self._settle(record)]

    def finish(self) -> list[ParsedRecord]:
        """Return the outcome of an entry that waited in vain."""
        early, self._early = self._early, None
        return [] if early is None else [self._settle(early)]

    def _settle(self, record: LogRecord) -> ParsedRecord:
        entry = record.value
        if isinstance(entry, dict) and _is_header(entry):
            return self._open(record, entry)
        if self._session is None:
            self._begin({})
        if not isinstance(entry, dict):
            self._trail.add(None, None)
            return ParsedRecord(record=record, skipped="no entry")
        return self._read_entry(record, entry)

    def state(self) -> Any:
        """Return the keys of all entries; None if there are too many, none told, or one waits."""
        if self._session is None or not self._trail.has_told or self._early is not None:
            return None
        state = {
            "id": name(self._header.get("id")),
            "session": self._session,
            "forked_from": self.sessions[self._session].forked_from,
            "now_ms": self._now_ms,
            "leaf": self._leaf,
            **self._trail.state(),
        }
        return bounded(state)

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
        if not isinstance(state, dict) or type(state.get("now_ms")) is not int:
            raise ValueError("no state of this format")
        self._trail = EntryKeys.of(state)
        self._now_ms = state["now_ms"]
        leaf = state.get("leaf")
        self._leaf = (str(leaf[0]), str(leaf[1])) if isinstance(leaf, list | tuple) else None
        session, forked_from = str(state.get("session")), name(state.get("forked_from"))
        self._session, self._header = session, {"id": state.get("id")}
        opening = self.opening(session, self._header)
        self.sessions[session] = replace(opening, forked_from=forked_from)

    # What OpenClaw tells otherwise.

    def session_of(self, header: dict[str, Any]) -> str:
        """Return the session's id: that of its header, or else in the name of the file."""
        named = id_in_name(self._path.name) if self._path else None
        return name(header.get("id")) or named or _UNNAMED

    def opening(self, session: str, header: dict[str, Any]) -> SessionHeader:
        """Return what the header says of the session."""
        parent = next((one for at in _FORKED_FROM if isinstance(one := header.get(at), str)), None)
        known = {"type", "id", "timestamp", "cwd", *_FORKED_FROM}
        rest = {
            at: value
            for at, value in header.items()
            if at not in known and (type(value) is int or name(value))
        }
        return SessionHeader(
            session=session,
            agent=self.agent,
            cwd=word(header.get("cwd")),
            forked_from=id_in_name(parent) if parent else None,
            about=rest,
        )

    def repeated(self, entry: dict[str, Any]) -> str | None:
        """Return why an entry repeats others, None if it does not."""
        del entry
        return None

    def dressed(self, saying: EventContent) -> EventContent:
        """Return an event as it is told."""
        return saying

    # Reading.

    def _open(self, record: LogRecord, header: dict[str, Any]) -> ParsedRecord:
        again = self._session is not None and self.session_of(header) == self._session
        if not again:
            self._trail, self._leaf = EntryKeys(), None
            self._begin(header)
        self._now_ms = time_ms(header.get("timestamp")) or self._now_ms
        self._trail.add(None, None)
        return ParsedRecord(
            record=record, skipped="opens the session" + (" again" if again else "")
        )

    def _begin(self, header: dict[str, Any]) -> None:
        session = self.session_of(header)
        self._session = session
        self._header = header
        self.sessions.setdefault(session, self.opening(session, header))

    def _read_entry(self, record: LogRecord, entry: dict[str, Any]) -> ParsedRecord:
        content = digest(entry)
        named = name(entry.get("id"))
        if named and self._trail.repeats(named, content):
            return ParsedRecord(record=record, skipped="repeats an entry")
        key = self._trail.free_key(named or of_words(content))
        self._now_ms = self._time_of(entry)
        why = self.repeated(entry)
        sayings = [] if why else entry_sayings(entry, key, self._trail, self.agent)
        undo = self._undo(entry, key) if sayings else None
        keys = _keys_of(sayings, key)
        events = [self._told(self.dressed(one), at) for one, at in zip(sayings, keys, strict=True)]
        told = [undo, *events] if undo else events
        counts = any(event.kind not in _BESIDE for event in told)
        self._trail.add(key, told[0].key if told else None, content if named else "", counts=counts)
        if entry.get("type") == "leaf" and (target := name(entry.get("targetId"))):
            self._leaf = (key, target)
        return ParsedRecord(record=record, events=told, skipped=why or (None if told else "empty"))

    def _undo(self, entry: dict[str, Any], key: str) -> ParsedEvent | None:
        """Return what hides the entries that this one does not go on from."""
        entry_keys = self._trail
        if "parentId" not in entry:
            return None
        parent = entry["parentId"]
        if parent is None:
            # Some writers name no parents at all: then this is no second root.
            said = word(entry.get("type")) in {"message", "branch_summary", "custom_message"}
            first = entry_keys.hidden_from(None) if entry_keys.is_tree and said else None
        else:
            entry_keys.is_tree = True
            if self._leaf and parent == self._leaf[0]:
                parent = self._leaf[1]
            first = entry_keys.hidden_from(parent) if isinstance(parent, str) else None
        if first is None:
            return None
        return ParsedEvent(
            session=str(self._session),
            key=f"{key}.undo",
            kind="session.undone",
            summary="another branch",
            ts_ms=self._now_ms,
            payload={"branch": parent},
            first=first,
        )

    def _told(self, saying: EventContent, key: str) -> ParsedEvent:
        return ParsedEvent(
            session=str(self._session),
            key=key,
            kind=saying.kind,
            summary=saying.summary,
            ts_ms=self._now_ms,
            payload=saying.payload,
            refs=saying.refs,
            source=saying.source,
            first=saying.first,
        )

    def _time_of(self, entry: dict[str, Any]) -> int:
        stated = entry.get("timestamp"), fields_of(entry.get("message")).get("timestamp")
        return next((found for one in stated if (found := time_ms(one))), self._now_ms)


def _keys_of(sayings: Sequence[EventContent], key: str) -> list[str]:
    """Return a key for each event of an entry: what was said has the entry's own."""
    said = (at for at, one in enumerate(sayings) if one.kind.startswith("conversation."))
    first = next(said, 0)
    return [key if at == first else f"{key}.{at + (at < first)}" for at in range(len(sayings))]


READER: Final = PiReader


def _is_header(value: dict[str, Any]) -> bool:
    return (
        value.get("type") == HEADER
        and "message" not in value
        and isinstance(value.get("id"), str)
        and ("cwd" in value or "version" in value or "timestamp" in value)
    )


def _id_in(value: Any) -> str | None:
    return name(fields_of(value).get("id"))


def _parent_in(value: Any) -> str | None:
    return name(fields_of(value).get("parentId"))


def _is_own(value: Any) -> bool | None:
    """Whether a value is pi's or OpenClaw's; None if others write the same."""
    entry = fields_of(value)
    if _is_header(entry):
        return True
    sort = word(entry.get("type"))
    if sort is not None and _OF_ENTRIES.get(sort) in entry:
        return True
    # The first version has neither id nor parent, the later ones have both.
    if sort not in ENTRIES or "timestamp" not in entry or ("id" in entry) != ("parentId" in entry):
        return False
    return _is_own_message(fields_of(entry.get("message"))) if sort == "message" else None


def _is_own_message(message: dict[str, Any]) -> bool | None:
    role = word(message.get("role"))
    blocks = blocks_of(message.get("content"))
    if role not in _ROLES or any(word(block.get("type")) not in _BLOCKS for block in blocks):
        return False
    if role == "assistant":
        return any(field in message for field in _OF_AN_ANSWER)
    return True if role in _OWN_ROLES else None
