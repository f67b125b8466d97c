"""Identities: which of the events that a log tells are known, and by which ids."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from treering.formats import openclaw_mem
from treering.formats.telling import Outcome, Told, is_of_words, of_words
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.capture.intake.pasts import Pasts
    from treering.capture.intake.sessions import Sessions
    from treering.formats.telling import Teller
    from treering.ledger.records import Place
    from treering.model.scopes import Scope

NO_TIME_MS: Final = 1
"""The time that readers tell of a record without one."""
_BESIDE: Final = ("usage.", "ops.")
"""Kinds that no history is made of."""
_WORDS: Final = ("conversation.", "tool.")
"""Kinds that history is made of."""
_ROWS: Final = frozenset({openclaw_mem.NAME})
"""Formats in which an event is the same in whatever session."""


class Waiting(msgspec.Struct):
    """A record whose events are not recorded yet."""

    outcome: Outcome
    fresh: int = 0
    is_apart: bool = False
    """Whether its id is that of something else."""
    failed: str | None = None


class Fresh(msgspec.Struct):
    """One event that is not known yet."""

    waiting: Waiting
    told: Told
    event_id: str


class Identities:
    """Tells what is new in one file, and where what is known stands."""

    def __init__(self, pasts: Pasts, teller: Teller, sessions: Sessions, form: str) -> None:
        self._pasts = pasts
        self._teller = teller
        self._sessions = sessions
        self._form = form
        self._made = sessions.ids

    def unknown(self, scope: Scope, pairs: Sequence[tuple[Waiting, Told]]) -> list[Fresh]:
        """Return those that are not known yet; note what a session shares with others."""
        candidates = [self._ids(scope, told) for _, told in pairs]
        every = dict.fromkeys(one for ids in candidates for one in ids)
        known: dict[str, Place | None] = {**self._pasts.known(scope, list(every))}
        if self._pasts.has_legacy_ids:
            self._take_up_legacy(scope, pairs, candidates, known)
        self._take_up_former(scope, pairs, candidates, known)
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

    def _take_up_legacy(
        self,
        scope: Scope,
        pairs: Sequence[tuple[Waiting, Told]],
        candidates: list[list[str]],
        known: dict[str, Place | None],
    ) -> None:
        """Have events that an earlier version recorded go by the ids that they have."""
        earlier: list[tuple[list[str], int, str]] = []
        for (_, told), ids in zip(pairs, candidates, strict=True):
            for at, session in enumerate(self._homes(scope, told)):
                legacy = self._made.legacy(session, told.key)
                if legacy is not None and ids[at] not in known:
                    earlier.append((ids, at, legacy))
        found = self._pasts.known(scope, list(dict.fromkeys(one for _, _, one in earlier)))
        for ids, at, legacy in earlier:
            if legacy in found:
                ids[at] = legacy
                known[legacy] = found[legacy]

    def _take_up_former(
        self,
        scope: Scope,
        pairs: Sequence[tuple[Waiting, Told]],
        candidates: list[list[str]],
        known: dict[str, Place | None],
    ) -> None:
        """Have events go by the ids of their former keys, if it is they that have these."""
        earlier = [
            (ids, told, self.id("", told.former_key))
            for (_, told), ids in zip(pairs, candidates, strict=True)
            if told.former_key is not None and ids[0] not in known
        ]
        found = self._pasts.known(scope, list(dict.fromkeys(one for _, _, one in earlier)))
        for ids, told, former in earlier:
            place = found.get(former)
            session = self._sessions.name(told.session)
            if place is not None and (place.session_id, place.ts_ms) == (session, told.ts_ms):
                ids[0] = former
                known[former] = place

    def _tell_again(
        self,
        scope: Scope,
        pairs: Sequence[tuple[Waiting, Told]],
        candidates: list[list[str]],
        known: dict[str, Place | None],
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
        known |= self._pasts.known(scope, list(dict.fromkeys(late)))

    def _tell_apart(
        self,
        scope: Scope,
        pairs: Sequence[tuple[Waiting, Told]],
        candidates: list[list[str]],
        known: dict[str, Place | None],
    ) -> None:
        """Give ids of their own to words that stand under an id of others, by their time.

        A copy keeps the times of what it repeats. What says something else under a known id would
        be lost.
        """
        if not self._teller.times_tell_apart:
            return
        told_ms: dict[str, int] = {}
        apart = []
        for (waiting, told), ids in zip(pairs, candidates, strict=True):
            if told.ts_ms <= NO_TIME_MS or not _is_timed(told):
                continue
            place = known.get(ids[0])
            before = place.ts_ms if place is not None else told_ms.setdefault(ids[0], told.ts_ms)
            if before not in {0, told.ts_ms}:
                said = sha256(encode([told.kind, told.payload])).hexdigest()
                ids[0] = self._own_id(scope, told.session, of_words(f"{told.key}\0{said}"))
                apart.append(ids[0])
                waiting.is_apart = True
        known |= self._pasts.known(scope, list(dict.fromkeys(apart)))

    def _ids(self, scope: Scope, told: Told) -> list[str]:
        """Return the id of an event, then those that it has if it is of the past of a fork."""
        return [self.id(session, told.key) for session in self._homes(scope, told)]

    def _homes(self, scope: Scope, told: Told) -> list[str]:
        """Return the sessions in which an event may be known; none, if its key holds everywhere."""
        if self._teller.keys_are_global:
            return [""]
        opening = self._teller.sessions.get(told.session)
        return [told.session, *self._sessions.roots(scope, told.session, opening)]

    def _own_id(self, scope: Scope, session: str, key: str) -> str:
        """Return the id of an event of a session; the one that it has, if it is known."""
        legacy = self._made.legacy(session, key) if self._pasts.has_legacy_ids else None
        if legacy is not None and self._pasts.known(scope, [legacy]):
            return legacy
        return self._made.named(session, key)

    def id(self, session: str, key: str) -> str:
        """Return the id of an event; of one whose key holds everywhere, without a session."""
        return self._made.named(session, key) if session else self._made.everywhere(key)

    def _is_inherited(
        self, scope: Scope, told: Told, ids: Sequence[str], known: dict[str, Place | None]
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

    def place(self, scope: Scope, session: str, key: str) -> Place | None:
        """Return where an earlier event of a session stands, in its own part or its parents'."""
        # What the session had to tell again itself goes before what it repeats.
        homes = [session, ""]
        if not self._teller.keys_are_global:
            roots = self._sessions.ancestors(scope, session, self._teller.sessions.get(session))
            homes = [session, *roots]
        ids = [self.id(home, key) for home in homes]
        if self._pasts.has_legacy_ids:
            ids += [one for home in homes if (one := self._made.legacy(home, key)) is not None]
        known = self._pasts.known(scope, ids)
        return next((known[one] for one in ids if one in known), None)


def _is_timed(told: Told) -> bool:
    """Whether an event at another time is another event, though it has the same key."""
    if told.kind.startswith(_WORDS):
        return True
    return told.kind.startswith("ops.") and not is_of_words(told.key)
