"""The search index of a ledger in a file: it follows the events when somebody searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from treering.derive.search_texts import is_searchable
from treering.errors import StorageError
from treering.model.codec import encode
from treering.model.events import Event
from treering.model.queries import FollowStep
from treering.model.scopes import Scope
from treering.model.searches import SearchCandidate, SearchCandidates, best_shares
from treering.storage.encoding import EXPIRED, GONE
from treering.storage.runs import FAILED_STATES
from treering.storage.search_marks import CANDIDATES_MAX, SCANNED_MAX, WORD_MATCHES_MAX, marks_of
from treering.storage.sqlite import search_queries, search_shards
from treering.storage.sqlite.erasure_events import unseen_erasures
from treering.storage.sqlite.search_shards import SearchFile
from treering.storage.sqlite.sql import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.derive.search_texts import SearchText
    from treering.model.receipts import Physical
    from treering.model.search_queries import SearchQuery, Term
    from treering.storage.sqlite.reader import Reader

PAGE_EVENTS: Final = 1_000
"""Events read at once. One transaction enters a page, or many if the index lags far behind."""
STEP_EVENTS: Final = search_shards.SHARD_DOCUMENTS_MAX // 2
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
        documents: list[search_shards.Document] = []
        events, characters, more = 0, 0, True
        while more and events < room and characters < STEP_CHARACTERS:
            limit = min(room - events, PAGE_EVENTS)
            page, last, more = self._page(scope, last, limit=limit, sealed=sealed)
            entered = _documents(page, read)
            documents += entered
            events += len(page)
            characters += sum(len(words) for _, words, *_ in entered)
        # At once: another statement in between would have the words written that are in memory.
        if search_shards.enter(index, number, documents):
            self._file.reopen_later()
        if last > after:
            index.execute(
                "INSERT OR REPLACE INTO followed (scope, position, link) VALUES (?, ?, ?)",
                (number, last, self._file.link_at(last)),
            )
        return FollowStep(events, more=more)

    def _room(self, index: apsw.Connection, scope: int, after: int) -> int:
        """Return how many events one transaction enters: a page, or what half fills a shard."""
        room = min(search_shards.room(index, scope), STEP_EVENTS)
        if self._file.is_in_memory:
            return PAGE_EVENTS
        lag = self._reader.last_position() - after
        return max(room, PAGE_EVENTS) if lag >= room else PAGE_EVENTS

    def _page(
        self, scope: Scope, after: int, *, limit: int = PAGE_EVENTS, sealed: bool
    ) -> tuple[list[Event], int, bool]:
        """Return the next events of a scope, the last position, and whether there are more."""
        if sealed:
            stretch = self._reader.headers_after(scope, (after,), limit=limit)
            events = [Event(*msgspec.structs.astuple(header)) for header in stretch.items]
            return events, stretch.last[0], stretch.more
        followed = self._reader.events_after(scope, (after,), limit=limit)
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
    ) -> Iterator[search_shards.Document]:
        after, more = 0, True
        while more:
            events, after, more = self._page(scope, after, sealed=sealed)
            yield from _documents(events, read)

    def _compare(
        self, index: apsw.Connection, scope: int, documents: Iterator[search_shards.Document]
    ) -> tuple[int, str | None]:
        until, count = self._followed(index, scope), 0
        following = next(documents, None)
        for shard, first, last, recorded in search_shards.oldest_first(index, scope):
            part: list[search_shards.Document] = []
            while following is not None and following[0] <= min(last, until):
                part.append(following)
                if len(part) > search_shards.SHARD_DOCUMENTS_MAX:
                    break
                following = next(documents, None)
            # An erasure passes over a shard that begins later.
            begins = not part or first <= part[0][0]
            if not begins or len(part) != recorded or not search_shards.holds(index, shard, part):
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
        insides = search_queries.by_insides(query) if inside else None
        if inside and insides is None:
            return SearchCandidates([], more=False)
        words = search_queries.by_words(query)
        scope = self._reader.scope_number(query.scope)
        candidates: list[SearchCandidate] = []
        scanned = 0
        for shard in search_shards.newest_first(index, scope):
            statement = search_queries.words_statement(shard)
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
            shards = search_shards.newest_first(index, scope)
            matches = [_matches(index, shards, query, term) for term in terms]
            documents = search_shards.count(index, scope)
            shares, more = best_shares(matches, documents, least=least, limit=CANDIDATES_MAX)
            candidates = self._candidates(
                query,
                scope,
                shares,
                include_failed=include_failed,
                is_inside=False,
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
            for header in self._reader.session_headers(
                scope, session_id, after_seq=seq - 1, limit=1
            )
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
        return self._file.read_existing(lambda index: search_shards.count(index, number)) or 0

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
            search_shards.erase(index, scope, events, in_memory=self._database.in_memory)
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
        rows = fetch_all(index, search_queries.all_statement(shard), (words,))
        if grams is not None:
            rows += fetch_all(index, search_queries.names_statement(shard), (grams,))
        found = {row[0] for row in rows}
        places = places & found if at else found
        if not places:
            break
    return sorted(places, reverse=True)


def _matches(
    index: apsw.Connection, shards: Sequence[int], query: SearchQuery, term: Term
) -> list[int]:
    """Return the newest places with a term that match a query."""
    asked = search_queries.by_words(
        query if term in query.terms else replace(query, terms=(*query.terms, term))
    )
    places: list[int] = []
    for shard in shards:
        limit = WORD_MATCHES_MAX - len(places)
        if limit <= 0:
            break
        rows = fetch_all(index, search_queries.any_statement(shard), (asked, limit))
        places += [row[0] for row in rows]
    return places


def _documents(
    events: Iterable[Event], read: Callable[[Event], SearchText]
) -> list[search_shards.Document]:
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
