"""Conversations of Pydantic AI in a ledger: entries and records, each change in one transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from treering.adapters.item_log import RECORDS_AT_ONCE, all_records
from treering.adapters.message_recorder import Claims, MessageRecorder
from treering.adapters.pydantic_recorder import parts_of
from treering.adapters.record_buffer import RecordBuffer
from treering.errors import Conflict
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import RecordChange, keys_of
from treering.model.codec import encode
from treering.model.fields import fit_name
from treering.model.scopes import parse_scope
from treering.spine.conversion import to_json
from treering.spine.off_loop import Lanes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.ledger.keyed_records import KeyedRecord, KeyedRecords
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session

CLAIMS_MAX: Final = 1_000
_CONVERSATIONS: Final = "conversations"
_RECORD: Final = TypeAdapter(ConversationRecord)
_ENTRY: Final = TypeAdapter(ConversationEntry)


class TreeringConversationStore(ConversationStore):
    """Keeps conversations in a scope of a ledger; what is said is in the ledger's sessions.

    It behaves like the in-memory store. Deleting a conversation erases the entries that no other
    shares, and what they say. An entry that was erased as an event is left out of its history. If
    the ledger fails, the agent continues: saves wait in memory and in the spool, and are loaded
    from there. With ``strict``, errors are raised. Deleting always raises them.
    """

    def __init__(
        self, ledger: Ledger, *, scope: str, agent: str = "pydantic-ai", strict: bool = False
    ) -> None:
        self._ledger = ledger
        self.buffer = RecordBuffer(ledger, "pydantic-ai", strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._scope = parse_scope(scope)
        self._agent = agent
        self._records = self.buffer.records(self._scope, TRANSCRIPTS, agent=agent)
        self._lanes = Lanes()
        self._claims: dict[str, Claims] = {}
        self._since_ms = int(time.time() * 1_000)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if it does not exist."""
        return await self._lanes.run(None, lambda: _to_record(self._stored(conversation_id)))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return records, those of ``scope`` if it is given, the last saved first."""
        records = await self._lanes.run(None, self._all_records)
        matching = [record for record in records if scope is None or record.scope == scope]
        return sorted(matching, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries, unless another writer came first."""
        await self._lanes.complete(
            record.conversation_id, self._write, record, list(new_entries), expected_revision
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation, unless it was saved meanwhile."""
        await self._lanes.complete(
            conversation_id, self._delete, conversation_id, expected_revision
        )

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raise LookupError if it does not exist."""
        record = await self._lanes.run(None, self._records.get, _entry_key(entry_id))
        if record is None:
            raise LookupError(entry_id)
        return _to_entry(record)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to ``head_id`` in order, or the last of them."""
        return await self._lanes.run(None, self._history, head_id, limit)

    # In the ledger.

    def _session(self, conversation_id: str) -> Session:
        name, _ = fit_name(conversation_id, "conversation_id")
        return self._ledger.session(name, scope=self._scope, agent=self._agent)

    def _kept_in(self, conversation_id: str) -> KeyedRecords:
        """Return the records of one conversation, in a session that lists leave out."""
        name, _ = fit_name(f"conversation:{conversation_id}", "conversation_id")
        spawned_by, _ = fit_name(conversation_id, "conversation_id")
        held = self._ledger.session(
            name, scope=self._scope, agent=self._agent, spawned_by=spawned_by
        )
        self.buffer.open(held)
        return self.buffer.records(self._scope, TRANSCRIPTS, session_id=name, agent=self._agent)

    def _stored(self, conversation_id: str) -> KeyedRecord | None:
        return self._records.get(_record_key(conversation_id))

    def _all_records(self) -> list[ConversationRecord]:
        parsed = [_to_record(record) for record in all_records(self._records, f"{_CONVERSATIONS}/")]
        return [record for record in parsed if record is not None]

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        name = record.conversation_id
        stored = self._stored(name)
        before = _to_record(stored)
        if (None if before is None else before.revision) != expected_revision:
            raise ConversationConflict(name)
        head = record.head_id
        is_linked = head is None or head in {e.id for e in new_entries} or self._is_linked(head)
        if not is_linked:
            raise ConversationConflict(name)
        records = self._kept_in(name)
        session = self._session(name)
        recorder = MessageRecorder(session, self._records, self._claims_of(name))
        entries: list[RecordChange] = []
        for entry in new_entries:
            recorded = [recorder.record(part) for part in parts_of(entry.message)]
            ids = tuple(dict.fromkeys(filter(None, recorded)))
            value = to_json(_ENTRY.dump_python(entry, mode="json"))[0]
            key = f"{_group(name)}/{quote(entry.id, safe='')}"
            entries.append(RecordChange(key=key, value=value, also=(_entry_key(entry.id), *ids)))
        links = [(entry.id, entry.parent_id) for entry in new_entries]
        changes = [
            *self._link(name, links),
            RecordChange(
                key=_record_key(name),
                value=to_json(_RECORD.dump_python(record, mode="json"))[0],
                expected="" if stored is None else stored.version,
            ),
        ]
        if recorder.beside:
            self.buffer.open(session)
        try:
            while len(entries) > RECORDS_AT_ONCE:
                some, entries = entries[:RECORDS_AT_ONCE], entries[RECORDS_AT_ONCE:]
                records.put_all(some)
            records.put_all([*entries, *changes], beside=recorder.beside)
        except Conflict:
            raise ConversationConflict(name) from None

    def _link(self, name: str, links: Sequence[tuple[str, str | None]]) -> Iterable[RecordChange]:
        """Yield the order of the entries, without content, so that it survives erasures."""
        if links:
            listed = [list(pair) for pair in links]
            also = tuple(f"follows/{quote(entry_id, safe='')}" for entry_id, _ in links)
            yield RecordChange(
                key=f"{_links(name)}/{quote(links[0][0], safe='')}", value=listed, also=also
            )

    def _is_linked(self, entry_id: str) -> bool:
        return self._records.get(f"follows/{quote(entry_id, safe='')}") is not None

    def _claims_of(self, name: str) -> Claims:
        claims = self._claims.setdefault(name, Claims(self._since_ms))
        if len(self._claims) > CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        return claims

    def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        entries: dict[str, ConversationEntry] = {}
        parents: dict[str, str | None] = {}
        history: list[ConversationEntry] = []
        at = head_id
        while at is not None and (limit is None or len(history) < limit):
            if at not in parents and limit is not None:
                # The last entries are mostly the last events of their conversation.
                self._read_around(at, entries, parents, last=4 * limit + 16)
            if at not in parents:
                # All of the conversation that the entry is from; a fork continues in another one.
                self._read_around(at, entries, parents, last=None)
            if at in entries:
                history.append(entries[at])
            at = parents[at]
        return history[::-1]

    def _read_around(
        self,
        entry_id: str,
        entries: dict[str, ConversationEntry],
        parents: dict[str, str | None],
        *,
        last: int | None = None,
    ) -> None:
        """Read the conversation that an entry is from: its entries, and which follows which."""
        linked = self._records.get(f"follows/{quote(entry_id, safe='')}")
        if linked is None:
            raise LookupError(entry_id)
        held = self._ledger.session(linked.session_id, scope=self._scope, agent=self._agent)
        for event in self.buffer.events(held, kinds=["state.value"], last=last):
            if event.redacted or not isinstance(event.payload, dict):
                continue
            key, value = keys_of(event)[0], event.payload["value"]
            if key.startswith("links:"):
                parents.update((child, parent) for child, parent in value)
            elif key.startswith("entries:"):
                entry = _ENTRY.validate_json(encode(value))
                entries[entry.id] = entry

    def _delete(self, conversation_id: str, expected_revision: str) -> None:
        stored = self._stored(conversation_id)
        record = _to_record(stored)
        if stored is None or record is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        key = _record_key(conversation_id)
        records = self._kept_in(conversation_id)
        try:
            # A record without a value: a save at the same time finds another version.
            gone = records.put(key, None, expected=stored.version)
        except Conflict:
            raise ConversationConflict(conversation_id) from None
        own = self._reached([record])
        others = self._reached(
            other for other in self._all_records() if other.conversation_id != conversation_id
        )
        ids = [r.version for r in records.history(key) if r.version != gone.version]
        for entry_id in own - others:
            entry = self._records.get(_entry_key(entry_id))
            if entry is not None:
                ids.append(entry.version)
                event = self._ledger.event(self._scope, entry.version)
                ids += [name for name in keys_of(event)[2:] if self._knows(name)]
        self.buffer.redact(self._scope, event_ids=list(dict.fromkeys(ids)))

    def _knows(self, event_id: str) -> bool:
        return event_id in self._ledger.find_ids(self._scope, [event_id])

    def _reached(self, records: Iterable[ConversationRecord]) -> set[str]:
        """Return the entries that conversations hold, in their histories and branches."""
        entries: dict[str, ConversationEntry] = {}
        parents: dict[str, str | None] = {}
        reached: set[str] = set()
        for record in records:
            for tip in (record.head_id, *record.branches):
                at = tip
                while at is not None and at not in reached:
                    if at not in parents:
                        try:
                            self._read_around(at, entries, parents)
                        except LookupError:
                            break
                    reached.add(at)
                    at = parents[at]
        return reached


def _record_key(conversation_id: str) -> str:
    return f"{_CONVERSATIONS}/{_short(conversation_id)}"


def _entry_key(entry_id: str) -> str:
    return f"entry/{_short(entry_id)}"


def _group(conversation_id: str) -> str:
    return f"entries:{_held_in(conversation_id)}"


def _links(conversation_id: str) -> str:
    return f"links:{_held_in(conversation_id)}"


def _held_in(conversation_id: str) -> str:
    return quote(fit_name(f"conversation:{conversation_id}", "conversation_id")[0], safe="")


def _short(name: str) -> str:
    return fit_name(quote(name, safe=""), "id")[0]


def _to_record(stored: KeyedRecord | None) -> ConversationRecord | None:
    if stored is None or stored.value is None:
        return None
    return _RECORD.validate_json(encode(stored.value))


def _to_entry(stored: KeyedRecord) -> ConversationEntry:
    return _ENTRY.validate_json(encode(stored.value))
