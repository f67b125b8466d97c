"""People: who stands behind a handle on a channel.

By its link, where there is one; else by the handle's main session, whose opening names the user.
Somebody who was never met is called by the handle itself, unless somebody on another channel is:
handles are per channel, and two people are never joined by accident.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.queries import Query
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ports import EventStore
    from treering.memory.identity import Identities

MAIN_PREFIX: Final = "main:"
IDENTITY_KINDS: Final = ("user.linked", "user.merged", "user.unlinked")


def main_id(channel: str, handle: str) -> str:
    """Return the id of the one session of a person on a channel."""
    return f"{MAIN_PREFIX}{channel}:{handle}"


def opened_for(store: EventStore, scope: Scope, session_id: str) -> str | None:
    """Return the user that a session was opened for; None if there is no such session."""
    first = store.session_headers(scope, session_id, after_seq=0, limit=1)
    return first[0].user_id if first else None


class People:
    """Who is who on the channels of a ledger. What nobody is linked in costs two reads."""

    def __init__(self, store: EventStore, identities: Callable[[Scope], Identities]) -> None:
        self._store = store
        self._identities = identities

    def user_of(self, scope: Scope, channel: str, handle: str) -> str:
        """Return the user behind a handle; nothing is written."""
        known = self._known(scope)
        linked = None if known is None else known.linked(channel, handle)
        if linked is not None:
            return linked
        user = opened_for(self._store, scope, main_id(channel, handle))
        if user is None:
            user = self._unused(scope, channel, handle)
        return user if known is None else known.kept(user)

    def settle(self, scope: Scope, channel: str, handle: str, user: str) -> str:
        """Return the user of a main session that was opened just now.

        If somebody on another channel was called the same at that moment, it is another one.
        """
        if user != handle or not self._is_taken(scope, channel, handle, user):
            return user
        own = self._unused(scope, channel, handle)
        self._identities(scope).link(own, channel, handle)
        return own

    def joined(self, scope: Scope) -> dict[str, list[tuple[str, str]]]:
        """Return users that stand behind main sessions of several channels without being linked.

        Each with channels and handles.
        """
        found: dict[str, list[tuple[str, str]]] = {}
        for channel, handle, opened, linked in self._mains(scope):
            if linked is None:
                found.setdefault(opened, []).append((channel, handle))
        return {
            user: sorted(handles)
            for user, handles in found.items()
            if len({channel for channel, _ in handles}) > 1
        }

    def relinked(self, scope: Scope) -> list[tuple[str, str, str, str]]:
        """Return handles whose main session was opened for another than they are linked to.

        Each is a channel, a handle, whom it was opened for and whom it is linked to.
        """
        known = self._known(scope)
        if known is None:
            return []
        return [
            (channel, handle, opened, linked)
            for channel, handle, opened, linked in self._mains(scope)
            if linked is not None and known.kept(opened) != linked
        ]

    def _mains(self, scope: Scope) -> Iterator[tuple[str, str, str, str | None]]:
        """Return channel and handle of main sessions, whom each was opened for and is linked to."""
        known = self._known(scope)
        for name in self._store.sessions_named(scope, prefix=MAIN_PREFIX, suffix=""):
            channel, _, handle = name.removeprefix(MAIN_PREFIX).partition(":")
            opened = opened_for(self._store, scope, name)
            if opened is not None and handle:
                linked = None if known is None else known.linked(channel, handle)
                yield channel, handle, opened, linked

    def _known(self, scope: Scope) -> Identities | None:
        """Return who is linked and merged in a scope; None if nobody ever was."""
        query = Query(scope=scope, kinds=IDENTITY_KINDS, limit=1)
        return self._identities(scope) if self._store.headers(query) else None

    def _unused(self, scope: Scope, channel: str, handle: str) -> str:
        """Return what somebody is called who was never met: the same, whoever asks."""
        return next(
            one
            for one in _names(channel, handle)
            if not self._is_taken(scope, channel, handle, one)
        )

    def _is_taken(self, scope: Scope, channel: str, handle: str, user: str) -> bool:
        """Whether somebody with another handle is called ``user``."""
        store, own = self._store, main_id(channel, handle)
        named = store.sessions_named(scope, prefix=MAIN_PREFIX, suffix=f":{user}")
        sessions = {one for one in named if one.split(":", 2)[2:] == [user]}
        # Those of somebody who was called by channel and handle, with a number or without.
        sessions |= {f"{MAIN_PREFIX}{user}", f"{MAIN_PREFIX}{user.rpartition(':')[0]}"}
        if any(opened_for(store, scope, one) == user for one in sessions - {own}):
            return True
        known = self._known(scope)
        return known is not None and any(
            one.handle == user and one.channel != channel for one in known.handles(user)
        )


class Person(msgspec.Struct, frozen=True):
    """Somebody on a channel, as their main session knows them."""

    people: People
    scope: Scope
    channel: str
    handle: str

    def user(self) -> str:
        """Return the user that they are."""
        return self.people.user_of(self.scope, self.channel, self.handle)

    def settle(self, user: str) -> str:
        """Return the user that they are, once their session was opened for ``user``."""
        return self.people.settle(self.scope, self.channel, self.handle, user)


def _names(channel: str, handle: str) -> Iterator[str]:
    yield handle
    yield f"{channel}:{handle}"
    yield from (f"{channel}:{handle}:{number}" for number in count(2))
