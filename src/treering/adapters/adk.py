"""Google ADK's sessions and memory in a ledger (``pip install 'treering[adk]'``).

    {session}/session                        state.saved   state, times and the number of events
    {session}/e/{number}, {session}/id/{id}  state.value   an event, as it is
    app/{name}, user:{user}/{name}           state.value   state of an app, and of a user

One append is one transaction: the event, the state that it changes, and for people, searches and
the memory its messages and tool calls. ADK relies on its sessions: what cannot be stored raises.
The memory is what was said, found by meaning, for each user. It stores no vector: entries are
embedded when they are first searched.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import uuid_utils
from typing_extensions import override

from treering.adapters.record_buffer import RecordBuffer
from treering.async_objects import AsyncLedger, sync_ledger
from treering.errors import Conflict, TreeringError, Unsupported
from treering.ledger.keyed_records import CHANGES_MAX, KeyedRecord, KeyedRecords, RecordChange
from treering.model.events import NewEvent
from treering.model.fields import check_name
from treering.model.scopes import parse_scope
from treering.rules.terms import terms
from treering.spine.words import shorten

try:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.adk.sessions.base_session_service import BaseSessionService, ListSessionsResponse
    from google.adk.sessions.state import State
except ImportError as missing:
    raise Unsupported(
        f"Google ADK is not installed ({missing})", hint="pip install 'treering[adk]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from google.adk.sessions.base_session_service import GetSessionConfig

    from treering.ledger.ledger import Ledger

__all__ = ["TreeringMemoryService", "TreeringSessionService"]

RECORDS: Final = "adk"
STATE_SESSION: Final = "adk-state"
PAGE: Final = 200
ALL: Final = 2**31


class TreeringSessionService(BaseSessionService):  # type: ignore[misc]  # untyped
    """Keeps ADK's sessions in a ledger; an app is the scope ``adk/APP``.

    If the ledger fails, the agent continues: events wait in memory and in the spool, and sessions
    have them. With ``strict``, errors are raised. Deleting raises in any case.
    """

    def __init__(self, ledger: Ledger | AsyncLedger, *, strict: bool = False) -> None:
        self._ledger, self._lanes = sync_ledger(ledger)
        self.buffer = RecordBuffer(self._ledger, RECORDS, strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        stripped = (session_id or "").strip() or str(uuid_utils.uuid7())
        return await self._lanes.run(
            (app_name, user_id, stripped), self._create, app_name, user_id, stripped, state or {}
        )

    @override
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        name = (app_name, user_id, session_id.strip())
        return await self._lanes.run(name, self._get, *name, config)

    @override
    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        sessions = await self._lanes.run(None, self._list, app_name, user_id)
        return ListSessionsResponse(sessions=sessions)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        name = (app_name, user_id, session_id.strip())
        await self._lanes.run(name, self._delete, *name)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        records = self._records(app_name)
        return await self._lanes.run(None, _state_at, records, _user_prefix(user_id))

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        name = (session.app_name, session.user_id, session.id)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        version = await self._lanes.run(name, self._append, session, event)
        if version is None:
            return event  # It was delivered before.
        self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        session._storage_update_marker = version  # noqa: SLF001  (for services to set)
        return event

    # The same, in a thread.

    def _create(
        self, app_name: str, user_id: str, session_id: str, state: dict[str, Any]
    ) -> Session:
        records = self._records(app_name, session_of(user_id, session_id))
        deltas = _deltas(state)
        now = self._now_s()
        saved = {
            "id": session_id,
            "user": user_id,
            "state": deltas["session"],
            "events": 0,
            "updated": now,
        }
        change = _session_change(user_id, session_id, saved, expected="")
        try:
            put = records.put_all([change, *_state_changes(user_id, deltas)])
        except Conflict as error:
            raise AlreadyExistsError(f"Session with id {session_id} already exists.") from error
        return self._session(app_name, put[0], [])

    def _get(
        self, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None
    ) -> Session | None:
        records = self._records(app_name)
        record = records.get(f"{tag(user_id, session_id)}/session")
        if record is None:
            return None
        return self._session(app_name, record, list(_events(records, record, config))[::-1])

    def _list(self, app_name: str, user_id: str | None) -> list[Session]:
        records = self._records(app_name)
        prefix = "list:" if user_id is None else f"list:{tag(user_id)}/"
        keys = records.keys(prefix, limit=ALL)
        sessions = [
            self._session(app_name, record, [])
            for start in range(0, len(keys), PAGE)
            for record in records.get_many(keys[start : start + PAGE]).values()
        ]
        return sorted(sessions, key=lambda s: (s.last_update_time, s.user_id, s.id))

    def _delete(self, app_name: str, user_id: str, session_id: str) -> None:
        if self._records(app_name).get(f"{tag(user_id, session_id)}/session") is not None:
            self.buffer.redact(scope_of(app_name), session_id=session_of(user_id, session_id))

    def _append(self, session: Session, event: Event) -> str | None:
        """Record an event; return the version of its session, None if the event exists."""
        records = self._records(session.app_name, session_of(session.user_id, session.id))
        group = tag(session.user_id, session.id)
        record = records.get(f"{group}/session")
        if record is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        raw = json.loads(event.model_dump_json(exclude_none=True, by_alias=True))
        existing = records.get(f"{group}/id/{tag(event.id)}")
        if existing is not None and existing.value == raw:
            return None
        marker = session._storage_update_marker  # noqa: SLF001  (for services to set)
        is_stale = (
            record.value["updated"] > session.last_update_time
            if marker is None
            else marker != record.version
        )
        if is_stale:
            raise _stale(session)
        deltas = _deltas((event.actions.state_delta if event.actions else None) or {})
        count = record.value["events"]
        saved = {
            **record.value,
            "state": record.value["state"] | deltas["session"],
            "events": count + 1,
            "updated": event.timestamp,
        }
        stored = RecordChange(
            key=f"{group}/e/{count:08}", value=raw, also=(f"{group}/id/{tag(event.id)}",)
        )
        head = _session_change(session.user_id, session.id, saved, expected=record.version)
        try:
            put = records.put_all(
                [head, stored, *_state_changes(session.user_id, deltas)],
                beside=list(_events_of(records, session, event)),
            )
        except Conflict as error:
            raise _stale(session) from error
        return put[0].version

    def _session(self, app_name: str, record: KeyedRecord, events: list[Event]) -> Session:
        saved = record.value
        records = self._records(app_name)
        state = dict(saved["state"])
        for prefix, at in (
            (State.APP_PREFIX, "app/"),
            (State.USER_PREFIX, _user_prefix(saved["user"])),
        ):
            state |= {f"{prefix}{name}": value for name, value in _state_at(records, at).items()}
        session = Session(
            app_name=app_name,
            user_id=saved["user"],
            id=saved["id"],
            state=state,
            events=events,
            last_update_time=saved["updated"],
        )
        session._storage_update_marker = record.version  # noqa: SLF001  (for services to set)
        return session

    def _records(self, app_name: str, session_id: str = STATE_SESSION) -> KeyedRecords:
        return self.buffer.records(scope_of(app_name), RECORDS, session_id=session_id, agent="adk")

    def _now_s(self) -> float:
        from google.adk.platform import time as platform_time  # noqa: PLC0415  (as ADK has it)

        return float(platform_time.get_time())


def _session_change(
    user_id: str, session_id: str, saved: dict[str, Any], *, expected: str
) -> RecordChange:
    group = tag(user_id, session_id)
    return RecordChange(
        key=f"{group}/session",
        value=saved,
        kind="state.saved",
        also=(f"list:{tag(user_id)}/{group}",),
        expected=expected,
    )


def _state_changes(user_id: str, deltas: Mapping[str, Mapping[str, Any]]) -> Iterator[RecordChange]:
    """Yield the changes of the states of an app and of a user, in a session of their own."""
    for prefix, delta in (("app/", deltas["app"]), (_user_prefix(user_id), deltas["user"])):
        for name, value in delta.items():
            key = f"{prefix}{quote(name, safe='')}"
            yield RecordChange(key=key, value=value, session_id=STATE_SESSION)


def _user_prefix(user_id: str) -> str:
    return f"user:{tag(user_id)}/"


def _state_at(records: KeyedRecords, prefix: str) -> dict[str, Any]:
    states = records.get_many(records.keys(prefix, limit=ALL))
    return {unquote(key[len(prefix) :]): record.value for key, record in states.items()}


def _deltas(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parts of a state by owner, without temporary ones."""
    deltas: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            deltas["app"][key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            deltas["user"][key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            deltas["session"][key] = value
    return deltas


def _events(
    records: KeyedRecords, record: KeyedRecord, config: GetSessionConfig | None
) -> Iterator[Event]:
    """Yield the requested events of a session, the newest first."""
    count = record.value["events"]
    wanted = config.num_recent_events if config else None
    since = config.after_timestamp if config else None
    first = 0 if wanted is None else max(0, count - wanted)
    group = record.key.partition("/")[0]
    for end in range(count, first, -PAGE):
        keys = [f"{group}/e/{number:08}" for number in range(max(first, end - PAGE), end)]
        for event_record in reversed(records.get_many(keys).values()):
            event = Event.model_validate(event_record.value)
            if since is not None and event.timestamp < since:
                return
            yield event


def _events_of(records: KeyedRecords, session: Session, event: Event) -> Iterator[NewEvent]:
    """Yield the messages and tool calls of an event, as other adapters record them."""
    is_user = event.author == "user"
    parts: Sequence[Any] = (event.content.parts if event.content else None) or ()

    def new_event(kind: str, summary: str, payload: Any, refs: Any = None) -> NewEvent:
        return NewEvent(
            scope=records.scope,
            session_id=records.session_id,
            kind=kind,
            agent_id=session.app_name if is_user else event.author or session.app_name,
            user_id=session.user_id,
            summary=shorten(summary) or kind,
            payload=payload,
            refs=refs,
            ts_ms=int(event.timestamp * 1_000),
        )

    text = "".join(part.text for part in parts if part.text and not part.thought)
    if text.strip():
        kind = "conversation.user" if is_user else "conversation.assistant"
        yield new_event(kind, text, {"text": text})
    for part in parts:
        if (call := part.function_call) is not None:
            refs = {"call_id": call.id or "", "tool": call.name or "unknown"}
            payload = {"call_id": call.id, "name": call.name, "input": _plain(call.args)}
            yield new_event("tool.call", f"{call.name} called", payload, refs)
        if (answer := part.function_response) is not None:
            refs = {"call_id": answer.id or "", "tool": answer.name or "unknown", "status": "ok"}
            payload = {"call_id": answer.id, "name": answer.name, "output": _plain(answer.response)}
            yield new_event("tool.result", f"{answer.name} returned", payload, refs)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _stale(session: Session) -> StaleSessionError:
    return StaleSessionError(
        f"session {session.id} was changed since it was loaded: load it again, then append"
    )


_BYTES: Final = 12


def scope_of(app_name: str) -> str:
    """Return the scope of an app: ``adk/APP``, or its hash if that is not a valid scope."""
    name = f"adk/{app_name}"
    try:
        if parse_scope(name) == name:
            return name
    except TreeringError:
        pass
    return f"adk/{tag(app_name)}"


def session_of(user_id: str, session_id: str) -> str:
    """Return the session of a user's session: ids of two users may be the same."""
    try:
        return check_name(f"adk:{quote(user_id, safe='@')}:{session_id}", "session_id")
    except TreeringError:
        return f"adk:#{tag(user_id, session_id)}"


def tag(*texts: str) -> str:
    """Return a hash that replaces texts in a key."""
    text = "\0".join(texts).encode(errors="surrogatepass")
    return blake2b(text, digest_size=_BYTES).hexdigest()


MEMORY_RECORDS: Final = "adk-memory"
FOUND_MAX: Final = 10


class TreeringMemoryService(BaseMemoryService):  # type: ignore[misc]  # untyped
    """Keeps ADK's memory in a ledger; an app is the scope ``adk/APP``.

    If the ledger fails, the agent continues: entries wait in memory and in the spool, and are found
    there. With ``strict``, errors are raised. Deleting raises in any case.
    """

    def __init__(self, ledger: Ledger | AsyncLedger, *, strict: bool = False) -> None:
        self._ledger, self._lanes = sync_ledger(ledger)
        self.buffer = RecordBuffer(self._ledger, MEMORY_RECORDS, strict=strict)
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
        return self.buffer.records(scope_of(app_name), MEMORY_RECORDS, agent="adk")


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
