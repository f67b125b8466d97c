"""Search: the index is brought up to date, then queried; snippets are read from the events.

All words must occur. If few events have them all, events with some of them follow, marked as
partial: a question in plain words has words that its answer has not.

The score of a hit adds how well its words match, how close together they are, what kind of event it
is and how old. If a word is nearly everywhere, only the newest matches are ranked, and the result
says so.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from treering.derive.search_snippets import TermMatches, find_terms, search_hit
from treering.derive.search_texts import SearchText, search_text, texts_of
from treering.errors import Busy, InvalidInput, KeyMissing
from treering.garbage import collecting_rarely
from treering.ledger.search_meaning import masked, search_by_meaning
from treering.model.events import Event, Header
from treering.model.queries import Query
from treering.model.search_words import is_unspaced
from treering.model.searches import (
    HITS_MAX,
    SEARCH_MODES,
    SearchCandidates,
    SearchHit,
    SearchResult,
    SessionHits,
)
from treering.rules.terms import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.ledger.ports import ContentGuard, EventStore
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.scopes import Scope
    from treering.model.search_queries import (
        Narrowing,
        SearchQuery,
        SearchRequest,
        Term,
        ZoneOffset,
    )
    from treering.model.searches import SearchCandidate

PREFIX_CHARACTERS_MIN: Final = 3
"""A shorter word is a prefix of too many."""
ID_CHARACTERS_MIN: Final = 4
STEM_CHARACTERS_MIN: Final = 4
"""A shorter stem begins too many other words."""
SESSIONS_MAX: Final = 200
"""Sessions that one prefix may mean."""
HEADS_PAGE: Final = 1_000

Item = TypeVar("Item")

READ_MAX: Final = 40
"""The least number of candidates that are read for the distances between their words."""
READ_FACTOR: Final = 2
READ_PAGE: Final = 50
"""Events that are held at once."""
SESSION_HITS_MAX: Final = 5
"""Hits of one session that are shown before those of other sessions."""
ATTEMPTS_MAX: Final = 3
"""How often a search starts again if the index is lost meanwhile."""

FEW: Final = 3
"""Fewer hits with all words are followed by hits with some of them."""
PARTIAL_TERMS_MAX: Final = 12
"""Words of a question that are looked for one by one: its longest."""

_WEIGHTS: Final = {"words": 0.45, "nearness": 0.2, "kind": 0.15, "recency": 0.2}
_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RECENT_DAYS: Final = 30.0
_KINDS: Final = {
    "conversation.user": 1.0,
    "conversation.assistant": 0.9,
    "session.titled": 0.9,
    "context.compacted": 0.7,
    "episode.written": 0.7,
    "tool.call": 0.6,
    "ops.error": 0.6,
    "tool.result": 0.4,
}
"""How much a kind of event matters; others matter less than all of these."""
_OTHERS: Final = 0.3


def zone_offset(zone: tzinfo) -> ZoneOffset:
    """Return how far ``zone`` is ahead of UTC at a time there."""

    def offset_ms(there_ms: int) -> int:
        there = _EPOCH + timedelta(milliseconds=there_ms)
        offset = there.replace(tzinfo=zone).utcoffset()
        return 0 if offset is None else offset // timedelta(milliseconds=1)

    return offset_ms


def search(
    store: EventStore,
    guard: ContentGuard,
    request: SearchRequest,
    *,
    progress: Callable[[int], None] | None,
    scope_memory: Callable[[Scope], ScopeMemory],
) -> SearchResult:
    """Find events of a scope by their words, by their meaning, or by both."""
    mode, limit = request.mode, request.limit
    if mode not in SEARCH_MODES:
        raise InvalidInput(f"invalid mode: {mode}", hint=f"use {' or '.join(SEARCH_MODES)}")
    if type(limit) is not int or not 1 <= limit <= HITS_MAX:
        raise InvalidInput(f"invalid limit: {limit!r}", hint=f"ask for 1 to {HITS_MAX} hits")
    # The payloads of a sealed scope are in no index, so there are no vectors to compare with.
    if mode == "words" or store.seals.is_sealed(request.scope):
        return _search_words(store, guard, request, progress)
    return _search_meaning(store, guard, request, scope_memory(request.scope), progress)


def merged(results: Sequence[SearchResult], query: str, limit: int) -> SearchResult:
    """Return the results of one search in several scopes as one, with the best hits of all."""
    best = sorted((hit for result in results for hit in result.hits), key=_order)[:limit]
    places = {(hit.scope, hit.event_id) for hit in best}
    groups = []
    for group in (group for result in results for group in result.sessions):
        hits = [hit for hit in group.hits if (hit.scope, hit.event_id) in places]
        if hits:
            groups.append(replace(group, hits=hits, best=hits[0].score))
    # Partial matches do not count where there are others.
    counting = [
        result for result in results if any(not hit.partial for hit in result.hits)
    ] or results
    return SearchResult(
        scope=None,
        query=query,
        # Only words are searched in an encrypted scope; the others are searched as asked.
        mode=next((result.mode for result in results if result.mode != "words"), "words"),
        sessions=sorted(groups, key=_group_order),
        total=sum(result.total for result in counting),
        at_least=any(result.at_least for result in counting),
        lag=sum(result.lag for result in results),
        took_ms=round(sum(result.took_ms for result in results), 3),
        widened=list(dict.fromkeys(word for result in results for word in result.widened)),
        vectors_missing=sum(result.vectors_missing for result in results),
    )


def count_matches(
    store: EventStore, query: SearchQuery, scopes: Iterable[Scope], *, include_failed: bool
) -> int:
    """Return how many events of scopes have all words of a query, as far as they are indexed."""
    answers = [
        store.words.search(replace(query, scope=scope), inside=False, include_failed=include_failed)
        for scope in scopes
    ]
    return sum(len(answer.items) for answer in answers if answer is not None)


def _search_meaning(
    store: EventStore,
    guard: ContentGuard,
    request: SearchRequest,
    memory: ScopeMemory,
    progress: Callable[[int], None] | None,
) -> SearchResult:
    started = time.perf_counter()
    hits = search_by_meaning(store, guard, memory, request, progress=progress)
    return SearchResult(
        scope=request.scope,
        query=request.text,
        mode="semantic" if request.mode == "semantic" else "hybrid",
        sessions=_grouped(store, guard, request.scope, hits, Counter()),
        total=len(hits),
        at_least=len(hits) >= request.limit,
        lag=store.memory.documents_lag(request.scope, "events"),
        took_ms=_milliseconds_since(started),
        vectors_missing=memory.events.documents.without_vector,
    )


def _search_words(
    store: EventStore,
    guard: ContentGuard,
    request: SearchRequest,
    progress: Callable[[int], None] | None,
) -> SearchResult:
    started = time.perf_counter()
    limit, now_ms = request.limit, request.now_ms
    query = with_whole_ids(store, request.parse(request.text))

    def look(
        asked: SearchQuery, *, inside: bool
    ) -> tuple[SearchCandidates, list[SearchCandidate], list[SearchHit]]:
        candidates = _candidates(store, guard, asked, request, progress, inside=inside)
        best = _best(candidates.items, limit, now_ms)
        return candidates, best, list(_hits(store, guard, asked, best, now_ms))

    asked = query
    candidates, best, hits = look(asked, inside=True)
    # The names that hold a prefix are those that hold the word. Events with some of several words
    # come before such a chance match.
    inside = len(query.terms) == 1 and bool(candidates.items)
    widened: list[str] = []
    for asked, words in () if hits else wider(query):
        candidates, best, hits = look(asked, inside=inside)
        if hits:
            widened = words
            break
    shown = _spread(sorted(hits, key=_order), limit)
    # Candidates that were read and do not match after all do not count.
    total = len(candidates.items) - (len(best) - len(hits))
    counts = Counter(candidate.session_id for candidate in candidates.items)
    if len(shown) < min(limit, FEW):
        known = {hit.event_id for hit in shown}
        partial = _partial_hits(store, guard, query, request, asked=asked, known=known)
        shown += partial
        total = total or len(partial)
    return SearchResult(
        scope=request.scope,
        query=request.text,
        mode="words",
        sessions=_grouped(store, guard, request.scope, shown, counts),
        total=total,
        at_least=candidates.more,
        lag=store.words.lag(request.scope),
        took_ms=_milliseconds_since(started),
        widened=widened,
    )


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1_000, 3)


def catch_up(
    store: EventStore,
    guard: ContentGuard,
    scope: Scope,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Bring the index of a scope up to date; return how many events that took."""

    def read(event: Event) -> SearchText:
        return search_text(masked(guard, event))

    count, more = 0, True
    while more:
        with collecting_rarely():
            step = store.words.follow(scope, read)
        count, more = count + step.events, step.more
        if progress is not None and step.events:
            progress(step.events)
    return count


