"""The search index of a ledger on a server: it follows the events when somebody searches.

It holds the settled events of a scope up to its row of ``search_marks``: see following.py.

One vector holds the words of an event, another the three-letter grams of its names in code. Entries
other than words of the text begin with a character that no word has: ``_`` a mark, ``/`` a word of
a file, ``#`` the block of the document. A search reads the newest blocks first.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treering.derive.search_texts import SearchText, is_searchable
from treering.model.events import Event, Header
from treering.model.queries import FollowStep, Mark
from treering.model.scopes import Scope
from treering.model.search_words import grams_of
from treering.model.searches import SearchCandidate, SearchCandidates, best_shares
from treering.storage.encoding import EXPIRED, GONE, Row, corrupt_on_error
from treering.storage.postgres import following
from treering.storage.postgres.following import Which, mark_of, next_events, place, unsettled
from treering.storage.postgres.rows import EVENT, HEADER, empty_tables, fetch, note_erased
from treering.storage.postgres.server import Connection, enter_scope
from treering.storage.runs import FAILED_STATES
from treering.storage.search_marks import (
    CANDIDATES_MAX,
    SCANNED_MAX,
    WORD_MATCHES_MAX,
    file_words,
    marks_asked,
    marks_of,
    time_marks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.model.search_queries import Narrowing, SearchQuery, Term
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.reader import Reader

LAYOUT: Final = 4
"""Raised when other words of an event are entered: older entries lack some of them."""
PATIENCE_S: Final = 1.0
"""After this time older documents are not searched: a phrase of common words has to be checked in
every document that has them."""
LOCK_NAME: Final = "\0search"
"""Not a session's name: sessions cannot have it."""
_LAST: Final = 2**62

_LIVE: Final = f"e.flags < {EXPIRED}"
_EVENTS, _HEADERS = Which(_LIVE), Which(_LIVE, columns=HEADER)
"""Of a sealed scope only headers are read."""
_MARK: Final = (
    "SELECT epoch, xid::text::bigint, position, number, layout FROM search_marks WHERE scope = %s"
)
_NOTE: Final = f"""
INSERT INTO search_marks (scope, epoch, xid, position, number, layout)
VALUES (%s, %s::int, %s::text::xid8, %s, %s, {LAYOUT})
ON CONFLICT (scope) DO UPDATE SET (epoch, xid, position, number, layout)
  = (excluded.epoch, excluded.xid, excluded.position, excluded.number, excluded.layout)
"""
_INTO: Final = """
INSERT INTO search_documents (scope, session, seq, number, ts_ms, words, grams)
VALUES (%s, %s, %s, %s, %s, %s::tsvector, %s::tsvector)
"""
_AT_PLACES: Final = f"""
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
  AND e.flags & {GONE} = 0
"""
_FOUND: Final = f"""
SELECT e.session, e.seq, e.ts_ms, e.kind, (
  SELECT r.state FROM runs AS r
  WHERE r.scope = e.scope AND r.session = e.session AND r.run_id = e.run_id
)
{_AT_PLACES}
"""
_SEARCH: Final = """
SELECT h.session, h.seq, h.number, h.rank
FROM unnest((SELECT search_scope(%s, %s::text[], %s::text[], %s, %s, %s, %s))) AS h
"""
_NUMBERS: Final = """
SELECT d.session, d.seq, d.number
FROM search_documents AS d
WHERE d.scope = %s AND (d.session, d.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
"""
_COUNT: Final = "SELECT count(*) FROM search_documents WHERE scope = %s"
_STRAYS: Final = """
SELECT count(*) FROM search_documents WHERE scope NOT IN (SELECT s.scope FROM scopes AS s)
"""
# A search that continues before a number would pass over others that have it.
_COUNT_NUMBERS: Final = "SELECT count(DISTINCT number) FROM search_documents WHERE scope = %s"
_DIFFERING: Final = """
SELECT 1
FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::text[])
  AS derived (session, seq, ts_ms, words, grams)
JOIN search_documents AS d ON d.scope = %b AND d.session = derived.session AND d.seq = derived.seq
WHERE (d.ts_ms, d.words, d.grams)
  IS DISTINCT FROM (derived.ts_ms, derived.words::tsvector, derived.grams::tsvector)
LIMIT 1
"""
_DROP_ALL: Final = """
DELETE FROM search_documents AS d WHERE d.scope = %s RETURNING d.tableoid::regclass::text
"""
_DROP: Final = """
DELETE FROM search_documents AS d
WHERE d.scope = %s AND (d.session, d.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
RETURNING d.tableoid::regclass::text
"""


