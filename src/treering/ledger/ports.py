"""What the ledger needs from outside: a store, keys, a guard and a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from treering.derive.search_texts import SearchText
    from treering.ledger.records import (
        Draft,
        Erased,
        Erasure,
        EventLocation,
        ForkPoint,
        KeyRecord,
        Projection,
        ProvedChain,
        Record,
        Selection,
        SessionErasure,
        SessionHead,
        SessionRecord,
        Share,
    )
    from treering.memory.ports import MemoryStore
    from treering.model.codec import Json
    from treering.model.events import Event, Header
    from treering.model.queries import FollowedEvents, FollowStep, Mark, Query, SessionTally
    from treering.model.receipts import Physical, RebuildReceipt
    from treering.model.scopes import Retention, Scope
    from treering.model.search_queries import SearchQuery, Term
    from treering.model.searches import SearchCandidate, SearchCandidates
    from treering.model.tools import ToolQuery, ToolRecord, ToolStatistics
    from treering.model.views import OpenRun

Item = TypeVar("Item", bound="Header")


class EventStore(Protocol):
    """Stores events. Every implementation passes the same contract tests."""

    @property
    def vault(self) -> Vault:
        """Return the keys of the ledger's sealed scopes."""

    @property
    def reader(self) -> EventReader:
        """Return the part that reads events."""

    @property
    def sessions(self) -> SessionStore:
        """Return the part that knows which sessions exist."""

    @property
    def snapshots(self) -> SnapshotStore:
        """Return the part that keeps snapshots of views."""

    @property
    def erasure(self) -> EraseStore:
        """Return the part that erases."""

    @property
    def seals(self) -> SealStore:
        """Return the part that knows which scopes are encrypted."""

    @property
    def cursors(self) -> CursorStore:
        """Return the part that keeps cursors."""

    @property
    def memory(self) -> MemoryStore:
        """Return the part that stores what the memory derives."""

    @property
    def leases(self) -> LeaseStore:
        """Return the leases of runs and sinks."""

    @property
    def tools(self) -> ToolStore:
        """Return the tool records."""

    @property
    def words(self) -> WordIndex:
        """Return the word index."""

    @property
    def record_keys(self) -> RecordStore:
        """Return the part that finds records by their keys."""

    @property
    def projections(self) -> Sequence[Projection]:
        """Return all that the store derives from the events."""

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at its ``seq``; record ``draft``.

        Raise Conflict if the session exists, NotFound if the parent has no such seq.
        """

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:
        """Return True once there may be events after ``seen``, False after the timeout."""

    def check_tables(
        self,
        scope: Scope | None = None,
        session_id: str | None = None,
        *,
        is_stopped: Callable[[], bool] = bool,
    ) -> str | None:
        """Return the first problem in the tables of the ledger, a scope or a session, or None.

        A problem is a scope or session that is gone, an event missing from an index, or a derived
        table that lacks it. It may raise StorageError once ``is_stopped``.
        """

    def prove_chains(
        self, scope: Scope | None, progress: Callable[[int], None]
    ) -> Mapping[bytes, ProvedChain]:
        """Return by genesis chains of a scope, or of all, that surely hold as far as they say.

        It is quick, and may leave out any session: that one has to be checked by itself. It reads
        no index, so that it says nothing if ``check_tables`` finds a problem.
        """

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Store ``records`` of one scope verbatim and in order, all or none.

        Return how many were new.
        """

    def rebuild(self) -> RebuildReceipt:
        """Rebuild every derived table from the events."""

    def close(self) -> None:
        """Close the database."""

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return the number of entries of a scope in each projection, by its name."""


class EventReader(Protocol):
    """Reads events by time, by session, by run, by id and in commit order."""

    def by_time(self, part: type[Item], query: Query) -> list[Item]:
        """Return up to ``query.limit`` headers or events in the query's direction.

        ``part`` is Header, or Event for payloads as well. Large payloads shorten a page of events,
        here and below; only an empty page is the end.
        """

    def by_seq(
        self,
        part: type[Item],
        scope: Scope,
        session_id: str,
        *,
        after_seq: int,
        limit: int,
        kinds: Collection[str] = (),
    ) -> list[Item]:
        """Return headers or events of a session in order, after ``after_seq``.

        They are of some kinds, or of all.
        """

    def last_by_seq(
        self,
        part: type[Item],
        scope: Scope,
        session_id: str,
        *,
        before_seq: int | None,
        limit: int,
        kinds: Collection[str] = (),
    ) -> list[Item]:
        """Return the last headers or events of a session, before ``before_seq``, in order.

        They are of some kinds, or of all.
        """

    def tally(
        self, scope: Scope, session_id: str, *, after_seq: int, until_seq: int
    ) -> SessionTally:
        """Return the numbers of the session's own events after a seq, up to another."""

    def events_at(self, scope: Scope, session_id: str, seqs: Sequence[int]) -> list[Event]:
        """Return the session's own events at ``seqs``, in order; missing ones are left out."""

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
        """Return the last committed events of ``kinds`` before ``before_seq``, in order.

        An event is committed if it has no run, if its run succeeded at or before ``until_seq``, or
        if its run is ``run_id``.
        """

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""

    def find_ids(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return where each of these events is, erased or not; unknown ids are left out."""

    def ids_starting(self, scope: Scope, prefix: str, *, limit: int) -> list[str]:
        """Return the first ids in the form of a UUID that begin with ``prefix``, in order.

        Ids of erased events are among them. Other ids are stored as hashes, in no useful order,
        and are left out.
        """

    def rekeyed_ms(self) -> int | None:
        """Return when guessable ids were replaced in this ledger; None if never."""

    def has_legacy(self) -> bool:
        """Return whether this role has to rekey events that were erased by earlier versions."""

    def by_run(
        self, part: type[Item], scope: Scope, session_id: str, run_id: str
    ) -> Iterator[Item]:
        """Return the headers or events of one run, in order."""

    def open_runs(
        self, scope: Scope | None = None, session_id: str | None = None, *, owned: bool = False
    ) -> list[OpenRun]:
        """Return the runs that have begun and not ended, if this role may see them.

        ``owned`` asks for those that a process began, and may leave out all others.
        """

    def running_sessions(self, scope: Scope) -> set[str]:
        """Return the sessions of a scope that have an open run, if this role may see them."""

    def followed(
        self, part: type[Item], scope: Scope, mark: Mark, *, limit: int
    ) -> FollowedEvents[Item]:
        """Return headers or events of the scope after ``mark``, in commit order."""

    def end(self, scope: Scope) -> Mark:
        """Return the mark of the last event of the scope that a follower can read by now."""

    def records(self, scope: Scope, session_id: str, *, after_seq: int, limit: int) -> list[Record]:
        """Return stored events of a session in order, erased ones included."""

    def record_pages(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        behind: Mapping[str, int] | None = None,
    ) -> Iterator[list[Record]]:
        """Return the records of a scope, or of one session, erased events included.

        Each session comes in order, with the events that account for its erasures. ``behind`` maps
        sessions to the last seq that is known elsewhere; earlier records may be left out.
        """

    def covers(self, scope: Scope, session_id: str) -> list[Event]:
        """Return the events that account for erasures in a session, in order."""


class SessionStore(Protocol):
    """Knows which sessions exist, where they begin and end, and where they were forked."""

    def records(
        self, scope: Scope | None = None, session_id: str | None = None
    ) -> Iterator[SessionRecord]:
        """Return where each session's chain starts and ends."""

    def heads(self, scope: Scope, *, before_position: int | None, limit: int) -> list[SessionHead]:
        """Return the sessions of a scope, most recently written first."""

    def named(self, scope: Scope, *, prefix: str, suffix: str) -> list[str]:
        """Return the sessions whose ids begin with ``prefix`` and end with ``suffix``."""

    def cut(self, scope: Scope, session_id: str) -> ForkPoint | None:
        """Return where a session was forked; None if it is not a fork or does not exist."""

    def forks(self, scope: Scope, session_id: str) -> list[str]:
        """Return the sessions forked from a session's own events, oldest first."""

    def link_at(self, scope: Scope | None, genesis: bytes, seq: int) -> bytes | None:
        """Return the link at ``seq`` of the session that starts with ``genesis``."""


class SnapshotStore(Protocol):
    """Keeps snapshots of views."""

    def latest(
        self, scope: Scope, session_id: str, *, until_seq: int, view: int = 0
    ) -> tuple[int, bytes] | None:
        """Return the seq and body of the latest snapshot of a view at or before ``until_seq``."""

    def keep(self, scope: Scope, session_id: str, *, seq: int, body: bytes, view: int = 0) -> None:
        """Keep a snapshot beside a few older ones; do nothing if the store is read-only.

        An erasure drops the snapshots of its session and of all sessions forked from it.
        """


class KeyReader(Protocol):
    """Finds state events by their keys. What was acknowledged is found, by any process."""

    def latest(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, Event]:
        """Return the newest event of each key; keys without one are left out."""

    def history(self, scope: Scope, name: str, key: str, *, after: int, limit: int) -> list[Event]:
        """Return events of a key after a position, the oldest first."""

    def keys(self, scope: Scope, name: str, prefix: str, *, after: str, limit: int) -> list[str]:
        """Return the first keys with a record that begin with ``prefix``, after another."""

    def versions(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest event of each key; "" if it has none, or was removed."""


class RecordStore(KeyReader, Protocol):
    """Keeps the keys of state events, and finds by them."""

    def last_erasure(self, scope: Scope, session_id: str) -> int:
        """Return the seq of the last event that vouches for an erasure in a session, or 0."""

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Return the number of rows of a scope, and how they differ from the events."""


class EraseStore(Protocol):
    """Erases events, and keeps what decides when they expire."""

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record what ``vouch`` makes, atomically."""

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and how many open sessions are left."""

    def finish(self) -> Physical:
        """Remove erased bytes from every file; say whether that is complete."""

    def state(self) -> Physical:
        """Say whether erased bytes are still in some file; change nothing."""

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, with their number."""

    def forget_names(self) -> int:
        """Remove names that nothing refers to any more; return how many."""

    def retention(self, scope: Scope) -> Retention:
        """Return the scope's retention policy; empty if none is set."""

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Set the scope's retention policy."""

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of events redacted before the ledger was rekeyed.

        Empty after ``settle_legacy``, and for a role that may not call it.
        """

    def settle_legacy(self) -> int:
        """Hide the ids of events that expired before the ledger was rekeyed; return how many.

        Afterwards nothing is left to rekey.
        """


class SealStore(Protocol):
    """Knows which scopes are encrypted."""

    def seal(self, scope: Scope) -> None:
        """Make every writer encrypt the payloads of the scope from now on."""

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are encrypted."""

    def scopes(self) -> list[Scope]:
        """Return the encrypted scopes, by name."""

    def payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads each generation of the scope's key encrypts."""

    def await_writers(self, scope: Scope) -> None:
        """Return when every write to the scope that was in progress has ended."""


class CursorStore(Protocol):
    """Keeps the cursors of followers."""

    def find(self, scope: Scope, follower: str) -> str | None:
        """Return a follower's stored cursor, or None."""

    def find_all(self, scope: Scope, followers: Sequence[str]) -> dict[str, str]:
        """Return the stored cursors of those of ``followers`` that have one."""

    def all(self, scope: Scope) -> dict[str, str]:
        """Return the stored cursor of each follower."""

    def set(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store a follower's cursor durably."""

    def set_all(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""


class LeaseStore(Protocol):
    """Says which process owns a run, and holds names for one process at a time."""

    @property
    def can_be_lost(self) -> bool:
        """Whether a name may become free while its holder lives, as on a connection that is cut."""

    def owner(self) -> str:
        """Return the name under which this process owns its runs.

        The process owns it from the first call until the store is closed or the process ends.
        """

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process called ``owner`` has certainly ended.

        ``seen_ms`` is its last sign of life. A stopped, busy or cut-off process is not gone.
        """

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` owns its runs in another ledger, of which this one is a copy."""

    def hold(self, name: str) -> bool:
        """Hold ``name`` alone, until the store is closed or the process ends.

        Return False if another store holds it. Calling again says whether it is still held.
        """

    def release(self, name: str) -> None:
        """Release ``name`` for other stores."""


class ToolStore(Protocol):
    """The tool records of the events, updated on request."""

    def follow(self, scope: Scope) -> FollowStep:
        """Update the tool records of a scope with the next batch of its events."""

    def page(self, query: ToolQuery) -> list[ToolRecord]:
        """Return up to ``query.limit`` tool records of the events followed so far.

        They are in forward order even if the query goes backwards.
        """

    def statistics(self, query: ToolQuery) -> list[ToolStatistics]:
        """Return statistics of each tool, most called first, of the events followed so far."""

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Derive the tool records again; return their number and the first difference."""


class WordIndex(Protocol):
    """The index of the words of events, updated on request."""

    def follow(self, scope: Scope, read: Callable[[Event], SearchText]) -> FollowStep:
        """Index the next batch of a scope's events; ``read`` makes the text of one.

        ``read`` gets events of an encrypted scope without payloads.
        """

    def search(
        self, query: SearchQuery, *, inside: bool, include_failed: bool
    ) -> SearchCandidates | None:
        """Return the newest indexed events that match.

        With ``inside``, words may also be part of names in code. None says that the index was lost
        and must be followed again first.
        """

    def search_any(
        self, query: SearchQuery, terms: Sequence[Term], *, least: int, include_failed: bool
    ) -> SearchCandidates | None:
        """Return indexed events that match, and have at least ``least`` of ``terms``.

        Those with most come first; rare terms count more. ``words`` is the share that an event has.
        None means the same as in ``search``.
        """

    def found_events(self, scope: Scope, found: Sequence[SearchCandidate]) -> list[Event]:
        """Return the events of candidates, in any order; encrypted ones without payloads."""

    def lag(self, scope: Scope) -> int:
        """Return how many events of a scope are not indexed yet."""

    def scopes(self) -> list[Scope]:
        """Return the scopes that are indexed, at least in part."""

    def compare(self, scope: Scope, read: Callable[[Event], SearchText]) -> tuple[int, str | None]:
        """Index a scope again; return the number of events and the first difference."""

    def stray_rows(self) -> int:
        """Return how many documents belong to no scope."""


class Vault(Protocol):
    """Stores the keys of encrypted scopes and the key that hides ids, outside the ledger."""

    def ledger_id(self) -> str:
        """Return the name that the ledger was given when it was made; its copies share it."""

    def folder(self) -> Path:
        """Return the folder that they are in."""

    def id_key(self) -> bytes:
        """Return the key that hides ids; create it if needed. Raise StorageError if that fails."""

    def find_id_key(self, scope: str, noted: Callable[[str], str | None], *names: str) -> bytes:
        """Return the key that hides ids; empty bytes if none was needed yet.

        ``noted`` reads the mark of the key that the scope was written with, under each of ``names``
        (see ID_NOTES). Raise KeyMissing if it is not the key stored here.
        """

    def seals(self, scope: str) -> bool:
        """Whether new payloads of the scope are encrypted."""

    def in_use(self, scope: str) -> Key:
        """Return the key for new payloads. Raise KeyMissing if there is none."""

    def find(self, scope: str, generation: int) -> Key | None:
        """Return a key, or None if it was destroyed. Raise KeyMissing if it is not stored here."""

    def records(self, scope: str) -> list[KeyRecord]:
        """Return a record of each generation, without the keys."""

    def create(self, scope: str, *, at_ms: int) -> int:
        """Create the next generation unless one is in use; return the one in use.

        ``confirm`` makes it permanent.
        """

    def confirm(self, scope: str) -> None:
        """Note that the ledger marks the scope as encrypted; from now on it always must."""

    def has_sealed(self, scope: str) -> bool:
        """Whether the scope has or had a key in use."""

    def rotate(self, scope: str, *, at_ms: int) -> int:
        """Create the next generation and use it. Raise KeyMissing if none is in use."""

    def retire(self, scope: str) -> None:
        """Stop encrypting new payloads; encrypted ones can still be read."""

    def destroy(self, scope: str, generations: Sequence[int], *, at_ms: int) -> list[int]:
        """Destroy keys; return the generations that existed."""


class Key(Protocol):
    """One generation of a scope's key."""

    is_proved: bool
    """Whether it is known to open what was sealed under its generation before."""

    @property
    def generation(self) -> int:
        """Return its number, from 1 on."""

    def seal(self, plain: bytes, bound_to: bytes) -> bytes:
        """Return ``plain`` encrypted; it opens only together with ``bound_to``."""

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """Return the decrypted bytes. Raise Corrupt if they were changed or moved."""

    def digest(self, plain: bytes) -> bytes:
        """Return a hash of ``plain`` that cannot be compared with a guess without the key."""


class ContentGuard(Protocol):
    """Finds and masks secrets."""

    def suspicious(self, encoded: bytes) -> bool:
        """Return False if these JSON bytes certainly hold no secret."""

    def suspects(self, parts: Sequence[bytes]) -> set[int]:
        """Return the indexes of all JSON texts that may hold a secret."""

    def find_text(self, text: str) -> Sequence[GuardFinding]:
        """Return the secrets in ``text``, in order."""

    def mask_text(self, text: str) -> str:
        """Return ``text`` with its secrets masked; the same object if there are none."""

    def find_value(self, value: Json) -> str | None:
        """Return the first rule that ``value`` breaks, or None."""

    def mask_value(self, value: Json) -> Json:
        """Return ``value`` with its secrets masked; the same object if there are none."""


class GuardFinding(Protocol):
    """A secret that a guard found."""

    @property
    def rule(self) -> str:
        """Return the rule's name."""


class Clock(Protocol):
    """The time of day."""

    def __call__(self) -> int:
        """Return milliseconds since 1970."""
