"""Tools: calls in words, failures with command and message, durations."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.context.texts import tool_output_text
from treering.errors import NotFound
from treering.model.queries import PAGE_ITEMS_MAX
from treering.model.tools import FAILING, ToolRecord, ToolStatistics
from treering.surfaces.pages.blocks_html import PageLinks, blocks_html
from treering.surfaces.pages.display import display_entry
from treering.surfaces.pages.entries import PageEntry
from treering.surfaces.pages.wording import erased_text, tool_of
from treering.surfaces.viewer.frame import empty
from treering.surfaces.viewer.parts import (
    Markup,
    TableColumn,
    answer,
    figure,
    html,
    html_if,
    percent,
    share_bar,
    table,
    took,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address

if TYPE_CHECKING:
    from treering.model.events import Event

    ToolGroups = defaultdict[str | None, list[tuple[str, ToolStatistics]]]

SHOWN: Final = 25
_COLUMNS: Final = (
    TableColumn("Tool", "words"),
    TableColumn("Calls", "number"),
    TableColumn("Failed", "share-cell"),
    TableColumn("Open", "number hide-small"),
    TableColumn("Half within", "number"),
    TableColumn("Nine of ten within", "number hide-small"),
    TableColumn("Slowest", "number hide-medium"),
    TableColumn("All together", "number hide-medium"),
    TableColumn("Last", "number hide-small"),
)


class ToolsArguments(ViewArguments, frozen=True, kw_only=True):
    """One tool, or all."""

    tool: str | None = None


def tools_page(request: PageRequest) -> PageBody:
    """Return calls, failures and durations by tool."""
    tool = request.arguments.tool
    period: dict[str, Any] = {
        "since_ms": request.period.since_ms,
        "until_ms": request.period.until_ms,
    }
    groups: ToolGroups = defaultdict(list)
    for scope in request.scopes:
        for statistics in request.ledger.tool_statistics(scope, tool=tool, **period):
            groups[statistics.tool].append((scope, statistics))
    if not groups:
        return PageBody(title="Tools", body=html("<h1>Tools</h1>{}", _nothing(request)))
    ranked = sorted(
        groups.items(), key=lambda item: -sum(statistics.calls for _, statistics in item[1])
    )
    failures = _calls(request, tool, status=FAILING)
    slowest = _calls(request, tool, order="slowest")
    return PageBody(
        title=f"Tools: {request.text(tool)}" if tool else "Tools",
        styles=("usage",),
        body=html(
            """<h1 class="{hidden}">Tools{of}</h1>{answer}{back}{table}
<h2>Latest failures</h2>{failures}<h2>Slowest calls</h2>{slowest}""",
            hidden="" if tool else "unseen",
            of=f": {request.text(tool)}" if tool else "",
            answer=_answer(groups),
            back=html_if('<p><a href="{}">All tools</a></p>', tool and request.url(tool=None)),
            table=table(
                _COLUMNS,
                [_row(request, name, group) for name, group in ranked],
                caption="Calls by tool",
            ),
            failures=_list(request, failures, "No call failed in this period."),
            slowest=_list(request, slowest, "No call has a known duration."),
        ),
    )


def _answer(groups: ToolGroups) -> Markup:
    everything = [statistics for group in groups.values() for _, statistics in group]
    calls = sum(statistics.calls for statistics in everything)
    failed = sum(map(_failed, groups.values()))
    ended = calls - sum(statistics.open for statistics in everything)
    worst = max(groups, key=lambda tool: _failed(groups[tool]))
    return answer(
        figure(f"{calls:,}", "calls" if calls != 1 else "call"),
        figure(percent(failed / ended if ended else None), "failed"),
        html(
            "most often <b>{}</b> <small>{} of {}</small>",
            worst or "(unnamed)",
            _failed(groups[worst]),
            sum(statistics.calls for _, statistics in groups[worst]),
        )
        if failed
        else None,
        figure(took(sum(statistics.total_ms for statistics in everything)), "spent in tools"),
    )


def _failed(group: list[tuple[str, ToolStatistics]]) -> int:
    return sum(statistics.failed + statistics.synthetic for _, statistics in group)


def _row(
    request: PageRequest, tool: str | None, group: list[tuple[str, ToolStatistics]]
) -> tuple[Any, ...]:
    parts = [part for _, part in group]
    calls = sum(part.calls for part in parts)
    failed = _failed(group)
    ended = calls - sum(part.open for part in parts)
    share = failed / ended if ended else 0.0
    half, most = parts[0].p50_ms, parts[0].p90_ms
    if len(parts) > 1:
        half, most = _percentiles(request, tool, [scope for scope, _ in group])
    return (
        html('<a href="{}">{}</a>', request.url(tool=tool), request.text(tool))
        if tool
        else "(unnamed)",
        f"{calls:,}",
        html("{} {}", share_bar(share, style="bar-bad"), f"{failed:,} · {percent(share)}")
        if failed
        else html('<span class="muted">none</span>'),
        f"{sum(part.open for part in parts) or ''}",
        took(half),
        took(most),
        took(max((part.max_ms or 0 for part in parts), default=0)),
        took(sum(part.total_ms for part in parts)),
        when(max(part.last_ms for part in parts), request),
    )


def _percentiles(
    request: PageRequest, tool: str | None, scopes: list[str]
) -> tuple[int | None, int | None]:
    """Return the median and the 90th percentile of the latest calls of several scopes."""
    times: list[int] = []
    for scope in scopes:
        page = request.ledger.tool_calls(
            scope, tool=tool, status=("ok", "failed"), last=PAGE_ITEMS_MAX,
            since_ms=request.period.since_ms, until_ms=request.period.until_ms,
        )  # fmt: skip
        times += [item.duration_ms for item in page.items if item.duration_ms is not None]
    times.sort()
    if not times:
        return None, None
    ranks = (-(-len(times) * percent // 100) - 1 for percent in (50, 90))
    half, most = (times[max(rank, 0)] for rank in ranks)
    return half, most


def _calls(request: PageRequest, tool: str | None, **query: Any) -> list[ToolRecord]:
    """Return calls of the period in all scopes of the page: the latest, or the slowest."""
    is_slowest = query.get("order") == "slowest"
    query["first" if is_slowest else "last"] = SHOWN
    records = [
        record
        for scope in request.scopes
        for record in request.ledger.tool_calls(
            scope,
            tool=tool,
            since_ms=request.period.since_ms,
            until_ms=request.period.until_ms,
            **query,
        ).items
    ]
    records.sort(key=lambda record: -(record.duration_ms or 0) if is_slowest else -record.at_ms)
    return records[:SHOWN]


def _list(request: PageRequest, records: list[ToolRecord], otherwise: str) -> Markup:
    if not records:
        return html('<p class="muted">{}</p>', otherwise)
    return html('<ol class="failures">{}</ol>', [_call(request, record) for record in records])


def _call(request: PageRequest, record: ToolRecord) -> Markup:
    words = call_words(request, record)
    event_id = record.call_event_id or record.result_event_id
    is_bad = record.status in FAILING
    return html(
        """<li><p><a href="{url}"><b>{tool}</b></a>
