"""The memory of a scope, folded from events: facts, episodes, handles and merged users.

Only numbers, hashes and ids are kept, never text: the text of a fact is read from its event, so an
erasure takes effect. If two processes learn the same thing at once, the fold resolves it in ledger
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from treering.derive.fact_rows import (
    COMPETING,
    NOBODY,
    FactAssertion,
    FactRow,
    FactRows,
    Key,
    SavedRows,
    hashed,
    key_of,
    packed,
)
from treering.model.codec import encode
from treering.model.fields import TIME_MS_MAX
from treering.model.memories import CATEGORIES, FactState
from treering.model.sessions import COMMON, GROUP_PREFIX, Attribution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from treering.model.events import Event

CLOCKS_APART_MS: Final = 60_000
IMPORTANCE_MAX: Final = 10
BOTH_HOLD: Final = "both_hold"
"""Why a fact is believed again if it was thought that it may have ended another."""


class EpisodeRow(msgspec.Struct, kw_only=True, gc=False):
    """All that is known about an episode except its text."""

    id: str
    user: str | None
    wall: str | None
    position: int
    ts_ms: int


class FactPayload(msgspec.Struct, kw_only=True):
    """The payload of a fact's event."""

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
    may_end: str | None = None
    """The id of an earlier fact that it may end."""
    signs: tuple[str, ...] | None = None
    """Why it may."""


class _Owned(NamedTuple):
    """The ids of facts by what only one fact of an owner can have."""

    statements: dict[Key, str]
    slots: dict[Key, str]


