"""One session: what happened, and whether it worked."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from treering.context.texts import message_media, tool_output
from treering.errors import InvalidInput, NotFound
from treering.ledger.families import fork_name
from treering.model.codec import encode
from treering.model.kinds import KINDS
from treering.model.parts import SessionRedone, SessionUndone, safe_part
from treering.surfaces.pages.display import picture_facts
from treering.surfaces.pages.transcripts import pieces, read_cover, whole
from treering.surfaces.pages.wording import span_text
from treering.surfaces.shared.session_commands import origin_of, resuming, show_command
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import moment
from treering.surfaces.viewer.parts import NOTHING, Markup, action_button, amount, html, html_if
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments, session_address
from treering.surfaces.viewer.session_rows import (
    FILTERS,
    MAPS,
    PAGE_EVENTS,
    RowFilter,
    SessionMap,
    event_of,
    found_hits,
    found_rows,
    last_seq,
    opened,
    page_of,
    page_rows,
)

if TYPE_CHECKING:
    from treering.ledger.sessions import Session
    from treering.model.sessions import SessionOutline
    from treering.model.views import TurnView

OUTLINE_EVENTS_MAX: Final = 3_000
"""In a longer session the outline is loaded after the first rows: it takes a while."""
EXPORT_EVENTS_MAX: Final = 20_000


class SessionArguments(ViewArguments, frozen=True, kw_only=True):
    """Which part of a session to show, and how."""

    event: str | None = None
    seq: int | None = None
    page: int | None = None
    show: RowFilter = "all"
    find: str | None = None
    open: str | None = None
    """What is open beside the transcript: event, context or tree."""
    turn: int | None = None
    at: int | None = None
    """The position of a replay."""
    focus: str | None = None
    """The part of the time that the lanes show, from one millisecond to another."""


class RowsArguments(ViewArguments, frozen=True, kw_only=True):
    """Which page of rows; or, with a filter, the rows after a seq."""

    page: int = 0
    show: RowFilter = "all"
    after: int = 0


class FindArguments(ViewArguments, frozen=True, kw_only=True):
    """What to find in a session, after which seq."""

    text: str
    after: int = 0


class PictureArguments(ViewArguments, frozen=True, kw_only=True):
    """Which picture of which event."""

    event: str
    number: int = 0


class ExportArguments(ViewArguments, frozen=True, kw_only=True):
    """In which format."""

    format: str = "html"


def session_page(request: PageRequest) -> PageBody:
    """Return the page of one session, with the rows that the address names."""
    session = opened(request)
    # Before anything is read: the stream delivers what is recorded meanwhile.
    cursor = request.ledger.end_cursor(session.scope)
    outline = session.outline()
    total = last_seq(session)
    asked: SessionArguments = request.arguments
    target = _target(request, outline, total)
    title = request.text(outline.title).split("\n")[0][:200] or outline.session_id
    is_small = total <= OUTLINE_EVENTS_MAX
    drawn_map = MAPS.map_of(request, session) if is_small else None
    page = page_of(target)
    following: int | str = ""
    if asked.show == "all":
        rows = page_rows(request, session, page)
    else:
        batch = found_rows(request, session, asked.show, 0)
        rows, following = Markup(batch.rows), batch.next_seq or ""
    return PageBody(
        title=title,
        is_wide=True,
        modules=("session", "actions"),
        styles=("blocks", "session"),
        body=html(
            """<div class="session" data-scope="{scope}" data-session="{session_id}"
 data-base="{base}" data-last="{last}" data-page="{page}" data-page-events="{page_events}"
 data-target="{target}" data-aimed="{aimed}" data-state="{state}" data-next="{next}"
 data-cursor="{cursor}" data-kinds="{kinds}">
{head}
{lanes}
{bar}
<div class="columns">
<aside class="outline" id="outline" aria-labelledby="turns-title">
<h2 class="unseen" id="turns-title">Turns</h2><div id="turn-list">{outline}</div></aside>
<div class="transcript" id="transcript" role="region" aria-labelledby="rows-title" tabindex="-1">
<h2 class="unseen" id="rows-title">Transcript</h2>
<div id="rows" data-show="{show}">{rows}</div>
<p class="printed muted">Printed is what was on the screen and near it. Export has everything.</p>
{pages}
</div>
<aside class="beside" id="beside" aria-label="Details" hidden></aside>
</div>
<button type="button" id="newer" class="newer" hidden></button>
</div>
<script type="application/json" id="session-map">{known}</script>""",
            scope=session.scope,
            session_id=session.session_id,
            base=f"/sessions/{quote(session.session_id, safe='')}",
            last=total,
            page=page,
            page_events=PAGE_EVENTS,
            target=target,
            aimed="yes" if asked.event or asked.seq else "",
            state=outline.state,
            next=following,
            cursor=cursor,
            kinds=" ".join(KINDS),
            head=_head(request, session, outline, drawn_map),
            lanes=_lanes(),
            bar=_bar(request),
            outline=_outline(request, drawn_map),
            show=asked.show,
            rows=rows or html('<p class="empty">{}</p>', _nothing(asked.show)),
            pages=_pages(request, page, total) if asked.show == "all" else NOTHING,
            known=_json(drawn_map),
        ),
    )


def rows(request: PageRequest) -> Markup | Response:
    """Return one page of rows; with a filter, what it finds next, as JSON."""
    session = opened(request)
    asked: RowsArguments = request.arguments
    if asked.show == "all":
        return page_rows(request, session, max(asked.page, 0))
    return _answer(found_rows(request, session, asked.show, asked.after))


def find(request: PageRequest) -> Response:
    """Return where a text is in a session."""
    asked: FindArguments = request.arguments
    return _answer(found_hits(request, opened(request), asked.text, asked.after))


def session_outline(request: PageRequest) -> Response:
    """Return the turns, failures and time lanes of a session."""
    return _answer(MAPS.map_of(request, opened(request)))


def picture(request: PageRequest) -> Response:
    """Return a picture of an event, with its media type."""
    event = event_of(request, request.arguments.event)
    media = tool_output(event)[1] if event.kind == "tool.result" else message_media(event)
    number = request.arguments.number
    chosen = media[number] if 0 <= number < len(media) else None
    facts = None if chosen is None else picture_facts(chosen)
    if chosen is None or chosen.data is None or facts is None:
        raise NotFound("the event has no such image", hint="open the event")
    return Response(
        base64.b64decode(chosen.data),
        media_type=facts.mime,
        headers={
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, no-cache",
        },
    )


def export(request: PageRequest) -> Response:
    """Return the session as a file: one HTML page, or Markdown."""
    from treering.surfaces.pages.session_files import write_html, write_markdown  # noqa: PLC0415  (only if asked for)

    session = opened(request)
    form = request.arguments.format
    if form not in {"html", "markdown"}:
        raise InvalidInput(
            f"{form[:40]} is not a format of the viewer", hint="use html or markdown"
        )
    if last_seq(session) > EXPORT_EVENTS_MAX:
        command = f"treering export {session.session_id} --scope {session.scope} --format {form}"
        raise InvalidInput("the session is too long for a browser", hint=f"run {command}")
    stream = io.BytesIO()
    write = write_html if form == "html" else write_markdown
    cover = read_cover(request.ledger, session)
    parts = pieces(request.ledger, session, whole(), with_payloads=True)
    write(stream, cover, parts, request.mask, with_payloads=True)
    name = quote(session.session_id.replace("/", "-"), safe="")
    ending, media_type = ("html", "text/html") if form == "html" else ("md", "text/markdown")
    return Response(
        stream.getvalue(),
        media_type=media_type,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}.{ending}",
            "Content-Security-Policy": "sandbox",
        },
    )


def _target(request: PageRequest, outline: SessionOutline, total: int) -> int:
    """Return the seq to begin at: of the address; else the end of a running session, or 1."""
    asked: SessionArguments = request.arguments
    if asked.event is not None:
        return event_of(request, asked.event).seq
    if asked.seq is not None:
        return min(max(asked.seq, 1), max(total, 1))
    if asked.page is not None:
        return min(max(asked.page, 0) * PAGE_EVENTS + 1, max(total, 1))
    return max(total, 1) if outline.state == "running" else 1


def _head(
    request: PageRequest, session: Session, outline: SessionOutline, known: SessionMap | None
) -> Markup:
    failed = len(known.failures) if known else 0
    return html(
        """<header class="about">
