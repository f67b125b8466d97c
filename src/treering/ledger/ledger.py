"""The ledger: the one append-only store of events, and everything asked of it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Self

import msgspec

from treering.derive.event_texts import event_texts
from treering.derive.search_texts import search_text
from treering.errors import InvalidInput, KeyMissing, NotFound
from treering.ledger import encryption, erasure, forgetting
from treering.ledger.anchors import check_anchor, write_anchor
from treering.ledger.bookmarks import Bookmarks, accept_id_key, find_id_key, id_key
from treering.ledger.copying import copy
from treering.ledger.derived import SAMPLE, Rules, compare_derived
from treering.ledger.engine import Engine
from treering.ledger.exporting import write_export
from treering.ledger.families import families, family
from treering.ledger.importing import read_export
from treering.ledger.memory_factory import MemoryFactory
from treering.ledger.outlines import SessionQuery, list_sessions
from treering.ledger.people import ChannelPerson, People, main_id
from treering.ledger.pruning import PRUNE_DAYS, sweep
from treering.ledger.readable_ledger import ReadableLedger
from treering.ledger.rekeying import rekey
from treering.ledger.search_texts import masked
from treering.ledger.sessions import Session
from treering.ledger.verification import find_flaw, verify_part, with_coverage
from treering.memory.records import INDEX_NAMES
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
from treering.model.receipts import VectorsReceipt, Verification
from treering.model.retention import check_retention
from treering.model.scopes import Scope, parse_scope
from treering.model.sessions import IDLE_MINUTES
from treering.spine.spine import Spine
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from treering.context.summaries import Summariser
    from treering.ledger.drafts import Drafter
    from treering.ledger.erasure import Replacement
    from treering.ledger.families import Family
    from treering.ledger.jsonl import Payloads
    from treering.ledger.ports import Clock, EventStore
    from treering.memory.memory import Memory
    from treering.memory.ports import Embedder
    from treering.model.events import Event, Header, NewEvent
    from treering.model.queries import Page
    from treering.model.receipts import (
        AnchorReceipt,
        Broken,
        CopyReceipt,
        DestroyReceipt,
        ExpireReceipt,
        ExportReceipt,
        ForgetReceipt,
        KeyGeneration,
        KeyReceipt,
        Physical,
        RebuildReceipt,
        RedactReceipt,
        RestoreReceipt,
        SweepReceipt,
    )
    from treering.model.retention import Retention
    from treering.model.sessions import Isolation, Mode, SessionOutline, SessionState
    from treering.model.tools import SyntheticPolicy
    from treering.spine.ports import Sink


@checks_arguments
class Ledger(ReadableLedger):
    """An open ledger. Safe to share between threads; notices forks. Made by ``treering.open``."""

    def __init__(
        self,
        store: EventStore,
        *,
        drafter: Drafter,
        clock: Clock,
        embedder: Callable[[], Embedder | None] = lambda: None,
        summariser: Summariser | None = None,
    ) -> None:
        clock = bounded_clock(clock)
        self._engine = Engine(store, drafter, clock, summariser)
        memory_factory = MemoryFactory(self._engine, embedder, new_id)
        super().__init__(store, drafter=drafter, clock=clock, memory_factory=memory_factory)
        self._spine = Spine(self._engine)
        self._people = People(store, memory_factory.identities)

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
        """Interrupt the runs that are still under way here, and let go of the database."""
        try:
            self._engine.close()
            self._memory_factory.close()
        finally:
            self._store.close()

    def masking(self) -> Ledger:
        """Return the same ledger with secrets masked in payloads, too: for logs that are captured.

        Sinks do not hear of what is recorded by it. Closing it closes this one.
        """
        return Ledger(
            self._store,
            drafter=self._drafter.with_masking(),
            clock=self._clock,
            embedder=self._memory_factory.embedder,
        )

    # Writing.

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record all of ``events`` durably and in order, or none of them.

        The same event id with the same content again returns the first header and writes nothing.
        Raises Conflict if ``expected_seq`` is given and the session is elsewhere.
        """
        listed = check_events(events)
        if not listed:
            return []
        return self._engine.append(listed, expected_seq=expected_seq)

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record as ``append`` does; return those alone that were not there before."""
        listed = check_events(events)
        return self._engine.append_missing(listed) if listed else []

    def append_new(self, event: NewEvent) -> Header:
        """Record one event whose id must be new. Raises DuplicateEvent if it is known already."""
        return self._engine.append_new(*check_events([event]))

    def session(
        self,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        channel: str | None = None,
        mode: Mode | None = None,
        participants: Sequence[str] = (),
        key: str | None = None,
        tools: Sequence[str] | None = None,
        isolation: Isolation | None = None,
        title: str | None = None,
        spawned_by: str | None = None,
        spawned_call: str | None = None,
    ) -> Session:
        """Return a handle on a session; it is recorded with its first event.

        ``mode`` is main, group or queue: that of a session that is there already, or main. ``key``
        is the name that another system knows the session by. ``tools`` are those that may run in
        it; if none are named, all may, and in a group the few that are harmless. ``isolation`` is
        what a group's agent keeps away from. ``spawned_by`` is the session whose agent began this
        one, ``spawned_call`` the id of the tool call by which it did.
        """
        return Session(
            self._engine,
            session_id,
            scope=scope,
            agent=agent,
            user=user,
            channel=channel,
            mode=mode,
            participants=participants,
            key=key,
            tools=tools,
            isolation=isolation,
            title=title,
            spawned_by=spawned_by,
            spawned_call=spawned_call,
        )

    def main_session(self, channel: str, user: str, *, scope: str, agent: str) -> Session:
        """Return the one session of a person on a channel: ``main:{channel}:{user}``.

        ``user`` is their handle there. ``session.user`` is who that is, as ``memory.resolve`` says:
        whom the handle is linked to; else the handle itself, unless somebody on another channel is
        called so.
        """
        _check_channel(channel)
        check_name(user, "user")
        person = ChannelPerson(self._people, parse_scope(scope), channel, user)
        known_as = person.user()
        return Session(
            self._engine,
            main_id(channel, user),
            scope=scope,
            agent=agent,
            user=known_as,
            channel=channel,
            mode="main",
            participants=(known_as,),
            key=None,
            tools=None,
            person=person,
        )

    def joined_users(self, scope: str) -> dict[str, list[tuple[str, str]]]:
        """Return users behind main sessions of several channels whom nobody has linked.

        Each with channels and handles: they may be several people.
        """
        return self._people.joined(parse_scope(scope))

    def relinked_handles(self, scope: str) -> list[tuple[str, str, str, str]]:
        """Return channel and handle of main sessions that were opened for another user.

        Each with that user and the one whom the handle is linked to since.
        """
        return self._people.relinked(parse_scope(scope))

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

        It is isolated and has the few harmless tools, unless the group is given others.
        """
        _check_channel(channel)
        check_name(group_id, "group_id")
        return self.session(
            f"group:{channel}:{group_id}", scope=scope, agent=agent, channel=channel,
            mode="group", participants=participants, tools=tools, isolation=isolation,
        )  # fmt: skip

    def sessions(
        self,
        scope: str,
        *,
        agent: str | None = None,
        since: int | None = None,
        until: int | None = None,
        state: SessionState | Sequence[SessionState] = (),
        prefix: str | None = None,
        text: str | None = None,
        subagents: bool = False,
        first: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
    ) -> Page[SessionOutline]:
        """Return the sessions of a scope at a glance, the last written to first.

        ``since`` and ``until`` are about when that was, in milliseconds since 1970. ``state`` is
        one or several of running, open, idle, closed and pruned: all but pruned if left out.
        ``prefix`` begins an id, ``text`` is part of a title or an id. ``after`` is the
        ``next_cursor`` of the page before. Sessions that an agent began in another one are left
        out, unless ``subagents``.
        """
        query = SessionQuery(
            scope=parse_scope(scope),
            agent=None if agent is None else check_text(agent, "agent"),
            since_ms=None if since is None else check_time(since),
            until_ms=None if until is None else check_time(until),
            states=(state,) if isinstance(state, str) else check_list(state, "state"),
            prefix=None if prefix is None else check_text(prefix, "prefix"),
            text=None if text is None else check_text(text, "text"),
            subagents=subagents,
            limit=check_count(first, "first"),
        )
        place = None if after is None else check_text(after, "after")
        return list_sessions(self._store, query, after=place, now_ms=self._clock())

    def family(self, scope: str, session_id: str) -> Family:
        """Return all sessions that were forked from one another, as a tree. Raises NotFound."""
        name = check_name(session_id, "session_id")
        return family(self._store, parse_scope(scope), name, now_ms=self._clock())

    def families(
        self, scope: str, *, first: int = PAGE_ITEMS_DEFAULT, after: str | None = None
    ) -> Page[Family]:
        """Return the families of a scope that have forks, the last written to first.

        ``after`` is the ``next_cursor`` of the page before.
        """
        return families(
            self._store,
            parse_scope(scope),
            limit=check_count(first, "first"),
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
        """Close idle sessions and prune old ones; None leaves either alone.

        Pruning writes an episode, closes the session, then expires its events. A session with an
        open run or an unread inbox is left alone, and so is one that was imported, unless
        ``include_imported`` says otherwise; one with a fork that stays is not pruned. Raises
        InvalidInput, and prunes nothing, if the clock cannot be right; ``now_ms`` is believed.
        """
        return sweep(
            self._store,
            self._drafter,
            lambda one: self.session(
                one.session_id, scope=scope, agent=one.agent or erasure.AGENT, user=one.user
            ),
            parse_scope(scope),
            now_ms=self._clock() if now_ms is None else check_time(now_ms),
            is_clock=now_ms is None,
            idle_minutes=idle_minutes,
            prune_days=prune_days,
            include_imported=include_imported,
            dry_run=dry_run,
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
        """Prune the sessions that nobody has written to for so long; ``receipt.count`` of them."""
        return self.sweep(
            scope,
            idle_minutes=None,
            prune_days=older_than_days,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=dry_run,
        )

    def memory(self, scope: str) -> Memory:
        """Return the memory of a scope: facts and episodes, learnt, recalled and faded."""
        return self._memory_factory.memory(parse_scope(scope))

    def bookmarks(self, scope: str) -> Bookmarks:
        """Return the notes that importers keep in a scope, of how far they have read.

        Raises KeyMissing if the scope was used with another key that hides ids.
        """
        name = parse_scope(scope)
        find_id_key(self._store, name)
        return Bookmarks(self._store, name)

    def id_key(self, scope: str | None = None) -> bytes:
        """Return the key that hides ids made from words; it lies in the folder of keys.

        With a scope, the scope notes which key it is. Raises KeyMissing if it noted another one.
        """
        if scope is None:
            return self._store.vault.id_key()
        return id_key(self._store, parse_scope(scope))

    def fits_id_key(self, scope: str) -> bool:
        """Whether the key that hides ids is the one that the scope was used with, if with any."""
        try:
            find_id_key(self._store, parse_scope(scope))
        except KeyMissing:
            return False
        return True

    def accept_id_key(self, scope: str) -> None:
        """Go on with the key that hides ids as it is here, though the scope used another one.

        What was hidden under that is not recognised any more: logs without ids of their own are
        recorded again when they are imported again, and so is what was erased.
        """
        accept_id_key(self._store, parse_scope(scope))

    def rekeyed_ms(self) -> int | None:
        """Return when this ledger was rid of ids that words can be guessed from.

        None if it never held any: it was made by a version that makes none.
        """
        return self._store.rekeyed_ms()

    def spine(
        self, sinks: Sequence[Sink] = (), *, synthetic: SyntheticPolicy | None = None
    ) -> Spine:
        """Return the ledger's spine, on which every turn runs, with ``sinks`` added to it.

        ``synthetic`` says what stands in for results of tools that never came.
        """
        self._engine.add(sinks, synthetic)
        return self._spine

    def rekey(self) -> int:
        """Hide ids that earlier versions made of words that were erased; return how many.

        Opening a ledger does it once.
        """
        return rekey(self._store, self._drafter)

    def recover(self, scope: str | None = None) -> int:
        """Close the runs of processes that are gone, in one scope or all; return how many.

        Opening a ledger does it once; a program that stays may ask again.
        """
        return self._engine.recover(None if scope is None else parse_scope(scope))

    # Erasing.

    def redact(
        self,
        scope: str,
        *,
        event_id: str | None = None,
        session_id: str | None = None,
        replacement: Replacement = "placeholder",
    ) -> RedactReceipt:
        """Erase the content of one event or one session, physically; rows and chain stay.

        What retells it goes with it, and so do the tellings of facts that cite it.
        """
        name = parse_scope(scope)
        one = None if event_id is None else check_id(event_id)
        session = None if session_id is None else check_name(session_id, "session_id")
        with self._memory_factory.reasserting(name, session_id=session, event_id=one):
            return erasure.redact(
                self._store,
                self._drafter,
                name,
                event_id=one,
                session_id=session,
                replacement=replacement,
                provenance=self._memory_factory.citing,
            )

    def expire(
        self,
        scope: str,
        *,
        policy: Retention | None = None,
        now_ms: int | None = None,
        dry_run: bool = False,
    ) -> ExpireReceipt:
        """Remove events past their retention.

        ``policy`` goes before the scope's own, and that before the defaults. Sessions that were
        imported are left alone by the defaults: a policy that names a kind reaches them.

        Without ``now_ms`` the clock is asked. If it is more than 90 days ahead of what was recorded
        last, or a day behind, and something would be removed, InvalidInput is raised: a clock that
        is wrong must not empty a ledger. Whoever gives ``now_ms`` is believed.
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
        """Erase one person from a scope, physically: what is about them, and what they are called.

        Their own sessions go as a whole, with their names; in others, what is about them, and what
        retells it. Runs of theirs that are under way are interrupted. The chain still holds.
        ``progress`` is told how many more events are gone. Raises NotFound if nobody is known by
        that name.
        """
        name = parse_scope(scope)
        with self._memory_factory.reasserting(name):
            return forgetting.forget(
                self._store,
                self._drafter,
                name,
                self.memory(name).user_ids(user),
                interrupt=self._engine.interrupt,
                provenance=self._memory_factory.citing,
                dry_run=dry_run,
                progress=progress,
            )

    def erasure_state(self) -> Physical:
        """Say whether bytes of what was erased are gone, ``done``, or still in files, ``pending``.

        Every erasure tries to drive them out at once; others who read meanwhile keep them.
        """
        return self._store.erasure_state()

    def retention(self, scope: str) -> Retention:
        """Return the retention in force for a scope, in days by kind."""
        return erasure.effective_retention(self._store, parse_scope(scope), None)

    def own_retention(self, scope: str) -> Retention:
        """Return what was set for a scope, without the defaults."""
        return self._store.retention(parse_scope(scope))

    def set_retention(self, scope: str, policy: Retention) -> None:
        """Keep ``policy`` for a scope: days by kind, None is forever."""
        name = parse_scope(scope)
        erasure.effective_retention(self._store, name, policy)
        self._store.set_retention(name, check_retention(policy))

    # Sealing.

    def encrypt(self, scope: str) -> KeyReceipt:
        """Seal the payloads that are recorded in a scope from now on; make a key if it has none.

        Summaries and refs stay legible. The key lies in the folder of keys, not in the ledger:
        who loses it, loses the payloads.
        """
        return encryption.encrypt(self._store, parse_scope(scope), at_ms=self._clock())

    def rotate_key(self, scope: str) -> KeyReceipt:
        """Seal under a new key from now on; the old ones are kept for what they sealed."""
        return encryption.rotate(self._store, parse_scope(scope), at_ms=self._clock())

    def destroy_key(self, scope: str, *, generation: int | None = None) -> DestroyReceipt:
        """Redact a whole scope, then destroy its keys: backups of it cannot be read any more.

        With a ``generation``, destroy only that key; it is refused while payloads are sealed
        under it.
        """
        name = parse_scope(scope)
        if generation is not None:
            return encryption.destroy_generation(self._store, name, generation, at_ms=self._clock())
        return encryption.destroy_all(self._store, self._drafter, name, at_ms=self._clock())

    def list_keys(self, scope: str | None = None) -> list[KeyGeneration]:
        """Return every generation of the keys of one scope, or of all that are encrypted."""
        name = None if scope is None else parse_scope(scope)
        return encryption.generations(self._store, name)

    # Proving and copying.

    def verify(
        self,
        scope: str | None = None,
        *,
        session_id: str | None = None,
        anchor: IO[bytes] | None = None,
        derived: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Verification:
        """Prove one session, one scope or, with no argument, the whole ledger.

        ``derived`` also compares what is derived in the scope, or in all, with the events; what
        differs then is made right by ``rebuild``.
        """
        if session_id is not None and scope is None:
            raise InvalidInput("a session is verified within its scope", hint="name the scope")
        name = None if scope is None else parse_scope(scope)
        result = verify_part(self._store, name, session_id, progress)
        if session_id is not None and not result.sessions:
            broken = find_flaw(self._store, name)
            if broken is not None:  # It may be the one that is missing.
                return msgspec.structs.replace(result, intact=False, first_broken=broken)
            raise NotFound(f"no session {session_id} in scope {scope}", hint="check both names")
        if derived and result.intact:
            scopes = self.scopes() if name is None else [name]
            result = self._with_derived(
                result, *compare_derived(self._store, scopes, self._rules())
            )
        if anchor is None:
            return result
        anchored, broken = check_anchor(self._store, anchor, name)
        first = result.first_broken or broken
        compared = msgspec.structs.replace(
            result, intact=first is None, first_broken=first, anchored_sessions=anchored
        )
        return with_coverage(compared, ["anchor"])

    def sample_derived(self, scope: str | None = None) -> Verification:
        """Compare some of what is derived in a scope, or in several, with the events.

        It proves nothing of the events themselves.
        """
        scopes = self.scopes()[: SAMPLE.scopes] if scope is None else [parse_scope(scope)]
        found = compare_derived(self._store, scopes, self._rules(), SAMPLE)
        nothing = Verification(
            intact=True, sessions=0, events=0, redacted=0, expired=0, sealed=0, broken_sessions=0,
            first_broken=None,
        )  # fmt: skip
        return self._with_derived(nothing, *found)

    def _rules(self) -> Rules:
        guard = self._drafter.guard()
        return Rules(
            search_text=lambda event: search_text(masked(guard, event)),
            event_texts=self._texts,
            embedder=self._memory_factory.embedder(),
        )

    def _with_derived(
        self, result: Verification, rows: dict[str, int], broken: Broken | None
    ) -> Verification:
        compared = msgspec.structs.replace(
            result, intact=broken is None, first_broken=broken, derived_rows=rows
        )
        return with_coverage(compared, ["derived"])

    def rebuild(self) -> RebuildReceipt:
        """Throw away all that is derived from the events, and make it anew."""
        searched = self._store.words.scopes()
        shelved = self._memory_factory.shelved(self.scopes())
        receipt = self._store.rebuild()
        for scope in searched:
            self.index(scope)
        scopes = self.scopes()
        self._memory_factory.rebuild(scopes, shelved, self._texts)
        return msgspec.structs.replace(receipt, documents=self._documents(scopes))

    def rebuild_vectors(
        self, scope: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> VectorsReceipt:
        """Turn all texts into vectors again, in one scope or all, by the embedder in use.

        Until then, what another embedder made is found by its words only. ``progress`` is told of
        events that are done.
        """
        scopes = self.scopes() if scope is None else [parse_scope(scope)]
        embedder = self._memory_factory.embedder()
        if embedder is not None:
            # One that does not answer must not cost the vectors that are there.
            embedder.embed(["a text"])
        shelved = self._memory_factory.shelved(scopes)
        embedder = self._memory_factory.embedder()
        if embedder is not None:
            # One that does not answer says so before anything is thrown away.
            embedder.embed(["."])
        for one in scopes:
            self._store.drop_documents(one)
        self._memory_factory.rebuild(scopes, shelved, self._texts, progress)
        return VectorsReceipt(
            scopes=len(scopes),
            documents=self._documents(scopes),
            embedder=None if embedder is None else embedder.name,
        )

    def _documents(self, scopes: Iterable[Scope]) -> int:
        return sum(
            self._store.index_state(one, shelf).count for one in scopes for shelf in INDEX_NAMES
        )

    def scopes(self) -> list[Scope]:
        """Return the scopes that have sessions, in order, as far as this user may see them."""
        return sorted({Scope(one.scope) for one in self._store.session_records()})

    def session_ids(self, scope: str) -> list[str]:
        """Return the ids of all sessions of a scope, those of subagents too, the oldest first."""
        return self._store.sessions_named(parse_scope(scope), prefix="", suffix="")

    def _texts(self, event: Event) -> list[str]:
        return event_texts(masked(self._drafter.guard(), event))

    def anchor(self, stream: IO[bytes]) -> AnchorReceipt:
        """Write the root over all session heads to ``stream``, for ``verify`` to check later."""
        return write_anchor(self._store.session_records(), stream, at_ms=self._clock())

    def export(
        self,
        scope: str,
        stream: IO[bytes],
        *,
        session_id: str | None = None,
        payloads: Payloads = "withheld",
        progress: Callable[[int], None] | None = None,
    ) -> ExportReceipt:
        """Write a scope, or one session, as native JSONL.

        ``payloads="included"`` makes a full copy that ``restore`` takes in; without them the
        export is for reading.
        """
        if payloads not in {"included", "withheld"}:
            raise InvalidInput(f"invalid payloads: {payloads}", hint="use included or withheld")
        return write_export(
            self._store,
            parse_scope(scope),
            stream,
            session_id=session_id,
            payloads=payloads,
            at_ms=self._clock(),
            progress=progress,
        )

    def restore(
        self, stream: IO[bytes], *, progress: Callable[[int], None] | None = None
    ) -> RestoreReceipt:
        """Take in native JSONL, chain included; what is here already is not doubled."""
        return read_export(self._store, stream, progress)

    def copy_to(
        self,
        target: Ledger,
        *,
        scope: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CopyReceipt:
        """Bring to ``target`` what it lacks of one scope, or of all; the chain is proved there.

        What was stopped goes on where it ended. Sessions that cannot be copied are refused by
        name, and cost no other. ``progress`` is told how many events are done, and of how many.
        """
        name = None if scope is None else parse_scope(scope)
        return copy(self._store, target._store, name, progress)


def _check_channel(channel: str) -> None:
    """Raise InvalidInput if a session's id could not tell ``channel`` from what follows it."""
    if not isinstance(channel, str) or not channel.strip() or ":" in channel:
        raise InvalidInput(
            f"invalid channel: {channel}", hint="give a name without a colon, as telegram"
        )
