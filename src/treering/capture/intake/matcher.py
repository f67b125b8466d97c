"""The matcher: which events of a log the ledger has already, and which ids the others get."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from treering.capture.intake.former_reading import FormerReading
from treering.capture.intake.ledger_buffer import Item
from treering.formats import openclaw_mem
from treering.formats.parsed import content_key, is_content_key
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.capture.intake.ledger_buffer import LedgerBuffer, PendingRecord
    from treering.capture.intake.sessions import Sessions
    from treering.formats.parsed import ParsedEvent, SessionSource
    from treering.ledger.records import EventLocation
    from treering.model.scopes import Scope

NO_TIME_MS: Final = 1
"""The time that readers give a record without one."""
_BESIDE: Final = ("usage.", "ops.")
"""Kinds that are not part of a session's history."""
_WORDS: Final = ("conversation.", "tool.")
"""Kinds that are."""
_ROWS: Final = frozenset({openclaw_mem.NAME})
"""Formats in which an event is the same in any session."""

Known = dict[str, "EventLocation | None"]
"""Where known events are, by their ids; None for one that comes with this batch."""


class EventMatcher:
    """Finds out what is new in one file, and where in the ledger the rest is."""

    def __init__(
        self,
        buffer: LedgerBuffer,
        source: SessionSource,
        sessions: Sessions,
        format_name: str,
        former: FormerReading | None = None,
        *,
        is_resumed: bool = False,
    ) -> None:
        self._buffer = buffer
        self._source = source
        self._sessions = sessions
        self._ids = sessions.ids
        self._compares_lineage = source.keys_are_global and format_name not in _ROWS
        self._former = former
        self._is_resumed = is_resumed
        """Whether the file is read on from where it was left: all of it is new then."""
        self._ahead: dict[str | tuple[str, str], str] = {}
        """The ids of events that will be matched soon, by key, or by session and key."""
        self._own_ids: dict[tuple[str, str], str] = {}
        """The ids of events whose keys are those of others, by session and key."""

    def look_ahead(self, events: Sequence[ParsedEvent]) -> set[str]:
        """Return the ids that ``new_items`` will ask for, as far as they are known already."""
        if self._buffer.has_legacy_ids:
            return set()  # A session may get another name then, and its events other ids.
        if self._source.keys_are_global:
            everywhere = self._ids.everywhere
            self._ahead = {event.key: everywhere(event.key) for event in events}
        else:
            named = self._ids.named
            keys = {(event.session, event.key) for event in events}
            self._ahead = {key: named(*key) for key in keys}
        ids = set(self._ahead.values())
        for session in {event.session for event in events}:
            ids.update(self._sessions.mark_ids(session, self._source.sessions.get(session)))
        return ids

    def new_items(
        self, scope: Scope, pairs: Sequence[tuple[PendingRecord, ParsedEvent]]
    ) -> list[Item]:
        """Return the events that are not known yet; note what a session shares with others."""
        if self._source.keys_are_global:
            ahead, everywhere = self._ahead, self._ids.everywhere
            items = [
                Item(record, event, [ahead.get(event.key) or everywhere(event.key)])
                for record, event in pairs
            ]
        else:
            roots: dict[str, tuple[str, ...]] = {}
            items = [
                Item(record, event, self._all_ids(scope, event, roots)) for record, event in pairs
            ]
        items = self._without_retold(scope, items)
        ids = {event_id for item in items for event_id in item.ids}
        former = self._former_reading()
        is_plain = former is None and len(ids) == len(items)
        if is_plain and self._are_all_new(scope, items, ids):
            return items
        known: Known = {**self._buffer.find_ids(scope, ids)}
        self._match_earlier_ids(scope, items, known)
        if former is not None:
            self._match_former(scope, items, known, former)
        if self._source.copies_keep_times:
            self._match_contents(scope, items, known)
        if self._compares_lineage:
            self._match_lineage(scope, items, known)
        new: list[Item] = []
        for item in items:
            event_id = item.ids[0]
            if event_id in known or self._is_inherited(scope, item, known):
                self._sessions.share(scope, item.event, event_id, known.get(event_id))
            else:
                known[event_id] = None
                new.append(item)
        return new

    def _without_retold(self, scope: Scope, items: list[Item]) -> list[Item]:
        """Return the events without those of sessions that came from another log already."""
        marks = {(item.event.session, item.event.unless) for item in items if item.event.unless}
        if not marks:
            return items
        recorded = {mark for mark in marks if self.find(scope, mark[0], mark[1] or "") is not None}
        return [item for item in items if (item.event.session, item.event.unless) not in recorded]

    def _are_all_new(self, scope: Scope, items: Sequence[Item], ids: set[str]) -> bool:
        """Whether no event is known by any id, nor was: mostly so, and then all is done."""
        sessions = {item.event.session for item in items}
        # The opening of a session asks for its own ids next.
        openings = (
            opening_id
            for session in sessions
            for opening_id in self._sessions.opening_ids(
                scope, session, self._source.sessions.get(session)
            )
        )
        places = self._buffer.find_ids(scope, ids.union(openings))
        if self._buffer.has_legacy_ids or not ids.isdisjoint(places):
            return False
        for item in items:  # noqa: SIM110  (every event passes here: a generator costs)
            if item.event.former_key or len(item.ids) > 1:
                return False
        return True

    # Ids of earlier versions.

    def _match_earlier_ids(self, scope: Scope, items: Sequence[Item], known: Known) -> None:
        """Give events the ids that an earlier version recorded them by, if one did."""
        earlier: dict[str, list[tuple[Item, int, bool]]] = {}
        for item in items:
            event = item.event
            if self._buffer.has_legacy_ids:
                for at, home in enumerate(self._homes(scope, event)):
                    legacy_id = self._ids.legacy(home, event.key)
                    if legacy_id is not None and item.ids[at] not in known:
                        earlier.setdefault(legacy_id, []).append((item, at, False))
            if event.former_key is not None and item.ids[0] not in known:
                # Another event may have this id today, unless the id is made of its content.
                former_id = self.id("", event.former_key)
                must_fit = not is_content_key(event.former_key)
                earlier.setdefault(former_id, []).append((item, 0, must_fit))
        locations = self._buffer.find_ids(scope, list(earlier)) if earlier else {}
        for event_id, uses in earlier.items():
            location = locations.get(event_id)
            if location is None:
                continue
            for item, at, must_fit in uses:
                session = self._sessions.name(item.event.session)
                fits = (session, item.event.ts_ms) == (location.session_id, location.ts_ms)
                if item.ids[at] not in known and (fits or not must_fit):
                    item.ids[at] = event_id
                    known[event_id] = location

    def _former_reading(self) -> FormerReading | None:
        """Return what another reader has recorded of the sessions of this file, if one did.

        A session that was taken over has the ids of its first reader.
        """
        opened_by = self._sessions.opened_by
        if self._former is None and opened_by is not None and not self._is_resumed:
            self._former = FormerReading(self._buffer, opened_by)
        return self._former

    def _match_former(
        self, scope: Scope, items: Sequence[Item], known: Known, former: FormerReading
    ) -> None:
        """Give events the ids by which an older or another reader recorded them."""
        taken: list[str] = []
        for item in items:
            session = self._sessions.name(item.event.session)
            if former.differs(scope, item, session):
                item.ids = [self._give_own_id(item, self._id_by_content(scope, item.event))]
                taken += item.ids
                continue
            is_global = self._source.keys_are_global
            event_id = former.find(scope, item, session, is_global=is_global)
            if event_id is not None and item.ids[0] not in known:
                item.ids = [event_id]
                self._own_ids[item.event.session, item.event.key] = event_id
                taken.append(event_id)
        known |= former.places(scope, taken)

    # An id that is known, with other content.

    def _match_contents(self, scope: Scope, items: Sequence[Item], known: Known) -> None:
        """Give ids of their own to events whose id is that of something else.

        A copy keeps the times and the words of the original. What says something else under a
        known id would be lost.
        """
        first_ms: dict[str, int] = {}
        own_ids: list[str] = []
        repeats: list[tuple[Item, EventLocation]] = []
        for item in items:
            event = item.event
            if not _is_timed(event):
                continue
            location = known.get(item.ids[0])
            if event.ts_ms > NO_TIME_MS:
                before = (
                    location.ts_ms if location else first_ms.setdefault(item.ids[0], event.ts_ms)
                )
                if before not in {0, event.ts_ms}:
                    own_ids.append(self._give_own_id(item, self._id_by_content(scope, event)))
                    continue
            # Our own export names an event by its id, and may spell it as another log does.
            is_export = self._source.keys_are_global and event.alternate_key is None
            if location is not None and not is_export:
                repeats.append((item, location))
        if own_ids:
            known |= self._buffer.find_ids(scope, list(dict.fromkeys(own_ids)))
        if repeats:
            self._match_words(scope, repeats, known)

    def _match_words(
        self, scope: Scope, repeats: Sequence[tuple[Item, EventLocation]], known: Known
    ) -> None:
        """Give ids of their own to events with other words than the event that has their id."""
        differs = self._buffer.differing(
            scope, [(item.ids[0], location, item.event.payload) for item, location in repeats]
        )
        own_ids = {
            at: self.id("", item.event.alternate_key)
            if item.event.alternate_key
            else self._id_by_content(scope, item.event)
            for at, (item, _) in enumerate(repeats)
            if differs[at] is not False
        }
        if not own_ids:
            return
        locations = self._buffer.find_ids(scope, list(dict.fromkeys(own_ids.values())))
        known |= locations
        for at, event_id in own_ids.items():
            # If the words cannot be compared any more, the event is the known one.
            if differs[at] or event_id in locations:
                self._give_own_id(repeats[at][0], event_id)

    def _give_own_id(self, item: Item, event_id: str) -> str:
        """Record an event by an id of its own, and find it by that from now on."""
        event = item.event
        item.ids[0] = self._own_ids[event.session, event.key] = event_id
        item.record.has_own_id = True
        return event_id

    def _id_by_content(self, scope: Scope, event: ParsedEvent) -> str:
        digest = sha256(encode([event.kind, event.payload])).hexdigest()
        return self._id_within(scope, event.session, content_key(f"{event.key}\0{digest}"))

    # An id that is known, in a session that this one did not come from.

    def _match_lineage(self, scope: Scope, items: Sequence[Item], known: Known) -> None:
        """Give ids of their own to events that a session repeats after its fork is settled."""
        late: list[str] = []
        for item in items:
            event = item.event
            location = None if event.kind.startswith(_BESIDE) else known.get(item.ids[0])
            if location is not None and self._sessions.lacks(scope, event.session, location):
                item.ids[0] = self._id_within(scope, event.session, event.key)
                late.append(item.ids[0])
        if late:
            known |= self._buffer.find_ids(scope, list(dict.fromkeys(late)))

    def _is_inherited(self, scope: Scope, item: Item, known: Known) -> bool:
        """Whether a fork repeats an event of its parent here; its own events come after those."""
        if len(item.ids) == 1:
            return False
        for event_id in item.ids[1:]:
            location = known.get(event_id)
            if location is not None and self._sessions.inherits(
                scope, item.event.session, location
            ):
                self._sessions.share(scope, item.event, event_id, location)
                return True
        self._sessions.end_replay(scope, item.event.session)
        return False

    # Ids.

    def _all_ids(
        self, scope: Scope, event: ParsedEvent, roots: dict[str, tuple[str, ...]]
    ) -> list[str]:
        """Return the ids that an event may have whose key is unique within its session.

        ``roots`` are those of the sessions so far.
        """
        session, key = event.session, event.key
        first = self._ahead.get((session, key)) or self._ids.named(session, key)
        if session not in roots:
            header = self._source.sessions.get(session)
            roots[session] = self._sessions.roots(scope, session, header)
        return [first, *[self._ids.named(root, key) for root in roots[session]]]

    def _homes(self, scope: Scope, event: ParsedEvent) -> Iterable[str]:
        """Return the sessions that an event may be known in; "" if its key is unique anywhere."""
        if self._source.keys_are_global:
            return _ANYWHERE
        header = self._source.sessions.get(event.session)
        return (event.session, *self._sessions.roots(scope, event.session, header))

    def _id_within(self, scope: Scope, session: str, key: str) -> str:
        """Return the id of an event within its session; the legacy one, if it is known by that."""
        legacy = self._ids.legacy(session, key) if self._buffer.has_legacy_ids else None
        if legacy is not None and self._buffer.find_ids(scope, [legacy]):
            return legacy
        return self._ids.named(session, key)

    def id(self, session: str, key: str) -> str:
        """Return the id of an event; of one whose key is unique anywhere, without a session."""
        return self._ids.named(session, key) if session else self._ids.everywhere(key)

    def find(self, scope: Scope, session: str, key: str) -> EventLocation | None:
        """Return where an earlier event of a session or of its parents is; None if unknown."""
        # What the session had to record again itself comes before what it repeats.
        homes = [session, ""]
        if not self._source.keys_are_global:
            header = self._source.sessions.get(session)
            homes = [session, *self._sessions.ancestors(scope, session, header)]
        ids = [self.id(home, key) for home in homes]
        if (session, key) in self._own_ids:
            ids.insert(0, self._own_ids[session, key])
        if self._buffer.has_legacy_ids:
            legacy = (self._ids.legacy(home, key) for home in homes)
            ids += [event_id for event_id in legacy if event_id is not None]
        locations = self._buffer.find_ids(scope, ids)
        return next((locations[event_id] for event_id in ids if event_id in locations), None)


_ANYWHERE: Final = ("",)


def _is_timed(event: ParsedEvent) -> bool:
    """Whether an event at another time is another event, though it has the same key."""
    if event.kind.startswith(_WORDS):
        return True
    return event.kind.startswith("ops.") and not is_content_key(event.key)
