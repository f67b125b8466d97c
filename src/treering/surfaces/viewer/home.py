"""Home: all sessions, the running ones first, and their filter, in the grammar of search.

    agent:codex failing cost>1 after:7d "upload test"

Words of the filter match titles, ids, and everything said and done.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.errors import InvalidInput
from treering.model.search_queries import OPERATORS
from treering.model.searches import HITS_MAX
from treering.model.sessions import SESSION_STATES, SessionOutline
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import milliseconds, typed_zone
from treering.surfaces.viewer.catalogue import ScopeFigures, known_cost, sums_of, used_in
from treering.surfaces.viewer.frame import empty, sentence
from treering.surfaces.viewer.parts import (
    NOTHING,
    Bar,
    Markup,
    amount,
    answer,
    bar_chart,
    change,
    chips,
    dollars,
    figure,
    html,
    html_if,
    kept_inputs,
    percent,
    session_link,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments
from treering.surfaces.viewer.tools import call_words
from treering.surfaces.viewer.usage import day_of, span_index, spans_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from treering.derive.periods import Period
    from treering.derive.reports import Sums
    from treering.model.tools import ToolRecord

ROWS: Final = 50
CHIPS_MAX: Final = 3


class SessionListArguments(ViewArguments, frozen=True, kw_only=True):
    """What the list is filtered by, and where it continues."""

    q: str = ""
    state: str | None = None
    after: int = 0
    """Rows that were shown before."""


class SessionRow(NamedTuple):
    """A session with its numbers."""

    outline: SessionOutline
    figures: ScopeFigures
    state: str
    failed: int
    failure: ToolRecord | None
    """The last call that failed."""

    def numbers(self) -> SessionNumbers:
        """Return the numbers that filters compare; those of an old session are read from it."""
        turns, spent = self.figures.usage_of(self.outline)
        return SessionNumbers(turns, spent.total_tokens, spent.cost_usd, self.failed)


def sessions_page(request: PageRequest) -> PageBody:
    """Return the list of sessions, with the activity of the period."""
    asked: SessionListArguments = request.arguments
    typed = asked.q if asked.state is None else (toggled(asked.q, f"state:{asked.state}") or "")
    problem, wanted = NOTHING, SessionFilter()
    try:
        wanted = parse_filter(typed)
        period = _narrowed(request, wanted)
    except InvalidInput as error:
        message = sentence(str(error)), sentence(error.hint)
        problem = html('<p class="notice bad" role="alert">{} {}</p>', *message)
        period = request.period
    earlier = request.period.previous()
    first_ms = min(period.since_ms, request.period.since_ms)
    figures = request.figures(first_ms if earlier is None else max(earlier.since_ms, 1))
    rows = _rows(request, figures, wanted, period)
    shown = rows[asked.after : asked.after + ROWS]
    return PageBody(
        title="Sessions",
        modules=("home",),
        styles=("home",),
        body=html(
            """<h1 class="unseen">Sessions</h1>
<div id="totals">{totals}{activity}</div>
<form class="row" role="search" method="get" action="/sessions">
{kept}<label class="grow"><span>Filter sessions</span>
<input id="filter" name="q" data-find value="{typed}" autocomplete="off" spellcheck="false"
 placeholder="words  agent:codex  failing  cost&gt;1"></label>
