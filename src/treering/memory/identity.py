"""Identity: one person, whatever they are called on each channel, inside a scope.

All of it is events: who a handle belongs to, and which users were found to be the same person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.derive.memory_state import handle_key, hashed
from treering.errors import InvalidInput, NotFound
from treering.memory.events import identity
from treering.model.memories import MergeReceipt, UserHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Header


class UserIdentities:
    """Who is who in one scope."""

    def __init__(
        self, scope_memory: Callable[[], ScopeMemory], recorder: Recorder, new_id: Callable[[], str]
    ) -> None:
        self._scope_memory = scope_memory
        self._recorder = recorder
        self._new_id = new_id

    def resolve(self, channel: str, handle: str) -> str:
        """Return the user behind a handle; one who was not known is from now on."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            user = self._user_of(held, channel, handle)
            if user is None:
                user = self._recorder.met(held.scope, channel, handle)
            if user is None:
                user = self._meet(held, channel, handle)
            return self._kept(held, user)

    def linked(self, channel: str, handle: str) -> str | None:
        """Return the user that a handle is linked to, as merged; None if it is to nobody."""
        held = self._scope_memory()
        with held.lock:
            held.fold.refresh()
            user = self._user_of(held, channel, handle)
            return None if user is None else self._kept(held, user)

    def kept(self, user: str) -> str:
        """Return the user that one was merged into; the same, if into nobody."""
        held = self._scope_memory()
        with held.lock:
            held.fold.refresh()
            return self._kept(held, user)

    def link(self, user: str, channel: str, handle: str) -> UserHandle:
        """Have a handle belong to a user. Raises InvalidInput if it belongs to another."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            before = self._user_of(held, channel, handle)
            if before is not None and not self._is_same(held, before, user):
                raise InvalidInput(
                    f"{handle} on {channel} belongs to another user",
                    hint="merge the two users, or unlink the handle first",
                )
            if before is None:
                self._link(held, user, channel, handle)
        return UserHandle(
            user=user, channel=channel, handle=handle, since_ms=self._recorder.engine.now_ms()
        )

    def unlink(self, channel: str, handle: str) -> str:
        """Take a handle from its user, and return who that was. Raises NotFound."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            user = self._user_of(held, channel, handle)
            if user is None:
                raise NotFound(
                    f"no user has the handle {handle} on {channel}", hint="check the spelling"
                )
            payload = {"user": user, "channel": channel, "handle": handle}
            event = identity(held.scope, "user.unlinked", "handle unlinked", payload)
            self._recorder.engine.append([event])
            return user

    def merge(self, user: str, other: str, *, undo: bool = False) -> MergeReceipt:
        """Say that two users are the same person, or that they are not after all."""
        if user == other:
            raise InvalidInput("a user is not merged with themselves", hint="name two users")
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            state = held.fold.state
            merged = state.merges.get(hashed(other), ("", 0))[0] == hashed(user)
            if undo and not merged:
                raise NotFound(
                    f"{other} was not merged into {user}", hint="name them as they were merged"
                )
            if not undo and state.root(hashed(user)) == state.root(hashed(other)):
                raise InvalidInput(
                    f"{user} and {other} are the same person already", hint="nothing is to be done"
                )
            if not undo and hashed(other) in state.merges:
                raise InvalidInput(
                    f"{other} was merged into {self._kept(held, other)}",
                    hint=f"merge {self._kept(held, other)} instead",
                )
            family = state.merged_into(hashed(other))
            facts = sum(row.user in family for row in state.facts.values())
            payload = {"user": user, "merged": other, "undone": undo}
            summary = "users told apart again" if undo else "users merged"
            event = identity(held.scope, "user.merged", summary, payload)
            header = self._recorder.engine.append([event])[0]
        return MergeReceipt(
            scope=held.scope,
            user=user,
            merged=other,
            undone=undo,
            facts=facts,
            event_id=header.event_id,
        )

    def handles(self, user: str | None = None) -> list[UserHandle]:
        """Return the handles of a user, and of those merged with them; or of all users."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            return [
                one
                for one in self._handles(held)
                if user is None or self._is_same(held, one.user, user)
            ]

    def ids_of(self, user: str) -> list[str]:
        """Return all names under which a person is known as a user, the given one first."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            state = held.fold.state
            family = state.family(hashed(user))
            positions = [position for _, position in state.merges.values()]
            found = [user]
            for event in held.fold.tellings(positions).values():
                payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
                found += [
                    name
                    for name in (payload.get("user"), payload.get("merged"))
                    if isinstance(name, str) and hashed(name) in family
                ]
            return list(dict.fromkeys(found))

    def _handles(self, held: ScopeMemory) -> Iterator[UserHandle]:
        positions = list(held.fold.state.handles.values())
        for event in held.fold.tellings(positions).values():
            payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
            yield UserHandle(
                user=payload["user"],
                channel=payload["channel"],
                handle=payload["handle"],
                since_ms=event.ts_ms,
            )

    def _meet(self, held: ScopeMemory, channel: str, handle: str) -> str:
        """Return the user that a handle is given to from now on."""
        user = self._new_id()
        link = self._link(held, user, channel, handle)
        held.refresh()
        first = self._user_of(held, channel, handle)
        talks = self._recorder.met(held.scope, channel, handle)
        if talks is not None and first == user:
            first = talks
        if first is None or first == user:
            return user
        # Somebody else met them at the same time: that counts, and no other link stays.
        self._recorder.engine.redact(held.scope, link.event_id)
        return first

    def _link(self, held: ScopeMemory, user: str, channel: str, handle: str) -> Header:
        payload = {"user": user, "channel": channel, "handle": handle}
        event = identity(held.scope, "user.linked", "handle linked", payload)
        return self._recorder.engine.append([event])[0]

    def _user_of(self, held: ScopeMemory, channel: str, handle: str) -> str | None:
        key = handle_key({"channel": channel, "handle": handle}) or ""
        position = held.fold.state.handles.get(key)
        if position is None:
            return None
        event = held.fold.tellings([position]).get(position)
        payload: dict[str, Any] = (
            event.payload if event is not None and isinstance(event.payload, dict) else {}
        )
        user = payload.get("user")
        return user if isinstance(user, str) else None

    def _kept(self, held: ScopeMemory, user: str) -> str:
        """Return the user that one was merged into, by name."""
        state = held.fold.state
        key = hashed(user)
        seen = {key}
        while key in state.merges:
            position = state.merges[key][1]
            event = held.fold.tellings([position]).get(position)
            payload = event.payload if event is not None else None
            if not isinstance(payload, dict) or hashed(payload["user"]) in seen:
                break
            user = payload["user"]
            key = hashed(user)
            seen.add(key)
        return user

    def _is_same(self, held: ScopeMemory, one: str, other: str) -> bool:
        state = held.fold.state
        return state.root(hashed(one)) == state.root(hashed(other))
