"""People: who a handle on a channel belongs to.

By its link, if there is one; else by the handle's main session, whose opening names the user. A new
user is called by the handle itself, unless a user on another channel has that name or a link there:
handles are per channel, and two people are never joined by accident.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.events import Header
from treering.model.kinds import MEMORY_KINDS
from treering.model.queries import Query
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.ledger.ports import EventStore
    from treering.memory.identity import UserIdentities

MAIN_PREFIX: Final = "main:"
OPENINGS: Final = ("session.opened", "session.forked")
IDENTITY_KINDS: Final = ("user.linked", "user.merged", "user.unlinked")


def main_id(channel: str, handle: str) -> str:
    """Return the id of the one session of a person on a channel."""
    return f"{MAIN_PREFIX}{channel}:{handle}"


def opened_for(store: EventStore, scope: Scope, session_id: str) -> str | None:
    """Return the user that a session was opened for; None if there is no such session."""
    first = store.reader.by_seq(Header, scope, session_id, after_seq=0, limit=1)
    return first[0].user_id if first else None


def talking(headers: Iterable[Header]) -> str | None:
    """Return the user that a session is with, by its events, in order.

    The user that the opening names, else the only one that the other events name; None if several.
    Events of the memory do not count: they may be about somebody else.
    """
    recorded = [header for header in headers if header.kind not in MEMORY_KINDS]
    if recorded and recorded[0].kind in OPENINGS and recorded[0].user_id is not None:
        return recorded[0].user_id
    named = list(dict.fromkeys(header.user_id for header in recorded if header.user_id))
    return named[0] if len(named) == 1 else None


class People:
    """Who is who on the channels of a ledger. A scope without links costs two reads."""

    def __init__(self, store: EventStore, identities: Callable[[Scope], UserIdentities]) -> None:
        self._store = store
        self._identities = identities

    def user_of(self, scope: Scope, channel: str, handle: str) -> str:
        """Return the user of a handle; nothing is written."""
        identities = self._identities_of(scope)
        linked = None if identities is None else identities.user_of(channel, handle)
        if linked is not None:
            return linked
        user = opened_for(self._store, scope, main_id(channel, handle))
        if user is None:
            user = self._unused(scope, channel, handle)
        return user if identities is None else identities.merged_into(user)

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
        """Return users with main sessions on several channels that are not linked.

        Each with channels and handles. They were called by their handle, so that only handles of
        several channels are looked at.
        """
        channels: dict[str, list[str]] = {}
        for name in self._store.sessions.named(scope, prefix=MAIN_PREFIX, suffix=""):
            channel, _, handle = name.removeprefix(MAIN_PREFIX).partition(":")
            channels.setdefault(handle, []).append(channel)
        identities = self._identities_of(scope)
        linked = (
            {(link.channel, link.handle) for link in identities.handles()} if identities else set()
        )
        unlinked = {
            handle: [
                (channel, handle)
                for channel in sorted(listed)
                if (channel, handle) not in linked
                and opened_for(self._store, scope, main_id(channel, handle)) == handle
            ]
            for handle, listed in channels.items()
            if len(listed) > 1
        }
        return {user: handles for user, handles in unlinked.items() if len(handles) > 1}

    def relinked(self, scope: Scope) -> list[tuple[str, str, str, str]]:
        """Return handles whose main session was opened for another than they are linked to.

        Each is a channel, a handle, whom it was opened for and whom it is linked to.
        """
        identities = self._identities_of(scope)
        if identities is None:
            return []
        opened = [
            (handle, opened_for(self._store, scope, main_id(handle.channel, handle.handle)))
            for handle in identities.handles()
        ]
        return [
            (handle.channel, handle.handle, user, handle.user)
            for handle, user in opened
            if user is not None
            and identities.merged_into(user) != identities.merged_into(handle.user)
        ]

    def _identities_of(self, scope: Scope) -> UserIdentities | None:
        """Return who is linked and merged in a scope; None if nobody ever was."""
        query = Query(scope=scope, kinds=IDENTITY_KINDS, limit=1)
        return self._identities(scope) if self._store.reader.by_time(Header, query) else None

    def _unused(self, scope: Scope, channel: str, handle: str) -> str:
        """Return the name of a new user: the same for every caller."""
        return next(
            name
            for name in _names(channel, handle)
            if not self._is_taken(scope, channel, handle, name)
        )

    def _is_taken(self, scope: Scope, channel: str, handle: str, user: str) -> bool:
        """Whether somebody with another handle is called ``user``."""
        store, own = self._store, main_id(channel, handle)
        named = store.sessions.named(scope, prefix=MAIN_PREFIX, suffix=f":{user}")
        sessions = {session_id for session_id in named if session_id.split(":", 2)[2:] == [user]}
        # Those of somebody who was called by channel and handle, with a number or without.
        sessions |= {f"{MAIN_PREFIX}{user}", f"{MAIN_PREFIX}{user.rpartition(':')[0]}"}
        if any(opened_for(store, scope, session_id) == user for session_id in sessions - {own}):
            return True
        identities = self._identities_of(scope)
        linked = (
            {(link.channel, link.handle) for link in identities.handles(user)}
            if identities
            else set()
        )
        return bool(linked) and (channel, handle) not in linked


class ChannelPerson(msgspec.Struct, frozen=True):
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
