"""The search index of a ledger in a file: it follows the events when somebody searches.

It is in shards: full-text tables without texts, each of some documents of one scope. A search reads
the newest first and stops when it has enough. An erasure rewrites one shard without the document,
and fills the pages of the old one with zeros.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from treering.derive.search_texts import SearchText, is_searchable
from treering.errors import StorageError
from treering.model.codec import encode
from treering.model.events import Event, Header
from treering.model.queries import FollowStep
from treering.model.scopes import Scope
from treering.model.search_words import grams_of
from treering.model.searches import SearchCandidate, SearchCandidates, best_shares
from treering.storage.encoding import EXPIRED, GONE
from treering.storage.runs import FAILED_STATES
from treering.storage.search_marks import (
    ANY,
    CANDIDATES_MAX,
    SCANNED_MAX,
    WORD_MATCHES_MAX,
    file_words,
    marks_asked,
    marks_of,
    time_marks,
)
from treering.storage.sqlite.companion_file import CompanionFile, unseen_erasures
from treering.storage.sqlite.rows import Row, fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.model.receipts import Physical
    from treering.model.search_queries import Narrowing, SearchQuery, Term
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.reader import Reader

PAGE_EVENTS: Final = 1_000
"""Events read at once. One transaction enters a page, or many if the index lags far behind."""
SHARD_DOCUMENTS_MAX: Final = 16_384
"""Documents rewritten when one of them is erased: a fraction of a second."""
STEP_EVENTS: Final = SHARD_DOCUMENTS_MAX // 2
"""Events after which a transaction ends, so that an erasure need not wait long for its turn."""
STEP_CHARACTERS: Final = 16_000_000
"""Characters after which a transaction ends earlier, if texts are long."""
FOLD_PATIENCE_MS: Final = 2_000
_LAST: Final = 2**62

_FOUND: Final = f"""
SELECT e.position, e.session, e.seq, e.ts_ms, e.kind, r.state
FROM json_each(CAST(:positions AS TEXT)) AS one
CROSS JOIN events AS e ON e.position = one.value
LEFT JOIN runs AS r ON r.session = e.session AND r.run = e.run
WHERE e.scope = :scope AND e.flags & {GONE} = 0
  AND e.ts_ms >= :since AND e.ts_ms < :before
