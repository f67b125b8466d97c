"""Keeps the sessions of the Claude Agent SDK in a ledger.

    options = ClaudeAgentOptions(session_store=TreeringSessionStore(ledger))

Each entry is stored in two forms: as the SDK gave it, to be loaded again, and as the events that an
import of the same log makes of it, to be searched, shown and priced. Erasing one form erases the
other.
"""

from __future__ import annotations

import io
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from treering.adapters.item_log import RECORDS_AT_ONCE, all_records, restored, storable
from treering.adapters.record_buffer import RecordBuffer
from treering.capture.intake.importer import BOOKMARK_SCOPE
from treering.capture.intake.ledger_buffer import LedgerBuffer, NoteBuffer
from treering.capture.intake.reading import read_steps
from treering.capture.intake.record_import import RecordImport
from treering.errors import Conflict, InvalidScope, Unsupported
from treering.formats.claude_code import NAME, ClaudeCodeReader
from treering.formats.records import read_records
from treering.lazy import lazy_logger
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import KeyedRecord, KeyedRecords, RecordChange
from treering.locks import Lock
from treering.model.fields import fit_name
from treering.model.scopes import Scope, parse_scope
from treering.spine.off_loop import Lanes
from treering.spine.words import new_id

try:
    from claude_agent_sdk import fold_session_summary
