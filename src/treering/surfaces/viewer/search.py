"""Search over everything that was said and done; each hit opens at its event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from treering.errors import InvalidInput
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import typed_zone
from treering.surfaces.viewer.frame import empty, sentence
from treering.surfaces.viewer.parts import NOTHING, Markup, chips, html, html_if, kept_inputs, when
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.searches import SearchHit, SearchResult, SessionHits

HITS: Final = 40
SESSIONS_MAX: Final = 20
MODES: Final = {"words": "Words", "hybrid": "Words and meaning", "semantic": "Meaning"}


class SearchPageArguments(ViewArguments, frozen=True, kw_only=True):
    """What to search for."""

    q: str = ""
    mode: Literal["words", "hybrid", "semantic"] = "words"


def search_page(request: PageRequest) -> PageBody:
    """Return what a query finds; the palette shows the same hits."""
    asked: SearchPageArguments = request.arguments
    return PageBody(
        title=f"Search: {asked.q}" if asked.q else "Search",
        body=html(
            """<h1>Search</h1>
<form class="row" role="search" method="get" action="/search">{kept}
<label class="grow"><span>Words, "phrases", kind: agent: tool: file: session: after: before:</span>
<input id="query" name="q" data-find value="{q}" autocomplete="off" spellcheck="false"></label>
<button type="submit">Search</button></form>
{modes}
<div id="hits">{hits}</div>""",
            kept=kept_inputs(request, "scope", "mode"),
            q=asked.q,
            modes=chips(
                [
                    (name, request.url(mode=mode), mode == asked.mode)
                    for mode, name in MODES.items()
                ],
                label="How to search",
            ),
            hits=_hits(request) if asked.q.strip() else _lesson(),
        ),
    )


def _hits(request: PageRequest) -> Markup:
    try:
        results = [_search(request, scope) for scope in _groups(request)]
    except InvalidInput as error:
        message = sentence(str(error)), sentence(error.hint)
        return html('<p class="notice bad" role="alert">{} {}</p>', *message)
    sessions = [session for result in results for session in result.sessions]
    if not sessions:
        return _nothing(request, results)
    sessions.sort(key=lambda session: -session.best)
    total = sum(result.total for result in results)
    at_least = "at least " if any(result.at_least for result in results) else ""
    widened = " ".join({word for result in results for word in result.widened})
    missing = sum(result.vectors_missing for result in results)
    return html(
        '<p class="small muted">{at_least}{total}{widened}{missing}</p>'
        '<ol class="found">{sessions}</ol>',
        at_least=at_least,
        total=counted(total, "matching event"),
        widened=f", for {widened}" if widened else "",
        missing=f"; {counted(missing, 'event')} by words only" if missing else "",
        sessions=[_session(request, session) for session in sessions[:SESSIONS_MAX]],
    )


def _groups(request: PageRequest) -> Sequence[str | None]:
    """Return the scopes to search in turn; None for all at once."""
    if request.arguments.scope or request.grant.scopes:
        return request.scopes
    return [None]


def _search(request: PageRequest, scope: str | None) -> SearchResult:
    return request.ledger.search(
        request.arguments.q,
        scope=scope,
        all_scopes=scope is None,
        mode=request.arguments.mode,
        limit=HITS,
        include_failed=True,
        zone=typed_zone(),
    )


def _session(request: PageRequest, session: SessionHits) -> Markup:
    return html(
        """<li><p class="of"><a href="{url}" dir="auto">{title}</a>
<span class="muted small">{scope} · {agent} · {count}</span></p><ul>{hits}</ul></li>""",
        url=session_address(session.scope, session.session_id),
        title=request.text(session.title or _title(request, session))[:120] or session.session_id,
        scope=session.scope,
        agent=request.text(session.agent_id),
        count=counted(session.count, "match"),
        hits=[_hit(request, hit) for hit in session.hits],
    )


def _title(request: PageRequest, session: SessionHits) -> str | None:
    return (
        request.ledger.session(session.session_id, scope=session.scope, agent=session.agent_id)
        .outline()
        .title
    )


def _hit(request: PageRequest, hit: SearchHit) -> Markup:
    kind = hit.kind if not hit.tool else f"{hit.kind} {request.text(hit.tool)}"
    return html(
        '<li><a class="hit" data-hit href="{}"><span class="kind">{}{}</span>'
        '<span class="snippet" dir="auto">{}</span><span class="muted small">{}</span></a></li>',
        session_address(hit.scope, hit.session_id, event=hit.event_id),
        kind,
        " (partial)" if hit.partial else None,
        marked(hit.snippet, hit.spans),
        when(hit.ts_ms, request),
    )


def marked(snippet: str, spans: Sequence[tuple[int, int]]) -> Markup:
    """Return a snippet with its matches marked; it is masked already."""
    parts: list[Markup] = []
    at = 0
    for first, last in spans:
        if first >= at and last <= len(snippet):
            parts.append(html("{}<mark>{}</mark>", snippet[at:first], snippet[first:last]))
            at = last
    return html("{}{}", parts, snippet[at:])


def _nothing(request: PageRequest, results: Sequence[SearchResult]) -> Markup:
    hybrid = html('<a href="{}">Search by meaning, too</a>.', request.url(mode="hybrid"))
    everywhere = html('<a href="{}">Search all scopes</a>.', request.url(scope=None))
    lag = sum(result.lag for result in results)
    return empty(
        "Nothing matches.",
        html("Try other words, or a prefix such as <code>deploy*</code>."),
        hybrid if request.arguments.mode == "words" else NOTHING,
        everywhere if request.arguments.scope else NOTHING,
        html_if("{} not searchable yet.", lag and counted(lag, "event")),
    )


def _lesson() -> Markup:
    return empty(
        "Search everything that was said and done.",
        html(
            "<code>no such table</code> finds events with every word, in any order;"
            ' <code>"no such table"</code> the phrase, <code>deploy*</code> a beginning.'
        ),
        html(
            "<code>tool:Bash after:7d</code>, <code>file:src/a.py</code>, <code>agent:codex</code>"
            " and <code>-draft</code> narrow it."
        ),
    )