def _candidates(
    store: EventStore,
    guard: ContentGuard,
    query: SearchQuery,
    request: SearchRequest,
    progress: Callable[[int], None] | None,
    *,
    inside: bool,
) -> SearchCandidates:
    """Return what matches; with ``inside`` also names that hold the words, if little else does."""
    include_failed = request.include_failed
    for _ in range(ATTEMPTS_MAX):
        catch_up(store, guard, query.scope, progress)
        whole = store.words.search(query, inside=False, include_failed=include_failed)
        if whole is None:
            continue
        enough = request.limit if len(query.terms) == 1 else 1
        if whole.more or len(whole.items) >= enough or not query.terms or not inside:
            return whole
        # Few events have this word, or none has them all; longer names may contain them.
        names = store.words.search(query, inside=True, include_failed=include_failed)
        if names is None:
            continue
        places = {(item.session_id, item.seq) for item in whole.items}
        new = [item for item in names.items if (item.session_id, item.seq) not in places]
        return SearchCandidates([*whole.items, *new], more=names.more)
    raise Busy("another process is rebuilding the search index", hint="ask again")


def _best(candidates: list[SearchCandidate], limit: int, now_ms: int) -> list[SearchCandidate]:
    """Return the candidates to read: the best by everything but nearness, which needs the text."""

    def score(one: SearchCandidate) -> float:
        parts = _index_parts(one, now_ms)
        return sum(_WEIGHTS[name] * part for name, part in parts.items())

    best = sorted(
        candidates, key=lambda item: (-score(item), -item.ts_ms, item.session_id, -item.seq)
    )
    return list(_fairly(best, max(READ_MAX, limit * READ_FACTOR), lambda item: item.session_id))


