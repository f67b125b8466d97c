"""The memory of Google ADK in a ledger: what was said, found by meaning, for each user.

No vector is stored: entries are embedded when they are first searched.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import uuid_utils
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from typing_extensions import override

from treering.adapters.adk.sessions import scope_of, tag
from treering.adapters.record_buffer import RecordBuffer
from treering.async_objects import sync_ledger
from treering.derive.terms import terms
from treering.ledger.keyed_records import CHANGES_MAX, RecordChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.adk.events.event import Event
    from google.adk.sessions import Session

    from treering.async_objects import AsyncLedger
    from treering.ledger.keyed_records import KeyedRecords
    from treering.ledger.ledger import Ledger

RECORDS: Final = "adk-memory"
FOUND_MAX: Final = 10
ALL: Final = 2**31


class TreeringMemoryService(BaseMemoryService):  # type: ignore[misc]  # untyped
    """Keeps ADK's memory in a ledger; an app is the scope ``adk/APP``.

    If the ledger fails, the agent continues: entries wait in memory and in the spool, and are found
    there. With ``strict``, errors are raised. Deleting raises in any case.
    """

    def __init__(self, ledger: Ledger | AsyncLedger, *, strict: bool = False) -> None:
        self._ledger, self._lanes = sync_ledger(ledger)
        self.buffer = RecordBuffer(self._ledger, RECORDS, strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._vectors: dict[str, Any] = {}
        """Vectors by the version of an entry."""

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        await self._add(session.app_name, session.user_id, _entries(session.events))

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        await self._add(app_name, user_id, _entries(events))

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        entries = {entry.id or str(uuid_utils.uuid7()): entry for entry in memories}
        await self._add(app_name, user_id, entries)

    @override
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        memories = await self._lanes.run(None, self._search, app_name, user_id, query)
        return SearchMemoryResponse(memories=memories)

    @override
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        if memory_id:
            await self._lanes.run(app_name, self._delete, app_name, user_id, memory_id)

    async def _add(self, app_name: str, user_id: str, entries: Mapping[str, MemoryEntry]) -> None:
        await self._lanes.run(app_name, self._put, app_name, user_id, entries)

    def _put(self, app_name: str, user_id: str, entries: Mapping[str, MemoryEntry]) -> None:
        records = self._records(app_name)
        keys = {_key(user_id, name): name for name in entries}
        existing = records.get_many(list(keys))
        changes = []
        for key, name in keys.items():
            value = json.loads(entries[name].model_dump_json(exclude_none=True))
            value["id"] = name
            before = existing.get(key)
            # A deleted entry does not come back with its session.
            if before is None or (before.value != value and "deleted" not in before.value):
                changes.append(RecordChange(key=key, value=value))
        for start in range(0, len(changes), CHANGES_MAX):
            records.put_all(changes[start : start + CHANGES_MAX])

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        records, key = self._records(app_name), _key(user_id, memory_id)
        if records.get(key) is not None:
            records.erase([key])
            records.put(key, {"id": memory_id, "deleted": True})

    def _search(self, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        records = self._records(app_name)
        stored = records.get_many(records.keys(f"{tag(user_id)}/", limit=ALL))
        entries = {
            record.version: MemoryEntry.model_validate(record.value)
            for record in stored.values()
            if "deleted" not in record.value
        }
        texts = {version: text for version, entry in entries.items() if (text := _text(entry))}
        scores = self._scores(query, texts)
        best = sorted(scores, key=lambda version: scores[version], reverse=True)[:FOUND_MAX]
        return [entries[version] for version in best]

    def _scores(self, query: str, texts: Mapping[str, str]) -> dict[str, float]:
        """Return how well texts match: by meaning, by words, or by both."""
        asked = set(terms(query))
        scores = dict.fromkeys(texts, 0.0)
        for version, text in texts.items():
            shared = asked & set(terms(text))
            scores[version] = len(shared) / len(asked) if asked else 0.0
        embedder = self._ledger.embedder
        if embedder is not None and texts:
            new = [version for version in texts if version not in self._vectors]
            rows = embedder.embed([texts[version] for version in new]) if new else ()
            self._vectors.update(zip(new, rows, strict=True))
            vector = embedder.embed_queries([query])[0]
            for version in texts:
                likeness = float(self._vectors[version] @ vector)
                scores[version] += likeness if likeness >= embedder.cosine_min else 0.0
        return {version: score for version, score in scores.items() if score > 0}

    def _records(self, app_name: str) -> KeyedRecords:
        return self.buffer.records(scope_of(app_name), RECORDS, agent="adk")


def _key(user_id: str, memory_id: str) -> str:
    return f"{tag(user_id)}/{tag(memory_id)}"


def _entries(events: Iterable[Event]) -> dict[str, MemoryEntry]:
    return {
        event.id: MemoryEntry(
            content=event.content,
            author=event.author,
            timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        )
        for event in events
        if event.content and event.content.parts
    }


def _text(entry: MemoryEntry) -> str:
    return " ".join(part.text for part in entry.content.parts or () if part.text)