<button type="submit">Filter</button></form>
{problem}{chips}
<p class="small muted" id="count">{count}</p>
{list}{more}""",
            totals=_totals(request, figures),
            activity=_activity(request, figures),
            kept=kept_inputs(request),
            typed=typed,
            problem=problem,
            chips=_chips(request, typed, rows),
            count=counted(len(rows), "session") if rows else "",
            list=html(
                '<ul class="sessions" id="rows">{}</ul>', [_row(request, row) for row in shown]
            )
            if shown
            else _nothing(request, typed),
            more=html_if(
                '<p class="more"><a href="{}">Show more</a></p>',
                len(rows) > asked.after + ROWS and request.url(after=asked.after + ROWS),
            ),
        ),
    )


def _narrowed(request: PageRequest, wanted: SessionFilter) -> Period:
    """Return the period of the page, narrowed by the filter. Raise InvalidInput."""
    period, times = request.period, {}
    for name, text in wanted.times.items():
        moment = milliseconds(text, now_ms=request.now_ms)
        if moment is None:
            raise InvalidInput(f"{name}:{text} is not a time", hint="write after:7d or a date")
        times[name] = moment
    return type(period)(
        since_ms=times.get("after", period.since_ms), until_ms=times.get("before", period.until_ms)
    )


def _rows(
    request: PageRequest, figures: list[ScopeFigures], wanted: SessionFilter, period: Period
) -> list[SessionRow]:
    """Return the matching sessions: the running ones first, then the last written to."""
    matched = _found(request, wanted) if wanted.words else None
    rows: list[SessionRow] = []
    for scope_figures in figures:
        failed = Counter(record.session_id for record in scope_figures.failures)
        last = {record.session_id: record for record in scope_figures.failures}
        for outline in scope_figures.outlines.values():
            if outline.spawned_by is not None:
                continue  # Its parent shows it.
            if not period.since_ms <= outline.updated_ms <= period.until_ms:
                continue
            name = outline.session_id
            row = SessionRow(
                outline,
                scope_figures,
                scope_figures.state_of(outline),
                failed[name],
                last.get(name),
            )
            if not wanted.matches(outline, row.state, row.failed):
                continue
            if wanted.numbers and not wanted.compares(row.numbers()):
                continue
            title = f"{outline.title or ''} {name}".casefold()
            if (
                matched is not None
                and (scope_figures.scope, name) not in matched
                and not (wanted.plain and wanted.plain.casefold() in title)
            ):
                continue
            rows.append(row)
    rows.sort(key=lambda row: (row.state != "running", -row.outline.updated_ms))
    return rows


def _found(request: PageRequest, wanted: SessionFilter) -> set[tuple[str, str]]:
    """Return scope and id of the sessions that a search for the filter's words finds."""
    matched: set[tuple[str, str]] = set()
    for scope in request.scopes:
        result = request.ledger.search(
            wanted.words, scope=scope, limit=HITS_MAX, include_failed=True, zone=typed_zone()
        )
        matched.update(
            (hits.scope, hits.session_id)
            for hits in result.sessions
            if any(not hit.partial for hit in hits.hits)
        )
    return matched


def _totals(request: PageRequest, figures: list[ScopeFigures]) -> Markup:
    """Return the numbers of the period, each beside that of the period before."""
    period, before = request.period, request.period.previous()
    now, then = _sum(figures, period), None if before is None else _sum(figures, before)
    rate, rate_before = _rate(request, period), None if before is None else _rate(request, before)
    cost, is_whole = known_cost(now.sums)
    cost_before = None if then is None else float(known_cost(then.sums)[0])
    return answer(
        figure(f"{now.sessions:,}", "sessions" if now.sessions != 1 else "session",
               change(now.sessions, then and then.sessions)),
        figure(f"{now.turns:,}", "turns" if now.turns != 1 else "turn",
               change(now.turns, then and then.turns)),
        figure(amount(now.tokens), "tokens", change(now.tokens, then and then.tokens)),
        figure(dollars(cost), "" if is_whole else "and models without a price",
               change(float(cost), cost_before)) if now.sums else None,
        figure(percent(rate), "of tool calls failed", change(rate, rate_before))
        if rate is not None else None,
    )  # fmt: skip


class _Sum(NamedTuple):
    sessions: int
    turns: int
    sums: Sums

    @property
    def tokens(self) -> int:
        return sum(model_tokens.total_tokens for model_tokens in self.sums.values())


def _sum(figures: Iterable[ScopeFigures], period: Period) -> _Sum:
    figures = list(figures)
    turns = [
        (scope_figures.scope, session_id)
        for scope_figures in figures
        for ts_ms, session_id in scope_figures.turns.values()
        if period.since_ms <= ts_ms <= period.until_ms
    ]
    used = list(used_in(figures, period))
    active = {*turns, *((use.scope, use.session_id) for use in used)}
    tops = {
        (scope_figures.scope, outline.spawned_by or outline.session_id)
        for scope_figures in figures
        for outline in scope_figures.outlines.values()
        if (scope_figures.scope, outline.session_id) in active
        or period.since_ms <= outline.updated_ms <= period.until_ms
    }
    return _Sum(len(tops), len(turns), sums_of(used))