"""
_UNINDEXED: Final = f"""
SELECT count(*)
FROM events
WHERE position > ? AND scope = ? AND flags < {EXPIRED}
"""
_STRAYS: Final = """
SELECT coalesce(sum(documents), 0) FROM shards
WHERE scope NOT IN (SELECT value FROM json_each(CAST(? AS TEXT)))
"""


class SearchIndex:
    """Keeps the index up to date with the events, and searches it."""

    def __init__(self, reader: Reader, is_sealed: Callable[[Scope], bool]) -> None:
        self._database = reader.database
        self._reader = reader
        self._names = reader.names
        self._sessions = reader.sessions
        self._is_sealed = is_sealed
        self._file = SearchFile(reader.database)
        reader.database.companions.append(self._file)

    def follow(self, scope: Scope, read: Callable[[Event], SearchText]) -> FollowStep:
        """Enter the next events of a scope, with the text that ``read`` derives."""
        if self._file.is_frozen:
            return FollowStep(0, more=False)
        # In a transaction of its own: connections opened later read the file as it is written now.
        self._file.write(self._apply_erasures)
        sealed = self._is_sealed(scope)
        return self._file.write(lambda index: self._follow(index, scope, read, sealed=sealed))

    def _follow(
        self,
        index: apsw.Connection,
        scope: Scope,
        read: Callable[[Event], SearchText],
        *,
        sealed: bool,
    ) -> FollowStep:
        number = self._reader.scope_number(scope)
        if not number:
            return FollowStep(0, more=False)
        after = last = self._followed(index, number)
        room = self._room(index, number, after)
        documents: list[Document] = []
        events, characters, more = 0, 0, True
        while more and events < room and characters < STEP_CHARACTERS:
            limit = min(room - events, PAGE_EVENTS)
            page, last, more = self._page(scope, last, limit=limit, sealed=sealed)
            entered = _documents(page, read)
            documents += entered
            events += len(page)
            characters += sum(len(words) for _, words, *_ in entered)
        # At once: another statement in between would have the words written that are in memory.
        if enter(index, number, documents):
            self._file.reopen_later()
        if last > after:
            index.execute(
                "INSERT OR REPLACE INTO followed (scope, position, link) VALUES (?, ?, ?)",
                (number, last, self._file.link_at(last)),
            )
        return FollowStep(events, more=more)

    def _room(self, index: apsw.Connection, scope: int, after: int) -> int:
        """Return how many events one transaction enters: a page, or what half fills a shard."""
        room = min(room_left(index, scope), STEP_EVENTS)
        if self._file.is_in_memory:
            return PAGE_EVENTS
        lag = self._reader.last_position() - after
        return max(room, PAGE_EVENTS) if lag >= room else PAGE_EVENTS

    def _page(
        self, scope: Scope, after: int, *, limit: int = PAGE_EVENTS, sealed: bool
    ) -> tuple[list[Event], int, bool]:
        """Return the next events of a scope, the last position, and whether there are more."""
        if sealed:
            stretch = self._reader.followed(Header, scope, (after,), limit=limit)
            events = [Event(*msgspec.structs.astuple(header)) for header in stretch.items]
            return events, stretch.last[0], stretch.more
        followed = self._reader.followed(Event, scope, (after,), limit=limit)
        return followed.items, followed.last[0], followed.more

    def compare(self, scope: Scope, read: Callable[[Event], SearchText]) -> tuple[int, str | None]:
        """Index a scope again, as far as it was followed; return what differs."""
        number, sealed = self._reader.scope_number(scope), self._is_sealed(scope)
        result = self._file.read_existing(
            lambda index: self._compare(
                index, number, self._documents_again(scope, read, sealed=sealed)
            )
        )
        return result or (0, None)

    def _documents_again(
        self, scope: Scope, read: Callable[[Event], SearchText], *, sealed: bool
    ) -> Iterator[Document]:
        after, more = 0, True
        while more:
            events, after, more = self._page(scope, after, sealed=sealed)
            yield from _documents(events, read)

    def _compare(
        self, index: apsw.Connection, scope: int, documents: Iterator[Document]
    ) -> tuple[int, str | None]:
        until, count = self._followed(index, scope), 0
        following = next(documents, None)
        for shard, first, last, recorded in oldest_first(index, scope):
            part: list[Document] = []
            while following is not None and following[0] <= min(last, until):
                part.append(following)
                if len(part) > SHARD_DOCUMENTS_MAX:
                    break
                following = next(documents, None)
            # An erasure passes over a shard that begins later.
            begins = not part or first <= part[0][0]
            if not begins or len(part) != recorded or not holds(index, shard, part):
                return count, "the search index does not hold what its events say"
            count += len(part)
        if following is not None and following[0] <= until:
            return count, "the search index lacks events that it has passed"
        return count, None

    def _followed(self, index: apsw.Connection, scope: int) -> int:
        statement = "SELECT position, link FROM followed WHERE scope = ?"
        return self._file.followed(fetch_one(index, statement, (scope,)))

    def search(
        self, query: SearchQuery, *, inside: bool, include_failed: bool
    ) -> SearchCandidates | None:
        """Return the newest matches; None if the index must be brought up to date first."""
        if not self._file.exists and not self._database.read_only:
            return SearchCandidates([], more=False)
        return self._file.read(
            lambda index: self._search(index, query, inside=inside, include_failed=include_failed)
        )

    def _search(
        self, index: apsw.Connection, query: SearchQuery, *, inside: bool, include_failed: bool
    ) -> SearchCandidates:
        insides = by_insides(query) if inside else None
        if inside and insides is None:
            return SearchCandidates([], more=False)
        words = by_words(query)
        scope = self._reader.scope_number(query.scope)
        candidates: list[SearchCandidate] = []
        scanned = 0
        for shard in newest_first(index, scope):
            statement = words_statement(shard)
            inner = [] if insides is None else _inner_matches(index, shard, insides)
            before = _LAST
            while True:
                limit = CANDIDATES_MAX + 1 - len(candidates)
                if insides is None:
                    rows = fetch_all(index, statement, (words, before, limit))
                else:
                    rows, inner = [(place, 0.0) for place in inner[:limit]], inner[limit:]
                scanned += len(rows)
                candidates += self._candidates(
                    query,
                    scope,
                    {position: _graded(score) for position, score in rows},
                    include_failed=include_failed,
                    is_inside=inside,
                )
                if len(candidates) > CANDIDATES_MAX or scanned >= SCANNED_MAX:
                    return SearchCandidates(candidates[:CANDIDATES_MAX], more=True)
                if len(rows) < limit:
                    break
                before = rows[-1][0]
        return SearchCandidates(candidates, more=False)

    def search_any(
        self, query: SearchQuery, terms: Sequence[Term], *, least: int, include_failed: bool
    ) -> SearchCandidates | None:
        """Return the matches with at least ``least`` of ``terms``; None as in ``search``."""
        if not self._file.exists and not self._database.read_only:
            return SearchCandidates([], more=False)

        def look(index: apsw.Connection) -> SearchCandidates:
            scope = self._reader.scope_number(query.scope)
            shards = newest_first(index, scope)
            matches = [_matches(index, shards, query, term) for term in terms]
            documents = count(index, scope)
            shares, more = best_shares(matches, documents, least=least, limit=CANDIDATES_MAX)
            candidates = self._candidates(
                query, scope, shares, include_failed=include_failed, is_inside=False
            )
            return SearchCandidates(candidates, more=more)

        return self._file.read(look)

    def _candidates(
        self,
        query: SearchQuery,
        scope: int,
        scores: dict[int, float],
        *,
        include_failed: bool,
        is_inside: bool,
    ) -> list[SearchCandidate]:
        if not scores:
            return []
        asked = {
            "positions": encode(list(scores)),
            "scope": scope,
            "since": 0 if query.since_ms is None else query.since_ms,
            "before": _LAST if query.before_ms is None else query.before_ms,
        }
        with self._database.reading() as ledger:
            rows = fetch_all(ledger, _FOUND, asked)
        sessions, names = self._sessions, self._names
        return [
            SearchCandidate(
                sessions[session][1], seq, ts_ms, names[kind], scores[position], is_inside
            )
            for position, session, seq, ts_ms, kind, state in rows
            if include_failed or state not in FAILED_STATES
        ]

    def found_events(self, scope: Scope, found: Sequence[SearchCandidate]) -> list[Event]:
        """Return the events of candidates that still exist."""
        by_session: dict[str, list[int]] = {}
        for candidate in found:
            by_session.setdefault(candidate.session_id, []).append(candidate.seq)
        if not self._is_sealed(scope):
            return [
                event
                for session_id, seqs in by_session.items()
                for event in self._reader.events_at(scope, session_id, seqs)
            ]
        return [
            Event(*msgspec.structs.astuple(header))
            for session_id, seqs in by_session.items()
            for seq in seqs
            for header in self._reader.by_seq(Header, scope, session_id, after_seq=seq - 1, limit=1)
        ]

    def lag(self, scope: Scope) -> int:
        """Return how many events of a scope are not in the index yet."""
        number = self._reader.scope_number(scope)
        after = self._file.read_existing(lambda index: _position(index, number)) or 0
        with self._database.reading() as ledger:
            count = fetch_value(ledger, _UNINDEXED, (after, number))
        return int(count)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return each scope with the number of its events in the index."""
        return sorted((scope, self.count(scope)) for scope in self.scopes())

    def count(self, scope: Scope) -> int:
        """Return how many events of a scope are in the index."""
        number = self._reader.scope_number(scope)
        return self._file.read_existing(lambda index: count(index, number)) or 0

    def stray_rows(self) -> int:
        """Return how many documents belong to no scope."""
        with self._database.reading() as ledger:
            scopes = encode([row[0] for row in fetch_all(ledger, "SELECT id FROM scopes")])
        strays = self._file.read_existing(lambda i: int(fetch_value(i, _STRAYS, (scopes,))))
        return strays or 0

    def scopes(self) -> list[Scope]:
        """Return the scopes with entries."""
        rows = self._file.read_existing(lambda i: fetch_all(i, "SELECT scope FROM followed"))
        with self._database.reading() as ledger:
            return [
                Scope(fetch_value(ledger, "SELECT name FROM scopes WHERE id = ?", row))
                for row in rows or []
            ]

    def remove(self) -> None:
        """Delete the index."""
        if self._file.exists:
            self._file.remove()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # Erasing.

    def finish(self) -> tuple[Physical, int | None]:
        """Erase from the index; return whether that is done, and up to which position.

        The position is None without an index.
        """
        if not self._file.exists:
            return "done", None
        try:
            through = self._file.write(self._apply_erasures, patience_s=FOLD_PATIENCE_MS / 1_000)
            folded = self._file.fold(FOLD_PATIENCE_MS)
        except (StorageError, apsw.Error):
            # The ledger has erased it; the index follows at the next opportunity.
            return "pending", None
        return ("done" if folded else "pending"), through

    def _apply_erasures(self, index: apsw.Connection) -> int:
        """Remove the documents that events since the last time say were erased, in every scope."""
        newest, gone = unseen_erasures(index, self._database)
        erased = [
            erase(index, scope, events, in_memory=self._database.in_memory)
            for scope, events in gone.items()
        ]
        if any(erased):
            self._file.reopen_later()
        return newest


