"""Compare: two sessions, or a session and its fork, side by side."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.derive.search_texts import files_in
from treering.errors import InvalidInput
from treering.model.queries import PAGE_ITEMS_MAX
from treering.model.scopes import Scope, parse_scope
from treering.model.tools import FAILING
from treering.surfaces.shared.texts import counted
from treering.surfaces.viewer.frame import empty
from treering.surfaces.viewer.parts import (
    NONE,
    NOTHING,
    Markup,
    TableColumn,
    amount,
    dollars,
    html,
    kept_inputs,
    session_link,
    table,
    took,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.families import Family
    from treering.model.sessions import SessionOutline
    from treering.model.views import Counts, TurnView, Usage

TURNS_MAX: Final = 200
CHOICES: Final = 100
FORKS_MAX: Final = 10
_SEPARATOR: Final = "|"


class CompareArguments(ViewArguments, frozen=True, kw_only=True):
    """The two sessions: ``scope|id`` each, or the id alone in the scope of the page."""

    a: str = ""
    b: str = ""

    def named_scopes(self) -> list[str]:
        """Return the scopes of both sessions, too, for the check of the token."""
        named = [key.partition(_SEPARATOR)[0] for key in (self.a, self.b) if _SEPARATOR in key]
        return [*super().named_scopes(), *named]


class Side(NamedTuple):
    """One of the two sessions."""

    outline: SessionOutline
    counts: Counts
    usage: Usage
    turns: list[TurnView]
    tools: Counter[str]
    failed: int
    files: set[str]


def compare_page(request: PageRequest) -> PageBody:
    """Return two sessions side by side, or a choice of sessions."""
    asked: CompareArguments = request.arguments
    sides = [_side(request, key) for key in (asked.a, asked.b) if key]
    body = html("{}{}", _form(request), _choices(request))
    if len(sides) == 2:
        body = html("{}{}", _form(request), _comparison(request, *sides))
    return PageBody(
        title="Compare", body=html("<h1>Compare</h1>{}", body), styles=("compare",), is_wide=True
    )


def _form(request: PageRequest) -> Markup:
    """Return the form that chooses two sessions: it offers the latest, and accepts any."""
    figures = request.figures()
    outlines = [outline for figure in figures for outline in figure.outlines.values()]
    outlines.sort(key=lambda outline: -outline.updated_ms)
    options = [
        html(
            '<option value="{}">{}</option>',
            _key(outline.scope, outline.session_id),
            request.text(outline.title)[:80] or outline.session_id,
        )
        for outline in outlines[:CHOICES]
    ]
    field = (
        '<label class="grow"><span>{}</span><input name="{}" id="side-{}" list="sessions"'
        ' value="{}" autocomplete="off" spellcheck="false" placeholder="scope|session"></label>'
    )
    return html(
        '<form class="row" method="get" action="/compare">{}{}{}<datalist id="sessions">{}'
        '</datalist><button type="submit">Compare</button></form>',
        kept_inputs(request),
        html(field, "One session", "a", "a", request.arguments.a),
        html(field, "And another", "b", "b", request.arguments.b),
        options,
    )


def _choices(request: PageRequest) -> Markup:
    """Return the forks of the page's scopes: what people compare most."""
    rows = []
    for scope in request.scopes:
        for family in request.ledger.families(scope, limit=FORKS_MAX).items:
            rows += list(_forks(request, scope, family))
    if not rows:
        return empty(
            "Choose two sessions.",
            html("Forks are offered here: <code>treering sessions fork ID</code> makes one."),
        )
    return html(
        "<h2>Forks</h2>{}",
        table(
            [TableColumn("Fork", "words"), TableColumn("Of", "words"),
             TableColumn("When", "number"), TableColumn("Both", "nowrap")],
            rows[: FORKS_MAX * 2],
            caption="Sessions and their forks",
        ),
    )  # fmt: skip


def _forks(request: PageRequest, scope: Scope, family: Family) -> Iterable[tuple[Any, ...]]:
    parent = family.session
    for fork in family.forks:
        child = fork.session
        yield (
            session_link(child, request, scope=scope, session_id=child.session_id),
            session_link(parent, request, scope=scope, session_id=parent.session_id),
            when(child.updated_ms, request),
            html(
                '<a href="{}">Compare<span class="unseen"> {} with {}</span></a>',
                request.url(
                    "/compare", a=_key(scope, parent.session_id), b=_key(scope, child.session_id)
                ),
                child.session_id,
                parent.session_id,
            ),
        )
        yield from _forks(request, scope, fork)


def _key(scope: str, session_id: str) -> str:
    return f"{scope}{_SEPARATOR}{session_id}"


def _side(request: PageRequest, text: str) -> Side:
    name, separator, session_id = text.partition(_SEPARATOR)
    if not separator:
        name, session_id = request.arguments.scope or "", text
    if not name:
        raise InvalidInput(
            f"{text[:60]} names no scope", hint="write scope|session, as in acme/app|fix-tides"
        )
    scope = parse_scope(name)
    session = request.ledger.session(session_id, scope=scope, agent="viewer")
    outline = session.outline()
    calls = list(session.tool_calls(last=PAGE_ITEMS_MAX))
    events = request.ledger.events(
        scope, session_id=session_id, kinds=["tool.call"], last=PAGE_ITEMS_MAX
    )
    return Side(
        outline=outline,
        counts=session.summary(),
        usage=session.usage(),
        turns=list(session.turns(last=TURNS_MAX)),
        tools=Counter(request.text(call.tool) or "(unnamed)" for call in calls),
        failed=sum(call.status in FAILING for call in calls),
        files={
            request.text(path)
            for event in events.items
            if not event.redacted
            for path in files_in(event)
        },
    )


