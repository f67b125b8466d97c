"""Compare derived tables with the events, by deriving them again with the same rules.

The tables are trusted only for how far they have followed the events: a lag is not a fault, since
every reader catches up first.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.fact_rows import UNREADABLE
from treering.derive.memory_state import ROW_SORTS, MemoryState
from treering.derive.search_texts import SearchText, is_searchable, memory_texts
from treering.derive.snapshots import COUNTS, FOLDED
from treering.errors import InvalidCursor, ReadOnly, Unavailable
from treering.ledger.following import mark_of
from treering.ledger.lineage import NO_END, Lineage
from treering.ledger.session_settings import read_attribution
from treering.ledger.views import Views
from treering.memory.document_index import entries
from treering.memory.records import INDEX_NAMES, REMEMBERED_KINDS, TOLD_KINDS
from treering.memory.vectors import unpack
from treering.model.events import Event
from treering.model.kinds import ERASURE_KINDS
from treering.model.receipts import Broken
from treering.rules.terms import term_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.memory.ports import Embedder
    from treering.memory.records import Document, IndexEntry, IndexName, IndexState
    from treering.model.queries import Mark
    from treering.model.scopes import Scope

PAGE: Final = 500
ATTEMPTS_MAX: Final = 5
"""How often a scope is compared again if something is erased meanwhile."""
COSINE_MIN: Final = 0.98
"""Vectors of one text may differ a little: they are rounded, and made together with others."""


class Rules(NamedTuple):
    """The rules that derived tables are made with."""

    search_text: Callable[[Event], SearchText]
    event_texts: Callable[[Event], list[str]]
    embedder: Embedder | None
    fact_embedder: Embedder | None


class Sample(NamedTuple):
    """How much a sample compares."""

    scopes: int
    sessions: int
    documents: int


SAMPLE: Final = Sample(scopes=10, sessions=20, documents=200)


class _Flaw(Exception):
    """A derived table differs from the events."""

    def __init__(self, detail: str, session_id: str = "", seq: int = 0) -> None:
        super().__init__(detail)
        self.session_id = session_id
        self.seq = seq


def compare_derived(
    store: EventStore, scopes: Iterable[Scope], rules: Rules, sample: Sample | None = None
) -> tuple[dict[str, int], Broken | None]:
    """Return how many rows of each table were compared, and the first difference.

    A sample covers the snapshots of some sessions, the memory, and the newest documents.
    """
    counts: Counter[str] = Counter()
    for scope in scopes:
        for _ in range(ATTEMPTS_MAX):
            end, found, flaw = store.reader.end(scope), Counter[str](), None
            try:
                for name, count in _compare(store, scope, rules, sample):
                    found[name] += count
            except _Flaw as differing:
                flaw = differing
            if flaw is None or not _is_explained(store, scope, end):
                break
        counts.update(found)
        if flaw is not None:
            if store.erasure.state() == "pending":
                why = "an erasure is not finished: verify where the ledger may be written"
                flaw = _Flaw(f"{flaw}; {why}", flaw.session_id, flaw.seq)
            return dict(counts), _broken(flaw, scope)
    return dict(counts), None


def _is_explained(store: EventStore, scope: Scope, end: Mark) -> bool:
    """Whether a flaw may come from an erasure: one since ``end``, or one that is finished now.

    What is derived follows after an erasure was committed, and a process may die in between.
    """
    if store.erasure.state() == "done":
        return store.reader.end(scope) != end
    try:
        store.erasure.finish()
    except ReadOnly:
        return False
    return True


def find_stray(store: EventStore) -> Broken | None:
    """Return the fault if a derived row belongs to no scope, so that no comparison reads it."""
    for name, count in (
        ("memory rows", store.memory.stray_rows()),
        ("documents of the search index", store.words.stray_rows()),
    ):
        if count:
            return _broken(_Flaw(f"{count} {name} belong to no scope"))
    return None


def _broken(flaw: _Flaw, scope: str = "") -> Broken:
    return Broken(
        scope=scope,
        session_id=flaw.session_id,
        seq=flaw.seq,
        event_id=None,
        fault="derived",
        detail=str(flaw),
    )


def _compare(
    store: EventStore, scope: Scope, rules: Rules, sample: Sample | None
) -> Iterator[tuple[str, int]]:
    if sample is None:
        yield "tool_calls", _checked(store.tools.compare(scope))
        yield "record_keys", _checked(store.record_keys.compare(scope))
        yield "search", _checked(store.words.compare(scope, rules.search_text))
        yield "cursors", _compare_cursors(store, scope)
    sessions = store.sessions.records(scope)
    for session in sessions if sample is None else islice(sessions, sample.sessions):
        for view in (FOLDED, COUNTS):
            yield "snapshots", _compare_snapshots(store, scope, session.session_id, view)
    yield "memory_rows", _compare_memory(store, scope)
    for index in INDEX_NAMES:
        yield "documents", _compare_documents(store, scope, index, rules, sample)


def _checked(comparison: tuple[int, str | None]) -> int:
    count, flaw = comparison
    if flaw is not None:
        raise _Flaw(flaw)
    return count


def _compare_cursors(store: EventStore, scope: Scope) -> int:
    """Check that no follower is past the last event: it would skip the next ones."""
    count = 0
    for follower, cursor in store.cursors.all(scope).items():
        try:
            mark = mark_of(cursor, scope)
        except InvalidCursor:
            continue  # A follower of something else, such as a log.
        if mark > store.reader.end(scope):
            raise _Flaw(f"the follower {follower} was moved past the last event")
        count += 1
    return count


def _compare_snapshots(store: EventStore, scope: Scope, session_id: str, view: int) -> int:
    snapshots: dict[int, bytes] = {}
    until = NO_END
    while (
        snapshot := store.snapshots.latest(scope, session_id, until_seq=until, view=view)
    ) is not None:
        seq, body = snapshot
        snapshots[seq] = body
        until = seq - 1
    if snapshots:
        wrong = Views(Lineage(store, scope, session_id)).wrong_snapshot(snapshots, view)
        if wrong is not None:
            raise _Flaw("a snapshot of its views differs from its events", session_id, wrong)
    return len(snapshots)


def _compare_memory(store: EventStore, scope: Scope) -> int:
    """Fold the memory again, up to the mark of the stored rows."""
    rows = store.memory.memory_rows(scope)
    if not rows.mark and not rows.tables:
        return 0
    if UNREADABLE in rows.tables:
        raise _Flaw("the memory rows cannot be read")
    if not rows.tables.keys() <= ROW_SORTS:
        if len({sort.partition(".")[0] for sort in rows.tables}) < len(rows.tables):
            raise _Flaw("there are memory rows of two versions at once")
        return 0  # Rows of another version: the next reader discards them.
    state, more = MemoryState(partial(read_attribution, store, scope)), True
    mark: Mark = ()
    while more:
        stretch = store.memory.remembered_after(scope, mark, limit=PAGE)
        for event, at in zip(stretch.items, stretch.marks, strict=True):
            if at <= rows.mark:
                state.follow(event)
            elif event.kind in ERASURE_KINDS:
                return 0  # The next reader discards these rows.
        mark, more = stretch.last, stretch.more
    stored = {(row.sort, row.key): row.body for row in rows.items}
    made = {(sort, key): body for sort, key, body in state.rows(state.all_keys())}
    if stored != made:
        differing = sorted(key for key in {*stored, *made} if stored.get(key) != made.get(key))
        sort, key = differing[0]
        raise _Flaw(f"{len(differing)} memory rows differ from the events: {sort} {key}")
    return len(stored)


def _compare_documents(
    store: EventStore, scope: Scope, index: IndexName, rules: Rules, sample: Sample | None
) -> int:
    """Compare the documents of an index, of memories or of events."""
    of_facts = index == "memories"
    texts = memory_texts if of_facts else rules.event_texts
    embedders = {one.name: one for one in (rules.embedder, rules.fact_embedder) if one is not None}
    held = store.memory.index_state(scope, index)
    after = 0 if sample is None else max(held.newest - sample.documents, 0)
    key = store.memory.term_key(scope)
    count = worded = last = 0
    while page := store.memory.documents(scope, index, after=after, limit=PAGE):
        positions = [document.position for _, document in page]
        events = {
            event.position: event for event in store.memory.events_at_positions(scope, positions)
        }
        sessions = store.memory.sessions_at_positions(scope, positions)
        by_embedder: dict[str, list[Event]] = {}
        for _, document in page:
            if document.position in events:
                by_embedder.setdefault(document.embedder, []).append(events[document.position])
        made = {
            position: entry
            for name, own in by_embedder.items()
            for position, entry in _entries(own, texts, embedders.get(name), key).items()
        }
        for number, document in page:
            embedder = embedders.get(document.embedder)
            event, entry = events.get(document.position), made.get(document.position)
            if event is None or entry is None:
                raise _Flaw(f"a document in the index of {index} has no event")
            if number == last:
                raise _Flaw(f"two documents in the index of {index} have one number")
            last = number
            session = sessions.get(document.position)
            if document.session != session or not _is_of(document, event, entry, embedder):
                raise _Flaw(
                    f"a document in the index of {index} differs from its event",
                    event.session_id,
                    event.seq,
                )
            worded += bool(document.terms)
        count += len(page)
        after = page[-1][0]
    if sample is None:
        _compare_counts(store, scope, index, held, _Counted(count, worded, last), texts)
    return count


class _Counted(NamedTuple):
    documents: int
    worded: int
    last: int


def _compare_counts(
    store: EventStore,
    scope: Scope,
    index: IndexName,
    held: IndexState,
    counted: _Counted,
    texts: Callable[[Event], list[str]],
) -> None:
    """Check that no document is missing, unless somebody has added some meanwhile."""
    if held != store.memory.index_state(scope, index):
        return
    if counted.last > held.newest:
        raise _Flaw(f"a document in the index of {index} is after the last one")
    count, worded = counted.documents, counted.worded
    if count != held.count:
        raise _Flaw(f"the index of {index} has {count} documents instead of {held.count}")
    if count and not store.memory.documents_lag(scope, index):
        expected = _count_worded(store, scope, index, texts)
        if worded != expected:
            raise _Flaw(f"the index of {index} has {worded} documents instead of {expected}")


def _entries(
    events: Sequence[Event],
    texts: Callable[[Event], list[str]],
    embedder: Embedder | None,
    key: bytes,
) -> dict[int, IndexEntry]:
    searchable = [event for event in events if is_searchable(event)]
    numbers = partial(term_ids, key=key)
    try:
        made = entries(searchable, texts, embedder, numbers)
    except Unavailable:
        made = entries(searchable, texts, None, numbers)
    return {entry.position: entry for entry in made}


def _is_of(document: Document, event: Event, entry: IndexEntry, embedder: Embedder | None) -> bool:
    fields = (document.seq, document.ts_ms, document.kind, document.terms)
    if fields != (event.seq, event.ts_ms, event.kind, entry.terms):
        return False
    if bool(document.embedder) != bool(document.vectors):
        return False
    if embedder is None or not entry.vectors:
        return True  # Vectors of an embedder that is not in use cannot be made again.
    if len(document.vectors) != len(entry.vectors):
        return False
    import numpy as np  # noqa: PLC0415  (only for memories)

    with np.errstate(all="ignore"):  # Damaged bytes may not be numbers.
        stored, made = (
            unpack([packed], embedder.dimensions)[0] for packed in (document.vectors, entry.vectors)
        )
        return bool(((stored * made).sum(axis=1) >= COSINE_MIN).all())


def _count_worded(
    store: EventStore, scope: Scope, index: IndexName, texts: Callable[[Event], list[str]]
) -> int:
    """Return how many events of an index have words."""
    folded = {*REMEMBERED_KINDS, *ERASURE_KINDS}
    count = 0
    mark: Mark = ()
    more = True
    while more:
        stretch = store.reader.followed(Event, scope, mark, limit=PAGE)
        own = [
            event
            for event in stretch.items
            if (event.kind in TOLD_KINDS if index == "memories" else event.kind not in folded)
        ]
        count += sum(bool(entry.terms) for entry in _entries(own, texts, None, b"").values())
        mark, more = stretch.last, stretch.more
    return count
