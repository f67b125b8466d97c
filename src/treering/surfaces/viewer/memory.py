"""Memory: what is believed, and why. Facts, episodes, and a page to try recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import quote

from treering.errors import InvalidInput
from treering.memory.recall_result import Weights
from treering.model.memories import FACT_STATES, RECALL_MAX, FactState
from treering.surfaces.pages.wording import text_of
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import milliseconds, moment
from treering.surfaces.viewer.frame import empty
from treering.surfaces.viewer.parts import (
    NOTHING,
    Markup,
    action_button,
    answer,
    chips,
    facts_list,
    figure,
    html,
    html_if,
    kept_inputs,
    share_bar,
    short_id,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.memories import DoubtfulChange, Episode, Fact, FactChange, RecalledFact
    from treering.model.scopes import Scope

FACTS: Final = 100
EPISODES: Final = 30
BENCH: Final = 25
_DAY_MS: Final = 86_400_000
_CHANGES: Final = {
    "memory.stored": "learnt",
    "memory.revised": "revised",
    "memory.superseded": "replaced",
    "memory.archived": "archived, because nobody used it",
    "memory.restored": "accepted",
    "memory.forgotten": "rejected",
    "memory.refused": "not believed",
}


class MemoryArguments(ViewArguments, frozen=True, kw_only=True):
    """What to show of the memory."""

    tab: Literal["facts", "episodes", "recall"] = "facts"
    state: str = "current"
    as_of: str | None = None
    """A date: what was believed at its end."""
    user: str | None = None
    q: str = ""


def memory_page(request: PageRequest) -> PageBody:
    """Return what is remembered in the scopes of the page."""
    asked: MemoryArguments = request.arguments
    tabs = {"facts": "Facts", "episodes": "Episodes", "recall": "Recall bench"}
    body = {"facts": _facts_tab, "episodes": _episodes_tab, "recall": _recall_tab}[asked.tab]
    return PageBody(
        title="Memory" if asked.tab == "facts" else tabs[asked.tab],
        modules=("actions",),
        styles=("memory",),
        body=html(
            '<h1 class="unseen">Memory</h1>{}{}',
            chips(
                [
                    (
                        name,
                        request.url("/memory", tab=None if tab == "facts" else tab),
                        tab == asked.tab,
                    )
                    for tab, name in tabs.items()
                ],
                label="Parts of the memory",
            ),
            body(request),
        ),
    )


def _facts_tab(request: PageRequest) -> Markup:
    asked: MemoryArguments = request.arguments
    if asked.state not in FACT_STATES:
        raise InvalidInput(f"no state {asked.state}", hint=f"use {', '.join(FACT_STATES)}")
    at_ms = _as_of(request)
    review = [] if at_ms else _facts(request, "quarantined", None)
    doubts = [] if at_ms else _doubts(request)
    facts = _facts(request, asked.state, at_ms)
    if not facts and not review and asked.state == "current" and at_ms is None:
        return _nothing()
    return html(
        "{answer}{review}{doubts}{filters}{facts}",
        answer=answer(
            figure(f"{len(facts):,}{'+' if len(facts) >= FACTS else ''}",
                   f"{asked.state} facts" if len(facts) != 1 else f"{asked.state} fact",
                   html_if(" <small>as of {}</small>", at_ms and asked.as_of)),
            html(
                '<a href="#{}"><b>{}</b> to review</a>',
                "review" if review else "doubts",
                len(review) + len(doubts),
            ) if review or doubts else None,
        ),
        doubts=html_if(
            '<section aria-labelledby="doubts"><h2 id="doubts">Changed?</h2><p class="small'
            ' muted">Each may have ended an earlier fact. Until you decide, both are'
            ' believed.</p><ul class="memories">{}</ul></section>',
            [_doubt(request, doubt) for doubt in doubts],
        ),
        review=html(
            '<section aria-labelledby="review"><h2 id="review">To review</h2><p class="small'
            ' muted">Found where anybody could have written it: not believed until you accept'
            " it.</p>{}</section>",
            _rows(request, review),
        ) if review and asked.state != "quarantined" else None,
        filters=html(
            '<h2 class="{heading}">Facts</h2>{states}<form class="row" method="get"'
            ' action="/memory">{kept}<label><span>As of the end of</span><input type="date"'
            ' name="as_of" value="{as_of}"></label><label><span>About</span><input name="user"'
            ' value="{user}" placeholder="anybody"></label><button type="submit">Show</button>'
            "</form>",
            heading="" if review or doubts else "unseen",
            states=chips(
                [(state, request.url(state=None if state == "current" else state),
                  state == asked.state) for state in FACT_STATES],
                label="State of facts",
            ),
            kept=kept_inputs(request, "scope", "since", "until", "state"),
            as_of=asked.as_of,
            user=asked.user,
        ),
        facts=_rows(request, facts) if facts else html(
            '<p class="muted">No {} facts{}.</p>', asked.state,
            f" as of {asked.as_of}" if at_ms else ""),
    )  # fmt: skip


def _as_of(request: PageRequest) -> int | None:
    text = request.arguments.as_of
    if not text:
        return None
    at_ms = milliseconds(text, now_ms=request.now_ms)
    if at_ms is None:
        raise InvalidInput(f"{text[:40]} is not a date", hint="write 2026-03-05")
    return min(at_ms + _DAY_MS - 1, request.now_ms)


def _facts(request: PageRequest, state: str, at_ms: int | None) -> list[Fact]:
    facts = [
        fact
        for scope in request.scopes
        for fact in request.ledger.memory(scope)
        .facts(
            state=cast("FactState", state), user=request.arguments.user, as_of_ms=at_ms, limit=FACTS
        )
        .items
    ]
    facts.sort(key=lambda fact: -fact.recorded_ms)
    return facts[:FACTS]


def _doubts(request: PageRequest) -> list[DoubtfulChange]:
    return [
        doubt
        for scope in request.scopes
        for doubt in request.ledger.memory(scope).doubts(user=request.arguments.user)
    ][:FACTS]


def _doubt(request: PageRequest, doubt: DoubtfulChange) -> Markup:
    fact, earlier = doubt.fact, doubt.earlier
    url = _api_url(fact, "facts", fact.id, "settle")
    text, before = request.text(fact.text), request.text(earlier.text)
    return html(
        """<li data-key="{id}"><p class="fact" dir="auto"><a href="{url}">{text}</a></p>