def _partial_hits(
    store: EventStore,
    guard: ContentGuard,
    query: SearchQuery,
    request: SearchRequest,
    *,
    asked: SearchQuery,
    known: set[str],
) -> list[SearchHit]:
    """Return the hits with most of the words of a query, best first.

    Those of ``asked``, with all of its words, are ``known`` and left out.
    """
    required, optional = content_terms(query)
    wanted = [*optional, *required]
    is_all = len(wanted) == 1 or not optional
    if not wanted or (is_all and wanted == [replace(one, inside=None) for one in asked.terms]):
        return []
    phrases = replace(query, terms=tuple(required))
    # After hits with all words, only those with most of them are worth a look.
    least = len(wanted) // 2 + 1 if known else 1
    some = store.words.search_any(
        phrases, wanted, least=least, include_failed=request.include_failed
    )
    items = [] if some is None else some.items
    wider_query = replace(query, terms=tuple(wanted))
    best = _best(items, request.limit, request.now_ms)
    hits = [
        replace(hit, partial=True)
        for hit in _hits(store, guard, wider_query, best, request.now_ms)
        if hit.event_id not in known
    ]
    return _spread(sorted(hits, key=_order), request.limit - len(known))


def content_terms(query: SearchQuery) -> tuple[list[Term], list[Term]]:
    """Return the terms of a query that must occur, and those of which some suffice.

    Phrases must occur. Of other words stop words do not count, and the forms of a word are alike:
    ``decided`` is as good as ``decide``.
    """
    required = [term for term in query.terms if len(term.words) > 1 and term.inside is None]
    optional: dict[Term, None] = {}
    for term in query.terms:
        if term in required or (len(term.words) == 1 and term.words[0] in STOP_WORDS):
            continue
        optional[_any_form(term)] = None
    longest = sorted(optional, key=lambda term: -sum(map(len, term.words)))[:PARTIAL_TERMS_MAX]
    return required, [term for term in optional if term in longest]