<div class="named"><h1 dir="auto">{title}</h1>
<p class="sum"><span id="state" class="tag" data-state="{state}">{state_name}</span>
<span id="facts">{facts}</span> <button type="button" id="failed" class="tag bad"{no_failure}>\
<span aria-hidden="true">✕</span> <span data-count>{failed}</span> failed</button>
<span id="so-far" class="muted"></span></p></div>
<p class="where muted"><a href="{scope_url}">{scope}</a> · {agent}{model}{parent}
 · <span title="begun">{begun}</span></p>
<div class="actions">{resume}
<details class="menu"><summary>Export</summary><div>
<a href="{base}/export?{query}&amp;format=html" download>One HTML page</a>
<a href="{base}/export?{query}&amp;format=markdown" download>Markdown</a></div></details>
{fork}<a class="button" href="{tree_url}" data-open="tree">Forks and undo</a>
<a class="button" href="{context_url}" data-open="context">What the model saw</a>
<button type="button" id="replay">Replay</button></div>
</header>""",
        title=request.text(outline.title).split("\n")[0][:200] or outline.session_id,
        state=outline.state,
        state_name="● live" if outline.state == "running" else outline.state,
        facts=known.facts if known else "Counting …",
        failed=failed,
        no_failure=NOTHING if failed else Markup(" hidden"),
        scope_url=f"/sessions?{urlencode({'scope': session.scope})}",
        scope=session.scope,
        agent=request.text(outline.agent),
        model=f" · {request.text(outline.model)}" if outline.model else "",
        parent=_came_from(request, outline),
        begun=moment(outline.created_ms),
        resume=_resume(request, session, outline),
        base=f"/sessions/{quote(session.session_id, safe='')}",
        query=Markup(urlencode({"scope": session.scope})),
        fork=fork_button(request, session),
        tree_url=request.url(open="tree"),
        context_url=request.url(open="context"),
    )


def _came_from(request: PageRequest, outline: SessionOutline) -> Markup:
    parts = []
    for word, other in (("forked from", outline.parent), ("subagent of", outline.spawned_by)):
        if other:
            address = session_address(request.the_scope, other)
            parts.append(html(' · {} <a href="{}">{}</a>', word, address, request.text(other)))
    return html("{}", parts)


def _resume(request: PageRequest, session: Session, outline: SessionOutline) -> Markup:
    """Return a button that copies the command which resumes the session, or shows it."""
    origin = origin_of(request.ledger, session.scope, session.session_id)
    command, why = None, None
    if origin is not None:
        command, why = resuming(
            origin, session.scope, session.session_id, parent=outline.spawned_by
        )
    name = "resume"
    if command is None:
        command, name = show_command(session.scope, session.session_id), "show"
    return html(
        '<button type="button" data-copy="{}" title="{}">Copy {} command</button>',
        request.text(command),
        request.text(why or command),
        name,
    )


def _lanes() -> Markup:
    lanes = ("you", "model", "tools", "subagents")
    return html(
        """<figure class="lanes" id="lanes" aria-label="Who was busy when">