<p dir="auto"><span class="small muted">may have ended</span>
<a href="{before_url}">{before}</a></p>
<p class="small muted">{signs}{scope}</p><p class="row actions">{ended}{both}</p></li>""",
        id=fact.id,
        url=_fact_url(request, fact),
        text=text,
        before_url=_fact_url(request, earlier),
        before=before,
        signs=f"{', '.join(doubt.signs)} · " if doubt.signs else "",
        scope=fact.scope,
        ended=action_button(
            request, "write", "Replace", url=url, body={"ended": True},
            title="Replace the earlier fact?",
            says=f"“{before}” is no longer believed; “{text}” replaces it. The history shows both.",
            done="Replaced.",
        ),
        both=action_button(
            request, "write", "Keep both", url=url, body={"ended": False},
            title="Keep both facts?",
            says=f"“{before}” and “{text}” are both believed, and you are not asked again.",
            done="Both kept.",
        ),
    )  # fmt: skip


def _rows(request: PageRequest, facts: Iterable[Fact]) -> Markup:
    return html('<ul class="memories">{}</ul>', [_row(request, fact) for fact in facts])


def _row(request: PageRequest, fact: Fact) -> Markup:
    return html(
        """<li data-key="{id}"><p class="fact" dir="auto"><a href="{url}">{text}</a></p>
