"""The event matcher: which of the events that a log tells are known, and by which ids."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from treering.formats import openclaw_mem
from treering.formats.parsed import ParsedEvent, ParsedRecord, is_of_words, of_words
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.capture.intake.ledger_view import LedgerView
    from treering.capture.intake.sessions import Sessions
    from treering.formats.parsed import SessionSource
    from treering.ledger.records import EventLocation
    from treering.model.scopes import Scope

NO_TIME_MS: Final = 1
"""The time that readers tell of a record without one."""
_BESIDE: Final = ("usage.", "ops.")
"""Kinds that no history is made of."""
_WORDS: Final = ("conversation.", "tool.")
"""Kinds that history is made of."""
_ROWS: Final = frozenset({openclaw_mem.NAME})
"""Formats in which an event is the same in whatever session."""


class UnwrittenRecord(msgspec.Struct):
    """A record whose events are not recorded yet."""

    outcome: ParsedRecord
    fresh: int = 0
    is_apart: bool = False
    """Whether its id is that of something else."""
    failed: str | None = None


class Fresh(msgspec.Struct):
    """One event that is not known yet."""

    waiting: UnwrittenRecord
    told: ParsedEvent
    event_id: str


class _Earlier(msgspec.Struct):
    """The id by which an event may have been recorded before."""

    ids: list[str]
    at: int
    """The one among them whose place it takes."""
    event_id: str
    stands: tuple[str, int] | None = None
    """The session and the time of what has that id, if others may have it."""


class EventMatcher:
    """Tells what is new in one file, and where what is known stands."""

    def __init__(
        self, pasts: LedgerView, teller: SessionSource, sessions: Sessions, form: str
    ) -> None:
        self._ledger_view = pasts
        self._teller = teller
        self._sessions = sessions
        self._form = form
        self._made = sessions.ids
        self._apart: dict[tuple[str, str], str] = {}
        """The ids of events whose keys are those of others, by session and key."""

    def unknown(
        self, scope: Scope, pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]]
    ) -> list[Fresh]:
        """Return those that are not known yet; note what a session shares with others."""
        candidates = [self._ids(scope, told) for _, told in pairs]
        every = dict.fromkeys(one for ids in candidates for one in ids)
        known: dict[str, EventLocation | None] = {**self._ledger_view.find_ids(scope, list(every))}
        if self._ledger_view.has_legacy_ids:
            self._take_up(scope, self._legacy(scope, pairs, candidates, known), known)
        self._take_up(scope, self._former(pairs, candidates, known), known)
        self._tell_apart(scope, pairs, candidates, known)
        if self._teller.keys_are_global:
            self._tell_again(scope, pairs, candidates, known)
        fresh: list[Fresh] = []
        for (waiting, told), ids in zip(pairs, candidates, strict=True):
            own = ids[0]
            if own in known or self._is_inherited(scope, told, ids[1:], known):
                self._sessions.share(scope, told, own, known.get(own))
                continue
            known[own] = None
            fresh.append(Fresh(waiting, told, own))
        return fresh

    def _legacy(
        self,
        scope: Scope,
        pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]],
        candidates: list[list[str]],
        known: dict[str, EventLocation | None],
    ) -> list[_Earlier]:
        """Return the ids by which an earlier version may have recorded events."""
        return [
            _Earlier(ids, at, legacy)
            for (_, told), ids in zip(pairs, candidates, strict=True)
            for at, session in enumerate(self._homes(scope, told))
            if (legacy := self._made.legacy(session, told.key)) is not None and ids[at] not in known
        ]

    def _former(
        self,
        pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]],
        candidates: list[list[str]],
        known: dict[str, EventLocation | None],
    ) -> list[_Earlier]:
        """Return the ids of the former keys of events; others may have these."""
        return [
            _Earlier(
                ids,
                0,
                self.id("", told.former_key),
                (self._sessions.name(told.session), told.ts_ms),
            )
            for (_, told), ids in zip(pairs, candidates, strict=True)
            if told.former_key is not None and ids[0] not in known
        ]

    def _take_up(
        self, scope: Scope, earlier: Sequence[_Earlier], known: dict[str, EventLocation | None]
    ) -> None:
        """Have events go by the ids that they have, if it is they that have these."""
        every = list(dict.fromkeys(one.event_id for one in earlier))
        found = self._ledger_view.find_ids(scope, every) if every else {}
        for one in earlier:
            place = found.get(one.event_id)
            if place is not None and one.stands in {None, (place.session_id, place.ts_ms)}:
                one.ids[one.at] = one.event_id
                known[one.event_id] = place

    def _tell_again(
        self,
        scope: Scope,
        pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]],
        candidates: list[list[str]],
        known: dict[str, EventLocation | None],
    ) -> None:
        """Give ids of their own to words that a session repeats too late: its fork is settled."""
        if self._form in _ROWS:
            return
        late = []
        for (_, told), ids in zip(pairs, candidates, strict=True):
            place = None if told.kind.startswith(_BESIDE) else known.get(ids[0])
            if place is not None and self._sessions.lacks(scope, told.session, place):
                ids[0] = self._own_id(scope, told.session, told.key)
                late.append(ids[0])
        known |= self._ledger_view.find_ids(scope, list(dict.fromkeys(late)))

    def _tell_apart(
        self,
        scope: Scope,
        pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]],
        candidates: list[list[str]],
        known: dict[str, EventLocation | None],
    ) -> None:
        """Give ids of their own to words that stand under an id of others.

        A copy keeps the times of what it repeats, and says the same. What says something else under
        a known id would be lost.
        """
        if not self._teller.times_tell_apart:
            return
        told_ms: dict[str, int] = {}
        apart: list[str] = []
        repeats: list[tuple[UnwrittenRecord, ParsedEvent, list[str], EventLocation]] = []
        for (waiting, told), ids in zip(pairs, candidates, strict=True):
            if not _is_timed(told):
                continue
            place = known.get(ids[0])
            if told.ts_ms > NO_TIME_MS:
                before = place.ts_ms if place else told_ms.setdefault(ids[0], told.ts_ms)
                if before not in {0, told.ts_ms}:
                    apart.append(self._set_apart(waiting, told, ids, self._id_of_said(scope, told)))
                    continue
            # What an export of ours tells by its own id may be spelt in the words of another log.
            is_export = self._teller.keys_are_global and told.apart_key is None
            if place is not None and not is_export:
                repeats.append((waiting, told, ids, place))
        known |= self._ledger_view.find_ids(scope, list(dict.fromkeys(apart))) if apart else {}
        self._tell_words_apart(scope, repeats, known)

    def _tell_words_apart(
        self,
        scope: Scope,
        repeats: Sequence[tuple[UnwrittenRecord, ParsedEvent, list[str], EventLocation]],
        known: dict[str, EventLocation | None],
    ) -> None:
        """Give ids of their own to words that are not those of the event that has their id."""
        asked = [(ids[0], place, told.payload) for _, told, ids, place in repeats]
        differs = self._ledger_view.differing(scope, asked)
        own = {
            at: self.id("", told.apart_key) if told.apart_key else self._id_of_said(scope, told)
            for at, (_, told, _, _) in enumerate(repeats)
            if differs[at] is not False
        }
        found = self._ledger_view.find_ids(scope, list(dict.fromkeys(own.values()))) if own else {}
        known |= found
        for at, event_id in own.items():
            # Where nobody can tell by the words any more, it is what it was.
            if differs[at] or event_id in found:
                waiting, told, ids, _ = repeats[at]
                self._set_apart(waiting, told, ids, event_id)

    def _set_apart(
        self, waiting: UnwrittenRecord, told: ParsedEvent, ids: list[str], own: str
    ) -> str:
        """Have an event go by an id of its own, and be found by that from now on."""
        ids[0] = self._apart[told.session, told.key] = own
        waiting.is_apart = True
        return own

    def _id_of_said(self, scope: Scope, told: ParsedEvent) -> str:
        said = sha256(encode([told.kind, told.payload])).hexdigest()
        return self._own_id(scope, told.session, of_words(f"{told.key}\0{said}"))

    def _ids(self, scope: Scope, told: ParsedEvent) -> list[str]:
        """Return the id of an event, then those that it has if it is of the past of a fork."""
        return [self.id(session, told.key) for session in self._homes(scope, told)]

    def _homes(self, scope: Scope, told: ParsedEvent) -> list[str]:
        """Return the sessions in which an event may be known; none, if its key holds everywhere."""
        if self._teller.keys_are_global:
            return [""]
        opening = self._teller.sessions.get(told.session)
        return [told.session, *self._sessions.roots(scope, told.session, opening)]

    def _own_id(self, scope: Scope, session: str, key: str) -> str:
        """Return the id of an event of a session; the one that it has, if it is known."""
        legacy = self._made.legacy(session, key) if self._ledger_view.has_legacy_ids else None
        if legacy is not None and self._ledger_view.find_ids(scope, [legacy]):
            return legacy
        return self._made.named(session, key)

    def id(self, session: str, key: str) -> str:
        """Return the id of an event; of one whose key holds everywhere, without a session."""
        return self._made.named(session, key) if session else self._made.everywhere(key)

    def _is_inherited(
        self,
        scope: Scope,
        told: ParsedEvent,
        ids: Sequence[str],
        known: dict[str, EventLocation | None],
    ) -> bool:
        """Whether a fork repeats here what its parent has told: its own words come after that."""
        if not ids:
            return False
        for one in ids:
            place = known.get(one)
            if place is not None and self._sessions.inherits(scope, told.session, place):
                self._sessions.share(scope, told, one, place)
                return True
        self._sessions.end_replay(scope, told.session)
        return False

    def place(self, scope: Scope, session: str, key: str) -> EventLocation | None:
        """Return where an earlier event of a session stands, in its own part or its parents'."""
        # What the session had to tell again itself goes before what it repeats.
        homes = [session, ""]
        if not self._teller.keys_are_global:
            roots = self._sessions.ancestors(scope, session, self._teller.sessions.get(session))
            homes = [session, *roots]
        ids = [self.id(home, key) for home in homes]
        if (session, key) in self._apart:
            ids.insert(0, self._apart[session, key])
        if self._ledger_view.has_legacy_ids:
            ids += [one for home in homes if (one := self._made.legacy(home, key)) is not None]
        known = self._ledger_view.find_ids(scope, ids)
        return next((known[one] for one in ids if one in known), None)


def _is_timed(told: ParsedEvent) -> bool:
    """Whether an event at another time is another event, though it has the same key."""
    if told.kind.startswith(_WORDS):
        return True
    return told.kind.startswith("ops.") and not is_of_words(told.key)
