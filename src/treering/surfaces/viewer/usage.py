"""Usage: tokens and cost by day, project, model and session."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from treering.derive.reports import Sums, Tokens
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import clock
from treering.surfaces.viewer.catalogue import known_cost, sums_of, used_in
from treering.surfaces.viewer.frame import empty
from treering.surfaces.viewer.parts import (
    Bar,
    Markup,
    TableColumn,
    amount,
    answer,
    bar_chart,
    change,
    chips,
    dollars,
    figure,
    html,
    html_if,
    percent,
    session_link,
    share_bar,
    table,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.derive.periods import Period
    from treering.surfaces.viewer.catalogue import ScopeFigures, UsedTokens

ROWS_MAX: Final = 25
_COLUMNS: Final = (
    TableColumn("Calls", "number hide-small"),
    TableColumn("New input", "number"),
    TableColumn("From cache", "number hide-small"),
    TableColumn("To cache", "number hide-small"),
    TableColumn("Output", "number"),
    TableColumn("Cost", "number"),
    TableColumn("Share", "share-cell hide-small"),
)


class UsageArguments(ViewArguments, frozen=True, kw_only=True):
    """What the bars show."""

    by: Literal["cost", "tokens"] = "cost"


def usage_page(request: PageRequest) -> PageBody:
    """Return tokens and cost of models."""
    before = request.period.previous()
    first_ms = request.period.since_ms if before is None else max(before.since_ms, 1)
    figures = request.figures(first_ms)
    used = list(used_in(figures, request.period))
    if not used:
        body = html("<h1>Usage</h1>{}", _nothing(request))
        return PageBody(title="Usage", body=body, styles=("usage",))
    earlier = [] if before is None else list(used_in(figures, before))
    tops = _tops(figures)
    sums = sums_of(used)
    return PageBody(
        title="Usage",
        styles=("usage",),
        body=html(
            """<h1 class="unseen">Usage</h1>{answer}{by}{chart}