class MemoryState:
    """All memories of one scope.

    ``attributed`` returns who the facts of a session belong to when it names no user.
    """

    def __init__(self, attributed: Callable[[str], Attribution] = lambda _: COMMON) -> None:
        self._attributed = attributed
        self.facts = FactRows()
        self.episodes: dict[str, EpisodeRow] = {}
        self.handles: dict[str, int] = {}
        """The position of the event that links a handle, by the hash of the handle."""
        self.merges: dict[str, tuple[str, int]] = {}
        """The user that a user was merged into, by hashes, and the position of the event."""
        self.citing: dict[str, list[int]] = {}
        """The positions of memory events that cite an event, by the hash of its id."""
        self.changed: set[tuple[str, str]] = set()
        """Table and key of rows changed since they were last saved."""
        self.touched: list[str] = []
        """Ids of changed facts, for a caller that holds copies; the caller clears the list."""
        self._owned: _Owned | None = None

    # Applying events.

    def follow(self, event: Event) -> None:
        """Apply one event. Events that cannot be read change nothing."""
        handler = _HANDLERS.get(event.kind)
        if handler is not None and not event.redacted and isinstance(event.payload, dict):
            handler(self, event, event.payload)
        elif event.kind == "memory.recalled":
            self._recalled(event)

    def _stored(self, event: Event, payload: dict[str, Any]) -> None:
        fact = _read_fact(payload)
        if fact is None or self._is_settled(fact.id):
            return
        row = self._row(event, fact, "current")
        row.accepted = payload.get("accepted") is True
        self._cite(event, fact)
        self._put(row)
        self._enter(row, event)

    def _enter(self, row: FactRow, event: Event) -> None:
        """Enter a fact: of two about the same thing the later one is current."""
        statements, slots = self._index
        statement = key_of(row.owner, row.statement)
        first = self.facts.get(statements.get(statement, ""))
        if first is not None and first.id != row.id and first.state in COMPETING:
            # Learned twice, at the same time or through quarantine: the first one counts for both.
            first.cites = _joined(first.cites, row.cites)
            first.accepted = first.accepted or row.accepted
            first.accessed_ms = max(first.accessed_ms, row.accessed_ms)
            if first.state == "archived":
                self._settle(first, "current", event)
            self._settle(row, "superseded", event, by=first.id)
            self._touch(first)
            return
        statements[statement] = row.id
        if row.slot is None:
            return
        slot = key_of(row.owner, row.slot)
        rival = self.facts.get(slots.get(slot, ""))
        if rival is None or rival.id == row.id or rival.state not in COMPETING:
            slots[slot] = row.id
        elif row.valid_from_ms >= rival.valid_from_ms:
            slots[slot] = row.id
            rival.valid_to_ms = _sooner(rival.valid_to_ms, row.valid_from_ms)
            if _is_future(row.valid_from_ms, event):
                # A future fact does not hold yet: until then the old one does.
                self._touch(rival)
            else:
                self._settle(rival, "superseded", event, by=row.id)
        else:
            row.valid_to_ms = _sooner(row.valid_to_ms, rival.valid_from_ms)
            if _is_future(rival.valid_from_ms, event):
                # The other fact is still in the future: this one holds until then.
                self._supersede_earlier(row, event)
            else:
                self._settle(row, "superseded", event, by=rival.id)

    def _supersede_earlier(self, row: FactRow, event: Event) -> None:
        """Supersede the facts before this one, although a future one has the slot."""
        for other in list(self.facts.values()):
            if other.id == row.id or other.state not in COMPETING:
                continue
            if (other.owner, other.slot) != (row.owner, row.slot):
                continue
            if other.valid_from_ms <= row.valid_from_ms:
                other.valid_to_ms = _sooner(other.valid_to_ms, row.valid_from_ms)
                self._settle(other, "superseded", event, by=row.id)
            elif not _is_future(other.valid_from_ms, event):
                row.valid_to_ms = _sooner(row.valid_to_ms, other.valid_from_ms)
                self._settle(row, "superseded", event, by=other.id)
                return
        self._touch(row)

    def _leave(self, row: FactRow) -> None:
        for table, text in zip(self._index, (row.statement, row.slot), strict=True):
            key = None if text is None else key_of(row.owner, text)
            if key is not None and table.get(key) == row.id:
                del table[key]

    def _revised(self, event: Event, payload: dict[str, Any]) -> None:
        fact = _read_fact(payload)
        if fact is None:
            return
        row = self.facts.get(fact.id)
        self._cite(event, fact)
        if row is None or not row.assertions:
            # Its earlier events were erased.
            self._put(self._row(event, fact, "current"))
            self._enter(self.facts[fact.id], event)
            return
        owner = self._whose(event.session_id, event.user_id, walled=fact.walled)
        if row.state in {"forgotten", "superseded"} or row.owner != owner:
            return
        row.assertions.append(_assertion(event, fact))
        row.valid_from_ms = min(row.valid_from_ms, fact.valid_from_ms)
        row.valid_to_ms = fact.valid_to_ms
        row.cites = _joined(row.cites, [hashed(event_id) for event_id in fact.evidence])
        row.confidence = max(row.confidence, fact.confidence)
        row.importance = fact.importance
        row.category = fact.category
        self._leave(row)
        row.statement, row.slot = fact.statement, fact.slot
        row.accessed_ms = max(row.accessed_ms, event.ts_ms)
        if row.state == "archived":
            self._settle(row, "current", event)
        self._touch(row)
        if row.state in COMPETING:
            # If its acceptance was erased, it is not believed and must not supersede others.
            self._enter(row, event)

    def _refused(self, event: Event, payload: dict[str, Any]) -> None:
        fact = _read_fact(payload)
        if fact is None or fact.id in self.facts:
            return
        row = self._row(event, fact, "quarantined" if fact.quarantined else "refused")
        row.reason = fact.reason
        self._cite(event, fact)
        self._put(row)

    def _superseded(self, event: Event, payload: dict[str, Any]) -> None:
        row = self._named(payload)
        by, until = payload.get("by"), payload.get("valid_to_ms")
        if row is None or row.state == "forgotten" or not isinstance(by, str):
            return
        if row.state == "superseded":
            # Repeated: the state now depends on this event.
            row.settled = event.position
            self._touch(row)
            return
        if type(until) is int and 0 <= until <= TIME_MS_MAX:
            row.valid_to_ms = _sooner(row.valid_to_ms, until)
            if _is_future(until, event):
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
            # Several processes may use an archived fact at once; using it does not accept it.
            row.accepted = row.accepted or payload.get("reason") != "used"
            row.may_end = None if payload.get("reason") == BOTH_HOLD else row.may_end
            self._touch(row)
            return
        row.reason = None
        row.accepted = row.accepted or row.state != "archived"
        row.accessed_ms = max(row.accessed_ms, event.ts_ms)
        self._settle(row, "current", event)
        self._enter(row, event)

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
        for fact_id in ids if isinstance(ids, list) else []:
            row = self.facts.get(fact_id) if isinstance(fact_id, str) else None
            if row is not None:
                row.uses += 1
                row.accessed_ms = max(row.accessed_ms, event.ts_ms)
                self._touch(row)

    def _episode(self, event: Event, payload: dict[str, Any]) -> None:
        if not isinstance(payload.get("summary"), str):
            return
        user = _text(payload, "user") if "user" in payload else event.user_id
        # Episodes of groups without the field were written by an earlier version.
        walled = payload.get("walled", event.session_id.startswith(GROUP_PREFIX)) is True
        whose, wall = self._whose(event.session_id, user, walled=walled)
        self.episodes[event.event_id] = EpisodeRow(
            id=event.event_id, user=whose, wall=wall, position=event.position, ts_ms=event.ts_ms
        )
        self.changed.add((EPISODE, event.event_id))

    def _linked(self, event: Event, payload: dict[str, Any]) -> None:
        key = handle_key(payload)
        # Linked twice at the same time: the first link counts.
        if key is not None and key not in self.handles and _text(payload, "user") is not None:
            self.handles[key] = event.position
            self.changed.add(("handle", key))

    def _unlinked(self, _: Event, payload: dict[str, Any]) -> None:
        key = handle_key(payload)
        if key is not None and self.handles.pop(key, None) is not None:
            self.changed.add(("handle", key))

    def _merged(self, event: Event, payload: dict[str, Any]) -> None:
        user, other = _text(payload, "user"), _text(payload, "merged")
        if user is None or other is None or user == other:
            return
        key = hashed(other)
        if payload.get("undone") is True:
            if self.merges.get(key, ("", 0))[0] == hashed(user):
                del self.merges[key]
                self._restore_unmerged(event)
        elif self.root(hashed(user)) != key:
            self.merges[key] = (hashed(user), event.position)
        self.changed.add(("merge", key))

    def _restore_unmerged(self, event: Event) -> None:
        """Restore facts superseded by facts of a person who turned out to be somebody else."""
        for row in list(self.facts.values()):
            other = self.facts.get(row.superseded_by or "")
            if row.state != "superseded" or row.user is None or other is None:
                continue
            if other.user is not None and self.root(row.user) != self.root(other.user):
                row.superseded_by = row.superseded_ms = row.valid_to_ms = None
                self._settle(row, "current", event)
                self._enter(row, event)

    # Queries.

    def root(self, user: str) -> str:
        """Return the user that one was finally merged into; both hashed."""
        seen = {user}
        while user in self.merges:
            user = self.merges[user][0]
            if user in seen:
                break
            seen.add(user)
        return user

    def family(self, user: str) -> set[str]:
        """Return all users who are the same person; all hashed."""
        root = self.root(user)
        return {root, user, *(merged for merged in self.merges if self.root(merged) == root)}

    def merged_into(self, user: str) -> set[str]:
        """Return a user and all users merged into them, directly or not; all hashed."""
        users = {user}
        while more := {old for old, (into, _) in self.merges.items() if into in users} - users:
            users |= more
        return users

    def competing(
        self, by: Literal["slot", "statement"], owner: tuple[str | None, str | None], text: str
    ) -> FactRow | None:
        """Return the owner's fact in the same slot, or with the same words."""
        facts = self._index.slots if by == "slot" else self._index.statements
        fact_id = facts.get(key_of(owner, text))
        row = None if fact_id is None else self.facts[fact_id]
        return row if row is not None and row.state in COMPETING else None

    @property
    def _index(self) -> _Owned:
        """Which fact has a statement or a slot; that of saved facts is found when first needed."""
        if self._owned is None:
            self._owned = _Owned({}, {})
            # No two of them have the same statement. Of those in one slot, which hold one after
            # another, the last one has it.
            starts: dict[Key, tuple[int, int]] = {}
            for fact_id, since, position, statement, slot in self.facts.keys_of_saved():
                self._owned.statements[statement] = fact_id
                if slot[-1] != NOBODY and (since, position) > starts.get(slot, (-1, -1)):
                    self._owned.slots[slot], starts[slot] = fact_id, (since, position)
        return self._owned

    # Saving and loading.

    def rows(self, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str, bytes | None]]:
        """Return rows by table and key, encoded; None for deleted ones."""
        encoded: list[tuple[str, str, bytes | None]] = []
        for table_name, key in sorted(keys):
            table: Mapping[str, Any] = getattr(self, _TABLES[table_name])
            body = _ENCODERS.get(table_name, encode)
            encoded.append((table_name, key, body(table[key]) if key in table else None))
        return encoded

    def all_keys(self) -> list[tuple[str, str]]:
        """Return table and key of every row."""
        return [
            (table_name, key) for table_name, name in _TABLES.items() for key in getattr(self, name)
        ]

    def load(self, tables: Mapping[str, SavedRows]) -> None:
        """Load saved rows, by table and key. Raise ValueError if they cannot be read."""
        for table_name, bodies in tables.items():
            if table_name not in _TABLES:
                raise ValueError(table_name)
            if table_name == FACT:
                self.facts = FactRows(bodies)
                continue
            decoded = _DECODERS[table_name].decode
            table: dict[str, Any] = getattr(self, _TABLES[table_name])
            table.update((key, decoded(body)) for key, body in bodies.items())

    def _whose(
        self, session_id: str, user: str | None, *, walled: bool
    ) -> tuple[str | None, str | None]:
        """Return the hashed user and wall of something stated in a session."""
        wall = session_id if walled else None
        if user is None and not walled:
            attribution = self._attributed(session_id)
            user, wall = attribution.user, attribution.wall
        return None if user is None else hashed(user), None if wall is None else hashed(wall)

    def _row(self, event: Event, fact: FactPayload, state: FactState) -> FactRow:
        user, wall = self._whose(event.session_id, event.user_id, walled=fact.walled)
        return FactRow(
            id=fact.id, user=user, wall=wall, state=state, category=fact.category,
            importance=fact.importance, confidence=fact.confidence, recorded_ms=event.recorded_ms,
            valid_from_ms=fact.valid_from_ms, valid_to_ms=fact.valid_to_ms, accessed_ms=event.ts_ms,
            cites=_joined([], [hashed(event_id) for event_id in fact.evidence]),
            statement=fact.statement, slot=fact.slot, assertions=[_assertion(event, fact)],
            changes=[], may_end=fact.may_end,
        )  # fmt: skip

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

    def _cite(self, event: Event, fact: FactPayload) -> None:
        for event_id in fact.evidence:
            key = hashed(event_id)
            positions = self.citing.setdefault(key, [])
            if event.position not in positions:
                positions.append(event.position)
                self.changed.add(("citing", key))


