"""Search: the index is caught up first, then it answers; what is shown is read from the events.

The score of a hit is made of how well its words match, how near to one another they stand, what
kind of event it is and how long ago it was. Of a word that is nearly everywhere only the newest
matches are ranked, and the result says so.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from treering.derive.search_snippets import find_terms, snippet_of
from treering.derive.search_texts import search_text, texts_of, tool_of
from treering.errors import Busy, InvalidInput, KeyMissing
from treering.ledger.search_meaning import search_by_meaning
from treering.ledger.search_readings import wider, with_whole_ids
from treering.ledger.search_texts import masked
from treering.model.queries import Query
from treering.model.search_queries import parse_search
from treering.model.searches import (
    HITS_MAX,
    SEARCH_MODES,
    SearchCandidates,
    SearchHit,
    SearchResult,
    SessionHits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.derive.search_snippets import TermMatches
    from treering.derive.search_texts import SearchText
    from treering.ledger.ports import ContentGuard, EventStore
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.model.search_queries import SearchQuery
    from treering.model.searches import SearchCandidate

Item = TypeVar("Item")

READ_MAX: Final = 40
"""Candidates that are read to see how near their words stand, if fewer are asked for."""
READ_FACTOR: Final = 2
READ_PAGE: Final = 50
"""Events that are held at once."""
SESSION_HITS_MAX: Final = 5
"""Hits of one session that are shown before others have had their turn."""
ATTEMPTS_MAX: Final = 3
"""How often an index is caught up with that is lost meanwhile."""

_WEIGHTS: Final = {"words": 0.45, "nearness": 0.2, "kind": 0.15, "recency": 0.2}
_DAY_MS: Final = 86_400_000
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
"""How much a kind of event says; others are below all of these."""
_OTHERS: Final = 0.3


def search(
    store: EventStore,
    guard: ContentGuard,
    text: str,
    scope: Scope,
    *,
    mode: str,
    limit: int,
    include_failed: bool,
    now_ms: int,
    progress: Callable[[int], None] | None,
    scope_memory: Callable[[], ScopeMemory],
) -> SearchResult:
    """Find events of a scope by their words, by their meaning, or by both."""
    if mode not in SEARCH_MODES:
        raise InvalidInput(f"invalid mode: {mode}", hint=f"use {' or '.join(SEARCH_MODES)}")
    if type(limit) is not int or not 1 <= limit <= HITS_MAX:
        raise InvalidInput(f"invalid limit: {limit!r}", hint=f"ask for 1 to {HITS_MAX} hits")
    started = time.perf_counter()
    # What is said in a sealed scope is kept nowhere else: there is nothing to find it by.
    if mode != "words" and not store.is_sealed(scope):
        held = scope_memory()
        hits = search_by_meaning(
            store,
            guard,
            held,
            text,
            scope,
            blend="semantic" if mode == "semantic" else "hybrid",
            limit=limit,
            include_failed=include_failed,
            now_ms=now_ms,
            progress=progress,
        )
        return SearchResult(
            scope=scope,
            query=text,
            mode="semantic" if mode == "semantic" else "hybrid",
            sessions=_grouped(store, guard, scope, hits, Counter()),
            total=len(hits),
            at_least=len(hits) >= limit,
            lag=store.documents_lag(scope, "events"),
            took_ms=round((time.perf_counter() - started) * 1_000, 3),
            vectors_missing=held.events.documents.without_vector,
        )
    query = with_whole_ids(store, parse_search(text, scope, now_ms=now_ms))

    def look(query: SearchQuery) -> tuple[SearchCandidates, list[SearchCandidate], list[SearchHit]]:
        found = _candidates(store, guard, query, limit, include_failed, progress)
        chosen = _chosen(found.items, limit, now_ms)
        return found, chosen, list(_hits(store, guard, query, chosen, now_ms))

    found, chosen, hits = look(query)
    widened: list[str] = []
    for other, words in () if hits else wider(query):
        found, chosen, hits = look(other)
        if hits:
            widened = words
            break
    shown = _spread(sorted(hits, key=_order), limit)
    counts = Counter(candidate.session_id for candidate in found.items)
    return SearchResult(
        scope=scope,
        query=text,
        mode="words",
        sessions=_grouped(store, guard, scope, shown, counts),
        # What was read and turned out to be something else does not count.
        total=len(found.items) - (len(chosen) - len(hits)),
        at_least=found.more,
        lag=store.words.lag(scope),
        took_ms=round((time.perf_counter() - started) * 1_000, 3),
        widened=widened,
    )


def catch_up(
    store: EventStore,
    guard: ContentGuard,
    scope: Scope,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Have the index know of all that has happened in a scope; return how many events it took."""

    def read(event: Event) -> SearchText:
        return search_text(masked(guard, event))

    count, more = 0, True
    while more:
        step = store.words.follow(scope, read)
        count, more = count + step.events, step.more
        if progress is not None and step.events:
            progress(step.events)
    return count


