"""What the ledger needs from outside: a store, a vault of keys, a guard, a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from treering.memory.ports import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from treering.derive.search_texts import SearchText
    from treering.ledger.records import (
        Draft,
        Erased,
        Erasure,
        EventLocation,
        ForkPoint,
        KeyRecord,
        Record,
        Selection,
        SessionErasure,
        SessionHead,
        SessionRecord,
        Share,
    )
    from treering.model.codec import Json
    from treering.model.events import Event, Header
    from treering.model.followers import FollowedEvents, FollowStep, Mark
    from treering.model.queries import Query
    from treering.model.receipts import Physical, RebuildReceipt
    from treering.model.retention import Retention
    from treering.model.runs import OpenRun
    from treering.model.scopes import Scope
    from treering.model.search_queries import SearchQuery
    from treering.model.searches import SearchCandidate, SearchCandidates
    from treering.model.tool_records import ToolQuery, ToolRecord, ToolStatistics


class EventStore(MemoryStore, Protocol):
    """Keeps events. Every database behind it passes the same contract tests."""

    @property
    def vault(self) -> Vault:
        """Return the keys of the ledger's sealed scopes."""

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""

    def headers(self, query: Query) -> list[Header]:
        """Return up to ``query.limit`` headers in the query's direction."""

    def events(self, query: Query) -> list[Event]:
        """Return the same as ``headers``, with payloads."""

    def session_headers(
        self, scope: Scope, session_id: str, *, after_seq: int, limit: int
    ) -> list[Header]:
        """Return headers of a session in order, behind ``after_seq``."""

    def session_events(
        self, scope: Scope, session_id: str, *, after_seq: int, limit: int
    ) -> list[Event]:
        """Return events of a session in order, behind ``after_seq``."""

    def last_headers(
        self, scope: Scope, session_id: str, *, before_seq: int | None, limit: int
    ) -> list[Header]:
        """Return the last headers of a session, before ``before_seq``, in order."""

    def last_events(
        self, scope: Scope, session_id: str, *, before_seq: int | None, limit: int
    ) -> list[Event]:
        """Return the last events of a session, before ``before_seq``, in order."""

    def events_at(self, scope: Scope, session_id: str, seqs: Sequence[int]) -> list[Event]:
        """Return the session's own events at ``seqs``, in order, as far as they are there."""

    def committed_events(
        self,
        scope: Scope,
        session_id: str,
        *,
        kinds: Collection[str],
        before_seq: int,
        until_seq: int,
        run_id: str | None,
        limit: int,
    ) -> list[Event]:
        """Return the last events of ``kinds`` before ``before_seq``, in order, that count.

        Those count that belong to no run, to one that ended well at or before ``until_seq``, or to
        ``run_id``. A page of large payloads is shorter; only an empty one is the end.
        """

    def session_heads(
        self, scope: Scope, *, before_position: int | None, limit: int
    ) -> list[SessionHead]:
        """Return the sessions of a scope, the one that was last written to first."""

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at its ``seq``; record ``draft``.

        Raises Conflict if the session is there already, NotFound if the parent has no such seq.
        """

    def cut(self, scope: Scope, session_id: str) -> ForkPoint | None:
        """Return where a session was forked; None if it was not, or is not there."""

    def forks(self, scope: Scope, session_id: str) -> list[str]:
        """Return the sessions that were forked from a session's own events, the oldest first."""

    def sessions_named(self, scope: Scope, *, prefix: str, suffix: str) -> list[str]:
        """Return the sessions of a scope whose names begin and end like this."""

    def snapshot(
        self, scope: Scope, session_id: str, *, until_seq: int
    ) -> tuple[int, bytes] | None:
        """Return the latest snapshot kept of a session at or before ``until_seq``, and its seq."""

    def keep_snapshot(self, scope: Scope, session_id: str, *, seq: int, body: bytes) -> None:
        """Keep a snapshot, where anything may be written; a few older ones stay beside it.

        An erasure drops those of its session and of all that were forked from it.
        """

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""

    def find_ids(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return where the events with these ids stand, as far as there are such, erased or not."""

    def rekeyed_ms(self) -> int | None:
        """Return when the ledger was rid of ids that words can be guessed from; None if never."""

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of what was redacted before the ledger was rekeyed.

        It is empty once ``settle_legacy`` was called, and for whoever may not call it.
        """

    def settle_legacy(self) -> int:
        """Hide the ids of what had expired before the ledger was rekeyed; return how many.

        From then on nothing of that time is left to be seen to.
        """

    def run_headers(self, scope: Scope, session_id: str, run_id: str) -> Iterator[Header]:
        """Return the headers of one run, in order."""

    def run_events(self, scope: Scope, session_id: str, run_id: str) -> Iterator[Event]:
        """Return the events of one run, in order."""

    def open_runs(self, scope: Scope | None = None, session_id: str | None = None) -> list[OpenRun]:
        """Return the runs that have begun and not ended, as far as this user may see them."""

    def headers_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Header]:
        """Return headers of the scope behind ``mark``, in the order they are followed."""

    def events_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return events of the scope behind ``mark``, in the order they are followed."""

    def end(self, scope: Scope) -> Mark:
        """Return the mark of the last event of the scope that can be followed by now."""

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:
        """Return True once something may be found behind ``seen``, False after the timeout."""

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record what ``vouch`` says, atomically."""

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and how many open sessions are left."""

    def finish_erasure(self) -> Physical:
        """Drive erased bytes out of every file; say whether that is done."""

    def erasure_state(self) -> Physical:
        """Say whether bytes of what was erased are still in some file; change nothing."""

    def retention(self, scope: Scope) -> Retention:
        """Return the policy kept for the scope; empty if none was set."""

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Keep ``policy`` for the scope."""

    def session_records(
        self, scope: Scope | None = None, session_id: str | None = None
    ) -> Iterator[SessionRecord]:
        """Return where each session's chain starts and ends."""

    def records(self, scope: Scope, session_id: str, *, after_seq: int, limit: int) -> list[Record]:
        """Return stored events of a session in order, erased ones included."""

    def record_pages(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        behind: Mapping[str, int] | None = None,
    ) -> Iterator[list[Record]]:
        """Return what a scope, or one session, holds when asked, erased events included.

        Each session comes in order, and with what vouches for its erasures. ``behind`` says up to
        which seq sessions are known elsewhere: what comes before all that is new may be left out.
        """

    def covers(self, scope: Scope, session_id: str) -> list[Event]:
        """Return the events that vouch for erasures in a session, in order."""

    def link_at(self, scope: Scope | None, genesis: bytes, seq: int) -> bytes | None:
        """Return the link at ``seq`` of the session that starts with ``genesis``."""

    def check_tables(self, scope: Scope | None = None, session_id: str | None = None) -> str | None:
        """Say what is wrong around the events of the ledger, a scope or a session, if anything.

        That is: scopes and sessions that are gone, events that are filed where nobody finds them,
        and derived tables that do not hold them.
        """

    def follow_tools(self, scope: Scope) -> FollowStep:
        """Have the tool records of a scope follow the next stretch of its events."""

    def tool_calls(self, query: ToolQuery) -> list[ToolRecord]:
        """Return up to ``query.limit`` tool records, as far as they were followed.

        They read forwards, also where the query goes backwards.
        """

    def tool_statistics(self, query: ToolQuery) -> list[ToolStatistics]:
        """Return what is known of each tool, the most called first, as far as followed."""

    def follow_search(self, scope: Scope, read: Callable[[Event], SearchText]) -> FollowStep:
        """Have the search index follow the next stretch of a scope's events, told by ``read``.

        Of a sealed scope it is given events without payloads.
        """

    def search(
        self, query: SearchQuery, *, inside: bool, include_failed: bool
    ) -> SearchCandidates | None:
        """Return the newest events that match, as far as followed.

        With ``inside``, words may also be part of names in code. None says that the index was
        lost and is to be followed first.
        """

    def found_events(self, scope: Scope, found: Sequence[SearchCandidate]) -> list[Event]:
        """Return what was found, as far as it is there, in any order; sealed, without payloads."""

    def search_lag(self, scope: Scope) -> int:
        """Return how many events of a scope the search index does not know yet."""

    def searched_scopes(self) -> list[Scope]:
        """Return the scopes that the search index has followed, if only in part."""

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Take in ``records`` of one scope verbatim and in order, all or none.

        Return how many were new.
        """

    def seal_scope(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""

    def sealed_scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""

    def sealed_payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""

    def await_writers(self, scope: Scope) -> None:
        """Return when all that was being written to the scope is recorded, or given up."""

    def cursor(self, scope: Scope, follower: str) -> str | None:
        """Return how far a follower has come that keeps its place here; None if it has none."""

    def set_cursor(self, scope: Scope, follower: str, cursor: str) -> None:
        """Keep durably how far a follower has come."""

    def cursors(self, scope: Scope) -> dict[str, str]:
        """Return how far each follower has come that keeps its place here."""

    def compare_tool_calls(self, scope: Scope) -> tuple[int, str | None]:
        """Derive the tool records of a scope again; return how many there are, and what differs."""

    def compare_search(
        self, scope: Scope, read: Callable[[Event], SearchText]
    ) -> tuple[int, str | None]:
        """Index a scope again, as ``read`` tells it; return how many events, and what differs."""

    def owner(self) -> str:
        """Return the name under which this process holds its runs.

        It is held from the first call on, until the store is closed or the process ends.
        """

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process behind ``owner`` is certainly not carrying on.

        ``seen_ms`` is when it was last heard of. One that is stopped, busy or cut off is not gone.
        """

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""

    def hold(self, name: str) -> bool:
        """Hold ``name`` alone, until the store is closed or the process ends.

        Return False if another store has it; asked again, whether we still have it.
        """

    def release(self, name: str) -> None:
        """Let another store have ``name``."""

    def rebuild(self) -> RebuildReceipt:
        """Make every derived table anew from the events."""

    def close(self) -> None:
        """Let go of the database."""

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, and how many."""

    def forget_names(self) -> int:
        """Forget the names that nothing refers to any more; return how many."""

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope, by its name."""


