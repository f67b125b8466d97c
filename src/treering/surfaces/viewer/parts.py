"""Parts of pages: escaped markup, numbers, times, links, tables, and charts with their tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple, Self

from treering.model.codec import encode
from treering.surfaces.shared.times import ago, clock, duration, moment
from treering.surfaces.viewer.requests import PageRequest, session_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from decimal import Decimal

    from treering.model.sessions import SessionOutline
    from treering.surfaces.server.grants import Right


class Markup(str):
    """HTML. Only ``html`` and ``joined`` make it, from templates in the code."""

    __slots__ = ()

    def __html__(self) -> Self:
        """Return itself: it is HTML already."""
        return self


NOTHING = Markup()


def html(template: LiteralString, *values: Any, **named: Any) -> Markup:
    """Return ``template`` with values in its braces: escaped, Markup as it is, None as nothing.

    Several in a list or tuple follow each other. Attributes must be quoted in the template.
    """
    filled = template.format(
        *(_safe(value) for value in values), **{name: _safe(value) for name, value in named.items()}
    )
    return Markup(filled)


def html_if(template: LiteralString, value: Any) -> Markup:
    """Return ``template`` with a value in its braces; nothing if that is empty."""
    return html(template, value) if value else NOTHING


def joined(*parts: Any) -> Markup:
    """Return parts that follow each other; each is escaped unless it is Markup."""
    return _safe(parts)


def _safe(value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    if value is None or value is False:
        return NOTHING
    if isinstance(value, list | tuple):
        return Markup("".join(map(_safe, value)))
    return Markup(escape(str(value)))


NONE: Final = "-"
SHORT_ID: Final = 13
"""An id begins with its time: the first eight characters are the same for a minute."""
CHART_HEIGHT: Final = 96
_UNITS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_STILL: Final = 0.005


def amount(number: float) -> str:
    """Return a large number as people say it: 4.1 M."""
    for unit, letter in _UNITS:
        if number >= unit:
            shown = number / unit
            return f"{shown:.1f} {letter}" if shown < 100 else f"{shown:.0f} {letter}"
    return f"{number:,.0f}"


def dollars(cost: Decimal | float | None, *, unknown: str = "?") -> str:
    """Return a cost; ``unknown`` if a price is unknown."""
    if cost is None:
        return unknown
    if 0 < cost < 0.01:
        return "< $0.01"
    return f"${cost:,.2f}"


def percent(share: float | None) -> str:
    """Return a fraction of one as a percentage."""
    return NONE if share is None else f"{share * 100:.1f} %"


def change(now: float | None, before: float | None) -> Markup:
    """Return how a number changed, in words for screen readers, too."""
    if now is None or not before:
        return NOTHING
    grown = (now - before) / before
    if abs(grown) < _STILL:
        return html("<small>as before</small>")
    word, arrow = ("more", "▲") if grown > 0 else ("less", "▼")
    size = f"{abs(grown) * 100:,.0f} %" if abs(grown) < 10 else f"{abs(grown) + 1:,.0f} times"
    return html(
        '<small><span aria-hidden="true">{}</span> {}<span class="unseen"> {} than in the period'
        " before</span></small>",
        arrow,
        size,
        word,
    )


def when(ts_ms: int, request: PageRequest) -> Markup:
    """Return a time: how long ago, and on hover the exact one."""
    return html(
        '<time datetime="{}" title="{}">{}</time>',
        clock(ts_ms).replace(" ", "T"),
        moment(ts_ms),
        ago(ts_ms, now_ms=request.now_ms),
    )


def took(milliseconds: int | None) -> str:
    """Return a duration."""
    return NONE if milliseconds is None else duration(milliseconds)


def short_id(whole: str, *, name: str = "id") -> Markup:
    """Return a short id; a click copies the whole id."""
    return html(
        '<button type="button" class="copy" data-copy="{}" title="Copy the {}">{}</button>',
        whole,
        name,
        whole if len(whole) <= SHORT_ID + 4 else whole[:SHORT_ID],
    )


def session_link(
    outline: SessionOutline | None, request: PageRequest, *, scope: str, session_id: str
) -> Markup:
    """Return a link to a session by its title."""
    title = request.text(outline.title) if outline is not None else ""
    return html(
        '<a href="{}" dir="auto">{}</a>',
        session_address(scope, session_id),
        title.split("\n")[0][:160] or session_id,
    )


class TableColumn(NamedTuple):
    """One column of a table."""

    name: str
    style: str = ""
    """Classes of its cells: number, clip, words, hide-small."""


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[Any]], *, caption: str) -> Markup:
    """Return a table; the first cell of a row is its heading. ``caption`` is for screen readers."""
    styles = [column.style for column in columns]
    body = [
        html(
            "<tr>{}</tr>",
            [
                html(
                    '<{tag} class="{style}">{cell}</{name}>',
                    tag=Markup('th scope="row"') if not at and "clip" not in style else "td",
                    name="th" if not at and "clip" not in style else "td",
                    style=style,
                    cell=cell,
                )
                for at, (cell, style) in enumerate(zip(row, styles, strict=True))
            ],
        )
        for row in rows
    ]
    return html(
        '<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{caption}'
        "<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>",
        label=caption,
        caption=html('<caption class="unseen">{}</caption>', caption),
        head=[html('<th scope="col" class="{}">{}</th>', c.style, c.name) for c in columns],
        body=body,
    )


class Bar(NamedTuple):
    """One bar of a chart: its parts are stacked."""

    label: str
    parts: tuple[float, ...]
    shown: str
    """Its value, in words."""
    url: str | None = None


def bar_chart(bars: Sequence[Bar], *, title: str, value: str) -> Markup:
    """Return bars side by side, and the same numbers as a table."""
    top = max((sum(bar.parts) for bar in bars), default=0) or 1
    width = 100 / max(len(bars), 1)
    drawn = [_bar(bar, at * width, width, top) for at, bar in enumerate(bars)]
    every = max(1, len(bars) // 6)
    labels = [
        html(
            '<text class="{}" x="{}%" y="{}">{}</text>',
            "roomy" if at // every % 2 else "",
            round(at * width, 2),
            CHART_HEIGHT + 14,
            bar.label,
        )
        for at, bar in enumerate(bars)
        if at % every == 0 and at * width < 92
    ]
    rows = [
        (html('<a href="{}">{}</a>', bar.url, bar.label) if bar.url else bar.label, bar.shown)
        for bar in bars
        if sum(bar.parts)
    ]
    return html(
        """<figure class="chart"><figcaption>{title}</figcaption>