class SearchIndex:
    """Keeps the index up to date with the events, and searches it."""

    def __init__(self, reader: Reader, is_sealed: Callable[[Scope], bool]) -> None:
        self._reader = reader
        self._server = reader.server
        self._cache = reader.cache
        self._is_sealed = is_sealed

    def follow(self, scope: Scope, read: Callable[[Event], SearchText]) -> FollowStep:
        """Enter the next events of a scope, with the text that ``read`` derives."""
        if self._server.read_only:
            return FollowStep(0, more=False)
        sealed = self._is_sealed(scope)

        def work(connection: Connection) -> FollowStep:
            return self._follow(connection, scope, read, sealed=sealed)

        with corrupt_on_error(self._server.address.shown):
            return self._server.write(work, scope)

    def _follow(
        self,
        connection: Connection,
        scope: Scope,
        read: Callable[[Event], SearchText],
        *,
        sealed: bool,
    ) -> FollowStep:
        if self._cache.scope_key(connection, scope) is None:
            return FollowStep(0, more=False)
        marked, which = _marked(connection, scope), _which(sealed=sealed)
        if not unsettled(
            connection, scope, () if _is_outdated(marked) else marked[:3], which, limit=1
        ):
            return FollowStep(0, more=False)
        with connection.transaction():
            lock(connection, self._cache, scope)
            *mark, number = _renewed(connection, scope)
            new, last, passed, more = next_events(
                connection, scope, tuple(mark), which, "search_documents"
            )
            number = self._enter(connection, scope, new, number, read, sealed=sealed)
            if passed:
                epoch, xid, position = last
                connection.execute(_NOTE, (scope, epoch, str(xid), position, number))
        return FollowStep(passed, more=more)

    def compare(self, scope: Scope, read: Callable[[Event], SearchText]) -> tuple[int, str | None]:
        """Index a scope again, as far as it was followed; return what differs."""
        sealed = self._is_sealed(scope)

        with corrupt_on_error(self._server.address.shown):
            return self._server.read_state(
                lambda c: self._compare(c, scope, read, sealed=sealed), scope
            )

    def _compare(
        self,
        connection: Connection,
        scope: Scope,
        read: Callable[[Event], SearchText],
        *,
        sealed: bool,
    ) -> tuple[int, str | None]:
        marked = _marked(connection, scope)
        if _is_outdated(marked):
            return 0, "the search index is of an earlier version: treering search builds it again"
        until, number = marked[:3], marked[3]
        after: Mark = ()
        count, which = 0, _which(sealed=sealed)
        while rows := unsettled(connection, scope, after, which):
            after = mark_of(rows[-1])
            events = self._events(connection, scope, rows, sealed=sealed)
            stored = fetch(
                connection, _NUMBERS, (scope, [row[1] for row in rows], [row[2] for row in rows])
            )
            numbers = {(session, seq): document for session, seq, document in stored}
            documents = []
            for row, event in zip(rows, events, strict=True):
                document = numbers.pop((row[1], event.seq), None)
                if document is None:
                    # An event that has not settled may not have been entered.
                    if is_searchable(event) and mark_of(row) <= until:
                        return count, "the search index lacks events that it has passed"
                elif not is_searchable(event) or document >= number:
                    return count, "the search index holds what its events do not say"
                else:
                    vector = vectors(event, read(event), document)
                    documents.append((row[1], event.seq, event.ts_ms, *vector))
            if numbers or fetch(connection, _DIFFERING, (*_columns(documents), scope)):
                return count, "the search index does not hold what its events say"
            count += len(documents)
        if count != fetch(connection, _COUNT, (scope,))[0][0]:
            return count, "the search index holds more than the events"
        if count != fetch(connection, _COUNT_NUMBERS, (scope,))[0][0]:
            return count, "the search index has documents with the same number"
        return count, None

    def _enter(
        self,
        connection: Connection,
        scope: Scope,
        rows: list[Row],
        number: int,
        read: Callable[[Event], SearchText],
        *,
        sealed: bool,
    ) -> int:
        """Enter events; return the new number of documents."""
        events = self._events(connection, scope, rows, sealed=sealed)
        documents = []
        for row, event in zip(rows, events, strict=True):
            if is_searchable(event):
                vector = vectors(event, read(event), number)
                documents.append((scope, row[1], event.seq, number, event.ts_ms, *vector))
                number += 1
        if documents:
            with connection.cursor() as cursor:
                cursor.executemany(_INTO, documents)
        return number

    def _events(
        self, connection: Connection, scope: Scope, rows: list[Row], *, sealed: bool
    ) -> list[Event]:
        if not sealed:
            return self._reader.to_events(connection, scope, rows)
        headers = self._reader.to_headers(connection, scope, rows)
        return [Event(*msgspec.structs.astuple(header)) for header in headers]

    def search(self, query: SearchQuery, *, inside: bool, include_failed: bool) -> SearchCandidates:
        """Return the newest matches."""

        def look(connection: Connection) -> SearchCandidates:
            enter_scope(connection, query.scope)
            candidates: list[SearchCandidate] = []
            scanned = 0
            started = time.monotonic()
            for within in windows(query.scope, _marked(connection, query.scope)[3]):
                asked = _asked(query, within, inside=inside)
                if asked is None:
                    break
                if time.monotonic() - started > PATIENCE_S:
                    return SearchCandidates(candidates, more=True)
                behind = _LAST
                while True:
                    limit = CANDIDATES_MAX + 1 - len(candidates)
                    since, until = query.since_ms or 0, query.before_ms or _LAST
                    values = (query.scope, *asked, behind, since, until, limit)
                    rows = fetch(connection, _SEARCH, values)
                    scanned += len(rows)
                    candidates += self._candidates(
                        connection,
                        query.scope,
                        {(row[0], row[1]): _graded(row[3]) for row in rows},
                        include_failed=include_failed,
                        is_inside=inside,
                    )
                    if len(candidates) > CANDIDATES_MAX or scanned >= SCANNED_MAX:
                        return SearchCandidates(candidates[:CANDIDATES_MAX], more=True)
                    if len(rows) < limit:
                        break
                    behind = rows[-1][2]
            return SearchCandidates(candidates, more=False)

        return self._server.read(look, query.scope)

    def search_any(
        self, query: SearchQuery, terms: Sequence[Term], *, least: int, include_failed: bool
    ) -> SearchCandidates:
        """Return the matches with at least ``least`` of ``terms``."""

        def look(connection: Connection) -> SearchCandidates:
            enter_scope(connection, query.scope)
            documents = _marked(connection, query.scope)[3]
            matches = [_matches(connection, query, term, documents) for term in terms]
            shares, more = best_shares(matches, documents, least=least, limit=CANDIDATES_MAX)
            candidates = self._candidates(
                connection, query.scope, shares, include_failed=include_failed, is_inside=False
            )
            return SearchCandidates(candidates, more=more)

        return self._server.read(look, query.scope)

    def _candidates(
        self,
        connection: Connection,
        scope: Scope,
        ranks: dict[tuple[int, int], float],
        *,
        include_failed: bool,
        is_inside: bool,
    ) -> list[SearchCandidate]:
        if not ranks:
            return []
        sessions, seqs = [pair[0] for pair in ranks], [pair[1] for pair in ranks]
        candidates = fetch(connection, _FOUND, (scope, sessions, seqs))
        names = self._cache.session_names(connection, scope, sessions)
        return [
            SearchCandidate(names[session], seq, ts_ms, kind, ranks[session, seq], is_inside)
            for session, seq, ts_ms, kind, state in candidates
            if include_failed or state not in FAILED_STATES
        ]

    def found_events(self, scope: Scope, found: Sequence[SearchCandidate]) -> list[Event]:
        """Return the events of candidates that still exist."""
        sealed = self._is_sealed(scope)

        def look(connection: Connection) -> list[Event]:
            places = [
                (self._cache.session(connection, scope, candidate.session_id), candidate.seq)
                for candidate in found
            ]
            sessions, seqs = [pair[0] for pair in places], [pair[1] for pair in places]
            statement = f"SELECT {HEADER if sealed else EVENT} {_AT_PLACES}"
            rows = fetch(connection, statement, (scope, sessions, seqs))
            return self._events(connection, scope, rows, sealed=sealed)

        with corrupt_on_error(self._server.address.shown):
            return self._server.read(look, scope)

    def lag(self, scope: Scope) -> int:
        """Return how many settled events of a scope are not in the index.

        Events that were entered before they settled do not count.
        """

        def look(connection: Connection) -> int:
            values = place(scope, _marked(connection, scope)[:3])
            missing = (
                "AND NOT EXISTS (SELECT 1 FROM search_documents AS d WHERE d.scope = e.scope"
                " AND d.session = e.session AND d.seq = e.seq)"
            )
            return int(
                fetch(connection, f"SELECT count(*) {_EVENTS.behind()} {missing}", values)[0][0]
            )

        return self._server.read(look, scope)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return each scope with the number of its events in the index."""
        return sorted((scope, self.count(scope)) for scope in self.scopes())

    def count(self, scope: Scope) -> int:
        """Return how many events of a scope are in the index."""
        return int(self._server.fetch(_COUNT, (scope,), scope)[0][0])

    def stray_rows(self) -> int:
        """Return how many documents belong to no scope."""
        return int(self._server.fetch(_STRAYS, ())[0][0])

    def scopes(self) -> list[Scope]:
        """Return the scopes with entries; none if this role does not see all scopes."""
        if self._server.walled:
            return []
        rows = self._server.fetch("SELECT scope FROM search_marks ORDER BY scope", ())
        return [Scope(row[0]) for row in rows]


def _matches(
    connection: Connection, query: SearchQuery, term: Term, documents: int
) -> list[tuple[int, int]]:
    """Return the newest places with a term that match a query."""
    asked_for = query if term in query.terms else replace(query, terms=(*query.terms, term))
    since, until = query.since_ms or 0, query.before_ms or _LAST
    places: list[tuple[int, int]] = []
    for within in windows(query.scope, documents):
        limit = WORD_MATCHES_MAX - len(places)
        asked = _asked(asked_for, within, inside=False)
        if asked is None or limit <= 0:
            break
        rows = fetch(connection, _SEARCH, (query.scope, *asked, _LAST, since, until, limit))
        places += [(row[0], row[1]) for row in rows]
    return places


def lock(connection: Connection, cache: IdCache, scope: Scope) -> None:
    """Lock the scope's documents until the end of the transaction."""
    following.lock(connection, cache, scope, LOCK_NAME)