<p class="small muted">{category} · since {since} · {sure} sure{used}{about} · {scope}</p>
{actions}</li>""",
        id=fact.id,
        url=_fact_url(request, fact),
        text=request.text(fact.text),
        category=fact.category,
        since=when(fact.valid_from_ms, request),
        sure=_sureness(fact.faded),
        used=html(", used {}", counted(fact.access_count, "time")) if fact.access_count else None,
        about=f" · about {request.text(fact.user)}" if fact.user else "",
        scope=fact.scope,
        actions=_actions(request, fact) if fact.state == "quarantined" else None,
    )


def _sureness(share: float) -> str:
    return f"{share * 100:.0f} %"


def _fact_url(request: PageRequest, fact: Fact) -> str:
    return request.url(f"/memory/{quote(fact.id, safe='')}", scope=fact.scope)


def _api_url(fact: Fact, *names: str) -> str:
    """Return the path of the API to something in the scope of a fact."""
    return "/".join(["/v1/scopes", *(quote(name, safe="") for name in (fact.scope, *names))])


def fact_page(request: PageRequest) -> PageBody:
    """Return one fact: its sources, its history, and the actions on it."""
    scope = request.the_scope
    memory = request.ledger.memory(scope)
    fact = memory.fact(request.names["fact_id"])
    text = request.text(fact.text)
    return PageBody(
        title=text[:80],
        modules=("actions",),
        styles=("memory",),
        body=html(
            """<p><a href="{back}">All facts</a></p><h1 dir="auto">{text}</h1>
{state}{actions}{facts}<h2>Where it comes from</h2>{evidence}<h2>History</h2>
<ol class="history">{history}</ol>""",
            back=request.url("/memory"),
            text=text,
            state=html(
                '<p><span class="tag{}">{}</span> {}</p>',
                "" if fact.state == "current" else " bad",
                fact.state,
                request.text(fact.reason),
            ),
            actions=_actions(request, fact),
            facts=facts_list(_about(request, fact)),
            evidence=_evidence(request, scope, fact),
            history=[_change(request, change) for change in memory.history(fact.id)],
        ),
    )


def _about(request: PageRequest, fact: Fact) -> Iterable[tuple[str, Any]]:
    yield "about", request.text(fact.user) or "everybody in the scope"
    yield "category", fact.category
    yield "importance", f"{fact.importance} of 10"
    yield (
        "sure",
        f"{_sureness(fact.faded)} now, {_sureness(fact.confidence)} when it was learnt"
        + (", confirmed" if fact.confirmed else ""),
    )
    until = html_if(" until {}", fact.valid_to_ms and when(fact.valid_to_ms, request))
    yield "true", html("since {}{}", when(fact.valid_from_ms, request), until)
    yield "recorded", when(fact.recorded_ms, request)
    yield (
        "used",
        html(
            "{}, last {}", counted(fact.access_count, "time"), when(fact.last_accessed_ms, request)
        )
        if fact.access_count
        else "never",
    )
    if fact.superseded_by:
        url = request.url(f"/memory/{quote(fact.superseded_by, safe='')}", scope=fact.scope)
        yield "replaced by", html('<a href="{}">the fact that came after it</a>', url)
    yield "scope", fact.scope
    yield "id", short_id(fact.id)


def _evidence(request: PageRequest, scope: Scope, fact: Fact) -> Markup:
    locations = request.ledger.find_ids(scope, list(fact.evidence)) if fact.evidence else {}
    rows = []
    for event_id in fact.evidence:
        location = locations.get(event_id)
        if location is None:
            continue
        event = request.ledger.event(scope, event_id)
        rows.append(
            html(
                '<li><blockquote dir="auto">{}</blockquote><p class="small muted">'
                '<a href="{}">Open in its session</a> · {} · {}</p></li>',
                text_of(event, request.mask)[:600],
                session_address(scope, location.session_id, event=event_id),
                event.kind,
                when(event.ts_ms, request),
            )
        )
    gone = len(fact.evidence_gone)
    return html(
        '<ul class="evidence">{}</ul>{}{}',
        rows,
        html('<p class="muted">No event is cited: somebody stated it directly.</p>')
        if not rows and not gone
        else None,
        html_if(
            '<p class="muted">{} has expired or was erased.</p>',
            gone and counted(gone, "cited event"),
        ),
    )


def _change(request: PageRequest, one: FactChange) -> Markup:
    return html(
        '<li><b>{}</b> <span class="muted small">{}</span>{}{}</li>',
        _CHANGES.get(one.kind, one.kind),
        html('<time title="{}">{}</time>', moment(one.recorded_ms), when(one.recorded_ms, request)),
        html_if('<br><span dir="auto">{}</span>', request.text(one.text)),
        html_if('<br><span class="muted">{}</span>', request.text(one.reason)),
    )


def _actions(request: PageRequest, fact: Fact) -> Markup:
    """Return the buttons that the caller may use."""
    at = _api_url(fact, "facts", fact.id)
    text = request.text(fact.text)
    buttons = []
    if fact.state in {"quarantined", "refused", "archived"}:
        buttons.append(action_button(
            request, "write", "Accept", url=f"{at}/accept", title="Accept this fact?",
            says=f"“{text}” will be believed, and recalled where it answers a question.",
            done="Accepted.",
        ))  # fmt: skip
    if fact.state in {"current", "quarantined", "archived", "refused"}:
        buttons.append(action_button(
            request, "write", "Reject", url=f"{at}/reject", title="Reject this fact?",
            says=f"“{text}” will never be recalled again. Its events stay; forget erases them.",
            ask="Why (optional)", done="Rejected.",
        ))  # fmt: skip
    if fact.state != "forgotten" or fact.text:
        buttons.append(action_button(
            request, "erase", "Forget", url=_api_url(fact, "redact"),
            title="Forget this fact for good?",
            body={"event_id": fact.event_id}, is_danger=True,
            says=f"The words “{text}” are erased from the file, with every copy of them. The chain"
            " still holds, and a receipt of the erasure stays. This cannot be undone.",
            done="Forgotten.", then=request.url("/memory"),
        ))  # fmt: skip
    return html_if('<p class="row actions">{}</p>', [*filter(None, buttons)])


def _episodes_tab(request: PageRequest) -> Markup:
    episodes = [
        (scope, episode)
        for scope in request.scopes
        for episode in request.ledger.memory(scope)
        .episodes(limit=EPISODES, user=request.arguments.user)
        .items
    ]
    episodes.sort(key=lambda pair: -pair[1].ended_ms)
    if not episodes:
        return empty(
            "No episode is written yet.",
            html(
                "Closing a session writes one: <code>treering sessions close ID</code>,"
                " or <code>treering sessions sweep</code> for those that are idle."
            ),
        )
    return html(
        '<ul class="memories">{}</ul>',
        [_episode(request, scope, episode) for scope, episode in episodes[:EPISODES]],
    )


def _episode(request: PageRequest, scope: Scope, episode: Episode) -> Markup:
    return html(
        """<li><p dir="auto">{summary}</p>{decisions}