def _candidates(
    store: EventStore,
    guard: ContentGuard,
    query: SearchQuery,
    limit: int,
    include_failed: bool,  # noqa: FBT001
    progress: Callable[[int], None] | None,
) -> SearchCandidates:
    for _ in range(ATTEMPTS_MAX):
        catch_up(store, guard, query.scope, progress)
        found = store.words.search(query, inside=False, include_failed=include_failed)
        if found is None:
            continue
        enough = limit if len(query.terms) == 1 else 1
        if found.more or len(found.items) >= enough or not query.terms:
            return found
        # Few have this word, or none these; some may have them as parts of longer names.
        more = store.words.search(query, inside=True, include_failed=include_failed)
        if more is None:
            continue
        known = {(one.session_id, one.seq) for one in found.items}
        new = [one for one in more.items if (one.session_id, one.seq) not in known]
        return SearchCandidates([*found.items, *new], more=more.more)
    raise Busy("the search index is being made anew by others", hint="ask again")


def _chosen(candidates: list[SearchCandidate], limit: int, now_ms: int) -> list[SearchCandidate]:
    """Return those that are read: the best before anything is known of nearness."""

    def score(one: SearchCandidate) -> float:
        parts = _known_parts(one, now_ms)
        return sum(_WEIGHTS[name] * part for name, part in parts.items())

    best = sorted(candidates, key=lambda one: (-score(one), -one.ts_ms, one.session_id, -one.seq))
    return list(_taken(best, max(READ_MAX, limit * READ_FACTOR), lambda one: one.session_id))


def _known_parts(one: SearchCandidate, now_ms: int) -> dict[str, float]:
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
    chosen: list[SearchCandidate],
    now_ms: int,
) -> Iterator[SearchHit]:
    """Return candidates as they are shown, without what is gone or only looked alike."""
    places = {(one.session_id, one.seq): one for one in chosen}
    for at in range(0, len(chosen), READ_PAGE):
        for event in store.words.found_events(query.scope, chosen[at : at + READ_PAGE]):
            one = places.get((event.session_id, event.seq))
            if one is None or event.redacted or event.expired:
                continue
            hit = _hit(masked(guard, event), one, query, now_ms)
            if hit is not None:
                yield hit


def _hit(event: Event, one: SearchCandidate, query: SearchQuery, now_ms: int) -> SearchHit | None:
    text, sighting = _best_told(event, query)
    if one.is_inside and sighting.found < len(query.terms):
        return None
    snippet, spans = snippet_of(text, sighting.spans)
    parts = {**_known_parts(one, now_ms), "nearness": sighting.nearness}
    why = {name: round(_WEIGHTS[name] * parts[name], 4) for name in _WEIGHTS}
    return SearchHit(
        event_id=event.event_id,
        session_id=event.session_id,
        seq=event.seq,
        ts_ms=event.ts_ms,
        kind=event.kind,
        agent_id=event.agent_id,
        tool=tool_of(event),
        run_id=event.run_id,
        score=round(sum(why.values()), 4),
        snippet=snippet,
        spans=spans,
        why=why,
    )


def _best_told(event: Event, query: SearchQuery) -> tuple[str, TermMatches]:
    """Return the most natural text of an event in which most of the words stand, and where."""
    text, sighting = "", find_terms("", query.terms)
    for told in texts_of(event):
        seen = find_terms(told, query.terms)
        if not text or seen.found > sighting.found:
            text, sighting = told, seen
        if seen.found == len(query.terms):
            break
    return text, sighting


def _order(hit: SearchHit) -> tuple[float, int, str]:
    return -hit.score, -hit.ts_ms, hit.event_id


def _spread(hits: list[SearchHit], limit: int) -> list[SearchHit]:
    """Return the best hits, some of each session before many of one."""
    return list(_taken(hits, limit, lambda hit: hit.session_id))


def _taken(items: list[Item], limit: int, session: Callable[[Item], str]) -> Iterator[Item]:
    """Return the first so many, those that crowd their session only if there is room."""
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
            session_id=session_id,
            title=_title(store, guard, scope, session_id),
            agent_id=found[0].agent_id,
            count=max(counts[session_id], len(found)),
            best=found[0].score,
            hits=found,
        )
        for session_id, found in by_session.items()
    ]
    return sorted(groups, key=lambda group: (-group.best, -group.count, group.session_id))


def _title(store: EventStore, guard: ContentGuard, scope: Scope, session_id: str) -> str | None:
    query = Query(
        scope=scope, session_id=session_id, kinds=("session.titled",), limit=1, backwards=True
    )
    with contextlib.suppress(KeyMissing):
        for event in store.events(query):
            told = event.payload.get("title") if isinstance(event.payload, dict) else None
            return guard.mask_text(told) if isinstance(told, str) else None
    return None