def drop(
    connection: Connection, cache: IdCache, scope: Scope, sessions: list[int], seqs: list[int]
) -> list[Row]:
    """Delete documents of events that are being erased; return the tables that held them."""
    lock(connection, cache, scope)
    return fetch(connection, _DROP, (scope, sessions, seqs))


def empty(connection: Connection) -> None:
    """Delete all of it, of every scope."""
    empty_tables(connection, "search_documents", "search_marks")


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 5


def _asked(
    query: SearchQuery, within: str, *, inside: bool
) -> tuple[list[str], list[str | None]] | None:
    return inside_queries(query, within) if inside else ([whole_query(query, within)], [None])


def _marked(connection: Connection, scope: Scope) -> tuple[int, int, int, int, int]:
    """Return the mark of a scope, its number of documents, and the layout."""
    rows = fetch(connection, _MARK, (scope,))
    return tuple(rows[0]) if rows else (0, 0, 0, 0, LAYOUT)


def _is_outdated(marked: tuple[int, int, int, int, int]) -> bool:
    return marked[4] < LAYOUT


def _renewed(connection: Connection, scope: Scope) -> tuple[int, int, int, int]:
    """Return the same, from the beginning if the entries are of an earlier layout."""
    marked = _marked(connection, scope)
    if not _is_outdated(marked):
        return marked[:4]
    # Until its tables are rewritten they hold the bytes, and an erasure would not know it.
    note_erased(connection, [row[0] for row in fetch(connection, _DROP_ALL, (scope,))])
    return 0, 0, 0, 0