def _inner_matches(
    index: apsw.Connection, shard: int, queries: Sequence[tuple[str, str | None]]
) -> list[int]:
    """Return the places that match every one of ``queries`` by words or inside names."""
    places: set[int] = set()
    for at, (words, grams) in enumerate(queries):
        rows = fetch_all(index, all_statement(shard), (words,))
        if grams is not None:
            rows += fetch_all(index, names_statement(shard), (grams,))
        found = {row[0] for row in rows}
        places = places & found if at else found
        if not places:
            break
    return sorted(places, reverse=True)


def _matches(
    index: apsw.Connection, shards: Sequence[int], query: SearchQuery, term: Term
) -> list[int]:
    """Return the newest places with a term that match a query."""
    asked = by_words(query if term in query.terms else replace(query, terms=(*query.terms, term)))
    places: list[int] = []
    for shard in shards:
        limit = WORD_MATCHES_MAX - len(places)
        if limit <= 0:
            break
        rows = fetch_all(index, any_statement(shard), (asked, limit))
        places += [row[0] for row in rows]
    return places


def _documents(events: Iterable[Event], read: Callable[[Event], SearchText]) -> list[Document]:
    documents = []
    for event in events:
        if is_searchable(event):
            text = read(event)
            marks = marks_of(event, text)
            documents.append(
                (event.position, text.words, text.pieces, text.files, marks, text.names)
            )
    return documents