class Vault(Protocol):
    """Keeps the keys of sealed scopes, and the one that hides ids, apart from the ledger."""

    def id_key(self) -> bytes:
        """Return the key that hides ids, made when it is first needed. Raises StorageError."""

    def find_id_key(self, scope: str, noted: Callable[[str], str | None], *names: str) -> bytes:
        """Return the key that hides ids; nothing if none was needed yet.

        ``noted`` reads the mark of the key that was used in the scope, by each of ``names``: see
        ID_NOTES. Raises KeyMissing if that is not the key that is here.
        """

    def seals(self, scope: str) -> bool:
        """Whether the scope has a key in use."""

    def in_use(self, scope: str) -> Key:
        """Return the key that new payloads are sealed under. Raises KeyMissing."""

    def find(self, scope: str, generation: int) -> Key | None:
        """Return a key, or None if it was destroyed. Raises KeyMissing if it is not here."""

    def records(self, scope: str) -> list[KeyRecord]:
        """Return what is known of each generation, without the keys."""

    def create(self, scope: str, *, at_ms: int) -> int:
        """Make the next generation unless one is in use; return the one that is, or will be.

        It is in use for good once ``confirm`` is called.
        """

    def confirm(self, scope: str) -> None:
        """Note that the ledger says that the scope is encrypted, so that it always has to."""

    def has_sealed(self, scope: str) -> bool:
        """Whether a key of the scope is or was in use."""

    def rotate(self, scope: str, *, at_ms: int) -> int:
        """Make the next generation and use it from now on. Raises KeyMissing if none is in use."""

    def retire(self, scope: str) -> None:
        """Take the key out of use: what is sealed can be read, and nothing more is sealed."""

    def destroy(self, scope: str, generations: Sequence[int], *, at_ms: int) -> list[int]:
        """Destroy keys; return those that were there to be destroyed."""