<p class="small muted"><a href="{url}">{session}</a> · {when} · {count}{topics} · {scope}</p>
</li>""",
        summary=request.text(episode.summary),
        decisions=html_if(
            "<ul>{}</ul>",
            [html('<li dir="auto">{}</li>', request.text(each)) for each in episode.key_decisions],
        ),
        url=session_address(scope, episode.session_id),
        session=episode.session_id,
        when=when(episode.ended_ms, request),
        count=counted(episode.message_count, "message"),
        topics=f" · {', '.join(map(request.text, episode.topics))}" if episode.topics else "",
        scope=scope,
    )


def _recall_tab(request: PageRequest) -> Markup:
    asked: MemoryArguments = request.arguments
    form = html(
        """<form class="row" method="get" action="/memory"><input type="hidden" name="tab"
 value="recall">{kept}<label class="grow"><span>A question, as an agent would ask it</span>
<input id="question" name="q" data-find value="{q}" autocomplete="off"></label>
<label><span>For</span><input name="user" value="{user}" placeholder="anybody"></label>
<button type="submit">Recall</button></form>""",
        kept=kept_inputs(request),
        q=asked.q,
        user=asked.user,
    )
    if not asked.q.strip():
        return html(
            "{}{}",
            form,
            empty(
                "Ask what an agent would ask.",
                html(
                    "You see what it would recall and why, and what just missed the floor."
                    " Asking here records nothing."
                ),
            ),
        )
    parts = [part for scope in request.scopes if (part := _bench(request, scope)) is not NOTHING]
    return html("{}{}", form, parts or html('<p class="muted">Nothing is remembered here.</p>'))


def _bench(request: PageRequest, scope: Scope) -> Markup:
    """Return what a recall returns in one scope, and the facts that nearly qualified."""
    asked: MemoryArguments = request.arguments
    memory = request.ledger.memory(scope)
    recalled = memory.recall(asked.q, user=asked.user, record=False)
    near = memory.recall(
        asked.q,
        user=asked.user,
        record=False,
        limit=min(BENCH, RECALL_MAX),
        weights=Weights(threshold=0.0, episodes=1.0),
        turns=0,
    )
    recalled_ids = {hit.fact.id for hit in recalled.fact_hits}
    missed = [hit for hit in near.fact_hits if hit.fact.id not in recalled_ids]
    if not (recalled.fact_hits or recalled.episode_hits or recalled.turn_hits or missed):
        return NOTHING
    return html(
        """<section aria-label="{scope}"><h2>{scope}</h2>
