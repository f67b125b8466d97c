"""What is remembered, folded from events: facts, episodes, handles and merged users.

Only numbers, hashes and ids are kept, never a text: what a fact says is read from the event that
tells it, so an erasure reaches it. Two processes may learn the same thing at once: the fold
settles that, in the order of the ledger.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.codec import encode
from treering.model.fields import TIME_MS_MAX
from treering.model.memories import CATEGORIES, FactState
from treering.model.sessions import COMMON, GROUP_PREFIX, Attribution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.model.events import Event

HASH_CHARACTERS: Final = 16
CLOCKS_APART_MS: Final = 60_000
IMPORTANCE_MAX: Final = 10
_STANDING: Final = frozenset({"current", "archived"})
"""The states of facts that others have to make way for."""


def hashed(*texts: str) -> str:
    """Return a short hash that stands for texts where the texts must not."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:HASH_CHARACTERS]


class FactAssertion(msgspec.Struct, array_like=True, gc=False):
    """One event that told what a fact says, and since and until when."""

    recorded_ms: int
    position: int
    valid_from_ms: int
    valid_to_ms: int | None


class FactRow(msgspec.Struct, kw_only=True, gc=False):
    """What is known of one fact, but for its text."""

    id: str
    user: str | None
    """Hashed, as all names are here."""
    wall: str | None
    """The session that keeps it to itself: a group's, or one in which nobody is named."""
    state: FactState
    reason: str | None = None
    category: str
    importance: int
    confidence: float
    recorded_ms: int
    valid_from_ms: int
    valid_to_ms: int | None = None
    superseded_ms: int | None = None
    superseded_by: str | None = None
    accessed_ms: int
    uses: int = 0
    accepted: bool = False
    cites: list[str] = []
    """Hashes of the events that say so."""
    statement: str
    """A hash of its words, however they are spelt."""
    slot: str | None = None
    """A hash of what it is about, if only one thing can hold of that at a time."""
    tellings: list[FactAssertion] = []
    """In order: the last is how it reads now."""
    changes: list[tuple[int, FactState]] = []
    """When the ledger learnt of each state."""
    settled: int = 0
    """Where the event stands that put it into its state."""

    @property
    def position(self) -> int:
        """Return where the event stands that tells it as it reads now."""
        return self.tellings[-1].position

    @property
    def owner(self) -> tuple[str | None, str | None]:
        """Return whose it is: facts of two owners never meet."""
        return self.user, self.wall


class EpisodeRow(msgspec.Struct, kw_only=True, gc=False):
    """What is known of one episode, but for its text."""

    id: str
    user: str | None
    wall: str | None
    position: int
    ts_ms: int


class FactPayload(msgspec.Struct, kw_only=True):
    """What an event of a fact holds, as the memory writes it."""

    id: str
    text: str
    category: str
    importance: int
    confidence: float
    statement: str
    slot: str | None = None
    walled: bool = False
    valid_from_ms: int
    valid_to_ms: int | None = None
    evidence: tuple[str, ...] = ()
    reason: str | None = None
    quarantined: bool = False
    source_session: str | None = None