<svg height="{height}" aria-hidden="true" focusable="false">{drawn}\
<line class="axis" x1="0" x2="100%" y1="{base}" y2="{base}"></line>{labels}</svg>
<details><summary class="small muted">As a table</summary>{table}</details></figure>""",
        title=title,
        height=CHART_HEIGHT + 18,
        base=CHART_HEIGHT,
        drawn=drawn,
        labels=labels,
        table=table([TableColumn("Day"), TableColumn(value, "number")], rows, caption=title)
        if rows
        else html('<p class="muted">Nothing in this period.</p>'),
    )


def _bar(bar: Bar, left: float, width: float, top: float) -> Markup:
    at, drawn = float(CHART_HEIGHT), []
    for number, part in enumerate(bar.parts):
        height = part / top * (CHART_HEIGHT - 8)
        if part:
            height = max(height, 1.5)
        at -= height
        drawn.append(
            html(
                '<rect class="bar-{}" x="{}%" width="{}%" y="{}" height="{}"></rect>',
                number + 1,
                round(left + width * 0.1, 3),
                round(width * 0.8, 3),
                round(at, 2),
                round(height, 2),
            )
        )
    body = html("{}<title>{}: {}</title>", drawn, bar.label, bar.shown)
    if bar.url is None:
        return html("<g>{}</g>", body)
    whole = html(
        '<rect class="touch" x="{}%" width="{}%" y="0" height="{}"></rect>',
        round(left, 3),
        round(width, 3),
        CHART_HEIGHT,
    )
    return html('<a href="{}" tabindex="-1">{}{}</a>', bar.url, whole, body)


def share_bar(share: float, *, style: str = "bar-1", floor: float | None = None) -> Markup:
    """Return a fraction of one as a bar and a number, with ``floor`` as a line."""
    return html(
        '<svg class="share" height="8" aria-hidden="true"><rect class="bar-2" width="100%"'
        ' height="8"></rect><rect class="{}" width="{}%" height="8"></rect>{}</svg>',
        style,
        round(max(0.0, min(share, 1.0)) * 100, 1),
        None
        if floor is None
        else html('<line class="floor" x1="{0}%" x2="{0}%" y1="-3" y2="11"></line>', floor * 100),
    )


def chips(items: Iterable[tuple[str, str, bool]], *, label: str) -> Markup:
    """Return choices in a row: name, address, and whether it is chosen."""
    return html(
        '<ul class="chips" aria-label="{}">{}</ul>',
        label,
        [
            html(
                '<li><a class="chip" href="{}"{}>{}</a></li>',
                url,
                Markup(' aria-current="true"') if is_chosen else None,
                name,
            )
            for name, url, is_chosen in items
        ],
    )


def kept_inputs(request: PageRequest, *names: str) -> list[Markup]:
    """Return hidden inputs, so that a form keeps these parts of the address."""
    return [
        html('<input type="hidden" name="{}" value="{}">', name, request.query[name])
        for name in names or ("scope", "since", "until")
        if name in request.query
    ]


def facts_list(items: Iterable[tuple[str, Any]]) -> Markup:
    """Return names and values."""
    return html(
        '<dl class="facts">{}</dl>',
        [html("<dt>{}</dt><dd>{}</dd>", name, value) for name, value in items if value],
    )


def answer(*parts: Any) -> Markup:
    """Return the answer at the top of a screen: a few numbers with their names."""
    return html('<ul class="answer">{}</ul>', [html("<li>{}</li>", part) for part in parts if part])


def figure(value: Any, name: str, more: Any = NOTHING) -> Markup:
    """Return one number of an answer."""
    return joined(html("<b>{}</b> {} ", value, name), more)


def action_button(
    request: PageRequest,
    right: Right,
    verb: str,
    *,
    url: str,
    body: dict[str, Any] | None = None,
    is_danger: bool = False,
    **words: str,
) -> Markup:
    """Return a button that asks before it acts (actions.js); nothing without the right.

    ``words``: ``title`` and ``says`` of the question, ``done`` after it, ``ask`` for a reason,
    ``then`` the next page, ``plan`` the address that says what will happen.
    """
    if not request.may(right):
        return NOTHING
    return html(
        '<button type="button" data-action class="{}" data-verb="{}" data-url="{}"'
        ' data-body="{}"{}>{}</button>',
        "danger" if is_danger else "",
        verb,
        url,
        encode(body or {}).decode(),
        [html(' data-{}="{}"', name, value) for name, value in words.items()],
        verb,
    )