class Key(Protocol):
    """One generation of a scope's key."""

    @property
    def generation(self) -> int:
        """Return its number: they count from 1."""

    def seal(self, plain: bytes, bound_to: bytes) -> bytes:
        """Return ``plain`` encrypted; it opens only together with ``bound_to``."""

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """Return what was sealed. Raises Corrupt if it was changed, or stands elsewhere."""

    def digest(self, plain: bytes) -> bytes:
        """Return a hash of ``plain`` that nobody without the key can compare a guess with."""


class ContentGuard(Protocol):
    """Finds and masks secrets."""

    def suspicious(self, encoded: bytes) -> bool:
        """Return False if nothing would be found in these JSON bytes; True if it may be."""

    def find_text(self, text: str) -> Sequence[GuardFinding]:
        """Return what was found, in order."""

    def mask_text(self, text: str) -> str:
        """Return ``text`` with its secrets masked; the same object if there are none."""

    def find_value(self, value: Json) -> str | None:
        """Return the first rule that ``value`` breaks, or None."""

    def mask_value(self, value: Json) -> Json:
        """Return ``value`` with its secrets masked; the same object if there are none."""


class GuardFinding(Protocol):
    """One thing that a guard found."""

    @property
    def rule(self) -> str:
        """Return the rule's name."""


class Clock(Protocol):
    """Tells the time."""

    def __call__(self) -> int:
        """Return milliseconds since 1970."""