def _any_form(term: Term) -> Term:
    stem = "".join(terms(term.words[0])[:1]) if len(term.words) == 1 else ""
    if len(stem) < STEM_CHARACTERS_MIN or not term.words[0].startswith(stem):
        return replace(term, inside=None)
    return replace(term, words=(stem,), is_prefix=True, inside=None)


def _index_parts(one: SearchCandidate, now_ms: int) -> dict[str, float]:
    days = max(now_ms - one.ts_ms, 0) / _DAY_MS
    return {
        "words": one.words,
        "kind": _KINDS.get(one.kind, _OTHERS),
        "recency": 1.0 / (1.0 + days / _RECENT_DAYS),
    }


def _hits(
    store: EventStore,
    guard: ContentGuard,
    query: SearchQuery,
    candidates: list[SearchCandidate],
    now_ms: int,
) -> Iterator[SearchHit]:
    """Yield candidates as they are shown, without erased events and false matches."""
    places = {(candidate.session_id, candidate.seq): candidate for candidate in candidates}
    for at in range(0, len(candidates), READ_PAGE):
        for event in store.words.found_events(query.scope, candidates[at : at + READ_PAGE]):
            candidate = places.get((event.session_id, event.seq))
            if candidate is None or event.redacted or event.expired:
                continue
            hit = _hit(masked(guard, event), candidate, query, now_ms)
            if hit is not None:
                yield hit


def _hit(
    event: Event, candidate: SearchCandidate, query: SearchQuery, now_ms: int
) -> SearchHit | None:
    text, matches = _best_text(event, query)
    if candidate.is_inside and matches.found < len(query.terms):
        return None
    parts = {**_index_parts(candidate, now_ms), "nearness": matches.nearness}
    why = {name: round(_WEIGHTS[name] * parts[name], 4) for name in _WEIGHTS}
    return search_hit(event, text, matches.spans, score=sum(why.values()), why=why)


def _best_text(event: Event, query: SearchQuery) -> tuple[str, TermMatches]:
    """Return the first text of an event with the most of the words, and where they are."""
    best, best_matches = "", find_terms("", query.terms)
    seen: set[str] = set()
    for text in texts_of(event):
        if text in seen:
            continue  # As of most events: the main content is all of the text.
        seen.add(text)
        matches = find_terms(text, query.terms)
        if not best or matches.found > best_matches.found:
            best, best_matches = text, matches
        if matches.found == len(query.terms):
            break
    return best, best_matches


def _order(hit: SearchHit) -> tuple[bool, float, int, str]:
    return hit.partial, -hit.score, -hit.ts_ms, hit.event_id


def _spread(hits: list[SearchHit], limit: int) -> list[SearchHit]:
    """Return the best hits, some of each session before many of one."""
    return list(_fairly(hits, limit, lambda hit: hit.session_id))


def _fairly(items: list[Item], limit: int, session: Callable[[Item], str]) -> Iterator[Item]:
    """Yield the first ``limit`` items; more than five of a session only if there is room."""
    taken: Counter[str] = Counter()
    crowding = []
    for item in items:
        name = session(item)
        taken[name] += 1
        if taken[name] > SESSION_HITS_MAX:
            crowding.append(item)
            continue
        if limit <= 0:
            return
        limit -= 1
        yield item
    yield from crowding[:limit]


