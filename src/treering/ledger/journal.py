"""The ledger as the spine knows it: it keeps events, and knows what runs are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.ledger import erasure
from treering.ledger.following import Follower
from treering.ledger.records import SealedMeanwhile
from treering.ledger.session_settings import read_settings
from treering.ledger.sink_history import PrivateSinkHistory, SinkHistory
from treering.model.scopes import Scope

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from treering.context.summaries import Summariser
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import Clock, EventStore
    from treering.model.events import Event, Header, NewEvent
    from treering.model.runs import OpenRun
    from treering.model.sessions import SessionSettings


class LedgerJournal:
    """Keeps what the spine carries in a store."""

    def __init__(
        self,
        store: EventStore,
        drafter: Drafter,
        clock: Clock,
        summariser: Summariser | None = None,
    ) -> None:
        self._store = store
        self._drafter = drafter
        self._clock = clock
        self.summariser = summariser
        """What writes summaries and episodes where nobody names another."""

    def append(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        tell: Callable[[Header, bytes | None], None] | None = None,
        numbers: Sequence[int | None] | None = None,
        counted: bool = False,
    ) -> list[Header]:
        """Record all of ``events`` or none; ``tell`` of each that is new, with its payload.

        ``numbers`` are those in runs of events that do not say theirs; if ``counted``, the store
        gives all others theirs.
        """
        drafter, headers = self._drafter, None
        while headers is None:  # Again for each scope that was encrypted meanwhile, and once each.
            drafts = drafter.draft(events, numbers, counted=counted)
            try:
                headers = self._store.append(drafts, expected_seq=expected_seq)
            except SealedMeanwhile as error:
                drafter.note_sealed(error.scope)
        if tell is not None:
            for header, draft in zip(headers, drafts, strict=True):
                # The digest is salted afresh for each draft: another is of an event known before.
                if header.content_digest == draft.content_digest:
                    tell(header, draft.payload)
        return headers

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock()

    def head_seq(self, scope: Scope, session_id: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""
        last = self._store.last_headers(scope, session_id, before_seq=None, limit=1)
        return last[0].seq if last else 0

    def settings(self, scope: Scope, session_id: str) -> SessionSettings | None:
        """Return what a session was opened as; None if it has no past."""
        return read_settings(self._store, scope, session_id)

    def fork(self, event: NewEvent, *, parent: str, seq: int) -> Header:
        """Record ``event`` as the first of a session that has the past of ``parent`` to ``seq``."""
        drafter, fork = self._drafter, self._store.fork
        try:
            return fork(drafter.draft([event])[0], parent=parent, seq=seq)
        except SealedMeanwhile as error:
            drafter.note_sealed(error.scope)
            return fork(drafter.draft([event])[0], parent=parent, seq=seq)

    def redact(self, scope: Scope, event_id: str) -> None:
        """Erase the content of an event, and what retells it."""
        erasure.redact(
            self._store, self._drafter, scope,
            event_id=event_id, session_id=None, replacement="placeholder",
        )  # fmt: skip

    def session_key(self, scope: str, session_id: str) -> str | None:
        """Return the name that another system knows a session by, as it was opened."""
        settings = self.settings(Scope(scope), session_id)
        return None if settings is None else settings.key

    def safe_past(self) -> SinkHistory:
        """Return what safe sinks may ask about the past of an event."""
        return SinkHistory(self._store, self.settings)

    def private_past(self) -> PrivateSinkHistory:
        """Return what private sinks may ask about the past of an event."""
        return PrivateSinkHistory(self._store, self.settings)

    def open_runs(self, scope: Scope | None = None, session_id: str | None = None) -> list[OpenRun]:
        """Return the runs that have begun and not ended."""
        return self._store.open_runs(scope, session_id)

    def run_headers(self, scope: Scope, session_id: str, run_id: str) -> Iterable[Header]:
        """Return the headers of one run, in order."""
        return self._store.run_headers(scope, session_id, run_id)

    def is_known(self, scope: Scope, event_id: str) -> bool:
        """Whether there is, or was, an event with this id."""
        return bool(self._store.find_ids(scope, [event_id]))

    def owner(self) -> str:
        """Return the name under which this process carries out its runs."""
        return self._store.leases.owner()

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process behind ``owner`` is certainly not carrying on."""
        return self._store.leases.is_gone(owner, seen_ms)

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""
        return self._store.leases.is_in_copy(owner)

    def hold(self, name: str) -> bool:
        """Whether this process has ``name`` to itself, now that it asks for it."""
        return self._store.leases.hold(name)

    def release(self, name: str) -> None:
        """Let others have ``name``."""
        self._store.leases.release(name)

    def cursor(self, scope: Scope, follower: str) -> str | None:
        """Return how far ``follower`` has come."""
        return self._store.cursor(scope, follower)

    def set_cursor(self, scope: Scope, follower: str, cursor: str) -> None:
        """Note how far ``follower`` has come."""
        self._store.set_cursor(scope, follower, cursor)

    def follow(
        self, scope: Scope, *, after: str | None, idle_seconds: float, stop: threading.Event
    ) -> Follower[Header]:
        """Return the headers behind ``after`` and those that come, until none does for a while."""
        return Follower(
            self._store,
            scope,
            read=self._store.headers_after,
            of_run=self._store.run_headers,
            after=after,
            committed=False,
            idle_seconds=idle_seconds,
            stop=stop,
        )

    def follow_events(
        self, scope: Scope, *, after: str | None, idle_seconds: float, stop: threading.Event
    ) -> Follower[Event]:
        """Return the same, with payloads."""
        return Follower(
            self._store,
            scope,
            read=self._store.events_after,
            of_run=self._store.run_events,
            after=after,
            committed=False,
            idle_seconds=idle_seconds,
            stop=stop,
        )
