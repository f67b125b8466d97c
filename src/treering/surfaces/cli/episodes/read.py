"""``treering episodes query``, ``replay`` and ``search``: events by time, sessions by words."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.model.codec import encode
from treering.model.events import REDACTED, Event, Header
from treering.model.queries import Page, Query
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import (
    argument,
    choice,
    clamp,
    command,
    cursor_option,
    flag,
    include_payload_option,
    limit_option,
    option,
    parse_kinds,
    parse_time,
    require,
    session_argument,
    session_id_option,
)
from treering.surfaces.cli.finding import session_or_text
from treering.surfaces.cli.ledgers import open_if_there
from treering.surfaces.cli.output import painted, say
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.shared.texts import counted, one_line, printable
from treering.surfaces.shared.times import about, clock, iso_time, typed_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.searches import SearchHit, SearchResult, SessionHits

_PAYLOAD_INDENT: Final = " " * 4
_COLUMNS: Final = (
    Column("seq", leaves=4, is_dim=True),
    Column(TIME, leaves=3, is_dim=True),
    Column("type", colour="cyan"),
    Column("session", leaves=2),
    Column("agent", leaves=1),
    Column("summary", is_prose=True, colours={REDACTED: "bright_black"}),
)

QUERY_ITEMS: Final = 50
REPLAY_ITEMS: Final = 200
ITEM_SCHEMA: Final = "openclaw-mem.episodic.v0"


@command(
    scope="required",
    short_help="Show events of a scope, oldest first.",
    examples="""
    treering episodes query --scope acme/app
    treering episodes query --scope acme/app --types tool.call,tool.result
    treering episodes query --scope acme/app --from-ts-ms 1767225600000 --json
    """,
)
def query(
    *,
    scope: Scope,
    session_id: str | None = session_id_option,
    turn: str | None = option("ID", "Only this turn."),
    types: Sequence[str] = option("TYPE,…", "Only these types; repeatable.", multiple=True),
    from_ts_ms: str | None = option(
        "WHEN", "Since then, inclusive: 3d, a date, or milliseconds.", "--from-ts-ms", "--since"
    ),
    to_ts_ms: str | None = option("WHEN", "Until then, inclusive.", "--to-ts-ms", "--until"),
    limit: int = limit_option(QUERY_ITEMS),
    cursor: str | None = cursor_option,
    include_payload: bool = include_payload_option,
) -> None:
    """Show events of a scope, oldest first. Payloads are left out unless asked for."""
    session = None if session_id is None else require(session_id, "session_id")
    since, until = parse_time(from_ts_ms), parse_time(to_ts_ms)
    if since is not None and until is not None and since > until:
        raise InvalidInput("from_ts_ms must be <= to_ts_ms", hint="swap the two times")
    kinds = parse_kinds(types)
    turn = None if turn is None else require(turn, "turn")
    asked = Query(
        scope=scope, session_id=session, turn_id=turn, kinds=tuple(kinds), since_ms=since,
        until_ms=until, limit=clamp(limit),
    )  # fmt: skip
    session, page = _read(asked, cursor, include_payload=include_payload)
    filters = {
        "session_id": session,
        "from_ts_ms": since,
        "to_ts_ms": until,
        "types": kinds,
        "limit": clamp(limit),
        "include_payload": include_payload,
        **({} if turn is None else {"turn": turn}),
    }
    nothing = (
        f"no events of scope {scope} match: drop a filter, or check the names"
        if any((session, turn, since, until, kinds, cursor))
        else f"nothing is recorded in scope {scope}: check its name,"
        " or record something with treering episodes append"
    )
    body = {"scope": scope, "filters": filters, "count": len(page.items)}
    _show_page(body, page, nothing, with_session=session is None)


@command(
    scope="required",
    short_help="Show one session from its beginning.",
    examples="""
    treering episodes replay s1 --scope acme/app
    treering episodes replay s1 --scope acme/app --include-payload --json
    """,
)
def replay(
    *,
    scope: Scope,
    session_id: str = session_argument,
    order: str = choice(
        ["time", "seq"],
        "Order by event time (the default) or by recording order.",
        "--by",
        default="time",
    ),
    limit: int = limit_option(REPLAY_ITEMS),
    cursor: str | None = cursor_option,
    include_payload: bool = include_payload_option,
) -> None:
    """Show one session as it went, oldest event first, each with its number in the session.

    Late events are shown where they happened; --by seq shows the order of recording.
    """
    session = require(session_id, "session_id", hint="name the session before the options")
    whole: str | None
    if order == "seq":
        whole, page = _read_by_seq(
            scope, session, clamp(limit), cursor, include_payload=include_payload
        )
    else:
        asked = Query(scope=scope, session_id=session, limit=clamp(limit))
        whole, page = _read(asked, cursor, include_payload=include_payload)
    body = {
        "scope": scope,
        "session_id": whole,
        "order": order,
        "count": len(page.items),
        "limit": clamp(limit),
        "include_payload": include_payload,
    }
    nothing = f"scope {scope} has no events of session {session}: check both names"
    _show_page(body, page, nothing, with_session=False, with_seq=True)


def _read_by_seq(
    scope: Scope, session_id: str, limit: int, cursor: str | None, *, include_payload: bool
) -> tuple[str, Page[Header] | Page[Event]]:
    with open_if_there() as ledger:
        ask = ledger.replay_events if include_payload else ledger.replay
        whole = session_or_text(ledger, scope, session_id)
        return whole, ask(scope, whole, first=limit, after=cursor)


def _read(
    asked: Query, cursor: str | None, *, include_payload: bool
) -> tuple[str | None, Page[Header] | Page[Event]]:
    """Return the whole id of the session that was named, and a page of events."""
    named = asked.session_id
    with open_if_there() as ledger:
        ask = ledger.events if include_payload else ledger.headers
        whole = None if named is None else session_or_text(ledger, asked.scope, named)
        return whole, ask(
            asked.scope,
            session_id=whole,
            turn_id=asked.turn_id,
            kinds=asked.kinds,
            since_ms=asked.since_ms,
            until_ms=asked.until_ms,
            first=asked.limit,
            after=cursor,
        )


def _show_page(
    body: dict[str, Any],
    page: Page[Header] | Page[Event],
    nothing: str,
    *,
    with_session: bool,
    with_seq: bool = False,
) -> None:
    items = {
        "items": [
            {**item(event), "seq": event.seq} if with_seq else item(event) for event in page.items
        ],
        "has_more": page.has_more,
        "next_cursor": page.next_cursor,
    }
    show(
        {**body, **items},
        page=lambda: _print_page(page, nothing, with_session=with_session, with_seq=with_seq),
    )


def _print_page(
    page: Page[Header] | Page[Event], nothing: str, *, with_session: bool, with_seq: bool
) -> None:
    if not page.items:
        say(nothing)
        return

    print_timeline(page.items, with_session=with_session, with_seq=with_seq)
    shown = counted(len(page.items), "event")
    late = sum(event.seq > other.seq for event, other in pairwise(page.items)) if with_seq else 0
    if late:
        say("recorded in another order; --by seq shows it")
    if page.has_more:
        say(f"{shown}, and more: run it again with --cursor {page.next_cursor}")
    else:
        say(shown)


def print_timeline(events: Sequence[Header], *, with_session: bool, with_seq: bool = False) -> None:
    """Print ``events``, one per row, each payload below its row."""
    rows = [
        [
            *([str(event.seq)] if with_seq else []),
            about(event.refs) + clock(event.ts_ms),
            printable(event.kind),
            *([printable(event.session_id)] if with_session else []),
            printable(event.agent_id),
            one_line(event.summary),
        ]
        for event in events
    ]
    payloads = {
        number: _PAYLOAD_INDENT + painted(printable(encode(event.payload).decode()), "green")
        for number, event in enumerate(events)
        if isinstance(event, Event) and event.payload is not None
    }
    hidden = {*(() if with_session else ("session",)), *(() if with_seq else ("seq",))}
    columns = [column for column in _COLUMNS if column.heading not in hidden]
    print_table(columns, rows, below=payloads)


def item(event: Header) -> dict[str, Any]:
    """Return the item for ``event``; it has a payload only if the event was asked for with one."""
    fields = {
        "id": event.position,
        "event_id": event.event_id,
        "ts_ms": event.ts_ms,
        "scope": event.scope,
        "session_id": event.session_id,
        "agent_id": event.agent_id,
        "type": event.kind,
        "summary": event.summary,
        "refs": event.refs,
        "redacted": event.redacted,
        "schema_version": ITEM_SCHEMA,
        "created_at": iso_time(event.recorded_ms),
    }
    if isinstance(event, Event):
        fields["payload"] = event.payload
    return fields


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
    scope="required",
    short_help="Search sessions by what was said and done.",
    examples="""
    treering episodes search "storage deploy" --scope acme/app
    treering episodes search 'kind:tool.call table after:7d' --scope acme/app
    """,
)
def search(
    *,
    scope: Scope,
    text: str = argument(),
    limit: int = limit_option(SESSIONS, SESSIONS_MAX, text="Sessions to show"),
    per_session: int = option(
        "N",
        f"Events to show per session, 1 to {ITEMS_MAX}. Default: {ITEMS}.",
        "--per-session-limit",
        "--per-session",
        default=ITEMS,
    ),
    search_limit: int = limit_option(HITS, HITS_MAX, text="Events to rank"),
    include_payload: bool = include_payload_option,
    trace: bool = flag("With --json: show how events were ranked."),
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