def _rate(request: PageRequest, period: Period) -> float | None:
    ended = failed = 0
    for scope in request.scopes:
        for tool in request.ledger.tool_statistics(
            scope, since_ms=period.since_ms, until_ms=period.until_ms
        ):
            ended += tool.ok + tool.failed + tool.synthetic
            failed += tool.failed + tool.synthetic
    return failed / ended if ended else None


def _activity(request: PageRequest, figures: list[ScopeFigures]) -> Markup:
    """Return a bar for each day of the period: how many turns; a click filters."""
    period = request.period
    turns = [
        ts_ms
        for scope_figures in figures
        for ts_ms, _ in scope_figures.turns.values()
        if period.since_ms <= ts_ms <= period.until_ms
    ]
    if not turns:
        return NOTHING
    spans = spans_of(period, turns)
    index = span_index(spans)
    counts = Counter(index[day_of(ts_ms)] for ts_ms in turns)
    return bar_chart(
        [
            Bar(span.label, (counts[at],), counted(counts[at], "turn"), request.url(**span.query))
            for at, span in enumerate(spans)
        ],
        title="Turns",
        value="Turns",
    )


def _chips(request: PageRequest, typed: str, rows: list[SessionRow]) -> Markup:
    """Return the filters that the page offers as buttons."""
    agents = Counter(row.outline.agent for row in rows)
    models = Counter(row.outline.model for row in rows if row.outline.model)
    offered = ["state:running", "failing", "cost>1"]
    if len(agents) > 1 or "agent:" in typed:
        offered += [f"agent:{_quoted(name)}" for name, _ in agents.most_common(CHIPS_MAX)]
    if len(models) > 1 or "model:" in typed:
        offered += [f"model:{_quoted(name)}" for name, _ in models.most_common(CHIPS_MAX)]
    pieces = typed.split()
    offered += [piece for piece in pieces if piece not in offered and ":" in piece]
    return chips(
        [
            (piece, request.url(q=toggled(typed, piece), state=None), piece in pieces)
            for piece in dict.fromkeys(offered)
        ],
        label="Filters",
    )


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _row(request: PageRequest, row: SessionRow) -> Markup:
    outline, numbers = row.outline, row.numbers()
    failed = NOTHING
    if row.failure is not None and numbers.failed:
        words = call_words(request, row.failure)
        message = words.message or words.remark
        failed = html(
            '<span class="failure" title="{whole}"><span aria-hidden="true">✕</span>'
            ' {count} failed<span class="unseen"> calls</span>: {tool} {message}</span>',
            whole=message,
            count=f"{numbers.failed:,}",
            tool=words.tool,
            message=message,
        )
    return html(
        """<li data-key="{key}"><span class="mark">{mark}</span>
<span class="title">{link}</span> <span class="scope">{scope}</span>
<span class="agent">{agent}</span> <span class="number turns">{turns}</span>
<span class="number cost">{cost}</span> <span class="number when">{when}</span>
{failed}</li>
""",
        key=f"{outline.scope} {outline.session_id}",
        mark=html('<span class="dot" aria-hidden="true">●</span><span class="unseen">live</span>')
        if row.state == "running"
        else None,
        link=session_link(outline, request, scope=outline.scope, session_id=outline.session_id),
        scope=outline.scope,
        agent=" · ".join(filter(None, (request.text(outline.agent), request.text(outline.model)))),
        turns=counted(numbers.turns, "turn") if numbers.turns else "",
        cost=dollars(numbers.cost) if numbers.tokens else "",
        when="now" if row.state == "running" else when(outline.updated_ms, request),
        failed=failed,
    )


def _nothing(request: PageRequest, typed: str) -> Markup:
    if typed:
        return empty(
            "No session matches.",
            html('<a href="{}">Remove the filter</a>', request.url(q=None, state=None)),
            html(
                'Or <a href="{}">search what was said and done</a>.',
                request.url("/search", q=typed),
            ),
        )
    if request.since != "all" and request.all_scopes:
        return empty(
            "Nothing was recorded in this period.",
            html('<a href="{}">Show all time</a>', request.url(since="all", until=None)),
        )
    return empty(
        "Nothing is recorded yet.",
        html("<code>treering import</code> imports the logs of agents on this machine."),
        html("<code>treering install</code> installs hooks that import new ones."),
    )