<div class="names" aria-hidden="true">{}</div><div class="drawn" id="drawn" tabindex="0"
 role="slider" aria-label="Place in the session" aria-valuemin="0" aria-valuemax="100"
 aria-valuenow="0"></div><button type="button" id="unfocus" hidden>Show all</button></figure>""",
        [html("<span>{}</span>", name) for name in lanes],
    )


def _bar(request: PageRequest) -> Markup:
    asked: SessionArguments = request.arguments
    chips = [
        html(
            '<a class="chip" href="{}" data-show="{}"{}>{}</a>',
            request.url(show=None if name == "all" else name, event=None, seq=None, page=None),
            name,
            Markup(' aria-current="true"') if name == asked.show else None,
            label,
        )
        for name, label in FILTERS
    ]
    return html(
        """<div class="tools-bar"><div class="chips" role="group" aria-label="Show">{}</div>
<form id="finding" role="search"><input id="find-text" type="search" data-find name="find"
 value="{}" placeholder="Find in this session" aria-label="Find in this session" autocomplete="off"
 spellcheck="false"><output id="found" for="find-text"></output></form>
<button type="button" id="turns" class="only-small" aria-expanded="false"
 aria-controls="outline">Turns</button></div>
<div class="replay" id="player" hidden><button type="button" id="step-back">\
<span aria-hidden="true">◂</span> Back</button><button type="button" id="play">Play</button>\
<button type="button" id="step">Step <span aria-hidden="true">▸</span></button>
<input id="scrub" type="range" min="1" value="1" aria-label="Event">
<output id="replayed" for="scrub"></output><button type="button" id="stop">End replay</button></div>
""",
        chips,
        asked.find or "",
    )


def _outline(request: PageRequest, known: SessionMap | None) -> Markup:
    if known is None:
        return html('<p class="muted small">Reading the turns …</p>')
    return html(
        "<ol>{}</ol>",
        [
            html(
                '<li value="{number}" class="{state}"><a href="{url}" data-seq="{seq}">'
                '<span class="title" dir="auto">{title}</span>{bad}'
                '<span class="numbers">{numbers}</span></a></li>',
                number=turn.number,
                state=turn.state,
                url=request.url(seq=turn.first_seq, event=None, page=None, show=None),
                seq=turn.first_seq,
                title=turn.title or "(nothing said)",
                bad=html_if('<span class="bad">✕{}</span>', turn.failures),
                numbers=" · ".join(
                    filter(
                        None,
                        (
                            turn.state if turn.state not in {"", "ended"} else "",
                            span_text(turn.took_ms) if turn.took_ms else "",
                            counted(turn.tools, "tool") if turn.tools else "",
                            f"{amount(turn.tokens)} tokens" if turn.tokens else "",
                            f"${turn.cost:.2f}" if turn.cost else "",
                        ),
                    )
                ),
            )
            for turn in known.turns
        ],
    )


def _pages(request: PageRequest, page: int, total: int) -> Markup:
    """Return links to the pages before and after, for those without scripts."""
    links = []
    if page:
        links.append(
            html('<a href="{}" rel="prev">Earlier</a>', request.url(page=page - 1, event=None))
        )
    if (page + 1) * PAGE_EVENTS < total:
        links.append(
            html('<a href="{}" rel="next">Later</a>', request.url(page=page + 1, event=None))
        )
    return html_if('<p class="pages" id="pages">{}</p>', links)


def _nothing(chosen: RowFilter) -> str:
    return {
        "all": "Nothing was recorded in this session yet.",
        "you": "Nobody asked anything in this session.",
        "failures": "Nothing failed in this session.",
        "edits": "No file was edited in this session.",
        "thinking": "No thinking was recorded in this session.",
    }[chosen]


def _answer(value: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _json(value: SessionMap | None) -> Markup:
    """Return a value as JSON that cannot end the element around it."""
    text = "null" if value is None else msgspec.json.encode(value).decode()
    return Markup(text.replace("<", "\\u003c"))


PROMPT_CHARACTERS: Final = 80


class ForkPlanArguments(ViewArguments, frozen=True, kw_only=True):
    """After which turn to fork; the last one that has ended if it is left out."""

    turn: int | None = None


def fork_plan(request: PageRequest) -> Markup:
    """Return what a fork will share, and what it will be called; ``data-body`` does just that."""
    session = opened(request)
    turns = [*session.turns()]
    ended = [number for number, turn in enumerate(turns, 1) if turn.state != "open"]
    if not ended:
        raise NotFound("no turn has ended yet", hint="fork it after its first turn")
    number = min(max(request.arguments.turn or ended[-1], ended[0]), ended[-1])
    last = next(session.headers(last=1)).seq
    shared = turns[number].first_seq - 1 if number < len(turns) else last
    at = next(session.headers(after_seq=shared - 1))
    name = fork_name(session.session_id)
    return html(
        """<div data-body="{body}" data-then="{then}">