def _position(index: apsw.Connection, scope: int) -> int:
    return fetch_value(index, "SELECT position FROM followed WHERE scope = ?", (scope,)) or 0


def _graded(score: float) -> float:
    return score / (score + 3.0) if score > 0 else 0.0


_TEXT: Final = "{words pieces files}"
_WEIGHTS: Final = "1.0, 0.6, 1.2, 0.0"
"""Of words, pieces, files and marks."""


def by_words(query: SearchQuery) -> str:
    """Return the full-text query for words."""
    return _whole([_term(term) for term in query.terms], query)


def words_statement(shard: int) -> str:
    """Return the SQL that finds the newest matches of a shard, with their scores."""
    return (
        f"SELECT rowid, -bm25(w_{shard}, {_WEIGHTS}) FROM w_{shard}"
        f" WHERE w_{shard} MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
    )


def any_statement(shard: int) -> str:
    """Return the SQL that finds the newest matches of a shard, without scores."""
    return f"SELECT rowid FROM w_{shard} WHERE w_{shard} MATCH ? ORDER BY rowid DESC LIMIT ?"


def by_insides(query: SearchQuery) -> list[tuple[str, str | None]] | None:
    """Return, for each term, its queries as words and inside names; None if it cannot match.

    The longest term, likely the rarest, comes first. The last query holds the filters, if any.
    """
    if all(term.inside is None for term in query.terms):
        return None
    terms = sorted(query.terms, key=lambda term: -sum(map(len, term.words)))
    queries = [
        (_term(term), None if term.inside is None else _all(grams_of(term.inside)))
        for term in terms
    ]
    filters = _whole([], query)
    return queries if filters == _EVERY else [*queries, (filters, None)]


