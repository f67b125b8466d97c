"""Users and handles: one person under all their names on different channels, within a scope.

All of it is events: which user has a handle, and which users were merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import handle_key
from treering.errors import InvalidInput, NotFound
from treering.memory.events import user_event
from treering.model.arguments import checks_arguments
from treering.model.fields import check_name
from treering.model.memories import MergeReceipt, UserHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Header


@checks_arguments
class UserIdentities:
    """The users of one scope, their handles and merges."""

    def __init__(
        self, scope_memory: Callable[[], ScopeMemory], recorder: Recorder, new_id: Callable[[], str]
    ) -> None:
        self._scope_memory = scope_memory
        self._recorder = recorder
        self._new_id = new_id

    def resolve(self, channel: str, handle: str) -> str:
        """Return the user who has a handle on a channel; create a user if nobody has it."""
        check_name(channel, "channel")
        check_name(handle, "handle")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            user = self._user_of(scope_memory, channel, handle)
            if user is None:
                user = self._recorder.met(scope_memory.scope, channel, handle)
            if user is None:
                user = self._link_new_user(scope_memory, channel, handle)
            return self._merged_into(scope_memory, user)

    def user_of(self, channel: str, handle: str) -> str | None:
        """Return the user who has a handle, after merges; None if nobody has it."""
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.fold.refresh()
            user = self._user_of(scope_memory, channel, handle)
            return None if user is None else self._merged_into(scope_memory, user)

    def merged_into(self, user: str) -> str:
        """Return the user that ``user`` was merged into; ``user`` itself if it was not merged."""
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.fold.refresh()
            return self._merged_into(scope_memory, user)

    def link(self, user: str, channel: str, handle: str) -> UserHandle:
        """Give a handle to a user. Raise InvalidInput if it belongs to another user."""
        check_name(user, "user")
        check_name(channel, "channel")
        check_name(handle, "handle")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            before = self._user_of(scope_memory, channel, handle)
            if before is not None and not self._is_same(scope_memory, before, user):
                raise InvalidInput(
                    f"{handle} on {channel} belongs to another user",
                    hint="merge the two users, or unlink the handle first",
                )
            if before is None:
                self._link(scope_memory, user, channel, handle)
        return UserHandle(
            user=user, channel=channel, handle=handle, since_ms=self._recorder.engine.now_ms()
        )

    def unlink(self, channel: str, handle: str) -> str:
        """Take a handle from its user and return that user. Raise NotFound if nobody has it."""
        check_name(channel, "channel")
        check_name(handle, "handle")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            user = self._user_of(scope_memory, channel, handle)
            if user is None:
                raise NotFound(
                    f"no user has the handle {handle} on {channel}", hint="check the spelling"
                )
            payload = {"user": user, "channel": channel, "handle": handle}
            event = user_event(scope_memory.scope, "user.unlinked", "handle unlinked", payload)
            self._recorder.engine.append([event])
            return user

    def merge(self, user: str, other: str) -> MergeReceipt:
        """Treat two users as one person: facts about either are recalled for both."""
        _check_two(user, other)
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            state = scope_memory.fold.state
            if state.root(hashed(user)) == state.root(hashed(other)):
                raise InvalidInput(
                    f"{user} and {other} are the same person already", hint="there is nothing to do"
                )
            if hashed(other) in state.merges:
                raise InvalidInput(
                    f"{other} was merged into {self._merged_into(scope_memory, other)}",
                    hint=f"merge {self._merged_into(scope_memory, other)} instead",
                )
            return self._record_merge(scope_memory, user, other, undo=False)

    def unmerge(self, user: str, other: str) -> MergeReceipt:
        """Undo a merge: each user has only their own facts again."""
        _check_two(user, other)
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            merges = scope_memory.fold.state.merges
            if merges.get(hashed(other), ("", 0))[0] != hashed(user):
                raise NotFound(
                    f"{other} was not merged into {user}",
                    hint="name the two users in the order they were merged",
                )
            return self._record_merge(scope_memory, user, other, undo=True)

    def _record_merge(
        self, scope_memory: ScopeMemory, user: str, other: str, *, undo: bool
    ) -> MergeReceipt:
        state = scope_memory.fold.state
        family = state.merged_into(hashed(other))
        facts = sum(row.user in family for row in state.facts.values())
        payload = {"user": user, "merged": other, "undone": undo}
        summary = "users unmerged" if undo else "users merged"
        event = user_event(scope_memory.scope, "user.merged", summary, payload)
        header = self._recorder.engine.append([event])[0]
        return MergeReceipt(
            scope=scope_memory.scope,
            user=user,
            merged=other,
            undone=undo,
            facts=facts,
            event_id=header.event_id,
        )

    def handles(self, user: str | None = None) -> list[UserHandle]:
        """Return the handles of a user and of users merged with them, or of all users."""
        if user is not None:
            check_name(user, "user")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            return [
                handle
                for handle in self._handles(scope_memory)
                if user is None or self._is_same(scope_memory, handle.user, user)
            ]

    def ids_of(self, user: str) -> list[str]:
        """Return all user ids of the same person, ``user`` first."""
        check_name(user, "user")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            state = scope_memory.fold.state
            family = state.family(hashed(user))
            positions = [position for _, position in state.merges.values()]
            ids = [user]
            for event in scope_memory.fold.events_at(positions).values():
                payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
                ids += [
                    name
                    for name in (payload.get("user"), payload.get("merged"))
                    if isinstance(name, str) and hashed(name) in family
                ]
            return list(dict.fromkeys(ids))

    def _handles(self, scope_memory: ScopeMemory) -> Iterator[UserHandle]:
        positions = list(scope_memory.fold.state.handles.values())
        for event in scope_memory.fold.events_at(positions).values():
            payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
            yield UserHandle(
                user=payload["user"],
                channel=payload["channel"],
                handle=payload["handle"],
                since_ms=event.ts_ms,
            )

    def _link_new_user(self, scope_memory: ScopeMemory, channel: str, handle: str) -> str:
        """Link a handle that nobody has to a new user; return that user."""
        user = self._new_id()
        link = self._link(scope_memory, user, channel, handle)
        scope_memory.refresh()
        linked = self._user_of(scope_memory, channel, handle)
        session_user = self._recorder.met(scope_memory.scope, channel, handle)
        if session_user is not None and linked == user:
            linked = session_user
        if linked is None or linked == user:
            return user
        # Another process linked it at the same time: the first link counts, ours is erased.
        self._recorder.engine.redact(scope_memory.scope, link.event_id)
        return linked

    def _link(self, scope_memory: ScopeMemory, user: str, channel: str, handle: str) -> Header:
        payload = {"user": user, "channel": channel, "handle": handle}
        event = user_event(scope_memory.scope, "user.linked", "handle linked", payload)
        return self._recorder.engine.append([event])[0]

    def _user_of(self, scope_memory: ScopeMemory, channel: str, handle: str) -> str | None:
        key = handle_key({"channel": channel, "handle": handle}) or ""
        position = scope_memory.fold.state.handles.get(key)
        if position is None:
            return None
        event = scope_memory.fold.events_at([position]).get(position)
        payload: dict[str, Any] = (
            event.payload if event is not None and isinstance(event.payload, dict) else {}
        )
        user = payload.get("user")
        return user if isinstance(user, str) else None

    def _merged_into(self, scope_memory: ScopeMemory, user: str) -> str:
        """Return the user that ``user`` was merged into."""
        state = scope_memory.fold.state
        key = hashed(user)
        seen = {key}
        while key in state.merges:
            position = state.merges[key][1]
            event = scope_memory.fold.events_at([position]).get(position)
            payload = event.payload if event is not None else None
            if not isinstance(payload, dict) or hashed(payload["user"]) in seen:
                break
            user = payload["user"]
            key = hashed(user)
            seen.add(key)
        return user

    def _is_same(self, scope_memory: ScopeMemory, one: str, other: str) -> bool:
        state = scope_memory.fold.state
        return state.root(hashed(one)) == state.root(hashed(other))


def _check_two(user: str, other: str) -> None:
    check_name(user, "user")
    check_name(other, "other")
    if user == other:
        raise InvalidInput("a user cannot be merged with themselves", hint="name two users")