<h3>Recalled</h3>{facts}{turns}{missed}{notes}</section>""",
        scope=scope,
        facts=html(
            '<ol class="bench">{}</ol>', [_recalled(request, hit) for hit in recalled.fact_hits]
        )
        if recalled.fact_hits
        else html('<p class="muted">No fact reaches the floor.</p>'),
        turns=html_if(
            '<h3>Said earlier, word for word</h3><ol class="bench">{}</ol>',
            [
                html(
                    '<li><p dir="auto"><a href="{}">{}</a></p>{}</li>',
                    session_address(scope, hit.session_id, event=hit.event_id),
                    request.text(hit.text)[:240],
                    _why(hit.score, hit.why),
                )
                for hit in recalled.turn_hits[:5]
            ],
        ),
        missed=html_if(
            '<h3>Left out, the closest first</h3><ol class="bench missed">{}</ol>',
            [_recalled(request, hit) for hit in missed],
        ),
        notes=[
            html('<p class="small muted">{}</p>', request.text(note)) for note in recalled.notes
        ],
    )


def _recalled(request: PageRequest, one: RecalledFact) -> Markup:
    return html(
        '<li><p dir="auto"><a href="{}">{}</a></p>{}</li>',
        _fact_url(request, one.fact),
        request.text(one.fact.text),
        _why(one.score, {"similarity": one.similarity, **one.why}, floor=Weights().threshold),
    )


def _why(score: float, why: dict[str, float], *, floor: float | None = None) -> Markup:
    """Return the parts of a score as bars; the floor of similarity is a line across its bar."""
    rows = [
        html(
            '<tr><th scope="row">{}</th><td>{}{}</td><td class="number">{}</td></tr>',
            name,
            share_bar(value, floor=floor if name == "similarity" else None),
            html(
                '<span class="small muted"> floor {}: {}</span>',
                f"{floor:.2f}",
                "reached" if value >= floor else "missed",
            )
            if floor is not None and name == "similarity"
            else None,
            f"{value:.2f}",
        )
        for name, value in why.items()
    ]
    return html(
        '<details open><summary class="small">score {}</summary><table class="why">'
        '<caption class="unseen">Why</caption><tbody>{}</tbody></table></details>',
        f"{score:.2f}",
        rows,
    )


def _nothing() -> Markup:
    return empty(
        "Nothing is remembered here yet.",
        html("<code>treering facts extract</code> finds facts in what was recorded."),
        html(
            "<code>treering facts add</code> states one; so does"
            " <code>ledger.memory(scope).learn(…)</code> in Python."
        ),
    )