_PIECE: Final = re.compile(r'-?(?:[A-Za-z]+[:<>])?"[^"]*"?\*?|\S+')
_NUMBER: Final = re.compile(r"(cost|tokens|turns)([<>])(\d+(?:\.\d+)?)([kM]?)")
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_OWN: Final = ("agent", "model", "state", "scope", "project", "user", "session")
_TIMES: Final = ("before", "after")
HINT: Final = (
    "write words, agent:NAME, model:NAME, scope:NAME, state:running, failing, cost>1, tokens>100k,"
    " turns>5, after:7d, before:2026-03-05, tool:Bash or file:src/a.py"
)


class SessionNumbers(NamedTuple):
    """The numbers of a session that filters compare."""

    turns: int
    tokens: int
    cost: Decimal | None
    failed: int


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list."""

    names: dict[str, str] = {}
    """What agent, model, state, scope, user or session must contain."""
    numbers: tuple[tuple[str, str, float], ...] = ()
    is_failing: bool = False
    times: dict[str, str] = {}
    words: str = ""
    """What is searched for, with the operators that only a search has."""
    plain: str = ""
    """The words alone, as a title shows them."""

    def compares(self, numbers: SessionNumbers) -> bool:
        """Return whether the numbers of a session fit."""
        return all(_compares(numbers, *number) for number in self.numbers)

    def matches(self, outline: SessionOutline, state: str, failed: int) -> bool:
        """Return whether a session matches, apart from numbers, words and times."""
        of = {
            "agent": outline.agent, "model": outline.model, "state": state,
            "scope": outline.scope, "user": outline.user, "session": outline.session_id,
        }  # fmt: skip
        is_named = all(part in (of[name] or "").casefold() for name, part in self.names.items())
        return is_named and (not self.is_failing or failed > 0)


def parse_filter(text: str) -> SessionFilter:
    """Return the filter that ``text`` means. Raise InvalidInput with the syntax as a hint."""
    names: dict[str, str] = {}
    times: dict[str, str] = {}
    numbers: list[tuple[str, str, float]] = []
    words: list[str] = []
    plain: list[str] = []
    is_failing = False
    for piece in _PIECE.findall(text):
        name, colon, value = piece.partition(":")
        lower = name.lower()
        bare = value.strip('"').casefold()
        if piece.lower() in {"failing", "failed"}:
            is_failing = True
        elif piece.lower() in {"live", "running"}:
            names["state"] = "running"
        elif compared := _NUMBER.fullmatch(piece):
            numbers.append((compared[1], compared[2], float(compared[3]) * _UNITS[compared[4]]))
        elif re.match(r"(cost|tokens|turns)[<>]", piece):
            raise InvalidInput(f"{piece} is not a comparison", hint=HINT)
        elif colon and lower in _OWN:
            names["scope" if lower == "project" else lower] = bare
        elif colon and lower in _TIMES:
            times[lower] = bare
        else:
            words.append(piece)
            if not (colon and lower.lstrip("-") in OPERATORS):
                plain.append(piece.strip('"*'))
    if (state := names.get("state")) is not None and state not in SESSION_STATES:
        raise InvalidInput(f"no state {state}", hint=f"use {', '.join(SESSION_STATES)}")
    return SessionFilter(
        names=names,
        numbers=tuple(numbers),
        is_failing=is_failing,
        times=times,
        words=" ".join(words),
        plain=" ".join(plain) if len(plain) == len(words) else "",
    )


def toggled(text: str, piece: str) -> str | None:
    """Return the filter with ``piece`` removed, or added; None if nothing is left.

    It replaces another value of the same operator.
    """
    pieces = _PIECE.findall(text)
    if piece in pieces:
        pieces.remove(piece)
    else:
        name, colon, _ = piece.partition(":")
        pieces = [other for other in pieces if not (colon and other.startswith(f"{name}:"))]
        pieces.append(piece)
    return " ".join(pieces) or None


def _compares(numbers: SessionNumbers, name: str, sign: str, than: float) -> bool:
    value = {"cost": numbers.cost, "tokens": numbers.tokens, "turns": numbers.turns}[name]
    if value is None:
        return False
    return float(value) > than if sign == ">" else float(value) < than
