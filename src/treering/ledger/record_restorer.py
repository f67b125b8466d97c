"""Records on their way in: checked against the chain, stored in pages, proved at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from treering.errors import Conflict, DuplicateEvent, InvalidInput, TreeringError
from treering.ledger.record_checks import check_record, check_session, without_parent
from treering.ledger.records import ID_NOTES, arriving, forgotten_name, shared_seq
from treering.ledger.verification import link_of, verify
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from treering.ledger.ports import EventStore
    from treering.ledger.records import ForkPoint, Record, SessionRecord
    from treering.model.receipts import Broken

    Refuse: TypeAlias = Callable[[str], None]
    """Called with the reason if a record could not be stored."""

PAGE: Final = 500
PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of payloads that are stored together; a single one may be larger."""


class RecordRestorer:
    """Stores records in order; a fault in one session does not affect another."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._sessions: dict[tuple[str, str], SessionRecord] = {}
        self._links: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._refused: dict[tuple[str, str], str] = {}
        """Why no more events of a session are stored."""
        self._touched: set[tuple[str, str]] = set()
        """Sessions whose records were stored."""
        self._page: list[tuple[Record, Refuse]] = []
        self._page_bytes = 0
        self.added = 0
        """Events that the store did not have."""
        self.known = 0
        """Events that were there already."""

    @property
    def sessions(self) -> int:
        """Return how many sessions were introduced."""
        return len(self._sessions)

    def introduce(self, session: SessionRecord) -> None:
        """Announce the records of ``session``. Raise InvalidInput if it cannot begin like this."""
        check_session(session)
        key = (session.scope, session.session_id)
        if key in self._sessions:
            # The waiting records belong to the session as it was introduced before.
            self.flush()
        if session.cut is not None and not self._has_parent(session.scope, session.cut):
            error = without_parent(session, session.cut)
            self._refused[key] = str(error)
            raise error
        self._sessions[key] = session
        self._links[key] = (shared_seq(session), session.genesis)
        self._refused.pop(key, None)

    def _has_parent(self, scope: str, cut: ForkPoint) -> bool:
        """Whether the store has the parent of a fork, once the waiting records are stored."""
        if self._finds(Scope(scope), cut):
            return True
        self.flush()
        return self._finds(Scope(scope), cut)

    def _finds(self, scope: Scope, cut: ForkPoint) -> bool:
        if self._store.sessions.link_at(scope, cut.genesis, cut.seq) != cut.link:
            return False
        gone = forgotten_name(cut.genesis)
        if cut.parent == gone:
            return True  # Here it may still have the name that was forgotten there.
        names = (cut.parent, gone)
        parents = (next(self._store.sessions.records(scope, name), None) for name in names)
        return any(parent is not None and parent.genesis == cut.genesis for parent in parents)

    def take(self, record: Record, refuse: Refuse) -> None:
        """Take the next record of a session; ``refuse`` is called if it is not stored in the end.

        Raise InvalidInput if it is not a valid record, or not at that place.
        """
        key = (record.scope, record.session_id)
        if key in self._refused:
            raise InvalidInput(self._refused[key])
        session = self._sessions.get(key)
        if session is None:
            raise InvalidInput(
                f"session {record.session_id} has events before its opening line",
                hint="the file lacks lines; export again",
            )
        check_record(record)
        self._check_link(session, record)
        self._links[key] = (record.seq, record.link)
        self._page.append((record, refuse))
        self._page_bytes += len(record.payload or b"")
        if len(self._page) >= PAGE or self._page_bytes >= PAGE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Store the waiting records."""
        page, self._page, self._page_bytes = self._page, [], 0
        if not page:
            return
        try:
            added = self._store.restore(self._sessions, [record for record, _ in page])
        except TreeringError:
            # One bad record must not cost its neighbours: find it by going one at a time.
            for record, refuse in page:
                self._store_one(record, refuse)
            return
        self.added += added
        self.known += len(page) - added
        self._touched.update((record.scope, record.session_id) for record, _ in page)

    def finish(self, *, whole: bool) -> list[Broken]:
        """Store the waiting records, and return the faults of the sessions that were stored.

        ``whole`` says that no more records follow: a session that is broken then stays so.
        """
        self.flush()
        if not self._touched:
            return []
        self._store.erasure.finish()
        faults = (self._prove(*key, whole=whole) for key in sorted(self._touched))
        return [broken for broken in faults if broken is not None]

    def _prove(self, scope: str, session_id: str, *, whole: bool) -> Broken | None:
        name, mark = Scope(scope), arriving(self._sessions[scope, session_id].genesis)
        if whole and self._store.cursors.find(name, mark):
            self._store.cursors.set(name, mark, "")
        return verify(self._store, self._store.sessions.records(name, session_id)).first_broken

    def _check_link(self, session: SessionRecord, record: Record) -> None:
        """Raise InvalidInput unless ``record`` follows the one before."""
        seq, previous = self._links[record.scope, record.session_id]
        if record.seq != seq + 1:
            before = self._store.sessions.link_at(
                Scope(record.scope), session.genesis, record.seq - 1
            )
            if before is None:
                raise InvalidInput(
                    f"session {record.session_id} jumps from seq {seq} to {record.seq}",
                    hint="the file lacks lines; export again",
                )
            previous = before
        if record.erasure != "expired" and link_of(previous, record) != record.link:
            raise InvalidInput(
                f"seq {record.seq} of session {record.session_id} does not follow from the one"
                " before: the chain is broken",
                hint="import an unchanged export",
            )

    def _store_one(self, record: Record, refuse: Refuse) -> None:
        key = (record.scope, record.session_id)
        if key in self._refused:
            refuse(self._refused[key])
            return
        try:
            added = self._store.restore(self._sessions, [record])
        except TreeringError as error:
            if not isinstance(error, InvalidInput | Conflict | DuplicateEvent):
                raise
            # No record can follow one that is missing.
            self._refused[key] = str(error)
            refuse(str(error))
        else:
            self.added += added
            self.known += 1 - added
            self._touched.add(key)


def id_marks(store: EventStore, scope: Scope) -> dict[str, str]:
    """Return the marks of the keys that hide the ids of a scope."""
    marks = ((name, store.cursors.find(scope, name)) for name in ID_NOTES)
    return {name: mark for name, mark in marks if mark is not None}


def check_id_marks(target: EventStore, scope: Scope, marks: Mapping[str, str]) -> None:
    """Raise InvalidInput if the target hides ids of the scope under another key."""
    there = id_marks(target, scope)
    if any(there.get(name, mark) != mark for name, mark in marks.items()):
        raise InvalidInput(
            f"ids of scope {scope} are hidden under different keys there and here",
            hint="use an empty ledger, and copy ids.secret from the source",
        )


def note_id_marks(target: EventStore, scope: Scope, marks: Mapping[str, str]) -> None:
    """Note in the target which keys hide the ids that were stored."""
    if marks and next(iter(target.sessions.records(scope)), None) is not None:
        there = id_marks(target, scope)
        for name in ID_NOTES:
            if name in marks and name not in there:
                target.cursors.set(scope, name, marks[name])