class MemoryState:
    """All that is remembered in one scope.

    ``attributed`` says whose is what a session tells without naming a user.
    """

    def __init__(self, attributed: Callable[[str], Attribution] = lambda _: COMMON) -> None:
        self._attributed = attributed
        self.facts: dict[str, FactRow] = {}
        self.episodes: dict[str, EpisodeRow] = {}
        self.handles: dict[str, int] = {}
        """Where the event stands that links a handle, by the handle's hash."""
        self.merges: dict[str, tuple[str, int]] = {}
        """Into whom a user was merged, by hashes, and where the event stands that says so."""
        self.citing: dict[str, list[int]] = {}
        """Where memory's events stand that cite an event, by the hash of its id."""
        self.changed: set[tuple[str, str]] = set()
        """Sort and key of the rows that differ since they were last kept."""
        self.touched: list[str] = []
        """Ids of facts that differ, for whoever holds them in another form; to be emptied there."""
        self._slots: dict[tuple[str | None, str | None, str], str] = {}
        self._statements: dict[tuple[str | None, str | None, str], str] = {}

    # Following.

    def follow(self, event: Event) -> None:
        """Take one event in. What cannot be understood changes nothing."""
        deed = _DEEDS.get(event.kind)
        if deed is not None and not event.redacted and isinstance(event.payload, dict):
            deed(self, event, event.payload)
        elif event.kind == "memory.recalled":
            self._recalled(event)

    def _stored(self, event: Event, payload: dict[str, Any]) -> None:
        told = _told(payload)
        if told is None or self._is_settled(told.id):
            return
        row = self._row(event, told, "current")
        row.accepted = payload.get("accepted") is True
        self._cite(event, told)
        self._put(row)
        self._claim(row, event)

    def _claim(self, row: FactRow, event: Event) -> None:
        """Have a fact take its place: of two about the same thing the later one holds."""
        first = self.facts.get(self._statements.get((*row.owner, row.statement), ""))
        if first is not None and first.id != row.id and first.state in _STANDING:
            # Learnt twice, at once or by way of the quarantine: the first one stands for both.
            first.cites = _joined(first.cites, row.cites)
            first.accepted = first.accepted or row.accepted
            first.accessed_ms = max(first.accessed_ms, row.accessed_ms)
            if first.state == "archived":
                self._settle(first, "current", event)
            self._settle(row, "superseded", event, by=first.id)
            self._touch(first)
            return
        self._statements[*row.owner, row.statement] = row.id
        if row.slot is None:
            return
        rival = self.facts.get(self._slots.get((*row.owner, row.slot), ""))
        if rival is None or rival.id == row.id or rival.state not in _STANDING:
            self._slots[*row.owner, row.slot] = row.id
        elif row.valid_from_ms >= rival.valid_from_ms:
            self._slots[*row.owner, row.slot] = row.id
            rival.valid_to_ms = _sooner(rival.valid_to_ms, row.valid_from_ms)
            if _is_to_come(row.valid_from_ms, event):
                # What is to come does not hold yet: until then the other one does.
                self._touch(rival)
            else:
                self._settle(rival, "superseded", event, by=row.id)
        else:
            row.valid_to_ms = _sooner(row.valid_to_ms, rival.valid_from_ms)
            if _is_to_come(rival.valid_from_ms, event):
                # The other one is still to come: this one holds until then.
                self._outdo(row, event)
            else:
                self._settle(row, "superseded", event, by=rival.id)

    def _outdo(self, row: FactRow, event: Event) -> None:
        """Have a fact take the place of those that held so far, though a later one has the slot."""
        for other in list(self.facts.values()):
            if other.id == row.id or other.state not in _STANDING:
                continue
            if (other.owner, other.slot) != (row.owner, row.slot):
                continue
            if other.valid_from_ms <= row.valid_from_ms:
                other.valid_to_ms = _sooner(other.valid_to_ms, row.valid_from_ms)
                self._settle(other, "superseded", event, by=row.id)
            elif not _is_to_come(other.valid_from_ms, event):
                row.valid_to_ms = _sooner(row.valid_to_ms, other.valid_from_ms)
                self._settle(row, "superseded", event, by=other.id)
                return
        self._touch(row)

    def _unclaim(self, row: FactRow) -> None:
        if self._statements.get((*row.owner, row.statement)) == row.id:
            del self._statements[*row.owner, row.statement]
        if row.slot is not None and self._slots.get((*row.owner, row.slot)) == row.id:
            del self._slots[*row.owner, row.slot]

    def _revised(self, event: Event, payload: dict[str, Any]) -> None:
        told = _told(payload)
        if told is None:
            return
        row = self.facts.get(told.id)
        self._cite(event, told)
        if row is None or not row.tellings:
            # What it was before is erased.
            self._put(self._row(event, told, "current"))
            self._claim(self.facts[told.id], event)
            return
        if row.state in {"forgotten", "superseded"} or row.owner != self._owner(event, told):
            return
        row.tellings.append(_telling(event, told))
        row.valid_from_ms = min(row.valid_from_ms, told.valid_from_ms)
        row.valid_to_ms = told.valid_to_ms
        row.cites = _joined(row.cites, [hashed(one) for one in told.evidence])
        row.confidence = max(row.confidence, told.confidence)
        row.importance = told.importance
        row.category = told.category
        self._unclaim(row)
        row.statement, row.slot = told.statement, told.slot
        row.accessed_ms = max(row.accessed_ms, event.ts_ms)
        if row.state == "archived":
            self._settle(row, "current", event)
        self._touch(row)
        if row.state in _STANDING:
            # One whose acceptance was erased is not believed, and takes no other's place.
            self._claim(row, event)

    def _refused(self, event: Event, payload: dict[str, Any]) -> None:
        told = _told(payload)
        if told is None or told.id in self.facts:
            return
        row = self._row(event, told, "quarantined" if told.quarantined else "refused")
        row.reason = told.reason
        self._cite(event, told)
        self._put(row)

    def _superseded(self, event: Event, payload: dict[str, Any]) -> None:
        row = self._named(payload)
        by, until = payload.get("by"), payload.get("valid_to_ms")
        if row is None or row.state == "forgotten" or not isinstance(by, str):
            return
        if row.state == "superseded":
            # Said again: this is where it stands from now on.
            row.settled = event.position
            self._touch(row)
            return
        if type(until) is int and 0 <= until <= TIME_MS_MAX:
            row.valid_to_ms = _sooner(row.valid_to_ms, until)
            if _is_to_come(until, event):
                # It holds until then.
                self._touch(row)
                return
        self._settle(row, "superseded", event, by=by)

    def _archived(self, event: Event, payload: dict[str, Any]) -> None:
        row = self._named(payload)
        if row is not None and row.state == "current":
            row.reason = _text(payload, "reason")
            self._settle(row, "archived", event)

    def _restored(self, event: Event, payload: dict[str, Any]) -> None:
        row = self._named(payload)
        if row is None or row.state in {"superseded", "forgotten"}:
            return
        if row.state == "current":
            # Several may use again at once what had faded: that accepts nothing.
            row.accepted = row.accepted or payload.get("reason") != "used"
            self._touch(row)
            return
        row.reason = None
        row.accepted = row.accepted or row.state != "archived"
        row.accessed_ms = max(row.accessed_ms, event.ts_ms)
        self._settle(row, "current", event)
        self._claim(row, event)

    def _forgotten(self, event: Event, payload: dict[str, Any]) -> None:
        row = self._named(payload)
        if row is None:
            return
        if row.state == "forgotten":
            row.settled = event.position
            self._touch(row)
            return
        row.reason = _text(payload, "reason")
        self._settle(row, "forgotten", event)

    def _recalled(self, event: Event) -> None:
        ids = event.refs.get("memory_ids") if isinstance(event.refs, dict) else None
        for one in ids if isinstance(ids, list) else []:
            row = self.facts.get(one) if isinstance(one, str) else None
            if row is not None:
                row.uses += 1
                row.accessed_ms = max(row.accessed_ms, event.ts_ms)
                self._touch(row)

    def _episode(self, event: Event, payload: dict[str, Any]) -> None:
        if not isinstance(payload.get("summary"), str):
            return
        user = _text(payload, "user") if "user" in payload else event.user_id
        # One of a group that does not say so was written before any did.
        walled = payload.get("walled", event.session_id.startswith(GROUP_PREFIX)) is True
        whose, wall = self._whose(event.session_id, user, walled=walled)
        self.episodes[event.event_id] = EpisodeRow(
            id=event.event_id,
            user=whose,
            wall=wall,
            position=event.position,
            ts_ms=event.ts_ms,
        )
        self.changed.add((EPISODE, event.event_id))

    def _linked(self, event: Event, payload: dict[str, Any]) -> None:
        key = handle_key(payload)
        # Linked twice at once: the first one counts for both.
        if key is not None and key not in self.handles and _text(payload, "user") is not None:
            self.handles[key] = event.position
            self.changed.add(("handle", key))

    def _unlinked(self, _: Event, payload: dict[str, Any]) -> None:
        key = handle_key(payload)
        if key is not None and self.handles.pop(key, None) is not None:
            self.changed.add(("handle", key))

    def _merged(self, event: Event, payload: dict[str, Any]) -> None:
        kept, other = _text(payload, "user"), _text(payload, "merged")
        if kept is None or other is None or kept == other:
            return
        key = hashed(other)
        if payload.get("undone") is True:
            if self.merges.get(key, ("", 0))[0] == hashed(kept):
                del self.merges[key]
                self._part(event)
        elif self.root(hashed(kept)) != key:
            self.merges[key] = (hashed(kept), event.position)
        self.changed.add(("merge", key))

    def _part(self, event: Event) -> None:
        """Give back what was superseded by a fact of somebody who is another person after all."""
        for row in list(self.facts.values()):
            other = self.facts.get(row.superseded_by or "")
            if row.state != "superseded" or row.user is None or other is None:
                continue
            if other.user is not None and self.root(row.user) != self.root(other.user):
                row.superseded_by = row.superseded_ms = row.valid_to_ms = None
                self._settle(row, "current", event)
                self._claim(row, event)

    # Asking.

    def root(self, user: str) -> str:
        """Return the user that one was merged into, at the end of all mergers; both hashed."""
        seen = {user}
        while user in self.merges:
            user = self.merges[user][0]
            if user in seen:
                break
            seen.add(user)
        return user

    def family(self, user: str) -> set[str]:
        """Return all users that are the same person as one; all hashed."""
        root = self.root(user)
        return {root, user, *(one for one in self.merges if self.root(one) == root)}

    def merged_into(self, user: str) -> set[str]:
        """Return a user and all that were merged into them, directly or not; all hashed."""
        found = {user}
        while more := {one for one, (kept, _) in self.merges.items() if kept in found} - found:
            found |= more
        return found

    def rival(self, owner: tuple[str | None, str | None], slot: str) -> FactRow | None:
        """Return the fact of an owner that holds a slot."""
        row = self.facts.get(self._slots.get((*owner, slot), ""))
        return row if row is not None and row.state in _STANDING else None

    def twin(self, owner: tuple[str | None, str | None], statement: str) -> FactRow | None:
        """Return the fact of an owner that says the same, word for word."""
        row = self.facts.get(self._statements.get((*owner, statement), ""))
        return row if row is not None and row.state in _STANDING else None

    # Keeping.

    def rows(self, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str, bytes | None]]:
        """Return rows by sort and key, as bytes; None for those that are gone."""
        found: list[tuple[str, str, bytes | None]] = []
        for sort, key in sorted(keys):
            table: dict[str, Any] = getattr(self, _TABLES[sort])
            found.append((sort, key, encode(table[key]) if key in table else None))
        return found

    def all_keys(self) -> list[tuple[str, str]]:
        """Return sort and key of every row."""
        return [(sort, key) for sort, name in _TABLES.items() for key in getattr(self, name)]

    def load(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Take in rows as they were kept. Raises ValueError if they cannot be read."""
        for sort, key, body in rows:
            if sort not in _TABLES:
                raise ValueError(sort)
            getattr(self, _TABLES[sort])[key] = _DECODERS[sort].decode(body)
        # Of those that stand no two say the same; of those that answer the same question, the one
        # holds after the other, and the last has the place.
        for row in sorted(self.facts.values(), key=lambda one: (one.valid_from_ms, one.position)):
            if row.state in _STANDING:
                self._statements[*row.owner, row.statement] = row.id
                if row.slot is not None:
                    self._slots[*row.owner, row.slot] = row.id
        self.touched = list(self.facts)

    def _whose(
        self, session_id: str, user: str | None, *, walled: bool
    ) -> tuple[str | None, str | None]:
        """Return the user, and the session that keeps it to itself, of something told; hashed."""
        wall = session_id if walled else None
        if user is None and not walled:
            found = self._attributed(session_id)
            user, wall = found.user, found.wall
        return None if user is None else hashed(user), None if wall is None else hashed(wall)

    def _owner(self, event: Event, told: FactPayload) -> tuple[str | None, str | None]:
        """Return whose fact an event tells."""
        return self._whose(event.session_id, event.user_id, walled=told.walled)

    def _row(self, event: Event, told: FactPayload, state: FactState) -> FactRow:
        user, wall = self._owner(event, told)
        return FactRow(
            id=told.id,
            user=user,
            wall=wall,
            state=state,
            category=told.category,
            importance=told.importance,
            confidence=told.confidence,
            recorded_ms=event.recorded_ms,
            valid_from_ms=told.valid_from_ms,
            valid_to_ms=told.valid_to_ms,
            accessed_ms=event.ts_ms,
            cites=_joined([], [hashed(one) for one in told.evidence]),
            statement=told.statement,
            slot=told.slot,
            tellings=[_telling(event, told)],
            changes=[],
        )

    def _is_settled(self, fact_id: str) -> bool:
        row = self.facts.get(fact_id)
        return row is not None and row.state not in {"quarantined", "refused"}

    def _named(self, payload: dict[str, Any]) -> FactRow | None:
        return self.facts.get(_text(payload, "id") or "")

    def _put(self, row: FactRow) -> None:
        row.changes.append((row.recorded_ms, row.state))
        self.facts[row.id] = row
        self._touch(row)

    def _settle(
        self, row: FactRow, state: FactState, event: Event, *, by: str | None = None
    ) -> None:
        row.state, row.settled = state, event.position
        row.changes.append((event.recorded_ms, state))
        if by is not None:
            row.superseded_by, row.superseded_ms = by, event.recorded_ms
            row.valid_to_ms = event.ts_ms if row.valid_to_ms is None else row.valid_to_ms
        self._touch(row)

    def _touch(self, row: FactRow) -> None:
        self.changed.add((FACT, row.id))
        self.touched.append(row.id)

    def _cite(self, event: Event, told: FactPayload) -> None:
        for one in told.evidence:
            key = hashed(one)
            positions = self.citing.setdefault(key, [])
            if event.position not in positions:
                positions.append(event.position)
                self.changed.add(("citing", key))


def _is_to_come(ts_ms: int, event: Event) -> bool:
    """Whether a time lies ahead of an event, by more than the clocks of two machines differ."""
    return ts_ms > event.recorded_ms + CLOCKS_APART_MS


def handle_key(payload: dict[str, Any]) -> str | None:
    """Return the hash that a handle goes by; None if the event names none."""
    channel, handle = _text(payload, "channel"), _text(payload, "handle")
    return None if channel is None or handle is None else hashed(channel, handle)


def believed(row: FactRow, at_ms: int) -> FactState | None:
    """Return the state that the ledger knew a fact in at a time; None if it did not know it."""
    known: FactState | None = None
    for recorded_ms, state in row.changes:
        if recorded_ms <= at_ms:
            known = state
    return known


def telling_at(row: FactRow, at_ms: int) -> FactAssertion:
    """Return the event that told a fact as it read at a time."""
    told = [one for one in row.tellings if one.recorded_ms <= at_ms]
    return told[-1] if told else row.tellings[0]


def held_at(row: FactRow, valid_ms: int, *, as_of_ms: int | None = None) -> bool:
    """Whether a fact held at a time, by what is known; by what was, if ``as_of_ms`` is given."""
    since, until = row.valid_from_ms, row.valid_to_ms
    if as_of_ms is not None:
        telling = telling_at(row, as_of_ms)
        since = telling.valid_from_ms
        if believed(row, as_of_ms) != "superseded":
            # Nobody knew yet what was to contradict it.
            until = telling.valid_to_ms
    return since <= valid_ms and (until is None or valid_ms < until)


def _told(payload: dict[str, Any]) -> FactPayload | None:
    try:
        told = msgspec.convert(payload, FactPayload)
    except msgspec.ValidationError:
        return None
    until = told.valid_to_ms
    is_sound = (
        told.category in CATEGORIES
        and 1 <= told.importance <= IMPORTANCE_MAX
        and 0 <= told.confidence <= 1
        and 0 <= told.valid_from_ms <= TIME_MS_MAX
        and (until is None or 0 <= until <= TIME_MS_MAX)
    )
    return told if is_sound else None


def _telling(event: Event, told: FactPayload) -> FactAssertion:
    return FactAssertion(event.recorded_ms, event.position, told.valid_from_ms, told.valid_to_ms)


def _sooner(until_ms: int | None, other_ms: int) -> int:
    """Return which of two ends comes first: what had ended before does not hold for longer."""
    return other_ms if until_ms is None else min(until_ms, other_ms)


def _joined(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _text(payload: dict[str, Any], name: str) -> str | None:
    found = payload.get(name)
    return found if isinstance(found, str) else None


_DEEDS: Final = {
    "memory.stored": MemoryState._stored,  # noqa: SLF001
    "memory.revised": MemoryState._revised,  # noqa: SLF001
    "memory.refused": MemoryState._refused,  # noqa: SLF001
    "memory.superseded": MemoryState._superseded,  # noqa: SLF001
    "memory.archived": MemoryState._archived,  # noqa: SLF001
    "memory.restored": MemoryState._restored,  # noqa: SLF001
    "memory.forgotten": MemoryState._forgotten,  # noqa: SLF001
    "episode.written": MemoryState._episode,  # noqa: SLF001
    "user.linked": MemoryState._linked,  # noqa: SLF001
    "user.unlinked": MemoryState._unlinked,  # noqa: SLF001
    "user.merged": MemoryState._merged,  # noqa: SLF001
}
FACT: Final = "fact.2"
EPISODE: Final = "episode.2"
"""Sorts of rows, numbered by the rules they are folded by: rows of older rules are not taken in."""
_TABLES: Final = {
    FACT: "facts",
    EPISODE: "episodes",
    "handle": "handles",
    "merge": "merges",
    "citing": "citing",
}
ROW_SORTS: Final = frozenset(_TABLES)
_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    FACT: msgspec.json.Decoder(FactRow),
    EPISODE: msgspec.json.Decoder(EpisodeRow),
    "handle": msgspec.json.Decoder(int),
    "merge": msgspec.json.Decoder(tuple[str, int]),
    "citing": msgspec.json.Decoder(list[int]),
}
