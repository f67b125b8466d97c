"""The ledger: the append-only store of events, and all its operations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self, Unpack

from treering.errors import DuplicateEvent, InvalidInput
from treering.lazy import LazyModule
from treering.ledger.engine import Engine
from treering.ledger.import_access import ImportAccess
from treering.ledger.memory_factory import MemoryFactory
from treering.ledger.outlines import SessionQuery, list_sessions
from treering.ledger.people import ChannelPerson, People, main_id
from treering.ledger.readable_ledger import ReadableLedger
from treering.ledger.records import AGENT
from treering.ledger.scopes import asked_scopes
from treering.ledger.session_settings import stated
from treering.model.arguments import checks_arguments
from treering.model.fields import (
    bounded_clock,
    check_count,
    check_events,
    check_id,
    check_list,
    check_name,
    check_text,
    check_time,
)
from treering.model.queries import PAGE_ITEMS_DEFAULT
from treering.model.scopes import check_retention, parse_scope
from treering.model.sessions import IDLE_MINUTES, PRUNE_DAYS
from treering.spine.dispatcher import Spine
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from treering.context.summaries import Summariser
    from treering.ledger import erasure, families, forgetting, keyed_records, pruning, sessions
    from treering.ledger.admin import LedgerAdmin
    from treering.ledger.drafts import Drafter
    from treering.ledger.erasure import Replacement
    from treering.ledger.families import Family
    from treering.ledger.keyed_records import KeyedRecords, LedgerRecords, RecordAccess
    from treering.ledger.keys import LedgerKeys
    from treering.ledger.ports import Clock, EventStore
    from treering.ledger.sessions import Session
    from treering.memory.memory import Memory
    from treering.memory.ports import Embedder, Extractor
    from treering.model import receipts
    from treering.model.events import Header, NewEvent
    from treering.model.memories import MaintenanceReceipt
    from treering.model.queries import Page
    from treering.model.receipts import ExpireReceipt, ForgetReceipt, RedactReceipt, SweepReceipt
    from treering.model.scopes import Retention, Scope
    from treering.model.sessions import (
        Isolation,
        Mode,
        SessionFilters,
        SessionOptions,
        SessionOutline,
        SessionState,
    )
    from treering.model.tools import SyntheticPolicy
    from treering.spine.ports import Sink
else:
    erasure = LazyModule("treering.ledger.erasure")
    receipts = LazyModule("treering.model.receipts")
    families = LazyModule("treering.ledger.families")
    forgetting = LazyModule("treering.ledger.forgetting")
    pruning = LazyModule("treering.ledger.pruning")
    keyed_records = LazyModule("treering.ledger.keyed_records")
    sessions = LazyModule("treering.ledger.sessions")


@checks_arguments
class Ledger(ReadableLedger):
    """An open ledger.

    Safe to share between threads and across forks. Created by ``treering.open``.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        drafter: Drafter,
        clock: Clock,
        embedder: Callable[[], Embedder | None] = lambda: None,
        fact_embedder: Callable[[], Embedder | None] | None = None,
        summariser: Summariser | None = None,
    ) -> None:
        clock = bounded_clock(clock)
        self._engine = Engine(store, drafter, clock, summariser)
        memory_factory = MemoryFactory(self._engine, embedder, fact_embedder or embedder, new_id)
        super().__init__(store, drafter=drafter, clock=clock, memory_factory=memory_factory)
        self._spine = Spine(self._engine)
        self._people = People(store, memory_factory.identities)
        self.importing = ImportAccess(store, self._engine, self._withdraw)
        """What importers need: repeats left out, bookmarks, the key that hides ids."""

    @cached_property
    def admin(self) -> LedgerAdmin:
        """Return the administration of the ledger: verify, anchor, export, restore, rebuild."""
        from treering.ledger.admin import LedgerAdmin  # noqa: PLC0415  (loaded when first used)

        return LedgerAdmin(
            self._store,
            drafter=self._drafter,
            clock=self._clock,
            memory_factory=self._memory_factory,
            people=self._people,
        )

    @cached_property
    def keys(self) -> LedgerKeys:
        """Return the keys of encrypted scopes: create, rotate, list and destroy them."""
        from treering.ledger.keys import LedgerKeys  # noqa: PLC0415  (loaded when first used)

        return LedgerKeys(self._store, self._drafter, self._clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt the runs that are still open here, and close the database."""
        try:
            self._engine.close()
            self._memory_factory.close()
        finally:
            self._store.close()

    def with_masking(self) -> Ledger:
        """Return the same ledger with secrets masked in payloads, too: for imported logs.

        Its events are not sent to sinks. Closing it closes this one.
        """
        return Ledger(
            self._store,
            drafter=self._drafter.with_masking(),
            clock=self._clock,
            embedder=self._memory_factory.embedder,
            fact_embedder=self._memory_factory.fact_embedder,
        )

    # Writing.

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record all of ``events`` durably and in order, or none of them.

        Recording the same event id with the same content again returns the first header and writes
        nothing. Raises Conflict if the session is not at ``expected_seq``, if that is given.
        """
        listed = check_events(events)
        if not listed:
            return []
        return self._engine.append(listed, expected_seq=expected_seq)

    def append_new(self, event: NewEvent) -> Header:
        """Record one event with a new id. Raises DuplicateEvent if the id exists."""
        new = self._engine.append_missing(check_events([event]))
        if not new:
            raise DuplicateEvent(
                f"event_id already exists: {event.event_id}",
                hint="give another id, or leave it out to have one made",
            )
        return new[0]

    def session(
        self,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        mode: Mode | None = None,
        **settings: Unpack[SessionOptions],
    ) -> Session:
        """Return a handle on a session; it is recorded with its first event.

        ``mode`` is main, group or queue; the default is that of an existing session, or main.
        ``key`` is the session's name in another system. ``tools`` are those that may run in it: by
        default all, and in a group only the few harmless ones. ``isolation`` limits what a group's
        agent may access. ``spawned_by`` is the session whose agent started this one,
        ``spawned_call`` the id of the tool call that did.
        """
        return sessions.Session(
            self._engine,
            session_id,
            stated(mode=mode, **settings),
            scope=scope,
            agent=agent,
            user=user,
            mode=mode,
        )

    def main_session(self, channel: str, user: str, *, scope: str, agent: str) -> Session:
        """Return the one session of a person on a channel: ``main:{channel}:{user}``.

        ``user`` is their handle there. ``session.user`` is the person, as ``memory.users.resolve``
        returns it: the user that the handle is linked to, or else the handle itself, unless
        somebody on another channel has the same one.
        """
        _check_channel(channel)
        check_name(user, "user")
        person = ChannelPerson(self._people, parse_scope(scope), channel, user)
        known_as = person.user()
        return sessions.Session(
            self._engine,
            main_id(channel, user),
            stated(mode="main", channel=channel, participants=(known_as,)),
            scope=scope,
            agent=agent,
            user=known_as,
            mode="main",
            person=person,
        )

    def group_session(
        self,
        channel: str,
        group_id: str,
        *,
        scope: str,
        agent: str,
        participants: Sequence[str] = (),
        tools: Sequence[str] | None = None,
        isolation: Isolation | None = None,
    ) -> Session:
        """Return the one session of a group: ``group:{channel}:{group_id}``.

        It is isolated, and only the few harmless tools may run, unless you name others.
        """
        _check_channel(channel)
        check_name(group_id, "group_id")
        return self.session(
            f"group:{channel}:{group_id}", scope=scope, agent=agent, channel=channel,
            mode="group", participants=participants, tools=tools, isolation=isolation,
        )  # fmt: skip

    def sessions(
        self,
        scope: str | Sequence[str] | None = None,
        *,
        all_scopes: bool = False,
        since_ms: int | None = None,
        until_ms: int | None = None,
        state: SessionState | Sequence[SessionState] = (),
        subagents: bool = False,
        limit: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
        **names: Unpack[SessionFilters],
    ) -> Page[SessionOutline]:
        """Return overviews of the sessions of one or several scopes, the last written first.

        ``all_scopes=True`` returns those of all scopes instead. ``since_ms`` and ``until_ms`` limit
        the time of the last write, in milliseconds since 1970. ``state`` is one or several of
        running, open, idle, closed and pruned; the default is all but pruned. ``prefix`` is the
        beginning of an id, ``text`` a part of a title or an id. ``after`` is the ``next_cursor`` of
        the previous page. Sessions of subagents are included only with ``subagents``.
        """
        query = SessionQuery(
            scopes=asked_scopes(self._store, scope, all_scopes=all_scopes),
            since_ms=None if since_ms is None else check_time(since_ms),
            until_ms=None if until_ms is None else check_time(until_ms),
            states=(state,) if isinstance(state, str) else check_list(state, "state"),
            subagents=subagents,
            limit=check_count(limit, "limit"),
            **names,
        )
        for name in names:
            if (value := getattr(query, name)) is not None:
                check_text(value, name)
        cursor = None if after is None else check_text(after, "after")
        return list_sessions(self._store, query, after=cursor, now_ms=self._clock())

    def session_ids(self, scope: str) -> list[str]:
        """Return the ids of all sessions of a scope, including subagents, oldest first."""
        return self._store.sessions.named(parse_scope(scope), prefix="", suffix="")

    def family(self, scope: str, session_id: str) -> Family:
        """Return all sessions that were forked from one another, as a tree. Raises NotFound."""
        name = check_name(session_id, "session_id")
        return families.family(self._store, parse_scope(scope), name, now_ms=self._clock())

    def families(
        self, scope: str, *, limit: int = PAGE_ITEMS_DEFAULT, after: str | None = None
    ) -> Page[Family]:
        """Return the families of a scope that have forks, the last written first.

        ``after`` is the ``next_cursor`` of the previous page.
        """
        return families.families(
            self._store,
            parse_scope(scope),
            limit=check_count(limit, "limit"),
            after=None if after is None else check_text(after, "after"),
            now_ms=self._clock(),
        )

    def sweep(
        self,
        scope: str,
        *,
        idle_minutes: float | None = IDLE_MINUTES,
        prune_days: float | None = PRUNE_DAYS,
        include_imported: bool = False,
        now_ms: int | None = None,
        dry_run: bool = False,
    ) -> SweepReceipt:
        """Close idle sessions and prune old ones; None skips either step.

        Pruning writes an episode, closes the session, then expires its events. Sessions with an
        open run or an unread inbox are skipped, and so are imported ones without
        ``include_imported``; a session with a remaining fork is not pruned. Raises InvalidInput,
        and prunes nothing, if the clock cannot be right; a given ``now_ms`` is trusted.
        """
        policy = pruning.SweepPolicy(
            now_ms=self._clock() if now_ms is None else check_time(now_ms),
            is_clock=now_ms is None,
            idle_minutes=idle_minutes,
            prune_days=prune_days,
            include_imported=include_imported,
            dry_run=dry_run,
        )

        return pruning.sweep(self._store, self._drafter, self._reopened, parse_scope(scope), policy)

    def _reopened(self, outline: SessionOutline) -> Session:
        agent = outline.agent or AGENT
        return self.session(outline.session_id, scope=outline.scope, agent=agent, user=outline.user)

    def maintain(
        self,
        scope: str,
        *,
        model: Extractor | None = None,
        budget_tokens: int | None = None,
        idle_minutes: float = IDLE_MINUTES,
        progress: Callable[[int], None] | None = None,
    ) -> MaintenanceReceipt:
        """Do the maintenance that is due in the memory of a scope; for a timer.

        Learns facts from new messages, as ``Memory.extract`` does with ``model`` and
        ``budget_tokens``; writes episodes of sessions that have been idle; archives faded facts;
        computes vectors again if a better embedder was installed. One process at a time does this
        in a scope: others return at once. Nothing else depends on it.
        """
        return pruning.maintain(
            self._store,
            self._memory_factory,
            self._reopened,
            parse_scope(scope),
            model=model,
            budget_tokens=budget_tokens,
            quiet_since_ms=pruning.time_before(self._clock(), idle_minutes, pruning.MINUTE_MS),
            progress=progress,
        )

    def prune(
        self,
        scope: str,
        *,
        older_than_days: float,
        include_imported: bool = False,
        now_ms: int | None = None,
        dry_run: bool = False,
    ) -> SweepReceipt:
        """Prune the sessions not written to for this long; ``receipt.count`` is their number."""
        return self.sweep(
            scope,
            idle_minutes=None,
            prune_days=older_than_days,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=dry_run,
        )

    def memory(self, scope: str) -> Memory:
        """Return the memory of a scope: its facts and episodes."""
        return self._memory_factory.memory(parse_scope(scope))

    def records(
        self,
        scope: str,
        name: str,
        *,
        session_id: str | None = None,
        agent: str = AGENT,
        access: RecordAccess | None = None,
    ) -> KeyedRecords:
        """Return the records called ``name`` of a scope: the latest value of each key.

        Every change is an event of ``session_id``, by default of a separate session. ``access`` may
        be a buffer instead of the ledger.
        """
        return keyed_records.KeyedRecords(
            access or self.record_access,
            parse_scope(scope),
            name,
            session_id=session_id,
            agent=agent,
        )

    @cached_property
    def record_access(self) -> LedgerRecords:
        """Return what buffers of keyed records need of the ledger."""
        return keyed_records.LedgerRecords(self._engine, self.redact)

    def generation(self, scope: str, session_id: str) -> int:
        """Return a number that changes with every erasure in a session; 0 before the first.

        Ids of erased events are never free again: include this number in ids that you derive from
        content.
        """
        name = check_name(session_id, "session_id")
        return self._store.record_keys.last_erasure(parse_scope(scope), name)

    @property
    def embedder(self) -> Embedder | None:
        """Return the embedder of the ledger; None if there is none."""
        return self._memory_factory.embedder()

    def spine(
        self, sinks: Sequence[Sink] = (), *, synthetic: SyntheticPolicy | None = None
    ) -> Spine:
        """Return the ledger's spine, which runs every turn, with ``sinks`` added to it.

        ``synthetic`` creates the results of tools that never returned one.
        """
        self._engine.add(sinks, synthetic)
        return self._spine

    def recover(self, scope: str | None = None) -> int:
        """Close the runs of processes that are gone, in one scope or all; return how many.

        Opening a ledger does it once; a long-running program may call it again.
        """
        return self._engine.recover(None if scope is None else parse_scope(scope))

    # Erasing.

    def redact(
        self,
        scope: str,
        *,
        event_id: str | None = None,
        session_id: str | None = None,
        event_ids: Sequence[str] | None = None,
        replacement: Replacement = "placeholder",
    ) -> RedactReceipt:
        """Erase the content of one event, several or one session, physically; the chain stays.

        Summaries of it are erased, too, and so are facts that cite it. Up to 2,000 events are
        erased in one transaction, with one event per session that records the erasure.
        """
        target = receipts.Target(
            scope=parse_scope(scope),
            event_id=None if event_id is None else check_id(event_id),
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            event_ids=tuple(map(check_id, check_list(event_ids or (), "event_ids"))),
        )
        if sum(named is not None for named in (event_id, session_id, event_ids)) != 1:
            raise InvalidInput(
                "redact one event, some events or one session",
                hint="give event_id, event_ids or session_id",
            )
        return self._redact(target, replacement)

    def _redact(
        self, target: receipts.Target, replacement: Replacement, *, copies: bool = True
    ) -> RedactReceipt:
        with self._memory_factory.reasserting(target):
            return erasure.redact(
                self._store,
                self._drafter,
                target,
                replacement=replacement,
                provenance=self._memory_factory.citing,
                copies=copies,
            )

    def _withdraw(self, scope: Scope, event_ids: tuple[str, ...]) -> None:
        if event_ids:
            target = receipts.Target(
                scope=scope, event_id=None, session_id=None, event_ids=event_ids
            )
            self._redact(target, "null", copies=False)

    def expire(
        self,
        scope: str,
        *,
        policy: Retention | None = None,
        now_ms: int | None = None,
        dry_run: bool = False,
    ) -> ExpireReceipt:
        """Remove events past their retention.

        ``policy`` overrides the scope's own, which overrides the defaults. The defaults do not
        apply to imported sessions; a policy that names a kind does. Without ``now_ms`` the clock is
        used. Raises InvalidInput if the clock is more than 90 days ahead of the last recorded
        event, or a day behind, and something would be removed: a wrong clock must not empty a
        ledger. A given ``now_ms`` is trusted.
        """
        return erasure.expire(
            self._store,
            self._drafter,
            parse_scope(scope),
            policy=policy,
            now_ms=self._clock() if now_ms is None else check_time(now_ms),
            is_clock=now_ms is None,
            dry_run=dry_run,
        )

    def forget(
        self,
        scope: str,
        *,
        user: str,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ForgetReceipt:
        """Erase one person from a scope, physically: events about them, and their names.

        Their own sessions are erased completely, with their names; in others, events about them,
        and summaries of these. Their open runs are interrupted. The chain stays valid. ``progress``
        is called with the number of events erased since its last call. Raise NotFound if nobody has
        that name.
        """
        name = parse_scope(scope)
        whole = receipts.Target(scope=name, event_id=None, session_id=None)
        with self._memory_factory.reasserting(whole):
            return forgetting.forget(
                self._store,
                self._drafter,
                name,
                self.memory(name).users.ids_of(user),
                interrupt=self._engine.interrupt,
                provenance=self._memory_factory.citing,
                dry_run=dry_run,
                progress=progress,
            )

    def retention(self, scope: str) -> Retention:
        """Return the effective retention of a scope, in days by kind."""
        return erasure.effective_retention(self._store, parse_scope(scope), None)

    def own_retention(self, scope: str) -> Retention:
        """Return the retention set for a scope, without the defaults."""
        return self._store.erasure.retention(parse_scope(scope))

    def set_retention(self, scope: str, policy: Retention) -> None:
        """Set the retention of a scope: days by kind; None is forever."""
        name = parse_scope(scope)
        erasure.effective_retention(self._store, name, policy)
        self._store.erasure.set_retention(name, check_retention(policy))


def _check_channel(channel: str) -> None:
    """Raise InvalidInput if ``channel`` would make a session's id ambiguous."""
    if not isinstance(channel, str) or not channel.strip() or ":" in channel:
        raise InvalidInput(
            f"invalid channel: {channel}", hint="give a name without a colon, as telegram"
        )