<h2>By model</h2>{models}<h2>By project</h2>{projects}
<h2>By session</h2><p class="small muted">Subagents count for the session that started them.</p>
{sessions}""",
            answer=_answer(sums, sums_of(earlier)),
            by=chips(
                [
                    ("Cost", request.url(by=None), request.arguments.by == "cost"),
                    ("Tokens", request.url(by="tokens"), request.arguments.by == "tokens"),
                ],
                label="What the bars show",
            ),
            chart=_chart(request, used),
            models=_models(request, used, sums),
            projects=_grouped(
                request, used, "Project", lambda use: use.scope, lambda name: html(
                    '<a href="{}">{}</a>', request.url(scope=name), name),
            ),
            sessions=_sessions(request, used, figures, tops),
        ),
    )  # fmt: skip


def _answer(sums: Sums, before: Sums) -> Markup:
    cost, is_whole = known_cost(sums)
    total, then = _total(sums), _total(before)
    return answer(
        figure(
            dollars(cost),
            "at list prices" if is_whole else "at list prices, and models without a price",
            change(float(cost), float(known_cost(before)[0])),
        ),
        figure(amount(total.total_tokens), "tokens", change(total.total_tokens, then.total_tokens)),
        figure(
            percent(total.cached_tokens / total.input_tokens if total.input_tokens else None),
            "of input from cache",
        ),
        figure(f"{total.calls:,}", "model calls", change(total.calls, then.calls)),
    )


def _chart(request: PageRequest, used: list[UsedTokens]) -> Markup:
    spans = spans_of(request.period, [use.ts_ms for use in used])
    index = span_index(spans)
    groups: defaultdict[int, list[UsedTokens]] = defaultdict(list)
    for use in used:
        groups[index[day_of(use.ts_ms)]].append(use)
    bars = []
    for at, span in enumerate(spans):
        sums = sums_of(groups[at])
        total, cost = _total(sums), float(known_cost(sums)[0])
        parts: tuple[float, ...] = (cost,)
        shown = dollars(cost)
        if request.arguments.by == "tokens":
            parts = (total.total_tokens - total.cached_tokens, total.cached_tokens)
            shown = f"{parts[0]:,.0f} new, {parts[1]:,.0f} from cache"
        bars.append(Bar(span.label, parts, shown, request.url(**span.query)))
    if request.arguments.by == "tokens":
        title = "Tokens: new (below) and from cache (above)"
        return bar_chart(bars, title=title, value="Tokens")
    return bar_chart(bars, title="Cost", value="Cost")


def _models(request: PageRequest, used: list[UsedTokens], sums: Sums) -> Markup:
    names = {name: request.text(name.model) or "unknown model" for name in sums}
    return _grouped(request, used, "Model", lambda use: names[use.report.name], lambda name: name)


def _sessions(
    request: PageRequest,
    used: list[UsedTokens],
    figures: list[ScopeFigures],
    tops: dict[tuple[str, str], str],
) -> Markup:
    outlines = {
        (str(scope_figures.scope), name): top
        for scope_figures in figures
        for name, top in scope_figures.outlines.items()
    }

    def link(key: tuple[str, str]) -> Markup:
        scope, session_id = key
        top = session_link(outlines.get(key), request, scope=scope, session_id=session_id)
        return html('{} <span class="small muted">{}</span>', top, scope)

    return _grouped(
        request, used, "Session",
        lambda use: (use.scope, tops.get((use.scope, use.session_id), use.session_id)), link,
    )  # fmt: skip


def _grouped(
    request: PageRequest, used: Iterable[UsedTokens], noun: str, key: Any, shown: Any
) -> Markup:
    """Return a table of usage by ``key``, the most expensive first."""
    groups: defaultdict[Any, list[UsedTokens]] = defaultdict(list)
    for use in used:
        groups[key(use)].append(use)
    sums = {name: sums_of(group) for name, group in groups.items()}
    by_tokens = request.arguments.by == "tokens"
    totals = {name: _total(group_sums) for name, group_sums in sums.items()}
    weights = {
        name: float(totals[name].total_tokens) if by_tokens else float(known_cost(group_sums)[0])
        for name, group_sums in sums.items()
    }
    whole = sum(weights.values()) or 1
    ranked = sorted(sums, key=lambda name: (-weights[name], -totals[name].total_tokens))
    rows = [
        (
            shown(name),
            f"{totals[name].calls:,}",
            amount(totals[name].input_tokens - totals[name].cached_tokens),
            amount(totals[name].cached_tokens),
            amount(totals[name].cache_write_tokens),
            amount(totals[name].output_tokens),
            _cost(sums[name]),
            html("{} {}", share_bar(weights[name] / whole), percent(weights[name] / whole)),
        )
        for name in ranked[:ROWS_MAX]
    ]
    left = len(ranked) - ROWS_MAX
    more = html_if('<p class="small muted">and {} more</p>', left > 0 and f"{left:,}")
    first = TableColumn(noun, "words")
    return html("{}{}", table([first, *_COLUMNS], rows, caption=f"Usage by {noun.lower()}"), more)


def _cost(sums: Sums) -> str:
    cost, is_whole = known_cost(sums)
    if is_whole:
        return dollars(cost)
    return "no price" if not cost else f"{dollars(cost)} +"


def _total(sums: Sums) -> Tokens:
    total = Tokens()
    for tokens in sums.values():
        total.add(tokens)
    return total


def _tops(figures: list[ScopeFigures]) -> dict[tuple[str, str], str]:
    """Return the topmost session that started each session."""
    tops: dict[tuple[str, str], str] = {}
    for scope_figures in figures:
        for name in scope_figures.outlines:
            top, seen = name, {name}
            while (outline := scope_figures.outlines.get(top)) and outline.spawned_by:
                if outline.spawned_by in seen:
                    break
                top = outline.spawned_by
                seen.add(top)
            tops[scope_figures.scope, name] = top
    return tops


def _nothing(request: PageRequest) -> Markup:
    return empty(
        f"No model call was reported in {counted(len(request.scopes), 'scope')} in this period.",
        html('<a href="{}">Show all time</a>', request.url(since="all", until=None)),
        html(
            "Imported logs include their usage; agents of your own record it as"
            " <code>usage.reported</code>, which adapters do for you."
        ),
    )


DAYS_MAX: Final = 92
"""Bars that a chart shows; a longer period is shown by weeks, a much longer one by months."""
_WEEKS_MAX_DAYS: Final = 370


class ChartSpan(NamedTuple):
    """One bar of a chart over time: a day, a week or a month."""

    first: date
    last: date
    label: str

    @property
    def query(self) -> dict[str, str]:
        """Return the part of an address that names it."""
        return {"since": self.first.isoformat(), "until": self.last.isoformat()}


def day_of(ts_ms: int) -> date:
    """Return the day of a time."""
    return date.fromisoformat(clock(ts_ms)[:10])


def spans_of(period: Period, times: Iterable[int]) -> list[ChartSpan]:
    """Return the days of a period, or its weeks or months; from the first of ``times`` on."""
    first = day_of(max(period.since_ms, min(times, default=period.since_ms)))
    last = day_of(period.until_ms)
    days = (last - first).days + 1
    if days <= DAYS_MAX:
        return [ChartSpan(day, day, f"{day:%d %b}") for day in _steps(first, last, 1)]
    if days <= _WEEKS_MAX_DAYS:
        monday = first - timedelta(days=first.weekday())
        return [
            ChartSpan(day, day + timedelta(6), f"{day:%d %b}") for day in _steps(monday, last, 7)
        ]
    spans: list[ChartSpan] = []
    month = first.replace(day=1)
    while month <= last:
        following = (month + timedelta(days=32)).replace(day=1)
        spans.append(ChartSpan(month, following - timedelta(days=1), f"{month:%b %Y}"))
        month = following
    return spans


def span_index(spans: list[ChartSpan]) -> dict[date, int]:
    """Return the index of each day in ``spans``."""
    return {
        span.first + timedelta(days=at): index
        for index, span in enumerate(spans)
        for at in range((span.last - span.first).days + 1)
    }


def _steps(first: date, last: date, days: int) -> list[date]:
    count = (last - first).days // days + 1
    return [first + timedelta(days=at * days) for at in range(count)]
