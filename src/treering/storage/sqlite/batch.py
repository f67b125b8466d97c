"""One transaction's worth of events: numbered, chained, and written together."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, InvalidInput
from treering.ledger.chain import SALT_BYTES, genesis
from treering.ledger.records import HIDDEN_IDS, ID_NOTES, SealedMeanwhile, mark_of_key
from treering.model.events import SCHEMA_VERSION, Header
from treering.storage import encoding
from treering.storage.record_keys import (
    KEYED_KINDS,
    RecordKey,
    check_expected,
    is_removal,
    keys_of,
    named_keys,
    record_key,
)
from treering.storage.repeats import find_repeats, in_call_order, not_first, same_draft, taken
from treering.storage.runs import RUN_KINDS, RUN_OPEN, check_run, state_after
from treering.storage.sealing import Opener, check_unsealed, is_sealable, prove, stored_content
from treering.storage.sqlite import indexes, record_keys, rows
from treering.storage.sqlite.indexes import INDEXED_POSITION
from treering.storage.sqlite.reader import find_note, stored_header
from treering.storage.sqlite.rows import fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import apsw

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft, Names, Record
    from treering.storage.sqlite.id_cache import IdCache
    from treering.storage.sqlite.rows import Row

LOOK_AHEAD_MIN: Final = 8
"""Events of one call from which on their ids are looked for together."""
PLAIN: Final = {"safe": encoding.ALWAYS, "private": encoding.ALWAYS | encoding.PRIVATE}
"""Flags of an event with nothing out of the ordinary, by its visibility."""
_LAST_RUN_SEQ: Final = """
SELECT max(e.run_seq)
FROM runs AS r
CROSS JOIN seqs_by_session AS t ON t.session = r.session AND t.seq > max(r.first_seq - 1, ?3)
CROSS JOIN events AS e ON e.position = t.position
WHERE r.session = ?1 AND r.run = ?2 AND e.run = r.run
"""
_LAST_TAIL_RUN_SEQ: Final = f"""
SELECT max(e.run_seq)
FROM events AS e
WHERE e.position > {INDEXED_POSITION} AND e.session = ?1 AND e.run = ?2 AND e.seq > ?3
"""
# Ids are made in the order of time, but for those that are given.
_LAST_BOXES: Final = f"""
SELECT v.event_id, c.salt
FROM (
  SELECT position
  FROM (
    SELECT position
    FROM events
    WHERE position > {INDEXED_POSITION} AND scope = ?1
    ORDER BY position DESC
    LIMIT 64
  )
  UNION ALL
  SELECT position
  FROM (SELECT position FROM ids_by_scope WHERE scope = ?1 ORDER BY event_id DESC LIMIT 64)
) AS e
JOIN events AS v ON v.position = e.position
JOIN contents AS c ON c.position = e.position
WHERE length(c.salt) > ?2
"""
# One session of each scope, with the name that the scope has now, if any. By steps through the
# index: there may be many sessions.
_SCOPES_AND_SESSIONS: Final = """
WITH RECURSIVE ids (id) AS (
  SELECT min(scope) FROM sessions
  UNION ALL
  SELECT (SELECT min(scope) FROM sessions WHERE scope > ids.id) FROM ids WHERE id IS NOT NULL
)
SELECT ids.id, o.name, s.salt, s.name, s.genesis
FROM ids
JOIN sessions AS s ON s.id = (
  SELECT id
  FROM sessions
  WHERE scope = ids.id
    AND salt IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM forks WHERE session = sessions.id)
  LIMIT 1
)
LEFT JOIN scopes AS o ON o.id = ids.id
"""
_NOTE_KEY: Final = """
INSERT INTO cursors (scope, follower, cursor) SELECT id, ?, ? FROM scopes WHERE name = ?
ON CONFLICT (scope, follower) DO NOTHING
"""


_SCOPE: Final = rows.COLUMNS.index("scope")
_EVENT_ID: Final = rows.COLUMNS.index("event_id")
_EVENT_COLUMNS: Final = len(rows.COLUMNS)
_CONTENT_COLUMNS: Final = 4
_made_id = attrgetter("made_id")
_NEVER: Final = (0, 0, 0)


class Batch:
    """The rows of one transaction, placed in memory first and written together."""

    __slots__ = (
        "_contents", "_events", "_heads", "_hiding_keys", "_ids", "_keyed", "_named", "_unknown",
        "_vault", "_versions", "added", "connection", "cursor", "dirty", "repeats", "torn",
    )  # fmt: skip

    def __init__(
        self, ids: IdCache, vault: Vault, connection: apsw.Connection, cursor: apsw.Cursor
    ) -> None:
        self._ids = ids
        self._vault = vault
        self.connection = connection
        self.cursor = cursor
        self.dirty = False
        self.torn = False
        self.added: list[Header] = []
        """What this transaction adds, in order."""
        self.repeats = False
        """Whether a caller gets the header of an event that was recorded before."""
        self._events: list[Any] = []
        """The values of all rows, one after another; so are those of the contents."""
        self._contents: list[Any] = []
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._named: dict[tuple[str, str], tuple[Draft, Header]] = {}
        self._hiding_keys: dict[str, bytes] = {}
        self._unknown: dict[tuple[str, str], tuple[bytes, bool] | None] = {}
        """Ids of the current call that are not in the file, with their keys."""
        self._keyed: list[Row] = []
        self._versions: dict[tuple[int, RecordKey], str] = {}
        """The newest event of keys that this transaction adds to, "" if it removes them."""

    def place(self, drafts: Sequence[Draft], expected_seq: int | None = None) -> list[Header]:
        """Give each draft its order and link.

        Raise if one cannot have it; ``torn`` then says whether others of the call were placed.
        """
        repeated: list[Header | int | None] = []
        fresh = drafts
        if not all(map(_made_id, drafts)):
            self._unknown = self._look_ahead(drafts)
            repeated = find_repeats(drafts, self._known_header)
            fresh = [
                draft for draft, repeat in zip(drafts, repeated, strict=True) if repeat is None
            ]
        if expected_seq is not None and fresh:
            self._expect(fresh, expected_seq)
        for draft in fresh:
            if draft.expected is not None:
                self._expect_keys(draft)
        self.torn = True
        added = self._add_all(fresh)
        self.torn = False
        return in_call_order(repeated, added) if repeated else added

    def head(self, session: int) -> tuple[int, bytes]:
        """Return the last seq and link of a session, with what this transaction has added."""
        return self._heads.get(session) or self._ids.head(self.connection, session)

    def flush(self) -> None:
        """Write the placed rows."""
        cursor = self.cursor
        if not self._events:
            return
        self.dirty = True
        if len(self._contents) == _CONTENT_COLUMNS:
            cursor.execute(rows.INSERT_EVENT, self._events)
            cursor.execute(rows.INSERT_CONTENT, self._contents)
        else:
            self._insert(rows.INSERT_EVENT, rows.INSERT_EVENTS, self._events, _EVENT_COLUMNS)
            self._insert(
                rows.INSERT_CONTENT, rows.INSERT_CONTENTS, self._contents, _CONTENT_COLUMNS
            )
        if self._keyed:
            cursor.executemany(record_keys.INSERT, self._keyed)
            self._keyed = []
        for session, (seq, last) in self._heads.items():
            cursor.execute(
                "UPDATE heads SET seq = ?, link = ? WHERE session = ?", (seq, last, session)
            )
        self._ids.heads.update(self._heads)
        if self._ids.absent:
            for named in self._named:
                self._ids.absent.pop(named, None)
        if self._ids.tail is not None:
            scopes = self._events[_SCOPE::_EVENT_COLUMNS]
            ids = self._events[_EVENT_ID::_EVENT_COLUMNS]
            self._ids.tail.update(zip(scopes, ids, strict=True))
        self._events, self._contents, self._heads = [], [], {}
        if self._ids.position - self._ids.indexed >= indexes.LAG_EVENTS_MAX:
            self.index()

    def _insert(self, single: str, multiple: str, values: list[Any], width: int) -> None:
        """Insert rows, ``rows.AT_ONCE`` in one statement, and the rest one by one."""
        execute, at, many = self.cursor.execute, 0, width * rows.AT_ONCE
        while at + many <= len(values):
            execute(multiple, values[at : at + many])
            at += many
        while at < len(values):
            execute(single, values[at : at + width])
            at += width

    def index(self) -> None:
        """Bring the indexes up to date with the events that are written."""
        self.flush()
        if self._ids.indexed == self._ids.position:
            return
        indexes.enter(self.connection, self._ids.position)
        self._ids.indexed = self._ids.position
        self._ids.tail = None
        self._ids.trim()
        self.dirty = True

    # Checks, before anything is written.

    def _look_ahead(
        self, drafts: Sequence[Draft]
    ) -> dict[tuple[str, str], tuple[bytes, bool] | None]:
        """Return the ids of many events that are not in the file, by few statements.

        Each has its key, and whether that is a hash; None in a scope that does not exist yet.
        """
        if len(drafts) < LOOK_AHEAD_MIN:
            return {}
        by_scope: dict[str, set[str]] = {}
        unknown: dict[tuple[str, str], tuple[bytes, bool] | None] = {}
        absent = self._ids.absent
        for draft in drafts:
            if not draft.made_id:
                known = absent.get((draft.scope, draft.event_id))
                if known is not None:
                    unknown[draft.scope, draft.event_id] = known
                else:
                    by_scope.setdefault(draft.scope, set()).add(draft.event_id)
        for name, ids in by_scope.items():
            scope, scope_key = self._ids.scope(self.connection, name, create=False)
            if not scope:
                unknown.update(((name, event_id), None) for event_id in ids)
                continue
            keyed = {event_id: encoding.id_key(scope_key, event_id) for event_id in ids}
            plain = {key: event_id for event_id, (key, _) in keyed.items()}
            keys = encoding.either_key(self._hiding(name, plain), plain)
            for key in self.find_ids(scope, list(keys)):
                keyed.pop(keys[key], None)
            unknown.update(((name, event_id), key) for event_id, key in keyed.items())
        return unknown

    def _known_header(self, draft: Draft) -> Header | None:
        if draft.made_id:
            return None
        placed = self._named.get((draft.scope, draft.event_id))
        if placed is not None:
            if not same_draft(draft, placed[0]):
                raise taken(draft)
            self.repeats = True
            return placed[1]
        if (draft.scope, draft.event_id) in self._unknown:
            return None
        scope, scope_key = self._ids.scope(self.connection, draft.scope, create=False)
        if not scope:
            return None
        key, _ = encoding.id_key(scope_key, draft.event_id)
        position = self._find_id(scope, key, draft)
        if position is None:
            return None
        header, salt = stored_header(self.connection, position)
        if not header.redacted and not Opener(self._vault).says_the_same(draft, header, key, salt):
            raise taken(draft)
        self.repeats = True
        return header

    def find_ids(self, scope: int, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return those of ``keys`` that are ids of events in the file, with their positions."""
        tail = self._ids.tail_ids(self.connection)
        if any((scope, key) in tail for key in keys):
            return indexes.find_ids(self.connection, scope, keys)
        return indexes.indexed_ids(self.connection, scope, keys)

    def _find_id(self, scope: int, key: bytes, draft: Draft) -> int | None:
        """Return where the event with the id of ``draft`` is, hidden or not; None if nowhere."""
        positions = self.find_ids(scope, [key])
        if not positions and (hiding := self._hiding(draft.scope, {key: draft.event_id})):
            positions = self.find_ids(scope, [encoding.hidden_key(hiding, key)])
        return next(iter(positions.values()), None)

    def _hiding(self, scope: str, ids: dict[bytes, str]) -> bytes:
        """Return the key that hides ids, if one of ``ids`` may be that of something that is gone.

        Raise KeyMissing if the scope was used with another key than the one that is here.
        """
        if not self._ids.hides or not encoding.are_guessable(ids):
            return b""
        noted = partial(find_note, self.connection, scope)
        return self._vault.find_id_key(scope, noted, HIDDEN_IDS)

    def hidden_key(self, scope: str, event_key: bytes) -> bytes:
        """Return the key that the id of an event gets when the event expires.

        Raise KeyMissing if the scope was used with another key than the one that is here.
        """
        key = self._hiding_keys.get(scope)
        if key is None:
            self.note_hidden()
            noted = partial(find_note, self.connection, scope)
            key = self._vault.find_id_key(scope, noted, *ID_NOTES) or self._vault.id_key()
            self.connection.execute(_NOTE_KEY, (HIDDEN_IDS, mark_of_key(key), scope))
            self._hiding_keys[scope] = key
        return encoding.hidden_key(key, event_key)

    def note_hidden(self) -> None:
        """Have every look for an id look for a hidden one, too."""
        if not self._ids.hides:
            self.connection.execute("INSERT INTO ledger (name, value) VALUES ('hidden_ids', 1)")
            self._ids.hides = True
            self._ids.absent.clear()

    def is_hidden(self, scope: int, key: bytes, record: Record) -> bool:
        """Whether an id is that of an event that is gone, and is hidden since."""
        if not self._ids.hides:
            return False
        hiding = self._hiding(record.scope, {key: record.event_id})
        return bool(hiding and self.find_ids(scope, [encoding.hidden_key(hiding, key)]))

    def _expect(self, drafts: Sequence[Draft], expected_seq: int) -> None:
        targets = {(draft.scope, draft.session_id) for draft in drafts}
        if len(targets) > 1:
            raise InvalidInput(
                "expected_seq is for one session, but the events belong to several",
                hint="append one session at a time",
            )
        session = self._find_session(drafts[0])
        current = self.head(session)[0] if session else 0
        if current != expected_seq:
            raise Conflict(
                f"session {drafts[0].session_id} is at seq {current}, not {expected_seq}",
                current_seq=current,
                hint="read what is new, then append again",
            )

    def _expect_keys(self, draft: Draft) -> None:
        scope, scope_key = self._ids.scope(self.connection, draft.scope, create=False)
        name, _ = named_keys(draft.refs) or ("", [])
        versions: dict[str, str] = {}
        for key in draft.expected or {}:
            hashed_key = record_key(scope_key, name, key)
            version = self._versions.get((scope, hashed_key))
            versions[key] = (
                record_keys.version_of(self.connection, scope, hashed_key)
                if version is None
                else version
            )
        check_expected(draft, versions)

    def follow_keys(
        self, scope: int, scope_key: bytes, event: tuple[str, int, Any, str], position: int
    ) -> None:
        """Note the keys of an event, given as its kind, session, refs and id."""
        kind, session, refs, event_id = event
        for key in keys_of(scope_key, kind, session, refs):
            self._keyed.append((scope, *key, position))
            self._versions[scope, key] = "" if is_removal(refs) else event_id

    def _find_session(self, draft: Draft) -> int:
        cached = self._ids.places.get((draft.scope, draft.session_id))
        if cached is not None:
            return cached[2]
        scope, scope_key = self._ids.scope(self.connection, draft.scope, create=False)
        return scope and self._ids.session(self.connection, scope, scope_key, draft.session_id)

    # Placing.

    def _add_all(self, drafts: Sequence[Draft]) -> list[Header]:  # noqa: C901, PLR0912, PLR0915
        """Give each of ``drafts`` its number and link; straight on, for every event passes here."""
        ids, connection, heads = self._ids, self.connection, self._heads
        places, runs, names, name = ids.places, ids.runs, ids.names, ids.name
        cached_heads, run_seqs, unknown = ids.heads, ids.run_seqs, self._unknown
        events, contents = self._events, self._contents
        added: list[Header] = []
        position = ids.position
        stated: Names | None = None
        for draft in drafts:
            kind = draft.kind
            # The drafter gives events that state the same names one and the same tuple.
            if draft.names is not stated:
                stated = draft.names
                scope_name, session_id, agent_id, run_id, turn_id, user_id, origin_name = stated
                place = (scope_name, session_id)
                scope, scope_key, session = places.get(place) or ids.place(connection, *place)
                agent = names.get(agent_id) or name(connection, agent_id)
                run = None if run_id is None else names.get(run_id) or name(connection, run_id)
                turn = None if turn_id is None else names.get(turn_id) or name(connection, turn_id)
                user = None if user_id is None else names.get(user_id) or name(connection, user_id)
                origin = (
                    None
                    if origin_name is None
                    else names.get(origin_name) or name(connection, origin_name)
                )
                seq, last = (
                    heads.get(session) or cached_heads.get(session) or ids.head(connection, session)
                )
            if draft.is_first and seq:
                raise not_first(draft, seq)
            seq += 1
            if run is not None:
                run_key = (session, run)
                if kind in RUN_KINDS or runs.get(run_key) != RUN_OPEN:
                    self._follow_run(session, run, draft, seq)
                run_seq = draft.run_seq
                if draft.counted:
                    number, at, generation = run_seqs.get(run_key, _NEVER)
                    # Another process may have numbered events since, unless ours is the session's
                    # last one.
                    if generation != ids.generation and at != seq - 1:
                        number = self._last_run_seq(session, run, number, at)
                    if run_seq is None or not draft.given_run_seq or run_seq <= number:
                        run_seq = draft.number_after(number)
                    run_seqs[run_key] = (run_seq, seq, ids.generation)
                elif run_seq is not None:
                    number, at, generation = run_seqs.get(run_key, _NEVER)
                    run_seqs[run_key] = (max(number, run_seq), at, generation)
            position += 1
            if kind in KEYED_KINDS:
                event = (kind, session, draft.refs, draft.event_id)
                self.follow_keys(scope, scope_key, event, position)
            # As ``chain.link`` has it.
            digest = draft.content_digest
            last = sha256(last + seq.to_bytes(8, "big") + draft.header_digest + digest).digest()
            heads[session] = (seq, last)
            flags = PLAIN[draft.visibility]
            key, event_name = draft.made_id, None
            if key is None:
                event_id = draft.event_id
                key, named = unknown.get((scope_name, event_id)) or encoding.id_key(
                    scope_key, event_id
                )
                if named:
                    event_name, flags = event_id, flags | encoding.NAMED
            if draft.blob is None and scope_name in ids.unsealed:
                contents += (position, draft.salt, draft.payload, None)
            else:
                self._check_wordless(draft)
                flags |= 0 if draft.blob is None else encoding.SPILLED
                owner = (scope_name, scope, scope_key)
                contents += (
                    position,
                    *self.content(owner, kind, key, draft.salt, draft.payload, draft.blob),
                )
            source = draft.source
            events += (
                position, scope, session, seq, key, event_name,
                names.get(kind) or name(connection, kind),
                names.get(source) or name(connection, source),
                origin, run, draft.run_seq, turn, agent, user, draft.ts_ms, draft.recorded_ms,
                flags, SCHEMA_VERSION, draft.payload_bytes, digest, last, draft.summary,
                draft.stored_refs,
            )  # fmt: skip
            header = Header(
                position, seq, draft.event_id, scope_name, session_id, kind, source, origin_name,
                run_id, draft.run_seq, turn_id, agent_id, user_id, draft.ts_ms, draft.recorded_ms,
                draft.visibility, draft.summary, draft.refs, draft.payload_bytes, False, False,
                SCHEMA_VERSION, digest, last,
            )  # fmt: skip
            added.append(header)
            if draft.made_id is None:
                self._named[scope_name, draft.event_id] = (draft, header)
        ids.position = position
        self.added += added
        return added

    def _last_run_seq(self, session: int, run: int, last: int, after_seq: int) -> int:
        """Return the last number of a run, which was ``last`` at ``after_seq``."""
        for statement in (_LAST_RUN_SEQ, _LAST_TAIL_RUN_SEQ):
            later = fetch_value(self.connection, statement, (session, run, after_seq))
            last = max(last, later or 0)
        return last

    def _check_wordless(self, draft: Draft) -> None:
        """Raise SealedMeanwhile if the open text of a draft may repeat its sealed payload."""
        if (
            draft.payload is not None
            and not draft.wordless
            and draft.scope in self._ids.sealed
            and is_sealable(draft.kind)
        ):
            raise SealedMeanwhile(draft.scope)

    def _check_unsealed(self, name: str, scope: int) -> None:
        ids = self._ids

        def has_boxes() -> bool:
            if name in ids.boxless:
                return False
            return bool(self._last_boxes(scope)) or self._has_displaced_boxes(name)

        check_unsealed(name, has_key=self._vault.has_sealed(name), has_boxes=has_boxes)
        ids.boxless.add(name)
        ids.unsealed.add(name)

    def _has_displaced_boxes(self, name: str) -> bool:
        """Whether a scope was renamed or removed that had this name and holds sealed content."""
        ids = self._ids
        if ids.displaced is None:
            ids.displaced = [
                (number, salt, session, first)
                for number, scope, salt, session, first in self.connection.execute(
                    _SCOPES_AND_SESSIONS
                )
                if scope is None or genesis(salt, scope, session) != first
            ]
        return any(
            genesis(salt, name, session) == first and self._last_boxes(number)
            for number, salt, session, first in ids.displaced
        )

    def _last_boxes(self, scope: int) -> list[Any]:
        """Return what was sealed lately in a scope, each with the id of its event."""
        return self.connection.execute(_LAST_BOXES, (scope, SALT_BYTES)).fetchall()

    def next_position(self) -> int:
        """Return the position of the next event."""
        self._ids.position += 1
        return self._ids.position

    def push(self, event: Row, content: Row, session: int, head: tuple[int, bytes]) -> None:
        """Add one event's rows, and move its session's head."""
        self._ids.absent.clear()
        self._events += event
        self._contents += content
        self._heads[session] = head

    def drop_tail_ids(self) -> None:
        """Note that ids of events in the tail were changed."""
        self._ids.tail = None
        self._ids.absent.clear()

    def content(
        self,
        scope: tuple[str, int, bytes],
        kind: str,
        event_key: bytes,
        salt: bytes | None,
        payload: bytes | None,
        body: bytes | None,
    ) -> tuple[bytes | None, bytes | None, int | None]:
        """Return salt, payload and blob as they are stored; sealed, if the scope is.

        ``scope`` is its name, id and key; ``body`` the payload compressed, if it is large.
        """
        name, number, scope_key = scope
        sealed = payload is not None and name in self._ids.sealed and is_sealable(kind)
        key = self._vault.in_use(name) if sealed else None
        if key is not None and not key.is_proved:
            prove(key, name, self._last_boxes(number))
        ids = self._ids
        plain = payload is not None and not sealed and is_sealable(kind)
        if plain and name not in ids.unsealed:
            self._check_unsealed(name, number)
        stored = stored_content(key, (name, scope_key), event_key, salt, payload, body)
        if stored.blob_key is None or stored.blob is None:
            return stored.salt, stored.payload, None
        blob = self._keep_blob(number, stored.blob_key, stored.blob)
        return stored.salt, stored.payload, blob

    def _keep_blob(self, scope: int, key: bytes, body: bytes) -> int:
        """Return the id of the blob with this key, adding it if it is new to the scope."""
        blob: int | None = fetch_value(
            self.connection, "SELECT id FROM blobs WHERE scope = ? AND key = ?", (scope, key)
        )
        if blob is not None:
            return blob
        added: int = fetch_value(
            self.connection,
            "INSERT INTO blobs (scope, key, body) VALUES (?, ?, ?) RETURNING id",
            (scope, key, body),
        )
        return added

    def _follow_run(self, session: int, run: int, draft: Draft, seq: int) -> None:
        before = self._ids.run_state(self.connection, session, run)
        check_run(draft, before)
        if before is None:
            self._ids.run_seqs[session, run] = (0, seq - 1, self._ids.generation)
        self._note_run(session, run, before, state_after(draft.kind), seq)

    def follow_run(self, session: int, run: int, kind: str, seq: int) -> None:
        """Note that a run has begun, continued or ended at ``seq``."""
        before = self._ids.run_state(self.connection, session, run)
        self._ids.run_seqs.pop((session, run), None)
        self._note_run(session, run, before, state_after(kind), seq)

    def _note_run(self, session: int, run: int, before: int | None, state: int, seq: int) -> None:
        ids, connection = self._ids, self.connection
        if before is None:
            connection.execute(
                "INSERT INTO runs (session, run, state, first_seq, last_seq)"
                " VALUES (?, ?, ?, ?, ?)",
                (session, run, state, seq, seq if state else None),
            )
        elif state:
            connection.execute(
                "UPDATE runs SET state = ?, last_seq = ? WHERE session = ? AND run = ?",
                (state, seq, session, run),
            )
        ids.runs[session, run] = state