def _is_future(ts_ms: int, event: Event) -> bool:
    """Return whether a time is later than an event, by more than clocks differ."""
    return ts_ms > event.recorded_ms + CLOCKS_APART_MS


def handle_key(payload: dict[str, Any]) -> str | None:
    """Return the hash of a handle; None if the event names none."""
    channel, handle = _text(payload, "channel"), _text(payload, "handle")
    return None if channel is None or handle is None else hashed(channel, handle)


def state_at(row: FactRow, at_ms: int) -> FactState | None:
    """Return the state in which the ledger knew a fact at a time; None if it did not."""
    state_then: FactState | None = None
    for recorded_ms, state in row.changes:
        if recorded_ms <= at_ms:
            state_then = state
    return state_then


def assertion_at(row: FactRow, at_ms: int) -> FactAssertion:
    """Return the event that had a fact's text at a time."""
    fact = [assertion for assertion in row.assertions if assertion.recorded_ms <= at_ms]
    return fact[-1] if fact else row.assertions[0]


def was_valid_at(row: FactRow, valid_ms: int, *, as_of_ms: int | None = None) -> bool:
    """Return whether a fact was true at a time, as known now or at ``as_of_ms``."""
    since, until = row.valid_from_ms, row.valid_to_ms
    if as_of_ms is not None:
        assertion = assertion_at(row, as_of_ms)
        since = assertion.valid_from_ms
        if state_at(row, as_of_ms) != "superseded":
            # Nobody knew yet that it would be contradicted.
            until = assertion.valid_to_ms
    return since <= valid_ms and (until is None or valid_ms < until)