def names_statement(shard: int) -> str:
    """Return the SQL that finds the matches of a shard inside names."""
    return f"SELECT rowid FROM g_{shard} WHERE g_{shard} MATCH ?"


def all_statement(shard: int) -> str:
    """Return the SQL that finds all matches of a shard."""
    return f"SELECT rowid FROM w_{shard} WHERE w_{shard} MATCH ?"


def _whole(terms: list[str], query: SearchQuery) -> str:
    wanted, unwanted = list(terms), [_term(term) for term in query.without]
    for narrowing in query.narrowings:
        (unwanted if narrowing.is_negative else wanted).append(_narrowed(narrowing))
    times = time_marks(query.since_ms, query.before_ms)
    if times:
        wanted.append(_marked(times))
    text = " AND ".join(wanted or [_marked([ANY])])
    return f"({text})" + "".join(f" NOT {clause}" for clause in unwanted)


def _term(term: Term) -> str:
    star = " *" if term.is_prefix else ""
    return f"({_TEXT} : {_quoted(' '.join(term.words))}{star})"


def _narrowed(narrowing: Narrowing) -> str:
    if narrowing.operator != "file":
        return _marked(marks_asked(narrowing))
    paths = [" ".join(file_words(path)) for path in narrowing.values]
    return "(files : (" + " OR ".join(f"{_quoted(path or '_')} *" for path in paths) + "))"


def _marked(marks: Iterable[str]) -> str:
    return "(marks : (" + " OR ".join(map(_quoted, marks)) + "))"


def _all(grams: list[str]) -> str:
    return " AND ".join(map(_quoted, grams))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


_EVERY: Final = f"({_marked([ANY])})"
"""The filters of a query that has none."""

SUFFIX: Final = ".search"
LAYOUT: Final = 4
"""Raised also when other words of an event are entered: an older file lacks some of them."""
_TABLES: Final = """
-- How far each scope has been entered, and the link of the ledger's event there: a ledger restored
-- from a copy has another.
CREATE TABLE followed (
  scope INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  link BLOB
) STRICT;
-- Each holds some documents of one scope, from one position to another.
CREATE TABLE shards (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  documents INTEGER NOT NULL
) STRICT;
CREATE INDEX shards_by_scope ON shards (scope, last);
"""

HASH_BYTES: Final = 32 * 2**20
"""Words that a table holds in memory before it writes them: a transaction's, unless texts are long.
"""

Document = tuple[int, str, str, str, str, str]
"""position, words, pieces, files, marks, names"""

_KEPT: Final = "content='', contentless_delete=1"
_WORDS: Final = f"fts5(words, pieces, files, marks, {_KEPT}, tokenize=\"ascii tokenchars '_'\")"
_GRAMS: Final = f"fts5(names, {_KEPT}, tokenize=trigram, detail=none)"
_LAYOUTS: Final = {"w": _WORDS, "g": _GRAMS}
_SHADOWS: Final = ("data", "idx", "docsize", "config")


