"""``treering episodes search``: sessions in which something was said or done, the best first."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.episodes.read import item
from treering.surfaces.cli.ledgers import open_if_there
from treering.surfaces.cli.options import (
    include_payload_option,
)
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import clock, typed_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.model.searches import SearchHit, SearchResult, SessionHits

SESSIONS: Final = 5
SESSIONS_MAX: Final = 500
ITEMS: Final = 3
ITEMS_MAX: Final = 20
HITS: Final = 40
HITS_MAX: Final = 200
LANE: Final = "fts"
FUSION_K: Final = 60
"""By how much the first ranks are brought nearer to one another."""


@command(
    "search",
    scope="required",
    short_help="Search sessions by what was said and done.",
    examples="""
    treering episodes search "storage deploy" --scope acme/app
    treering episodes search 'kind:tool.call table after:7d' --scope acme/app
    """,
)
@click.argument("text")
@click.option(
    "--limit",
    type=int,
    default=SESSIONS,
    metavar="N",
    help=f"Sessions to show, 1 to {SESSIONS_MAX}. Default: {SESSIONS}.",
)
@click.option(
    "--per-session-limit", "--per-session", "per_session",
    type=int, default=ITEMS, metavar="N",
    help=f"Events to show per session, 1 to {ITEMS_MAX}. Default: {ITEMS}.",
)  # fmt: skip
@click.option(
    "--search-limit",
    type=int,
    default=HITS,
    metavar="N",
    help=f"Events to rank, 1 to {HITS_MAX}. Default: {HITS}.",
)
@include_payload_option
@click.option("--trace", is_flag=True, help="With --json: show how events were ranked.")
def search(
    *,
    text: str,
    scope: Scope,
    limit: int,
    per_session: int,
    search_limit: int,
    include_payload: bool,
    trace: bool,
) -> None:
    """Search events by their words, grouped by session; the best session comes first.

    Events with every word come first, then those with most of them. "two words": phrase.
    deploy*: prefix. -draft: exclude. kind: agent: session: tool: file: after: before: are filters.
    """
    if not text.strip():
        raise InvalidInput("no words to search for", hint="give some words")
    with open_if_there() as ledger:
        result = ledger.search(
            text, scope=scope, limit=_within(search_limit, HITS_MAX), zone=typed_zone()
        )
        ranks = {hit.event_id: rank for rank, hit in enumerate(result.hits, start=1)}
        sessions = [
            _session(
                ledger,
                scope,
                session,
                ranks,
                rank=rank,
                most=_within(per_session, ITEMS_MAX),
                include_payload=include_payload,
            )
            for rank, session in enumerate(result.sessions[: _within(limit, SESSIONS_MAX)], start=1)
        ]
    body: dict[str, Any] = {
        "scope": scope,
        "query": {"text": text, "text_en": None},
        "result": {
            "mode": "lexical",
            "count": len(sessions),
            "events_matched": result.total,
            "events_matched_at_least": result.at_least,
            "widened": result.widened,
            "sessions": sessions,
        },
        "vector_status": {"enabled": False, "reason": "lexical mode"},
    }
    if trace:
        ranked = [
            {"event_id": hit.event_id, "rank": ranks[hit.event_id], "why": hit.why}
            for hit in result.hits
        ]
        body["trace"] = {"fts_top_k": ranked, "vec_top_k": [], "k": FUSION_K, "lag": result.lag}
    show(body, *_lines(result, sessions))


def _within(number: int, most: int) -> int:
    return max(1, min(number, most))


def _session(
    ledger: Ledger,
    scope: Scope,
    matching: SessionHits,
    ranks: dict[str, int],
    *,
    rank: int,
    most: int,
    include_payload: bool,
) -> dict[str, Any]:
    hits = matching.hits
    flag = "--global" if scope == "global" else f"--scope {shlex.quote(scope)}"
    matched = [
        _matched(event, hit, ranks[hit.event_id])
        for hit in hits[:most]
        if (event := _event(ledger, scope, hit, include_payload=include_payload)) is not None
    ]
    return {
        "rank": rank,
        "session_id": matching.session_id,
        "hit_count": matching.count,
        "best_match_rank": min(ranks[hit.event_id] for hit in hits),
        "latest_ts_ms": max(hit.ts_ms for hit in hits),
        "type_counts": dict(Counter(hit.kind for hit in hits)),
        "summary": matching.title or hits[0].snippet,
        "replay_hint": {
            "command": f"treering episodes replay {shlex.quote(matching.session_id)} {flag}"
        },
        "matched_items": matched,
    }


def _event(ledger: Ledger, scope: Scope, hit: SearchHit, *, include_payload: bool) -> Header | None:
    ask = ledger.events if include_payload else ledger.headers
    page = ask(
        scope, session_id=hit.session_id, kinds=[hit.kind], since_ms=hit.ts_ms, until_ms=hit.ts_ms
    )
    while True:
        event = next((header for header in page.items if header.event_id == hit.event_id), None)
        if event is not None or page.next_cursor is None:
            return event
        page = ask(
            scope,
            session_id=hit.session_id,
            kinds=[hit.kind],
            since_ms=hit.ts_ms,
            until_ms=hit.ts_ms,
            after=page.next_cursor,
        )


def _matched(event: Header, hit: SearchHit, rank: int) -> dict[str, Any]:
    match = {
        "lanes": [LANE],
        "rank": rank,
        "rrf_score": round(1 / (FUSION_K + rank), 6),
        "score": hit.score,
        "snippet": hit.snippet,
    }
    if hit.partial:
        match["partial"] = True
    return {**item(event), "match": match}


def _lines(result: SearchResult, sessions: list[dict[str, Any]]) -> Iterator[str]:
    if not sessions:
        yield f"nothing in scope {result.scope} matches: use fewer words, or check the scope"
        return
    for session in sessions:
        latest = clock(session["latest_ts_ms"])[:16]
        hits = counted(session["hit_count"], "hit")
        yield f"{session['session_id']}  {latest}  {hits}: {session['summary']}"
        for matched in session["matched_items"]:
            yield f"  {matched['type']}  {matched['match']['snippet']}"
        yield f"  {session['replay_hint']['command']}"
    more = "at least " if result.at_least else ""
    yield f"{more}{counted(result.total, 'event')} found, {counted(len(sessions), 'session')} shown"
    if result.widened:
        yield f"no exact match; showing results for {' '.join(result.widened)}"