except ImportError as missing:
    raise Unsupported(
        f"the Claude Agent SDK is not installed ({missing})",
        hint="pip install 'treering[claude-agent-sdk]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from claude_agent_sdk import SessionKey
    from claude_agent_sdk.types import (
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from treering.ledger.ledger import Ledger

__all__ = ["TreeringSessionStore"]

READERS_MAX: Final = 100
"""Sessions whose readers are kept; others read all their entries again with the next ones."""
ATTEMPTS_MAX: Final = 20
"""How often an append is tried while others append to the same session."""
PROJECT_CHARACTERS_MAX: Final = 100
SUMMARIES: Final = "transcript-summaries"
_METADATA: Final = "agent_metadata"
_log: Final = lazy_logger("treering")


class TreeringSessionStore:
    """A session store of the SDK, in a ledger. All 14 contracts hold.

    The sessions of a project are in the scope ``claude/PROJECT``, or all in ``scope``. Retries add
    nothing; deleting a session erases it. If the ledger fails, entries wait in memory and in the
    spool, and are loaded from there. If entries cannot be recorded as events, that is logged and
    counted in ``lost``. ``strict`` raises instead.
    """

    def __init__(self, ledger: Ledger, *, scope: str | None = None, strict: bool = False) -> None:
        self._ledger = ledger
        self._scope = None if scope is None else parse_scope(scope)
        self._strict = strict
        self.lost = 0
        """Batches of entries that are stored, but not as events."""
        self.buffer = RecordBuffer(ledger, "claude-agent-sdk", strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._lanes = Lanes()
        self._transcripts = Transcripts(ledger)

    # What the SDK calls.

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep entries, except those whose ``uuid`` the session has."""
        place = self._place(key)
        if entries:
            await self._lanes.run(place.lane, self._append, place, list(entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries as they were appended; None if none exist."""
        place = self._place(key)
        entries = await self._lanes.run(place.lane, self._load, place)
        return cast("list[SessionStoreEntry]", entries) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, and when each was last appended to."""
        place = Place(self._scope_of(project_key), project_key, "", "")
        records = self._kept(place.scope)
        listed = await self._lanes.run(None, all_records, records, place.listing)
        return [{"session_id": record.value, "mtime": record.recorded_ms} for record in listed]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of the sessions of a project."""
        return await self._lanes.run(None, self._summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Erase a session with its subagents, or one subagent: entries and events."""
        place = self._place(key)
        await self._lanes.run(place.lane, self._delete, place)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the paths of the subagents of a session."""
        place = self._place(cast("SessionKey", key))
        return await self._lanes.run(place.lane, self._subpaths, place)

    # In the ledger.

    def _place(self, key: SessionKey) -> Place:
        project, session = key["project_key"], key["session_id"]
        return Place(self._scope_of(project), project, session, key.get("subpath") or "")

    def _scope_of(self, project: str) -> Scope:
        if self._scope is not None:
            return self._scope
        name, _ = fit_name(project.strip("-/") or "project", "project_key")
        try:
            return parse_scope(f"claude/{name[:PROJECT_CHARACTERS_MAX].lower()}")
        except InvalidScope:
            return parse_scope(f"claude/{quote(name, safe='').replace('%', '-').lower()[:100]}")

    def _append(self, place: Place, entries: Sequence[Any]) -> None:
        for start in range(0, len(entries), RECORDS_AT_ONCE):
            some = entries[start : start + RECORDS_AT_ONCE]
            for _ in range(ATTEMPTS_MAX):
                try:
                    self._keep(place, some)
                except Conflict:
                    continue  # Another process appended to the session; some may be known now.
                break
            else:
                self._keep(place, some)
        try:
            self._transcripts.take(place, entries, lambda: self._load(place))
        except Exception as error:
            self._transcripts.forget(place)  # All of it is read again with the next entries.
            self.lost += 1
            if self._strict:
                raise
            _log.warning("entries of %s are kept, but not as events: %s", place.session, error)

    def _keep(self, place: Place, entries: Sequence[Any]) -> None:
        records = self._records(place)
        named = {place.key_of(entry["uuid"]): entry for entry in reversed(entries) if _uuid(entry)}
        existing = records.get_many(list(named)) if named else {}
        new = [
            entry
            for entry in entries
            if not _uuid(entry)
            or (
                place.key_of(entry["uuid"]) not in existing
                and named[place.key_of(entry["uuid"])] is entry
            )
        ]
        if not new:
            return
        before = records.get(place.listing)
        changes = [
            RecordChange(
                key=place.key_of(entry.get("uuid") or new_id()),
                value=storable(entry),
                also=_event_ids(entry),
                expected="" if _uuid(entry) else None,
                refs={"summaries": place.summaries},
            )
            for entry in new
        ]
        listing = RecordChange(
            key=place.listing,
            value=place.subpath or place.session,
            expected="" if before is None else before.version,
        )
        *_, listed = records.put_all([*changes, listing])
        if not place.subpath:
            self._summarise(place, before, listed, new)

    def _summarise(
        self, place: Place, before: KeyedRecord | None, listed: KeyedRecord, new: Sequence[Any]
    ) -> SessionSummaryEntry:
        """Keep the SDK's summary of a session, which has texts of it, apart: it may be erased."""
        records = self._kept(place.scope, SUMMARIES, place.summaries)
        stored = records.get(place.listing) if before is not None else None
        earlier: SessionSummaryEntry | None = None
        if stored is not None and before is not None and stored.value["version"] == before.version:
            earlier = restored(stored.value["summary"])
        elif before is not None:
            new = self._load(place)  # Somebody else appended, or something was erased.
        sdk_key: SessionKey = {"project_key": place.project, "session_id": place.session}
        summary = fold_session_summary(earlier, sdk_key, list(new))
        records.put(place.listing, {"summary": storable(dict(summary)), "version": listed.version})
        return summary

    def _load(self, place: Place) -> list[Any]:
        records = self._kept(place.scope)
        stored = all_records(records, f"{place.group}/")
        return [restored(record.value) for record in sorted(stored, key=lambda record: record.seq)]

    def _summaries(self, project: str) -> list[SessionSummaryEntry]:
        place = Place(self._scope_of(project), project, "", "")
        listed = all_records(self._kept(place.scope), place.listing)
        stored = {
            record.key: record.value
            for record in all_records(self._kept(place.scope, SUMMARIES), place.listing)
        }
        summaries: list[SessionSummaryEntry] = []
        for record in listed:
            entry = stored.get(record.key)
            if entry is not None and entry["version"] == record.version:
                summary = restored(entry["summary"])
            else:
                session = Place(place.scope, project, record.value, "")
                summary = self._summarise(session, record, record, ())
            summaries.append(cast("SessionSummaryEntry", {**summary, "mtime": record.recorded_ms}))
        return summaries

    def _subpaths(self, place: Place) -> list[str]:
        records = self._kept(place.scope)
        return sorted(record.value for record in all_records(records, f"{place.subpaths}/"))

    def _delete(self, place: Place) -> None:
        subpaths = [] if place.subpath else self._subpaths(place)
        for target in [*(place.child(subpath) for subpath in subpaths), place]:
            self._transcripts.forget(target)
            self.buffer.redact(target.scope, session_id=target.transcript)
        self.buffer.redact(place.scope, session_id=place.summaries)
        for session in self._transcripts.sessions_of(place):
            self.buffer.redact(place.scope, session_id=session)

    def _records(self, place: Place) -> KeyedRecords:
        """Return the records of a transcript, in a session that lists of sessions leave out."""
        for name in (place.transcript, place.summaries):
            session = self._ledger.session(
                name, scope=place.scope, agent=NAME, spawned_by=place.session_name
            )
            self.buffer.open(session)
        return self._kept(place.scope, session_id=place.transcript)

    def _kept(
        self, scope: Scope, name: str = TRANSCRIPTS, session_id: str | None = None
    ) -> KeyedRecords:
        return self.buffer.records(scope, name, session_id=session_id, agent=NAME)


class Place:
    """Where a transcript is: the scope, and the names of its records."""

    def __init__(self, scope: Scope, project: str, session: str, subpath: str) -> None:
        self.scope = scope
        self.project = project
        self.session = session
        self.subpath = subpath
        self.lane = (scope, project, session)
        self.session_name = fit_name(session, "session_id")[0] if session else ""
        whose = f"{quote(project, safe='')}:{quote(session, safe='')}"
        self.group = _short(f"entries:{whose}:{quote(subpath, safe='')}")
        self.subpaths = _short(f"subpaths:{whose}")
        parts = ("transcript", project, session, *([subpath] if subpath else []))
        self.transcript = fit_name(":".join(parts), "session_id")[0]
        """The session that holds the entries."""
        self.summaries = fit_name(f"summaries:{project}:{session}", "session_id")[0]
        """The session that holds the SDK's summaries of the session."""

    @property
    def listing(self) -> str:
        """Return the key that lists the transcript; for no session, what all such begin with."""
        if self.subpath:
            return f"{self.subpaths}/{_short(quote(self.subpath, safe=''))}"
        listed = _short(f"sessions:{quote(self.project, safe='')}")
        return f"{listed}/{_short(quote(self.session, safe=''))}" if self.session else f"{listed}/"

    @property
    def path(self) -> PurePosixPath:
        """Return the file that the SDK keeps the transcript in, as far as its name says something.

        Only the last two names of a subagent's path say something.
        """
        main = PurePosixPath(self.session.replace("/", "-"))
        if not self.subpath:
            return main.with_name(f"{main.name}.jsonl")
        return main / "subagents" / f"{PurePosixPath(self.subpath).name}.jsonl"

    def key_of(self, uuid: str) -> str:
        """Return the key of an entry."""
        return f"{self.group}/{_short(quote(uuid, safe=''))}"

    def child(self, subpath: str) -> Place:
        """Return the place of a subagent."""
        return Place(self.scope, self.project, self.session, subpath)


class Transcripts:
    """Makes events of entries, as an import of their logs does."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._readers: dict[str, ClaudeCodeReader] = {}
        self._lock = Lock()
        self._masking: Ledger | None = None

    def take(self, place: Place, entries: Sequence[Any], load: Any) -> None:
        """Record what is new in ``entries``; in all that ``load`` returns, if others came before.

        An event is known by the ids in its entry: nothing is recorded twice.
        """
        with self._lock.guard, self._lock:
            reader = self._readers.pop(place.transcript, None)
            if reader is None:
                reader, entries = ClaudeCodeReader(place.path), load()
            self._import(place, reader, entries)
            self._readers[place.transcript] = reader
            while len(self._readers) > READERS_MAX:
                del self._readers[next(iter(self._readers))]

    def forget(self, place: Place) -> None:
        """Have all entries of a transcript read again."""
        with self._lock.guard, self._lock:
            self._readers.pop(place.transcript, None)

    def sessions_of(self, place: Place) -> list[str]:
        """Return the sessions that hold the events of a transcript and of its subagents."""
        name = place.session_name
        if place.subpath:
            agent = PurePosixPath(place.subpath).name.removeprefix("agent-")
            wanted = {f"{name}/agent-{agent}"}
            return [s for s in wanted if not self._ledger.importing.is_unknown(place.scope, s)]
        sessions: list[str] = []
        after = None
        while True:
            page = self._ledger.sessions(
                place.scope, prefix=name, subagents=True, after=after, state=_STATES
            )
            sessions += [item.session_id for item in page.items]
            after = page.next_cursor
            if not page.has_more:
                break
        return [s for s in sessions if s == name or s.startswith(f"{name}/agent-")]

    def _import(self, place: Place, reader: ClaudeCodeReader, entries: Sequence[Any]) -> None:
        described = [entry for entry in entries if entry.get("type") == _METADATA]
        if described:
            reader.description = described[-1]
        lines = [json.dumps(entry) for entry in entries if entry.get("type") != _METADATA]
        if self._masking is None:
            self._masking = self._ledger.with_masking()
        notes = NoteBuffer(self._ledger.importing.bookmarks(BOOKMARK_SCOPE))
        buffer = LedgerBuffer(self._masking, notes, dry_run=False)
        imported = RecordImport(buffer, file=str(place.path), format_name=NAME)
        imported.sessions.scopes.home = place.scope
        records = read_records(
            io.BytesIO("\n".join([*lines, ""]).encode()), offset=0, line=1, final=True
        )
        imported.import_steps(reader, read_steps(reader, records), 0, 1)
        buffer.finish()


_STATES: Final = ("running", "open", "idle", "closed", "pruned")


def _uuid(entry: Any) -> bool:
    uuid = entry.get("uuid")
    return isinstance(uuid, str) and bool(uuid)


def _event_ids(entry: Any) -> tuple[str, ...]:
    """Return the id of the first event of an entry: with that, the entry is erased."""
    origin = entry.get("forkedFrom")
    copied = origin.get("messageUuid") if isinstance(origin, dict) else None
    named = copied if isinstance(copied, str) and copied else entry.get("uuid")
    return (_short(named),) if isinstance(named, str) and named else ()


def _short(name: str) -> str:
    return fit_name(name, "key")[0]
