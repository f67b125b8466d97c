"""Forgetting: everything about one person in a scope is erased, and what they were called.

What goes leaves tombstones, as what expires does: kind, place and link. An event in each session
vouches for them, and says neither who was forgotten nor what they were called. A session that was
theirs alone loses its name with the last of its events, in the same transaction, and is called
``forgotten:`` and a part of its genesis from then on. Whoever writes to it under its old name
begins a new session of that name, to which nothing of the old one leads.

It is done in rounds. What was stopped half-way is finished by the next call: first goes what says
of them elsewhere, then what they left with others, then their own sessions, last the names.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from treering.errors import NotFound
from treering.ledger.derived_texts import derived_texts_of
from treering.ledger.erasure import ROUND_EVENTS_MAX, voucher
from treering.ledger.records import AGENT, Selection
from treering.ledger.traces import find_traces
from treering.model.events import NewEvent
from treering.model.kinds import ERASURE_KINDS
from treering.model.receipts import ForgetReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.drafts import Drafter
    from treering.ledger.erasure import Provenance
    from treering.ledger.ports import EventStore
    from treering.ledger.records import Erased
    from treering.ledger.traces import Traces
    from treering.model.events import Header
    from treering.model.scopes import Scope

    Interrupt = Callable[[Scope, str, str], object]
    """Ends the run of a session, and says why."""

WHY: Final = "the user was forgotten"
FACT: Final = "memory.stored"
EPISODE: Final = "episode.written"
HANDLE: Final = "user.linked"


def forget(
    store: EventStore,
    drafter: Drafter,
    scope: Scope,
    users: Sequence[str],
    *,
    interrupt: Interrupt,
    provenance: Provenance | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ForgetReceipt:
    """Erase all that a scope holds of one person; ``users`` is all that they are known as.

    Raises NotFound if there is nothing.
    """
    traces = find_traces(store, scope, users)
    if not traces.found:
        if not dry_run:
            # The last step may be all that was left to do.
            store.erasure.forget_names()
            store.erasure.finish()
        raise NotFound(
            f"no user {users[0]} in scope {scope}",
            hint="check the user's id and the scope; sessions are listed with their users",
        )
    forgetting = _Forgetting(store, drafter, scope, frozenset(users), traces, progress)
    before = store.projection_counts(scope)
    if dry_run:
        forgetting.count(provenance)
        return forgetting.receipt(users, {}, physical="done", dry_run=True)
    forgetting.interrupt(interrupt)
    forgetting.carry_out(provenance)
    names = store.erasure.forget_names()
    physical = store.erasure.finish()
    after = store.projection_counts(scope)
    taken = {name: max(count - after.get(name, 0), 0) for name, count in before.items()}
    return forgetting.receipt(users, {**taken, "names": names}, physical=physical, dry_run=False)


class _Forgetting:
    """One person on the way out, and what has gone so far."""

    def __init__(
        self,
        store: EventStore,
        drafter: Drafter,
        scope: Scope,
        users: frozenset[str],
        traces: Traces,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._store = store
        self._drafter = drafter
        self._scope = scope
        self._users = users
        self._traces = traces
        self._progress = progress
        self._whole = frozenset(traces.whole)
        self._by_kind: Counter[str] = Counter()
        self._projections: Counter[str] = Counter()
        self._retellings = self._sessions = self._blobs = self._shared = 0

    def interrupt(self, interrupt: Interrupt) -> None:
        """End the runs under way in their sessions, and their own in others."""
        for once in (True, False):
            for run in self._store.reader.open_runs(self._scope):
                start = self._store.reader.events_at(self._scope, run.session_id, [run.first_seq])
                theirs = any(event.user_id in self._users for event in start)
                if run.session_id not in self._whole and not theirs:
                    continue
                if once and run.owner is not None:
                    interrupt(self._scope, run.session_id, WHY)
                elif not once:
                    # Nobody carries it out, so nobody else will ever end it.
                    end = NewEvent(
                        scope=self._scope,
                        session_id=run.session_id,
                        kind="run.interrupted",
                        agent_id=AGENT,
                        run_id=run.run_id,
                        summary="run interrupted",
                    )
                    self._store.append(self._drafter.draft([end]), expected_seq=None)

    def count(self, provenance: Provenance | None) -> None:
        """Count what would go."""
        for name in (*self._traces.whole, *self._traces.parts):
            self._by_kind.update(header.kind for header in self._own(name))
        summaries = list(self._summaries())
        opened = [event_id for event_id, _ in self._traces.openings.values()]
        single = (*summaries, *opened, *self._learnt(provenance), *self._traces.links)
        for event_id in dict.fromkeys(single):
            event = self._store.reader.find(self._scope, event_id)
            if event is not None and not self._goes_anyway(event):
                self._by_kind[event.kind] += 1
        self._retellings = len(summaries)
        self._sessions = len(self._whole)

    def carry_out(self, provenance: Provenance | None) -> None:
        """Erase, in an order in which what is left says what is left to do."""
        traces = self._traces
        for event_id in (*self._learnt(provenance), *traces.links):
            self._erase(Selection(scope=self._scope, event_ids=(event_id,)))
        self._erase_summaries()
        for event_id, settings in traces.openings.values():
            self._erase(Selection(scope=self._scope, event_ids=(event_id,)), charter=settings)
        stretches = {name: self._stretches(name) for name in traces.parts}
        for name in traces.parts:
            self._erase(Selection(scope=self._scope, session_id=name, users=self._users))
        # Again: what is retold from now on is retold without it.
        self._erase_summaries(stretches)
        for name in traces.whole:
            selection = Selection(scope=self._scope, session_id=name, with_name=True)
            self._erase(selection, whole=True)

    def _erase(self, selection: Selection, **more: Any) -> int:
        vouch = voucher(
            self._drafter, self._scope, "ledger.forgotten", "forgotten", "expired", **more
        )
        count, going = 0, True
        while going:
            done = self._store.erasure.erase(
                selection, erasure="expired", limit=ROUND_EVENTS_MAX, vouch=vouch
            )
            count += self._note(done)
            going = done.more and not selection.event_ids
        return count

    def _note(self, done: Erased) -> int:
        count = sum(done.by_kind.values())
        self._by_kind.update(done.by_kind)
        self._projections.update(done.projections)
        self._blobs += done.blobs_erased
        self._shared += done.blobs_shared
        self._sessions += done.named
        if self._progress is not None:
            self._progress(count)
        return count

    def _erase_summaries(self, stretches: dict[str, list[tuple[int, int]]] | None = None) -> None:
        for event_id in list(self._summaries(stretches)):
            self._retellings += self._erase(Selection(scope=self._scope, event_ids=(event_id,)))

    def _summaries(
        self, stretches: dict[str, list[tuple[int, int]]] | None = None
    ) -> Iterator[str]:
        """Return the events of others' sessions that repeat what is erased, each once."""
        yielded: set[str] = set()
        shared = {name: [(1, seq)] for name, seq in self._traces.forks.items()}
        own = stretches or {name: self._stretches(name) for name in self._traces.parts}
        for name, events in (*shared.items(), *own.items()):
            for event_id in (
                derived_texts_of(self._store, self._scope, name, events) if events else ()
            ):
                event = self._store.reader.find(self._scope, event_id)
                if event_id in yielded or event is None or self._goes_anyway(event):
                    continue
                yielded.add(event_id)
                yield event_id

    def _goes_anyway(self, header: Header) -> bool:
        return header.session_id in self._whole or header.user_id in self._users

    def _learnt(self, provenance: Provenance | None) -> list[str]:
        """Return the events that were learnt from what is going, and from those in turn."""
        if provenance is None:
            return []
        learnt: dict[str, None] = {}
        asking = (
            page for name in (*self._traces.whole, *self._traces.parts) for page in self._ids(name)
        )
        for page in asking:
            news = list(provenance(self._scope, page))
            while news := [event_id for event_id in dict.fromkeys(news) if event_id not in learnt]:
                learnt.update(dict.fromkeys(news))
                news = list(provenance(self._scope, news))
        return list(learnt)

    def _ids(self, name: str) -> Iterator[list[str]]:
        page: list[str] = []
        for header in self._own(name):
            page.append(header.event_id)
            if len(page) >= ROUND_EVENTS_MAX:
                yield page
                page = []
        if page:
            yield page

    def _own(self, name: str) -> Iterator[Header]:
        """Return what is to go of a session that has anything about them."""
        read = partial(
            self._store.reader.session_headers, self._scope, name, limit=ROUND_EVENTS_MAX
        )
        whole, after = name in self._whole, 0
        while page := read(after_seq=after):
            after = page[-1].seq
            for header in page:
                if (whole or header.user_id in self._users) and header.kind not in ERASURE_KINDS:
                    yield header

    def _stretches(self, name: str) -> list[tuple[int, int]]:
        stretches: list[tuple[int, int]] = []
        for header in self._own(name):
            if stretches and stretches[-1][1] == header.seq - 1:
                stretches[-1] = (stretches[-1][0], header.seq)
            else:
                stretches.append((header.seq, header.seq))
        return stretches

    def receipt(
        self, users: Sequence[str], taken: dict[str, int], *, physical: Any, dry_run: bool
    ) -> ForgetReceipt:
        """Account for everything."""
        events = sum(self._by_kind.values())
        return ForgetReceipt(
            scope=self._scope,
            users=list(users),
            dry_run=dry_run,
            events_erased=events,
            events_by_kind=dict(sorted(self._by_kind.items())),
            sessions_erased=self._sessions,
            names_erased=self._sessions + len(users),
            retellings_erased=self._retellings,
            facts_erased=self._by_kind[FACT],
            episodes_erased=self._by_kind[EPISODE],
            handles_erased=self._by_kind[HANDLE],
            blobs_erased=self._blobs,
            blobs_shared=self._shared,
            projections={
                "events": events,
                "sessions": self._sessions,
                "blobs": self._blobs,
                **self._projections,
                **taken,
            },
            physical=physical,
        )
