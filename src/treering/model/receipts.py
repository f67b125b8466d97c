"""Receipts: stable reports of what a command did. Counts only, never content."""

from __future__ import annotations

from typing import Literal

import msgspec

Physical = Literal["done", "pending"]
"""pending: an older reader still holds the write-ahead log; it is retried."""
Fault = Literal[
    "content",
    "link",
    "missing",
    "reordered",
    "inserted",
    "head",
    "erasure",
    "file",
    "derived",
    "incomplete",
]
Part = Literal["events", "lookups", "sessions", "scopes", "database", "derived", "anchor"]
"""A part that ``verify`` can check; docs/explanation/integrity.md explains what each one proves."""


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The target of a redaction."""

    event_id: str | None
    session_id: str | None
    scope: str
    event_ids: tuple[str, ...] = ()
    """If several were named; left out of JSON otherwise."""


class RedactReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``redact``."""

    target: Target
    replacement: str
    redacted_count: int
    blobs_erased: int
    blobs_shared: int
    """Blobs kept because other events of the scope have the same content."""
    physical: Physical
    retellings_redacted: int = 0
    """Summaries and episodes that repeated the redacted content and were erased with it."""
    memories_redacted: int = 0
    """Fact versions that were learnt from it and were erased with it."""


class ExpireReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``expire``, or of its dry run."""

    scope: str
    now_ts_ms: int
    dry_run: bool
    deleted_total: int
    deleted_by_type: dict[str, int]
    policy_days: dict[str, int | None]
    sessions_touched: int
    sessions_kept_open: int
    """Sessions left alone because they have an open run."""
    blobs_erased: int
    blobs_shared: int
    physical: Physical
    sessions_kept_imported: int = 0
    """Imported sessions with events past a default retention: only an explicit one applies to
    them."""


class ForgetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``forget``, or of its dry run."""

    scope: str
    users: list[str]
    """The person, under all their names in the scope."""
    dry_run: bool
    events_erased: int
    events_by_kind: dict[str, int]
    sessions_erased: int
    """Sessions that were only theirs, and whose names were erased, too."""
    names_erased: int
    """Names of sessions and users."""
    retellings_erased: int
    """Summaries and episodes of others' sessions that repeated it."""
    facts_erased: int
    episodes_erased: int
    handles_erased: int
    blobs_erased: int
    blobs_shared: int
    """Blobs kept because other events of the scope have the same content."""
    projections: dict[str, int]
    """The number of entries removed from each table and index."""
    physical: Physical


class SweepReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sweep, or of its dry run."""

    scope: str
    dry_run: bool
    closed: list[str]
    """Sessions closed because they were idle."""
    pruned: list[str]
    """Sessions pruned because they were old."""
    kept: dict[str, str]
    """Sessions left alone, with the reason: running, written, unread, forked, imported."""
    events_expired: int = 0
    physical: Physical = "done"
    sessions_kept_imported: int = 0
    """Idle and old sessions left alone because they were imported."""

    @property
    def count(self) -> int:
        """Return the number of pruned sessions."""
        return len(self.pruned)


class KeyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``encrypt`` or ``rotate_key``."""

    scope: str
    generation: int
    """The generation of the key that encrypts new payloads."""
    created: bool
    """False if the scope was encrypted already."""


KeyState = Literal["in use", "kept", "destroyed", "missing"]
"""kept: for payloads encrypted with it. missing: not in the key folder."""


class KeyGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of a scope's key, as listed by ``list_keys``."""

    scope: str
    generation: int
    """0 for the key of a scope that this ledger does not know."""
    state: KeyState
    created_ms: int | None
    destroyed_ms: int | None
    payloads: int
    """Payloads in the ledger that are encrypted with it."""


class DestroyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``destroy_key``."""

    scope: str
    generations: list[int]
    """The generations that were destroyed."""
    redacted_count: int
    blobs_erased: int
    physical: Physical


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The first check that failed."""

    scope: str
    session_id: str
    seq: int
    event_id: str | None
    fault: Fault
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``verify``."""

    intact: bool
    sessions: int
    events: int
    redacted: int
    expired: int
    sealed: int
    """Payloads that could not be checked: their keys are destroyed or missing."""
    broken_sessions: int
    first_broken: Broken | None
    anchored_sessions: int | None = None
    """Sessions compared with the anchor, if one was given."""
    derived_rows: dict[str, int] | None = None
    """Derived rows compared with the events, by table, if requested."""
    checked: list[Part] = []
    """The parts that were checked."""
    unchecked: dict[Part, str] = {}
    """The parts that were not checked, each with the check that covers it."""


class AnchorReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``anchor``."""

    root: str
    sessions: int
    events: int
    at_ms: int


class RebuildReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``rebuild``."""

    events: int
    """Events in time order."""
    runs: int
    tool_calls: int
    documents: int = 0
    """Search documents of events, facts and episodes."""


class VectorsReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``rebuild_vectors``."""

    scopes: int
    documents: int
    """Events, facts and episodes that can be found by meaning."""
    embedder: str | None
    """The vector space; None if there are no vectors."""


class ExportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``export``."""

    scope: str
    sessions: int
    events: int
    payloads: Literal["included", "withheld"]


class LineError(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be imported, and its position in the file."""

    line: int
    offset: int
    reason: str


class RestoreReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``import``: ``imported + duplicates + other + errors = lines``."""

    lines: int
    imported: int
    duplicates: int
    other: int
    """Lines other than events: headers, sessions, ends and blank lines."""
    errors: int
    sessions: int
    complete: bool
    """Whether every export in the file is complete, its counts agree and its hashes are valid."""
    errors_sample: list[LineError]


class SessionRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was not copied completely or whose hashes are invalid."""

    scope: str
    session_id: str
    seq: int
    """The first affected event; 0 for the session itself."""
    reason: str


class CopyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``copy_to``."""

    scopes: int
    sessions: int
    """Sessions of the source, including refused ones."""
    copied: int
    present: int
    """Events that the target had already."""
    refused: int
    """Sessions that differ between the target and the source."""
    complete: bool
    """Whether the target has everything the source had when the copy began."""
    intact: bool
    """Whether every session that received events has valid hashes in the target."""
    refused_sample: list[SessionRefusal]


class InitReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of creating or upgrading a ledger on a server."""

    schema: str
    schema_version_before: int
    """0 if there was no ledger."""
    schema_version: int
    partitions: int
    roles: list[str]
    """Empty if the user may not create roles."""


class ScrubReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that were rewritten to remove erased bytes, and those still pending."""

    done: list[str]
    pending: list[str]


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of the events."""

    name: str
    bytes: int
    events_estimated: int


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest unfinished transaction that has written: followers wait for it."""

    pid: int | None
    user: str | None
    application: str | None
    state: str | None
    seconds: float | None
    prepared: str | None
    """Its name, if it is a prepared transaction."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A server that replicates this one."""

    name: str
    state: str
    bytes_behind: int | None


class DatabaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a ledger on a server."""

    server: str
    is_replica: bool
    schema: str
    schema_version: int
    schema_version_known: int
    """The newest version that this program knows."""
    bytes: int
    partitions: list[Partition]
    epoch: int
    events_unsettled: int
    """Events that followers do not see yet."""
    blocker: Blocker | None
    replicas: list[Replica]
    erasure_pending: list[str]
    """Tables whose files still hold erased bytes."""
    roles: dict[str, list[str] | None]
    """The roles of the ledger with the scopes each is limited to; None sets its own scopes."""
    extensions: dict[str, str | None]
    """Version, ``available``, or None."""
    differences: list[str] = []
    """Differences of policies, triggers, functions and tables from what this program creates."""
