"""Receipts: the stable account of what a command did. Aggregates only, never content."""

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
"""A part of what ``verify`` can check; docs/integrity.md says what each of them proves."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a redaction was aimed at."""

    event_id: str | None
    session_id: str | None
    scope: str


class RedactReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``redact`` did."""

    target: Target
    replacement: str
    redacted_count: int
    blobs_erased: int
    blobs_shared: int
    """Blobs kept because other events of the scope hold the same content."""
    physical: Physical
    retellings_redacted: int = 0
    """Summaries and episodes that repeated what was redacted; they were erased with it."""
    memories_redacted: int = 0
    """Tellings of facts that were learnt from it, and went with it."""


class ExpireReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``expire`` did, or would do."""

    scope: str
    now_ts_ms: int
    dry_run: bool
    deleted_total: int
    deleted_by_type: dict[str, int]
    policy_days: dict[str, int | None]
    sessions_touched: int
    sessions_kept_open: int
    """Sessions left alone because a run in them has not ended."""
    blobs_erased: int
    blobs_shared: int
    physical: Physical
    sessions_kept_imported: int = 0
    """Imported sessions with events past a default retention: only a chosen one reaches them."""


class ForgetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``forget`` did, or would do."""

    scope: str
    users: list[str]
    """Whom it was about: the person, and all that they are known as in the scope."""
    dry_run: bool
    events_erased: int
    events_by_kind: dict[str, int]
    sessions_erased: int
    """Sessions that were theirs alone, and lost their names, too."""
    names_erased: int
    """What sessions and users were called."""
    retellings_erased: int
    """Summaries and episodes of others' sessions that repeated it."""
    facts_erased: int
    episodes_erased: int
    handles_erased: int
    blobs_erased: int
    blobs_shared: int
    """Blobs kept because other events of the scope hold the same content."""
    projections: dict[str, int]
    """How many entries were taken out of each table and index."""
    physical: Physical


class SweepReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did, or would do."""

    scope: str
    dry_run: bool
    closed: list[str]
    """Sessions that were idle."""
    pruned: list[str]
    """Sessions that were old."""
    kept: dict[str, str]
    """Those that were left alone, and why: running, written, unread, forked, imported."""
    events_expired: int = 0
    physical: Physical = "done"
    sessions_kept_imported: int = 0
    """Idle and old sessions that were left alone because they were imported."""

    @property
    def count(self) -> int:
        """Return how many sessions were pruned."""
        return len(self.pruned)


class KeyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``encrypt`` or ``rotate_key`` did."""

    scope: str
    generation: int
    """The generation of the key that new payloads are sealed under."""
    created: bool
    """False if the scope was encrypted already and nothing had to be done."""


KeyState = Literal["in use", "kept", "destroyed", "missing"]
"""kept: for what is sealed under it. missing: not in the folder of keys."""


class KeyGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of a scope's key, as ``list_keys`` gives it."""

    scope: str
    generation: int
    """0 for the key of a scope of which nothing is known here."""
    state: KeyState
    created_ms: int | None
    destroyed_ms: int | None
    payloads: int
    """Payloads in the ledger that are sealed under it."""


class DestroyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``destroy_key`` did."""

    scope: str
    generations: list[int]
    """The generations that were destroyed."""
    redacted_count: int
    blobs_erased: int
    physical: Physical


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that does not hold."""

    scope: str
    session_id: str
    seq: int
    event_id: str | None
    fault: Fault
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verify`` found."""

    intact: bool
    sessions: int
    events: int
    redacted: int
    expired: int
    sealed: int
    """Payloads that could not be looked at: their keys were destroyed, or are not here."""
    broken_sessions: int
    first_broken: Broken | None
    anchored_sessions: int | None = None
    """Sessions compared with the anchor, if one was given."""
    derived_rows: dict[str, int] | None = None
    """Derived rows compared with the events, by what they are derived for, if asked for."""
    checked: list[Part] = []
    """What this proof covers."""
    unchecked: dict[Part, str] = {}
    """What it does not cover, each with what does."""


class AnchorReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``anchor`` wrote."""

    root: str
    sessions: int
    events: int
    at_ms: int


class RebuildReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rebuild`` rebuilt."""

    events: int
    """Events in time order."""
    runs: int
    tool_calls: int
    documents: int = 0
    """What events, facts and episodes are found by."""


class VectorsReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rebuild_vectors`` rebuilt."""

    scopes: int
    documents: int
    """Events, facts and episodes that can be found by meaning."""
    embedder: str | None
    """The space of their vectors; None if there are none."""


class ExportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``export`` wrote."""

    scope: str
    sessions: int
    events: int
    payloads: Literal["included", "withheld"]


class LineError(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be taken, with its place in the file."""

    line: int
    offset: int
    reason: str


class ImportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``import`` took in: ``imported + duplicates + other + errors = lines``."""

    lines: int
    imported: int
    duplicates: int
    other: int
    """Lines that frame the events: the opening, the sessions, the end, blanks."""
    errors: int
    sessions: int
    complete: bool
    """Every export in the file had its end, the counts agree, and what came in proves itself."""
    errors_sample: list[LineError]


class SessionRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was not copied whole, or that does not prove itself, and where."""

    scope: str
    session_id: str
    seq: int
    """The first event that is amiss; 0 for the session as such."""
    reason: str


class CopyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``copy_to`` did."""

    scopes: int
    sessions: int
    """Sessions of the source, the refused ones among them."""
    copied: int
    present: int
    """Events that the target had already."""
    refused: int
    """Sessions that the target does not have as the source has them."""
    complete: bool
    """The target has all that the source had when the copy began."""
    intact: bool
    """Every session that something came in for proves itself in the target."""
    refused_sample: list[SessionRefusal]


class InitReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What laying out a ledger on a server did."""

    schema: str
    schema_version_before: int
    """0 if there was no ledger."""
    schema_version: int
    partitions: int
    roles: list[str]
    """Empty if the user may not make roles."""


class ScrubReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Which tables were rewritten to remove erased bytes, and which wait."""

    done: list[str]
    pending: list[str]


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the events."""

    name: str
    bytes: int
    events_estimated: int


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest transaction that has written and not ended: followers wait for it."""

    pid: int | None
    user: str | None
    application: str | None
    state: str | None
    seconds: float | None
    prepared: str | None
    """Its name, if it is a prepared transaction."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A server that copies this one."""

    name: str
    state: str
    bytes_behind: int | None


class DatabaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know of a ledger on a server."""

    server: str
    is_replica: bool
    schema: str
    schema_version: int
    schema_version_known: int
    """The newest that this program knows."""
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
    """Who may use the ledger, and the scopes that each is held to; None states its own."""
    extensions: dict[str, str | None]
    """Version, ``available``, or None."""
    differences: list[str] = []
    """How walls, triggers, functions and tables differ from what this program makes."""