def _read_fact(payload: dict[str, Any]) -> FactPayload | None:
    try:
        fact = msgspec.convert(payload, FactPayload)
    except msgspec.ValidationError:
        return None
    until = fact.valid_to_ms
    is_sound = (
        fact.category in CATEGORIES
        and 1 <= fact.importance <= IMPORTANCE_MAX
        and 0 <= fact.confidence <= 1
        and 0 <= fact.valid_from_ms <= TIME_MS_MAX
        and (until is None or 0 <= until <= TIME_MS_MAX)
    )
    return fact if is_sound else None


def _assertion(event: Event, fact: FactPayload) -> FactAssertion:
    return FactAssertion(event.recorded_ms, event.position, fact.valid_from_ms, fact.valid_to_ms)


def _sooner(until_ms: int | None, other_ms: int) -> int:
    """Return the earlier of two ends: a fact that had ended stays ended."""
    return other_ms if until_ms is None else min(until_ms, other_ms)


def _joined(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _text(payload: dict[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) else None


_HANDLERS: Final = {
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
FACT: Final = "fact.3"
EPISODE: Final = "episode.2"
"""Table names, numbered by the rules they are folded by: rows of older rules are not loaded."""
_TABLES: Final = {
    FACT: "facts",
    EPISODE: "episodes",
    "handle": "handles",
    "merge": "merges",
    "citing": "citing",
}
ROW_SORTS: Final = frozenset(_TABLES)
_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {FACT: packed}
_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    EPISODE: msgspec.json.Decoder(EpisodeRow),
    "handle": msgspec.json.Decoder(int),
    "merge": msgspec.json.Decoder(tuple[str, int]),
    "citing": msgspec.json.Decoder(list[int]),
}
