"""Search by meaning: words and vectors together, and the neighbours of each event.

The index of a scope is brought up to date, then its events are ranked; snippets are read from the
events. Operators filter as in a search by words; not every other word has to occur.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.search_snippets import find_terms, search_hit
from treering.derive.search_texts import (
    WIDE_CHARACTERS_MAX,
    event_texts,
    files_in,
    texts_of,
    tool_of,
)
from treering.errors import InvalidInput
from treering.ledger.lineage import NO_END
from treering.memory.answer_order import Match, order_answers
from treering.model.codec import content_of, encode
from treering.model.events import Event, Header
from treering.model.kinds import RUN_ENDS
from treering.model.search_queries import OPERATORS, Narrowing, SearchQuery, SearchRequest, Term
from treering.model.search_words import words_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ports import ContentGuard, EventStore
    from treering.memory.event_index import Blend, Ranked
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.scopes import Scope
    from treering.model.searches import SearchHit

PAGE: Final = 50
"""Events that are read at once."""
RANKED_MAX: Final = 2_000
"""How many ranked events are read if most of them are filtered out."""
FLOOR: Final = 0.35
"""An event below this part of the best score is not an answer."""
RECENCY: Final = 0.02
"""What an event of today gains over an old one, so that the newer of equals comes first."""
WORDS_MARKED_MAX: Final = 32
_DAY_MS: Final = 86_400_000
_RECENT_DAYS: Final = 30
_OPERATION: Final = re.compile(rf"(?:^|(?<=\s))-?(?:{'|'.join(OPERATORS)}):(?:\"[^\"]*\"|\S+)")


def search_by_meaning(
    store: EventStore,
    guard: ContentGuard,
    scope_memory: ScopeMemory,
    request: SearchRequest,
    *,
    progress: Callable[[int], None] | None,
) -> list[SearchHit]:
    """Return the events that answer, the best first."""
    blend: Blend = "semantic" if request.mode == "semantic" else "hybrid"
    scope, limit, now_ms = request.scope, request.limit, request.now_ms
    if blend == "semantic" and scope_memory.events.documents.embedder is None:
        raise InvalidInput(
            "a search by meaning needs an embedder",
            hint="set TREERING_EMBEDDER=static, or use words or hybrid",
        )
    query, words = _parse(request)
    with scope_memory.lock.guard, scope_memory.lock:
        index = scope_memory.events
        index.documents.catch_up(lambda event: event_texts(masked(guard, event)), progress=progress)
        ranked = index.rank(words, blend, RANKED_MAX)
        matches = (
            order_answers(index, ranked, words, scope_memory.events_at)
            if blend == "hybrid"
            else [Match(number, 0.0, 0.0) for number in ranked.order]
        )
        positions = index.documents.column("position")
        places = [(match, int(positions[match.number])) for match in matches]
    hits: list[SearchHit] = []
    runs = FailedRuns(store, scope)
    for at in range(0, len(places), PAGE):
        page = places[at : at + PAGE]
        events = {
            event.position: event
            for event in store.memory.events_at_positions(scope, [position for _, position in page])
        }
        for match, position in page:
            event = events.get(position)
            if event is None or not matches_operators(query, event):
                continue
            if request.include_failed or not runs.failed(event):
                hits.append(_hit(masked(guard, event), query, ranked, match, now_ms))
        if len(hits) >= limit or (hits and hits[-1].score < FLOOR * hits[0].score):
            break
    floor = FLOOR * max((hit.score for hit in hits), default=0.0)
    answers = [hit for hit in hits if hit.score >= floor][:limit]
    return sorted(answers, key=lambda hit: (-hit.score, -hit.ts_ms, hit.event_id))


def _parse(request: SearchRequest) -> tuple[SearchQuery, str]:
    """Return the operators of a query with the words to mark, and the words without operators."""
    operations = " ".join(_OPERATION.findall(request.text))
    words = _OPERATION.sub(" ", request.text)
    narrowed = request.parse(operations) if operations else SearchQuery(scope=request.scope)
    terms = dict.fromkeys(match.word for match in words_in(words))
    marked = tuple(Term(words=(word,)) for word in list(terms)[:WORDS_MARKED_MAX])
    return msgspec.structs.replace(narrowed, terms=marked), words


class FailedRuns:
    """Which runs failed or were interrupted, each looked up once."""

    def __init__(self, store: EventStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._failed: dict[tuple[str, str], bool] = {}

    def failed(self, event: Event) -> bool:
        """Return whether the run of an event failed or was interrupted."""
        if event.run_id is None:
            return False
        key = (event.session_id, event.run_id)
        if key not in self._failed:
            self._failed[key] = not self._counts(event) and self._ended_badly(key)
        return self._failed[key]

    def _counts(self, event: Event) -> bool:
        """Whether the event's run has ended well, by the index of runs."""
        events = self._store.reader.committed_events(
            self._scope,
            event.session_id,
            kinds={event.kind},
            before_seq=event.seq + 1,
            until_seq=NO_END,
            run_id=None,
            limit=1,
        )
        return bool(events) and events[-1].seq == event.seq

    def _ended_badly(self, run: tuple[str, str]) -> bool:
        headers = self._store.reader.by_run(Header, self._scope, *run)
        ends = [RUN_ENDS[header.kind] for header in headers if header.kind in RUN_ENDS]
        return bool(ends) and ends[-1] != "ended"