<p class="row"><label>After turn <input type="number" name="turn" min="{first}" max="{ends}"
 value="{number}"></label><small class="muted">of {turns}: {prompt}</small></p>
<ul><li>{shared} of {events} shared, up to event {at}; none is copied</li>
<li>The new session is called <code>{name}</code></li>
<li>This session stays as it is</li></ul></div>""",
        body=encode({"session_id": name, "at": at.event_id, "whole_turn": False}).decode(),
        then=session_address(session.scope, name),
        first=ended[0],
        ends=ended[-1],
        number=number,
        turns=f"{len(turns):,}",
        prompt=_prompt(request, turns[number - 1]),
        shared=f"{shared:,}",
        events=counted(last, "event"),
        at=f"{shared:,}",
        name=name,
    )


def fork_button(request: PageRequest, session: Session) -> Markup:
    """Return the button that forks a session after a turn."""
    base = f"/sessions/{quote(session.session_id, safe='')}"
    return action_button(
        request,
        "write",
        "Fork",
        url=f"{_routes(session)}/fork",
        plan=f"{base}/fork?{urlencode({'scope': session.scope})}",
        title="Fork this session?",
        says="A new session begins with the past of this one.",
        done="Forked.",
    )


def undo_buttons(
    request: PageRequest, session: Session, turns: list[tuple[int, TurnView]]
) -> Markup:
    """Return the buttons that undo and redo the last turn, and say what they will do."""
    standing = [(number, turn) for number, turn in turns if not turn.is_undone]
    then = session_address(session.scope, session.session_id, open="tree")
    buttons = []
    if standing:
        number, last = standing[-1]
        buttons.append(action_button(
            request, "write", "Undo the last turn", url=f"{_routes(session)}/undo", then=then,
            title="Undo the last turn?", done="Undone.",
            says=f"Turn {number} is hidden from the model and from views: {_prompt(request, last)}."
            " Nothing is deleted, and Redo shows it again.",
        ))  # fmt: skip
    if again := _hidden_last(session, turns):
        named = "; ".join(f"turn {number}, {_prompt(request, turn)}" for number, turn in again)
        buttons.append(action_button(
            request, "write", "Redo", url=f"{_routes(session)}/redo", then=then,
            title="Redo?", done="Shown again.",
            says=f"What the last undo hid is shown again, to the model as well: {named}.",
        ))  # fmt: skip
    return html_if('<p class="row">{}</p>', [*filter(None, buttons)])


def _hidden_last(session: Session, turns: list[tuple[int, TurnView]]) -> list[tuple[int, TurnView]]:
    """Return the turns that the last undo hid, unless they are shown again."""
    if not any(turn.is_undone for _, turn in turns):
        return []
    standing: dict[int, int] = {}
    for header in session.headers(kinds=("session.undone", "session.redone")):
        part = safe_part(header.kind, header.refs)
        if isinstance(part, SessionUndone) and part.from_seq is not None:
            standing[header.seq] = part.from_seq
        elif isinstance(part, SessionRedone):
            standing.pop(part.undone_seq or 0, None)
    first = standing[max(standing)] if standing else None
    return [
        (number, turn)
        for number, turn in turns
        if turn.is_undone and first is not None and first <= turn.first_seq < max(standing)
    ]


def _prompt(request: PageRequest, turn: TurnView) -> str:
    text = " ".join(request.text(turn.prompt).split())
    return f"“{text[:PROMPT_CHARACTERS]}{'…' if len(text) > PROMPT_CHARACTERS else ''}”"


def _routes(session: Session) -> str:
    scope, name = quote(session.scope, safe=""), quote(session.session_id, safe="")
    return f"/v1/scopes/{scope}/sessions/{name}"