def enter(connection: apsw.Connection, scope: int, documents: list[Document]) -> bool:
    """Enter documents of a scope, in the order of their positions; return whether a shard is full.

    Open the connection again then. A table holds on to the hash table in which it has gathered its
    words, and searches for a prefix walk through all of it, though it is empty.
    """
    at, filled = 0, False
    while at < len(documents):
        shard, room = _newest(connection, scope)
        part = documents[at : at + room]
        connection.executemany(
            f"INSERT INTO w_{shard} (rowid, words, pieces, files, marks) VALUES (?, ?, ?, ?, ?)",
            [document[:5] for document in part],
        )
        connection.executemany(
            f"INSERT INTO g_{shard} (rowid, names) VALUES (?, ?)",
            [(document[0], document[5]) for document in part if document[5]],
        )
        connection.execute(
            "UPDATE shards SET first = min(first, ?), last = max(last, ?),"
            " documents = documents + ? WHERE id = ?",
            (part[0][0], part[-1][0], len(part), shard),
        )
        at += len(part)
        if len(part) == room:
            # It is full and will not change much: one segment is read faster than several.
            _optimize(connection, shard)
            filled = True
    return filled


def room_left(connection: apsw.Connection, scope: int) -> int:
    """Return how many documents of a scope the shard takes that is filled next."""
    row = _last(connection, scope)
    return SHARD_DOCUMENTS_MAX - (row[1] % SHARD_DOCUMENTS_MAX if row else 0)


def count(connection: apsw.Connection, scope: int) -> int:
    """Return how many documents of a scope there are."""
    statement = "SELECT coalesce(sum(documents), 0) FROM shards WHERE scope = ?"
    return int(fetch_value(connection, statement, (scope,)))


def newest_first(connection: apsw.Connection, scope: int) -> list[int]:
    """Return the shards of a scope."""
    rows = fetch_all(
        connection, "SELECT id FROM shards WHERE scope = ? ORDER BY last DESC, id DESC", (scope,)
    )
    return [row[0] for row in rows]


def oldest_first(connection: apsw.Connection, scope: int) -> list[Row]:
    """Return the shards of a scope, with first and last positions and numbers of documents."""
    return fetch_all(
        connection,
        "SELECT id, first, last, documents FROM shards WHERE scope = ? ORDER BY last, id",
        (scope,),
    )


def holds(connection: apsw.Connection, shard: int, documents: list[Document]) -> bool:
    """Whether a shard holds exactly ``documents``: indexed again, they give the same words."""
    fresh = apsw.Connection("")
    try:
        fresh.execute("CREATE TABLE shards (id INTEGER PRIMARY KEY, scope, first, last, documents)")
        enter(fresh, 0, documents)
        made = newest_first(fresh, 0)
        return all(
            stored == other
            for letter in _LAYOUTS
            for stored, other in zip_longest(
                _words(connection, f"{letter}_{shard}"),
                _words(fresh, f"{letter}_{made[0]}") if made else (),
            )
        )
    finally:
        fresh.close()


def _words(connection: apsw.Connection, table: str) -> Iterator[Row]:
    """Return the places of all words, and the sizes of the documents."""
    connection.execute(
        f"CREATE VIRTUAL TABLE temp.words_of_{table} USING fts5vocab(main, {table}, instance)"
    )
    try:
        yield from connection.execute(f'SELECT term, doc, col, "offset" FROM temp.words_of_{table}')
        yield from connection.execute(f"SELECT id, sz FROM {table}_docsize ORDER BY id")
    finally:
        connection.execute(f"DROP TABLE temp.words_of_{table}")


def erase(
    connection: apsw.Connection, scope: int, positions: Iterable[int], *, in_memory: bool
) -> int:
    """Erase documents of a scope from its shards, bytes included; return how many there were.

    Open the connection again afterwards: it may have cached the old tables.
    """
    count = 0
    for position_list in _chunks(sorted(positions), 2_000):
        touched = fetch_all(
            connection,
            "SELECT id FROM shards WHERE scope = ? AND last >= ? AND first <= ?",
            (scope, position_list[0], position_list[-1]),
        )
        for (shard,) in touched:
            count += _erase(connection, shard, position_list, in_memory=in_memory)
    return count