def _hit(event: Event, query: SearchQuery, ranked: Ranked, match: Match, now_ms: int) -> SearchHit:
    text = next(texts_of(event), event.summary)
    days = max(now_ms - event.ts_ms, 0) / _DAY_MS
    why = {"recency": round(RECENCY * math.exp(-days / _RECENT_DAYS), 4)}
    if ranked.ranking is not None:
        why |= ranked.ranking.parts(match.number)
    if match.form:
        why["form"] = round(match.form, 4)
    score = min(max(sum(why.values()), 0.0), 1.0)
    return search_hit(event, text, find_terms(text, query.terms).spans, score=score, why=why)


def matches_operators(query: SearchQuery, event: Event) -> bool:
    """Return whether an event matches all operators of a query."""
    if query.since_ms is not None and event.ts_ms < query.since_ms:
        return False
    if query.before_ms is not None and event.ts_ms >= query.before_ms:
        return False
    return all(_holds(narrowing, event) != narrowing.is_negative for narrowing in query.narrowings)


def _holds(narrowing: Narrowing, event: Event) -> bool:
    values = [value.casefold() for value in narrowing.values]
    match narrowing.operator:
        case "kind":
            return event.kind in narrowing.values
        case "agent":
            return event.agent_id.casefold() in values
        case "session":
            return event.session_id.startswith(narrowing.values)
        case "tool":
            return (tool_of(event) or "").casefold() in values
        case "file":
            paths = [path.casefold() for path in files_in(event)]
            return any(value in path for value in values for path in paths)


_CLIPPED: Final = 4 * WIDE_CHARACTERS_MAX
"""Of longer strings only the beginning and the end are indexed."""


def masked(guard: ContentGuard, event: Event) -> Event:
    """Return an event with its secrets masked, whatever it was recorded with."""
    payload = event.payload
    if event.payload_bytes > _CLIPPED:
        payload = _clipped(payload)
    refs = None if event.refs is None else encode(event.refs)
    content = content_of(event.summary, refs, None if payload is None else encode(payload))
    if not guard.suspicious(content):
        return event if payload is event.payload else _with(event, payload=payload)
    return _with(
        event,
        summary=guard.mask_text(event.summary),
        refs=None if event.refs is None else guard.mask_value(event.refs),
        payload=None if payload is None else guard.mask_value(payload),
    )


def _with(event: Event, **changes: Any) -> Event:
    return msgspec.structs.replace(event, **changes)


def _clipped(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _CLIPPED:
        return f"{value[: _CLIPPED // 2]}\n…\n{value[-_CLIPPED // 2 :]}"
    if isinstance(value, dict):
        return {key: _clipped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clipped(item) for item in value]
    return value