def _which(*, sealed: bool) -> Which:
    return _HEADERS if sealed else _EVENTS


def _graded(rank: float) -> float:
    return rank / (rank + 0.1) if rank > 0 else 0.0


BLOCK_DOCUMENTS: Final = 4_096
GRAMS_MAX: Final = 8_000
SPAN_BLOCKS: Final = 16
"""Blocks that are read as one, where there are many."""
_FIRST_BLOCKS: Final = 4
_GROWTH: Final = 4
_PLACE_MAX: Final = 16_000
"""A vector does not distinguish places after this one."""
_VECTOR_BYTES_MAX: Final = 900_000
"""A vector holds up to a mebibyte. Of a text with more words the last new ones are left out."""
_PLACES_MAX: Final = 255
"""The most places that PostgreSQL keeps of a word."""
_GAP: Final = 2
"""Places left out, so that no phrase continues into the next file."""


def vectors(event: Header, text: SearchText, number: int) -> tuple[str, str]:
    """Return a document as PostgreSQL reads it: its words, and its grams."""
    places = _places(text.words.split())
    at = text.words.count(" ") + 1
    for file in text.files.split(" _ ") if text.files else ():
        at += _GAP
        for word in file.split():
            at += 1
            position = str(min(at, _PLACE_MAX))
            places.setdefault(word, []).append(position)
            places.setdefault(f"/{word}", []).append(position)
    for word in text.pieces.split():
        places.setdefault(word, [])
    for mark in marks_of(event, text).split():
        places[mark] = []
    number //= BLOCK_DOCUMENTS
    blocks = [_block(event.scope, number), _span(event.scope, number // SPAN_BLOCKS)]
    places.update({block: [] for block in blocks})
    words = " ".join(
        f"{_quoted(word)}:{','.join(at)}" if at else _quoted(word) for word, at in places.items()
    )
    grams = _grams(text.names)
    return words, " ".join(map(_quoted, (*grams, *blocks))) if grams else ""


def _grams(names: str) -> list[str]:
    grams = set().union(*map(grams_of, names.split()))
    return sorted(grams)[:GRAMS_MAX]


def _places(words: list[str]) -> dict[str, list[str]]:
    """Return the places of each word, as far as a vector has room for them."""
    places: dict[str, list[str]] = {}
    room = _VECTOR_BYTES_MAX
    for at, word in enumerate(words, 1):
        positions = places.get(word)
        if positions is None:
            room -= len(word.encode()) + 8
            if room < 0:
                break
            positions = places[word] = []
        if at <= _PLACE_MAX and len(positions) < _PLACES_MAX:
            positions.append(str(at))
            room -= 2
    return places


def whole_query(query: SearchQuery, within: str) -> str:
    """Return the text search query for words in some blocks."""
    return " & ".join((*map(_term, query.terms), *_rest(query), within))


def inside_queries(query: SearchQuery, within: str) -> tuple[list[str], list[str | None]] | None:
    """Return, for each term, its queries as words and inside names; None if it cannot match.

    The first query also holds the filters.
    """
    if all(term.inside is None for term in query.terms):
        return None
    words, grams = [" & ".join((*_rest(query), within))], list[str | None]([None])
    for term in query.terms:
        words.append(f"{_term(term)} & {within}")
        inside = [] if term.inside is None else [*map(_quoted, grams_of(term.inside)), within]
        grams.append(" & ".join(inside) or None)
    return words, grams


def windows(scope: str, count: int) -> Iterator[str]:
    """Return ranges of ``count`` documents, the newest first, each longer than the one before."""
    last = count // BLOCK_DOCUMENTS
    span = last // SPAN_BLOCKS
    first = max(last - _FIRST_BLOCKS + 1, span * SPAN_BLOCKS)
    yield _any([_block(scope, block) for block in range(first, last + 1)])
    if first > span * SPAN_BLOCKS:
        yield _any([_block(scope, block) for block in range(span * SPAN_BLOCKS, first)])
    length = 1
    while span > 0:
        yield _any([_span(scope, number) for number in range(max(span - length, 0), span)])
        span, length = span - length, length * _GROWTH


def _rest(query: SearchQuery) -> list[str]:
    wanted = []
    for narrowing in query.narrowings:
        text = _narrowed(narrowing)
        wanted.append(f"!{text}" if narrowing.is_negative else text)
    wanted += [f"!{_term(term)}" for term in query.without]
    times = time_marks(query.since_ms, query.before_ms)
    return [*wanted, _any(times)] if times else wanted


def _term(term: Term) -> str:
    star = ":*" if term.is_prefix else ""
    return "(" + " <-> ".join(map(_quoted, term.words)) + f"{star})"


def _narrowed(narrowing: Narrowing) -> str:
    if narrowing.operator != "file":
        return _any(marks_asked(narrowing))
    paths = [
        " <-> ".join(_quoted(f"/{word}") for word in file_words(path)) or _quoted("/")
        for path in narrowing.values
    ]
    return "(" + " | ".join(f"({path}:*)" for path in paths) + ")"


def _any(marks: Iterable[str]) -> str:
    return "(" + " | ".join(map(_quoted, marks)) + ")"


def _block(scope: str, block: int) -> str:
    return f"#{blake2b(scope.encode(), digest_size=6).hexdigest()}.{block}"


def _span(scope: str, span: int) -> str:
    return f"#{_block(scope, span)}"


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