def _comparison(request: PageRequest, one: Side, other: Side) -> Markup:
    sides = (one, other)
    tools = sorted({*one.tools, *other.tools}, key=lambda name: -(one.tools + other.tools)[name])
    names = [request.text(side.outline.title)[:60] or side.outline.session_id for side in sides]
    return html(
        """{shared}<div class="sides"><h2 class="unseen">At a glance</h2>{glance}
<h2>Turn by turn</h2>{turns}<h2>Tools</h2>{tools}<h2>Files</h2>{files}</div>""",
        shared=_shared(one, other),
        glance=table(
            [TableColumn("What"), TableColumn(names[0], "words"), TableColumn(names[1], "words")],
            [(name, *(show(side) for side in sides)) for name, show in _facts(request)],
            caption="At a glance",
        ),
        turns=_turns(request, one, other),
        tools=table(
            [TableColumn("Tool"), TableColumn(names[0], "number"), TableColumn(names[1], "number")],
            [(name, one.tools[name] or NONE, other.tools[name] or NONE) for name in tools],
            caption="Calls by tool",
        )
        if tools
        else html('<p class="muted">Neither called a tool.</p>'),
        files=_files(one.files, other.files),
    )


def _shared(one: Side, other: Side) -> Markup:
    """Return where a fork branched off, if one of the two is a fork of the other."""
    for fork, parent in ((one, other), (other, one)):
        is_fork = fork.outline.parent == parent.outline.session_id
        if is_fork and fork.outline.scope == parent.outline.scope:
            return html(
                '<p class="notice">{} is a fork of {}: they share everything up to event {}.</p>',
                fork.outline.session_id,
                parent.outline.session_id,
                fork.outline.forked_seq,
            )
    return NOTHING


def _facts(request: PageRequest) -> list[tuple[str, Any]]:
    def span(side: Side) -> str:
        first, last = side.counts.first_ms, side.counts.last_ms
        return took(None if first is None or last is None else last - first)

    return [
        ("Session", lambda side: session_link(
            side.outline, request, scope=side.outline.scope, session_id=side.outline.session_id)),
        ("Scope", lambda side: side.outline.scope),
        ("Agent", lambda side: request.text(side.outline.agent)),
        ("Model", lambda side: request.text(side.outline.model) or NONE),
        ("State", lambda side: side.outline.state),
        ("When", lambda side: when(side.outline.updated_ms, request)),
        ("From first to last", span),
        ("Turns", lambda side: f"{side.counts.turns:,}"),
        ("Tool calls", lambda side: f"{side.counts.tool_calls:,}, {side.failed:,} failed"),
        ("Tokens", lambda side: amount(side.usage.total.total_tokens)),
        ("Cost", lambda side: dollars(side.usage.total.cost_usd, unknown="price unknown")),
    ]  # fmt: skip


def _turns(request: PageRequest, one: Side, other: Side) -> Markup:
    """Return the prompts of both side by side, equal ones in one row."""
    left, right = one.turns, other.turns
    matcher = difflib.SequenceMatcher(
        None, [turn.prompt for turn in left], [turn.prompt for turn in right], autojunk=False
    )
    rows: list[tuple[TurnView | None, TurnView | None]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            rows += zip(left[i1:i2], right[j1:j2], strict=True)
            continue
        width = max(i2 - i1, j2 - j1)
        rows += [
            (left[i1 + at] if i1 + at < i2 else None, right[j1 + at] if j1 + at < j2 else None)
            for at in range(width)
        ]
    if not rows:
        return html('<p class="muted">Neither has a turn.</p>')
    return html(
        '<ol class="beside">{}</ol>',
        [
            html(
                '<li class="{}"><div>{}</div><div>{}</div></li>',
                "same" if a and b and a.prompt == b.prompt else "differs",
                _turn(request, one, a),
                _turn(request, other, b),
            )
            for a, b in rows
        ],
    )


def _turn(request: PageRequest, side: Side, turn: TurnView | None) -> Markup:
    if turn is None:
        return html('<p class="muted">{}</p>', NONE)
    tokens = sum(used.total_tokens for used in turn.usage)
    words = [
        took(turn.ended_ms - turn.started_ms),
        counted(turn.tool_calls, "tool") if turn.tool_calls else "",
        f"{amount(tokens)} tokens" if tokens else "",
        turn.state if turn.state not in {None, "ended"} else "",
        "undone" if turn.is_undone else "",
    ]
    return html(
        '<p dir="auto"><a href="{}">{}</a></p><p class="small muted">{}</p>',
        session_address(side.outline.scope, side.outline.session_id, event=turn.input_event_id),
        request.text(turn.prompt)[:200] or "(no words)",
        " · ".join(word for word in words if word),
    )


def _files(one: set[str], other: set[str]) -> Markup:
    if not one and not other:
        return html('<p class="muted">Neither named a file.</p>')
    groups = (("In both", one & other), ("Only in the first", one - other),
              ("Only in the second", other - one))  # fmt: skip
    return html(
        "{}",
        [
            html(
                '<h3>{} ({})</h3><ul class="paths">{}</ul>',
                name,
                len(paths),
                [html('<li class="mono" dir="auto">{}</li>', path) for path in sorted(paths)[:100]],
            )
            for name, paths in groups
            if paths
        ],
    )