def _erase(
    connection: apsw.Connection, shard: int, positions: list[int], *, in_memory: bool
) -> int:
    rows = fetch_all(
        connection,
        f"SELECT id FROM w_{shard}_docsize"
        " WHERE id IN (SELECT value FROM json_each(CAST(? AS TEXT)))",
        (encode(positions),),
    )
    if not rows:
        return 0
    for letter in _LAYOUTS:
        connection.executemany(f"DELETE FROM {letter}_{shard} WHERE rowid = ?", rows)
    left = fetch_value(connection, f"SELECT count(*) FROM w_{shard}_docsize")
    if left:
        _optimize(connection, shard)
        if not in_memory:
            _rewrite(connection, shard)
        connection.execute("UPDATE shards SET documents = ? WHERE id = ?", (left, shard))
    else:
        _drop(connection, shard)
    return len(rows)


def _rewrite(connection: apsw.Connection, shard: int) -> None:
    """Copy the rest into new tables, and drop the old ones with everything on their pages."""
    for letter, layout in _LAYOUTS.items():
        old, new = f"{letter}_{shard}", f"{letter}_{shard}_new"
        connection.execute(f"CREATE VIRTUAL TABLE {new} USING {layout}")
        for shadow in _SHADOWS:
            connection.execute(f"DELETE FROM {new}_{shadow}")
            connection.execute(f"INSERT INTO {new}_{shadow} SELECT * FROM {old}_{shadow}")
        connection.execute(f"DROP TABLE {old}")
        connection.execute(f"ALTER TABLE {new} RENAME TO {old}")


def _optimize(connection: apsw.Connection, shard: int) -> None:
    for letter in _LAYOUTS:
        connection.execute(f"INSERT INTO {letter}_{shard} ({letter}_{shard}) VALUES ('optimize')")


def _drop(connection: apsw.Connection, shard: int) -> None:
    for letter in _LAYOUTS:
        connection.execute(f"DROP TABLE IF EXISTS {letter}_{shard}")
    connection.execute("DELETE FROM shards WHERE id = ?", (shard,))


def _newest(connection: apsw.Connection, scope: int) -> tuple[int, int]:
    """Return the shard for the next documents, and how many it has room for."""
    row = _last(connection, scope)
    if row is not None and row[1] < SHARD_DOCUMENTS_MAX:
        return row[0], SHARD_DOCUMENTS_MAX - row[1]
    connection.execute(
        "INSERT INTO shards (scope, first, last, documents) VALUES (?, ?, 0, 0)", (scope, 2**62)
    )
    shard = connection.last_insert_rowid()
    for letter, layout in _LAYOUTS.items():
        connection.execute(f"CREATE VIRTUAL TABLE {letter}_{shard} USING {layout}")
        # Its parts are merged when it is full, or when there are sixteen of them.
        for name, value in (("automerge", 0), ("hashsize", HASH_BYTES)):
            connection.execute(
                f"INSERT INTO {letter}_{shard} ({letter}_{shard}, rank) VALUES (?, ?)",
                (name, value),
            )
    return shard, SHARD_DOCUMENTS_MAX


def _last(connection: apsw.Connection, scope: int) -> Row | None:
    return fetch_one(
        connection,
        "SELECT id, documents FROM shards WHERE scope = ? ORDER BY last DESC, id DESC LIMIT 1",
        (scope,),
    )


def _chunks(positions: list[int], size: int) -> Iterable[list[int]]:
    return (positions[at : at + size] for at in range(0, len(positions), size))


class SearchFile(CompanionFile):
    """The tables of the search index."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, suffix=SUFFIX, layout=LAYOUT, tables=_TABLES)
