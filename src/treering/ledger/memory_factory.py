"""The memories of a ledger's scopes, and what they ask of the ledger."""

from __future__ import annotations

import contextlib
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from treering.derive.visible import UndoFilter, hidden_by, redone_by, undone_by
from treering.errors import NotFound, TreeringError
from treering.lazy import LazyModule
from treering.ledger.outlines import heads
from treering.ledger.people import main_id, opened_for
from treering.ledger.session_settings import read_attribution, read_settings
from treering.model.events import Header
from treering.model.kinds import HIDING_KINDS
from treering.model.queries import PAGE_ITEMS_MAX, Query
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from treering.derive import fact_rows
    from treering.derive.fact_rows import FactRow
    from treering.ledger.engine import Engine
    from treering.ledger.search_meaning import FailedRuns
    from treering.memory import events as memory_events
    from treering.memory import identity, scope_memory
    from treering.memory.conversations import Conversation
    from treering.memory.memory import Memory
    from treering.memory.ports import Embedder
    from treering.model.events import Event
    from treering.model.queries import TimelinePoint
    from treering.model.receipts import Target
    from treering.model.sessions import Attribution, SessionSettings
    from treering.rules.project_commands import CommandRun
else:
    memory_events = LazyModule("treering.memory.events")
    identity = LazyModule("treering.memory.identity")
    fact_rows = LazyModule("treering.derive.fact_rows")
    scope_memory = LazyModule("treering.memory.scope_memory")

EMBEDDED_AT_ONCE: Final = 64
ReadPurpose = Literal["extraction", "episode"]
"""What a session is read for: facts, or episodes that tell of it."""