<span class="muted small">{took} · {when} · {agent} · {scope}</span>{remark}</p>
{command}{message}</li>""",
        url=session_address(record.scope, record.session_id, event=event_id),
        tool=words.tool,
        took=took(record.duration_ms),
        when=when(record.at_ms, request),
        agent=request.text(record.agent_id),
        scope=record.scope,
        remark=html_if(' <span class="tag bad">{}</span>', is_bad and words.remark),
        command=html_if('<code class="command">{}</code>', words.command),
        message=html_if('<p class="message small" dir="auto">{}</p>', is_bad and words.message),
    )


def _nothing(request: PageRequest) -> Markup:
    return empty(
        "No tool was called in this period.",
        html('<a href="{}">Show all time</a>', request.url(since="all", until=None, tool=None)),
        html("<code>treering import</code> imports the logs of agents on this machine."),
    )


CHARACTERS_MAX: Final = 20_000

MESSAGE_CHARACTERS_MAX: Final = 300


class CallWords(NamedTuple):
    """One call, in words that are fit for a page but not yet escaped."""

    tool: str
    command: str
    """The beginning of what it was called with."""
    message: str
    """The last line of its output."""
    remark: str
    """How it ended, if that is not ok: an error class, or why the result is missing."""


def call_words(request: PageRequest, record: ToolRecord) -> CallWords:
    """Return a call in words; erased content is marked as such."""
    call = _event(request, record, record.call_event_id)
    result = _event(request, record, record.late_event_id or record.result_event_id)
    tool, command, remark = request.text(record.tool) or "(unnamed)", "", ""
    if call is not None and not call.redacted:
        words = tool_of(
            PageEntry(sort="tool", event=call, result=result, record=record), request.mask
        )
        command, remark = words.hint, words.remark
    elif call is not None:
        command = erased_text(call)
    message = ""
    if result is not None:
        output = erased_text(result) if result.redacted else tool_output_text(result)
        message = last_line(request.text(output))
    remark = remark or request.text(record.error_class or record.reason)
    return CallWords(tool, command, message, remark)


def last_line(text: str) -> str:
    """Return the last line that says something; errors end with what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-=_*#")]
    return lines[-1][:MESSAGE_CHARACTERS_MAX] if lines else ""


def _event(request: PageRequest, record: ToolRecord, event_id: str | None) -> Event | None:
    if event_id is None:
        return None
    try:
        return request.ledger.event(record.scope, event_id)
    except NotFound:
        return None


def call_html(request: PageRequest, call: Event) -> Markup:
    """Return the arguments of a call."""
    entry = PageEntry(sort="tool", event=call)
    shown = display_entry(entry, request.mask, characters_max=CHARACTERS_MAX)
    # It escapes everything recorded, as the exported page does.
    return Markup(blocks_html(shown.blocks, PageLinks()))
