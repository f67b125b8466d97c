"""Files: who touched what, when and why, with the changes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.search_texts import files_in
from treering.errors import InvalidInput
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.shared.file_touches import PATH_CHARACTERS_MAX, Touch, find_touches
from treering.surfaces.shared.texts import counted
from treering.surfaces.viewer.frame import empty
from treering.surfaces.viewer.parts import (
    Markup,
    TableColumn,
    html,
    html_if,
    kept_inputs,
    table,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address
from treering.surfaces.viewer.tools import call_html

if TYPE_CHECKING:
    from treering.model.events import Event
    from treering.model.scopes import Scope

CALLS_MAX: Final = PAGE_ITEMS_MAX
"""How many calls of each scope the list covers: the latest."""
FILES_MAX: Final = 200
TOUCHES: Final = 30
_CHANGES: Final = ("edit", "write", "patch", "replace", "create", "update", "notebook")


class FilesArguments(ViewArguments, frozen=True, kw_only=True):
    """One file or folder, or a filter for the list."""

    path: str | None = None
    q: str = ""


class TouchedFile(NamedTuple):
    """A file, and the calls that named it."""

    scope: str
    path: str
    touches: list[Event]

    @property
    def changes(self) -> int:
        """Return how many of them changed it."""
        return sum(_is_change(event) for event in self.touches)


def files_page(request: PageRequest) -> PageBody:
    """Return the files that were touched, or the history of one."""
    if request.arguments.path:
        return _file_page(request, request.arguments.path)
    files, is_cut = _files(request)
    wanted = request.arguments.q.casefold()
    files = [file for file in files if wanted in file.path.casefold()]
    changed = sum(file.changes > 0 for file in files)
    return PageBody(
        title="Files",
        body=html(
            """<h1 class="unseen">Files</h1>
<ul class="answer"><li><b>{changed}</b> changed</li><li><b>{read}</b> only read</li></ul>
<form class="row" role="search" method="get" action="/files">{kept}
<label class="grow"><span>Filter files</span><input id="filter" name="q" data-find value="{q}"
 autocomplete="off" spellcheck="false" placeholder="src/"></label>
<button type="submit">Filter</button></form>
{cut}{table}""",
            changed=f"{changed:,}",
            read=f"{len(files) - changed:,}",
            kept=kept_inputs(request),
            q=request.arguments.q,
            cut=html_if(
                '<p class="small muted">Of the latest {} tool calls of each scope.</p>',
                is_cut and f"{CALLS_MAX:,}",
            ),
            table=_table(request, files) if files else _nothing(request),
        ),
    )


def _files(request: PageRequest) -> tuple[list[TouchedFile], bool]:
    """Return the files that calls of the period named, the last touched first."""
    groups: defaultdict[tuple[str, str], list[Event]] = defaultdict(list)
    is_cut = False
    for scope in request.scopes:
        page = request.ledger.events(
            scope,
            kinds=["tool.call"],
            last=CALLS_MAX,
            since_ms=request.period.since_ms,
            until_ms=request.period.until_ms,
        )
        is_cut |= page.has_more
        for event in page.items:
            if not event.redacted:
                for path in dict.fromkeys(files_in(event)):
                    groups[scope, path].append(event)
    files = [TouchedFile(scope, path, events) for (scope, path), events in groups.items()]
    files.sort(key=lambda file: (file.changes == 0, -file.touches[-1].ts_ms))
    return files, is_cut


def _table(request: PageRequest, files: list[TouchedFile]) -> Markup:
    columns = (
        TableColumn("File", "words"),
        TableColumn("Changed", "number"),
        TableColumn("Read", "number hide-small"),
        TableColumn("Sessions", "number hide-small"),
        TableColumn("Last by", "nowrap hide-small"),
        TableColumn("Last", "number"),
    )
    rows = [
        (
            html(
                '<a class="mono" href="{}" dir="auto">{}</a> <span class="small muted">{}</span>',
                request.url(scope=file.scope, path=file.path, q=None),
                request.text(file.path),
                "" if request.arguments.scope else file.scope,
            ),
            f"{file.changes or ''}",
            f"{len(file.touches) - file.changes or ''}",
            f"{len({event.session_id for event in file.touches}):,}",
            request.text(file.touches[-1].agent_id),
            when(file.touches[-1].ts_ms, request),
        )
        for file in files[:FILES_MAX]
    ]
    left = len(files) - FILES_MAX
    more = html('<p class="small muted">and {}: filter to see them</p>', counted(left, "more file"))
    return html("{}{}", table(columns, rows, caption="Files, those that were changed first"),
                more if left > 0 else None)  # fmt: skip


def _file_page(request: PageRequest, path: str) -> PageBody:
    if not path.strip(" /.") or len(path) > PATH_CHARACTERS_MAX:
        raise InvalidInput("this is not the path of a file", hint="choose one in the list of files")
    touched: list[tuple[Scope, Touch]] = []
    has_more = False
    for scope in request.scopes:
        touches, more = find_touches(request.ledger, scope, [path], TOUCHES)
        touched += [(scope, touch) for touch in touches]
        has_more |= more
    touched.sort(key=lambda pair: -pair[1].ts_ms)
    sessions = {(scope, touch.session_id) for scope, touch in touched}
    shown = request.text(path)
    return PageBody(
        title=shown,
        styles=("blocks", "files"),
        body=html(
            """<p><a href="{back}">All files</a></p><h1 class="mono" dir="auto">{path}</h1>
<p class="muted">{count} in {sessions}{more}</p><ol class="touches">{touches}</ol>""",
            back=request.url(path=None),
            path=shown,
            count="Touched " + counted(len(touched), "time"),
            sessions=counted(len(sessions), "session"),
            more=", and earlier" if has_more else "",
            touches=[_touch(request, scope, touch) for scope, touch in touched[:TOUCHES]],
        )
        if touched
        else html(
            '<p><a href="{}">All files</a></p><h1 class="mono" dir="auto">{}</h1>{}',
            request.url(path=None),
            shown,
            empty("No tool call names this file.", html("Try its last parts, such as src/a.py.")),
        ),
    )


def _touch(request: PageRequest, scope: Scope, touch: Touch) -> Markup:
    event = request.ledger.event(scope, touch.event_id)
    return html(
        """<li><p class="of"><b>{tool}</b> {status}
<span class="muted small">{when} · {agent} · {scope}</span>
<a class="small" href="{url}">Open in its session</a></p>
{prompt}{decision}{call}</li>""",
        tool=request.text(touch.tool or touch.kind),
        status=html_if('<span class="tag bad">{}</span>', touch.status != "ok" and touch.status),
        when=when(touch.ts_ms, request),
        agent=request.text(touch.agent),
        scope=scope,
        url=session_address(scope, touch.session_id, event=touch.event_id),
        prompt=html_if('<p class="why" dir="auto"><span class="muted">asked:</span> {}</p>',
                       request.text(touch.prompt)),
        decision=html_if('<p class="why" dir="auto"><span class="muted">decided:</span> {}</p>',
                         request.text(touch.decision)),
        call=call_html(request, event) if _is_change(event) else None,
    )  # fmt: skip


def _is_change(event: Event) -> bool:
    """Return whether a call changes the files that it names, by the name of its tool."""
    tool = (event.refs or {}).get("tool")
    return isinstance(tool, str) and any(word in tool.lower() for word in _CHANGES)


def _nothing(request: PageRequest) -> Markup:
    return empty(
        "No tool call named a file in this period.",
        html('<a href="{}">Show all time</a>', request.url(since="all", until=None, q=None)),
        html("Files that a shell command changed without naming them are not listed."),
    )