def _grouped(
    store: EventStore,
    guard: ContentGuard,
    scope: Scope,
    hits: Iterable[SearchHit],
    counts: Counter[str],
) -> list[SessionHits]:
    by_session: dict[str, list[SearchHit]] = {}
    for hit in hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    groups = [
        SessionHits(
            scope=scope,
            session_id=session_id,
            title=_title(store, guard, scope, session_id),
            agent_id=session_hits[0].agent_id,
            count=max(counts[session_id], len(session_hits)),
            best=session_hits[0].score,
            hits=session_hits,
        )
        for session_id, session_hits in by_session.items()
    ]
    return sorted(groups, key=_group_order)


def _group_order(group: SessionHits) -> tuple[bool, float, int, str, str]:
    return group.hits[0].partial, -group.best, -group.count, group.scope, group.session_id


def _title(store: EventStore, guard: ContentGuard, scope: Scope, session_id: str) -> str | None:
    query = Query(
        scope=scope, session_id=session_id, kinds=("session.titled",), limit=1, backwards=True
    )
    with contextlib.suppress(KeyMissing):
        for event in store.reader.by_time(Event, query):
            title = event.payload.get("title") if isinstance(event.payload, dict) else None
            return guard.mask_text(title) if isinstance(title, str) else None
    return None


def with_whole_ids(store: EventStore, query: SearchQuery) -> SearchQuery:
    """Return a query whose ``session:`` has whole ids in place of their prefixes."""
    if all(narrowing.operator != "session" for narrowing in query.narrowings):
        return query
    narrowings = tuple(
        _with_whole_ids(store, query, narrowing) if narrowing.operator == "session" else narrowing
        for narrowing in query.narrowings
    )
    return replace(query, narrowings=narrowings)


def wider(query: SearchQuery) -> Iterator[tuple[SearchQuery, list[str]]]:
    """Yield queries to try if one finds nothing, and the words that each reads as prefixes.

    The last word is the most likely prefix; after that, any of them may be one.
    """
    may = [at for at, term in enumerate(query.terms) if _may_be_prefix(term)]
    for chosen in dict.fromkeys((tuple(may[-1:]), tuple(may))):
        if chosen:
            terms = [
                replace(term, is_prefix=True) if at in chosen else term
                for at, term in enumerate(query.terms)
            ]
            words = [f"{query.terms[at].words[0]}*" for at in chosen]
            yield replace(query, terms=tuple(terms)), words


def _may_be_prefix(term: Term) -> bool:
    word = term.words[0]
    return (
        len(term.words) == 1
        and not term.is_prefix
        and len(word) >= PREFIX_CHARACTERS_MIN
        and not is_unspaced(word)
    )


def _with_whole_ids(store: EventStore, query: SearchQuery, narrowing: Narrowing) -> Narrowing:
    ids: dict[str, None] = {}
    prefixes: list[str] = []
    for text in narrowing.values:
        asked = Query(scope=query.scope, session_id=text, limit=1)
        if len(text) < ID_CHARACTERS_MIN or store.reader.by_time(Header, asked):
            ids[text] = None
        else:
            prefixes.append(text)
    if prefixes:
        ids.update(dict.fromkeys(_sessions(store, query, tuple(prefixes))))
        # A text that is a prefix of no id is searched for as it is, and finds nothing.
        ids = ids or dict.fromkeys(prefixes)
    return replace(narrowing, values=tuple(ids))


def _sessions(store: EventStore, query: SearchQuery, prefixes: tuple[str, ...]) -> list[str]:
    ids: list[str] = []
    before = None
    while page := store.sessions.heads(query.scope, before_position=before, limit=HEADS_PAGE):
        ids += [head.session_id for head in page if head.session_id.startswith(prefixes)]
        before = page[-1].position
    if len(ids) > SESSIONS_MAX:
        raise InvalidInput(
            f"{len(ids):,} sessions begin with {' or '.join(prefixes)}", hint="write more of the id"
        )
    return ids
