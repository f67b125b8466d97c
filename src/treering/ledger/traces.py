"""Traces of a person in a scope, session by session.

A session is theirs if they opened it, alone: all of it goes when they are forgotten. In any other
only what is about them does, and its opening, where that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.ledger.people import MAIN_PREFIX, OPENINGS
from treering.ledger.verification import is_whole
from treering.model.codec import decode, encode
from treering.model.queries import PAGE_ITEMS_MAX, Query, TimelinePoint
from treering.model.sessions import GROUP_PREFIX, SessionSettings, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.ledger.records import ForkPoint, Share
    from treering.model.events import Event
    from treering.model.scopes import Scope

LINKS: Final = ("user.linked", "user.unlinked", "user.merged")
"""Kinds that link names of users; their payloads name users."""
_NAMING: Final = ("user", "merged")


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a person in a scope."""

    whole: list[str]
    """Sessions that are theirs."""
    parts: list[str]
    """Other sessions with events about them."""
    openings: dict[str, tuple[str, dict[str, Any]]]
    """Openings of other sessions that name them: ids, and the settings without them."""
    forks: dict[str, int]
    """Forks of their sessions that belong to others, and the seq up to which they are shared."""
    links: list[str]
    """Ids of events that link them to other names."""

    @property
    def found(self) -> bool:
        """Whether there are any."""
        return bool(self.whole or self.parts or self.openings or self.links)


class _Opening(msgspec.Struct, frozen=True):
    """How a session began."""

    event_id: str
    user: str | None
    settings: SessionSettings

    @property
    def people(self) -> set[str]:
        """Return the users that it names."""
        named = set(self.settings.participants)
        return named if self.user is None else named | {self.user}


def find_traces(store: EventStore, scope: Scope, users: Sequence[str]) -> Traces:
    """Return the traces of ``users``, who are one person, in a scope."""
    survey = _Survey(store, scope, frozenset(users))
    whole = survey.whole()
    openings = {
        name: (opening.event_id, survey.without(opening.settings, whole))
        for name, opening in survey.openings.items()
        if name not in whole and survey.is_named(name, whole)
    }
    cuts = survey.cuts
    return Traces(
        whole=sorted(whole),
        parts=sorted(survey.shares.keys() - whole),
        openings=openings,
        forks={
            name: cut.seq for name, cut in cuts.items() if name not in whole and cut.parent in whole
        },
        links=[
            event.event_id
            for event in _events(store, scope, LINKS)
            if event.user_id not in survey.users and survey.users & _names_in(event.payload)
        ],
    )


class _Survey:
    """Reads the sessions of a scope once."""

    def __init__(self, store: EventStore, scope: Scope, users: frozenset[str]) -> None:
        self._is_sealed = store.seals.is_sealed(scope)
        self.users = users
        self.shares: dict[str, Share] = store.erasure.shares(scope, sorted(users))
        self.openings: dict[str, _Opening] = {}
        for event in _events(store, scope, OPENINGS):
            opening = _Opening(event.event_id, event.user_id, settings_of(event.payload))
            self.openings.setdefault(event.session_id, opening)
        self.cuts: dict[str, ForkPoint] = {}
        self._named: set[str] = set()
        for session in store.sessions.records(scope):
            if session.cut is not None:
                self.cuts[session.session_id] = session.cut
            if session.salt:
                self._named.add(session.session_id)
        # A forgetting that was interrupted is finished now.
        self._begun = {
            event.session_id
            for event in _events(store, scope, ("ledger.forgotten",))
            if is_whole(event) and event.session_id in self._named
        }

    def whole(self) -> set[str]:
        """Return their sessions, and forks and subagents of these that belong to nobody else."""
        names = self.shares.keys() | self.openings.keys() | self._named
        whole = self._begun | {name for name in names if self._is_theirs(name)}
        coming = True
        while coming:
            more = {
                name
                for name in self.openings.keys() | self.cuts.keys()
                if name not in whole and self._origins(name) & whole and self._is_nobodys(name)
            }
            whole |= more
            coming = bool(more)
        return whole

    def is_named(self, name: str, whole: set[str]) -> bool:
        """Whether the opening of a session names them, or a session of theirs."""
        return bool(self.openings[name].people & self.users or self._origins(name) & whole)

    def without(self, settings: SessionSettings, whole: set[str]) -> dict[str, Any]:
        """Return settings that do not name them; in a sealed scope, only what is safe to say."""
        spawned = settings.spawned_by not in whole and not self._is_sealed
        settings = msgspec.structs.replace(
            settings,
            participants=()
            if self._is_sealed
            else tuple(
                participant
                for participant in settings.participants
                if participant not in self.users
            ),
            key=None if self._is_sealed else settings.key,
            title=None if self._is_sealed else settings.title,
            spawned_by=settings.spawned_by if spawned else None,
            spawned_call=settings.spawned_call if spawned else None,
        )
        fields: dict[str, Any] = decode(encode(settings))
        return fields

    def _is_theirs(self, name: str) -> bool:
        if self._is_group(name):
            return False
        opening, share = self.openings.get(name), self.shares.get(name)
        if opening is not None and opening.user is not None:
            return opening.user in self.users
        # Somebody else may have the same handle: it counts only if nobody else is named.
        if name.startswith(MAIN_PREFIX) and name.split(":", 2)[-1] in self.users:
            return name in self._named
        people = set() if opening is None else opening.people
        if not people <= self.users or (share is not None and share.others):
            return False
        return bool(people) or (share is not None and share.said > 0)

    def _is_nobodys(self, name: str) -> bool:
        """Whether a session is not a group's and names nobody else."""
        opening, share = self.openings.get(name), self.shares.get(name)
        people = set() if opening is None else opening.people
        alone = people <= self.users and (share is None or not share.others)
        return alone and not self._is_group(name)

    def _is_group(self, name: str) -> bool:
        opening = self.openings.get(name)
        mode = None if opening is None else opening.settings.mode
        return mode == "group" or name.startswith(GROUP_PREFIX)

    def _origins(self, name: str) -> set[str]:
        """Return the sessions that a session derives from: its parent, or that of its agent."""
        opening, cut = self.openings.get(name), self.cuts.get(name)
        spawned = None if opening is None else opening.settings.spawned_by
        return {
            origin
            for origin in (spawned, None if cut is None else cut.parent)
            if origin is not None
        }


def _names_in(payload: Any) -> set[str]:
    """Return the users that a link between names mentions."""
    fields = payload if isinstance(payload, dict) else {}
    return {fields[name] for name in _NAMING if isinstance(fields.get(name), str)}


def _events(store: EventStore, scope: Scope, kinds: tuple[str, ...]) -> Iterator[Event]:
    query = Query(scope=scope, kinds=kinds, limit=PAGE_ITEMS_MAX)
    while page := store.reader.events(query):
        yield from page
        query = msgspec.structs.replace(
            query, after=TimelinePoint(page[-1].ts_ms, page[-1].position)
        )
