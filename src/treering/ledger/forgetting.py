"""Forgetting: everything about one person in a scope is erased, and what they were called.

What goes leaves tombstones, as what expires does: kind, place and link. An event in each session
vouches for them, and says neither who was forgotten nor what they were called. A session that was
theirs alone loses its name with the last of its events, in the same transaction, and is called
``forgotten:`` and a part of its genesis from then on. Whoever writes to it under its old name
begins a new session of that name, to which nothing of the old one leads.

It is done in rounds. What was stopped half-way is finished by the next call: first goes what says
of them elsewhere, then what they left with others, then their own sessions, last the names.

A session is theirs if they opened it, alone: all of it goes when they are forgotten. In any other
only what is about them does, and its opening, where that names them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import NotFound, RunClosed
from treering.ledger.erasure import ROUND_EVENTS_MAX, Provenance, derived_texts_of, voucher
from treering.ledger.paging import pages_by_time
from treering.ledger.people import MAIN_PREFIX, OPENINGS
from treering.ledger.records import AGENT, Erased, ForkPoint, Selection, Share
from treering.ledger.verification import is_whole
from treering.model.codec import decode, encode
from treering.model.events import Event, Header, NewEvent
from treering.model.kinds import ERASURE_KINDS
from treering.model.queries import PAGE_ITEMS_MAX, Query
from treering.model.receipts import ForgetReceipt
from treering.model.sessions import GROUP_PREFIX, SessionSettings, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore
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
                    # It may just have ended, or somebody else ends it now.
                    with contextlib.suppress(RunClosed):
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
        """Erase in an order that lets a later call continue from what is left."""
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
        read = partial(self._store.reader.by_seq, Header, self._scope, name, limit=ROUND_EVENTS_MAX)
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
    return chain.from_iterable(pages_by_time(store, Event, query))