class Recorder:
    """What the memory asks of a ledger: it records by the engine, and reads sessions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._store = engine.store

    def settings(self, scope: Scope, session_id: str) -> SessionSettings | None:
        """Return what a session was opened with; None if it does not exist."""
        return read_settings(self._store, scope, session_id)

    def attribution(self, scope: Scope, session_id: str) -> Attribution:
        """Return whose a session's statements are that name no user."""
        return read_attribution(self._store, scope, session_id)

    def met(self, scope: Scope, channel: str, handle: str) -> str | None:
        """Return the user that the main session of a handle was opened for; None without one."""
        return opened_for(self._store, scope, main_id(channel, handle))

    def opened_for(self, scope: Scope, session_id: str) -> str | None:
        """Return the user that a session was opened for; None without one."""
        return opened_for(self._store, scope, session_id)

    def undone(self, scope: Scope, session_id: str) -> list[tuple[int, int]]:
        """Return the ranges of a session that were undone, as their first and last seq."""
        kinds = tuple(sorted(HIDING_KINDS))
        query = Query(scope=scope, session_id=session_id, kinds=kinds, limit=PAGE_ITEMS_MAX)
        headers = sorted(self._store.reader.by_time(Header, query), key=lambda header: -header.seq)
        hidden = UndoFilter()
        visible = [header for header in headers if hidden.is_visible(header)]
        redone = {redone_by(header) for header in visible}
        ranges = (undone_by(header) for header in visible if header.seq not in redone)
        single = [(seq, seq) for header in visible for seq in sorted(hidden_by(header))]
        return [
            *((stretch.from_seq, stretch.seq) for stretch in ranges if stretch is not None),
            *single,
        ]

    def failed_runs(self, scope: Scope) -> FailedRuns:
        """Return which runs of a scope failed or were interrupted."""
        from treering.ledger.search_meaning import FailedRuns  # noqa: PLC0415  (slow to load)

        return FailedRuns(self._store, scope)

    def event_texts(self, event: Event) -> list[str]:
        """Return the texts by which an event is found by meaning, with secrets masked."""
        from treering.derive.search_texts import event_texts  # noqa: PLC0415  (slow to load)
        from treering.ledger.search_meaning import masked  # noqa: PLC0415

        return event_texts(masked(self.engine.drafter.guard(), event))

    def places(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return session and time of the events with these ids, those that exist."""
        locations = self._store.reader.find_ids(scope, event_ids)
        return {
            event_id: (location.session_id, location.ts_ms)
            for event_id, location in locations.items()
        }

    def gone(self, scope: Scope, event_ids: Sequence[str]) -> set[str]:
        """Return those of the events with these ids whose content was erased or has expired."""
        events = {event_id: self._store.reader.find(scope, event_id) for event_id in event_ids}
        return {event_id for event_id, event in events.items() if event is None or event.redacted}

    def salts(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the salts of the events with these ids that are not erased."""
        salts: dict[str, bytes] = {}
        for event_id, location in self._store.reader.find_ids(scope, event_ids).items():
            at = self._store.reader.records(
                scope, location.session_id, after_seq=location.seq - 1, limit=1
            )
            if at and at[0].seq == location.seq and at[0].salt is not None:
                salts[event_id] = at[0].salt
        return salts

    def masked(self, text: str) -> str:
        """Return ``text`` with its secrets masked; the same if there are none."""
        return self.engine.drafter.guard().mask_text(text)

    def sessions(self, scope: Scope) -> list[tuple[str, int]]:
        """Return the sessions with a conversation, and their last seq; the latest is last."""
        return [(head.session_id, head.head_seq) for head in heads(self._store, scope)][::-1]

    def conversation(self, scope: Scope, session_id: str, *, after_seq: int) -> Conversation:
        """Return what was said in a session after ``after_seq``. Raises NotFound."""
        settings = self.settings(scope, session_id)
        if settings is None:
            raise NotFound(
                f"no session {session_id} in scope {scope}",
                hint="list them with treering sessions list",
            )
        from treering.ledger.conversations import read_conversation  # noqa: PLC0415  (slow to load)

        return read_conversation(self._store, scope, session_id, settings, after_seq=after_seq)

    def commands(self, scope: Scope, session_id: str | None) -> list[CommandRun]:
        """Return the commands of the latest tool calls, in order, of a session or of all."""
        from treering.ledger.conversations import read_commands  # noqa: PLC0415  (slow to load)

        return read_commands(self._store, scope, session_id)

    def read_through(self, scope: Scope, session_id: str, purpose: ReadPurpose) -> int:
        """Return the seq up to which a session was read for a purpose; 0 if it was not."""
        follower = self._follower(scope, session_id, purpose)
        cursor = None if follower is None else self._store.cursors.find(scope, follower)
        return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() else 0

    def note_read(self, scope: Scope, session_id: str, purpose: ReadPurpose, seq: int) -> None:
        """Keep durably up to which seq a session was read for a purpose."""
        follower = self._follower(scope, session_id, purpose)
        if follower is not None:
            self._store.cursors.set(scope, follower, str(seq))

    def usage(self, scope: Scope, *, since_ms: int, after: TimelinePoint | None) -> list[Header]:
        """Return a page of what was reported as used since a time, after ``after``, in order."""
        query = Query(
            scope=scope,
            kinds=("usage.reported",),
            since_ms=since_ms,
            limit=PAGE_ITEMS_MAX,
            after=after,
        )
        return self._store.reader.by_time(Header, query)

    def _follower(self, scope: Scope, session_id: str, purpose: ReadPurpose) -> str | None:
        # By its genesis: a session whose name was forgotten, and is used again, is another one.
        for record in self._store.sessions.records(scope, session_id):
            return f"{purpose}:{fact_rows.hashed(record.genesis.hex())}"
        return None


class MemoryFactory:
    """Makes memories of scopes that share what is held."""

    def __init__(
        self,
        engine: Engine,
        embedder: Callable[[], Embedder | None],
        fact_embedder: Callable[[], Embedder | None],
        new_id: Callable[[], str],
    ) -> None:
        self._store = engine.store
        self.recorder = Recorder(engine)
        self._new_id = new_id
        self.embedder = embedder
        self.fact_embedder = fact_embedder
        """The one to use for facts, once no vector of another one is there."""

    @cached_property
    def scope_memories(self) -> scope_memory.ScopeMemories:
        """Return the memories of scopes that are held."""
        store = self._store
        return scope_memory.ScopeMemories(
            store.memory,
            self.recorder.attribution,
            scope_memory.Embedders(self.embedder, self.fact_embedder),
            store.seals.is_sealed,
        )

    def memory(self, scope: Scope) -> Memory:
        """Return the memory of a scope."""
        from treering.memory.memory import Memory  # noqa: PLC0415  (slow to load)

        return Memory(
            self._store.memory,
            self.recorder,
            lambda: self.scope_memories.of(scope),
            scope,
            new_id=self._new_id,
        )

    def move_facts(self, scope: Scope, progress: Callable[[int], None] | None = None) -> int:
        """Embed facts and episodes by the embedder for facts, if another one did; return how many.

        All vectors are made before the old ones go: nobody waits for the model meanwhile.
        """
        wanted, held = self.fact_embedder(), self.scope_memories.of(scope)
        with held.lock.guard, held.lock:
            held.refresh()
            texts = [] if held.is_sealed or wanted is None else held.texts_to_move(wanted)
        if not texts or wanted is None:
            return 0
        ahead = scope_memory.EmbeddedAhead(wanted)
        for at in range(0, len(texts), EMBEDDED_AT_ONCE):
            ahead.embed(texts[at : at + EMBEDDED_AT_ONCE])
            if progress is not None:
                progress(len(texts[at : at + EMBEDDED_AT_ONCE]))
        self._store.memory.drop_documents(scope, "memories")
        self.scope_memories.replace(scope, ahead).refresh()
        self.scope_memories.replace(scope, wanted)
        return len(texts)

    def identities(self, scope: Scope) -> identity.UserIdentities:
        """Return who is who in a scope."""
        return identity.UserIdentities(
            lambda: self.scope_memories.of(scope), self.recorder, self._new_id
        )

    def citing(self, scope: Scope, event_ids: Iterable[str]) -> list[str]:
        """Return the ids of the memory's events that cite one of these events."""
        held = self.scope_memories.of(scope)
        with held.lock.guard, held.lock:
            held.fold.refresh()
            return held.fold.citing(event_ids)

    def shelved(self, scopes: Iterable[Scope]) -> list[Scope]:
        """Return those scopes whose events can be found by meaning by now."""
        return [scope for scope in scopes if self._store.memory.index_state(scope, "events").count]

    def rebuild(
        self,
        scopes: Iterable[Scope],
        shelved: Sequence[Scope],
        texts: Callable[[Event], list[str]],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Fold what is remembered again, and put it and the events of ``shelved`` on shelves."""
        self.scope_memories.clear()
        for scope in scopes:
            held = self.scope_memories.of(scope)
            with held.lock.guard, held.lock:
                held.refresh(progress)
                held.fold.save()
                if scope in shelved and not held.is_sealed:
                    held.events.documents.catch_up(texts, progress=progress)

    @contextlib.contextmanager
    def reasserting(self, target: Target) -> Iterator[None]:
        """Have what no longer holds stay so, whatever is erased meanwhile.

        What the events of ``target`` say about that is said again before; and what came back all
        the same, afterwards.
        """
        scope, ids = Scope(target.scope), {target.event_id, *target.event_ids}
        settled = self._settled(scope)
        events = self._statements(scope, [row.settled for row in settled.values()])
        self._reassert(
            scope,
            [
                row
                for row in settled.values()
                if (event := events.get(row.settled)) is not None
                and (event.session_id == target.session_id or event.event_id in ids)
            ],
            events,
        )
        yield
        held = self.scope_memories.of(scope)
        with held.lock.guard, held.lock:
            held.fold.refresh()
            facts = held.fold.state.facts
            returned = [
                row
                for row in settled.values()
                if row.id in facts and facts[row.id].state in {"current", "archived"}
            ]
        self._reassert(scope, returned, self._statements(scope, [row.position for row in returned]))

    def _settled(self, scope: Scope) -> dict[str, FactRow]:
        held = self.scope_memories.of(scope)
        with held.lock.guard, held.lock:
            held.fold.refresh()
            return {
                row.id: copy(row)
                for row in held.fold.state.facts.values()
                if row.state in {"superseded", "forgotten"}
            }

    def _statements(self, scope: Scope, positions: Sequence[int]) -> dict[int, Event]:
        held = self.scope_memories.of(scope)
        with held.lock.guard, held.lock:
            return held.fold.events_at(positions)

    def _reassert(self, scope: Scope, rows: Sequence[FactRow], events: Mapping[int, Event]) -> None:
        users = {
            row.id: event.user_id
            for row in rows
            for event in (events.get(row.settled), events.get(row.position))
            if event is not None
        }
        if rows:
            self.recorder.engine.append(
                [memory_events.upheld_event(scope, row, users.get(row.id)) for row in rows]
            )

    def close(self) -> None:
        """Save the folded state for the next process, if this one used it."""
        if "scope_memories" in vars(self):
            with contextlib.suppress(TreeringError):
                self.scope_memories.save()
