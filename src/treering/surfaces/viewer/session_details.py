"""What opens beside the transcript: one event, what the model saw, and the tree of forks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from treering.context.media import split_media
from treering.context.tokens import estimate
from treering.errors import NotFound
from treering.model.codec import encode
from treering.surfaces.pages.blocks import TextBlock
from treering.surfaces.pages.blocks_html import PageLinks, blocks_html
from treering.surfaces.pages.styles import code_lines
from treering.surfaces.pages.wording import clean, size_text
from treering.surfaces.shared.contexts import (
    explain_repair,
    message_parts,
    pieces_of,
    with_contributors,
)
from treering.surfaces.shared.times import moment
from treering.surfaces.viewer.parts import NOTHING, Markup, html, html_if
from treering.surfaces.viewer.requests import PageRequest, ViewArguments, session_address
from treering.surfaces.viewer.session import undo_buttons
from treering.surfaces.viewer.session_rows import event_of, opened

if TYPE_CHECKING:
    from treering.context.assemble import Context
    from treering.ledger.contexts import Shown
    from treering.ledger.families import Family
    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header
    from treering.model.views import TurnView

PAYLOAD_CHARACTERS_MAX: Final = 400_000
PIECES_MAX: Final = 400
PIECE_CHARACTERS_MAX: Final = 4_000
CUTS_MAX: Final = 200
TREE_TURNS_MAX: Final = 500
"""How many turns at the end the tree shows undone events of."""
_EVENT_REFS: Final = frozenset({"message", "outcome", "at_event", "event_id", "target"})
_SESSION_REFS: Final = frozenset({"parent", "spawned_by"})


class EventArguments(ViewArguments, frozen=True, kw_only=True):
    """Which event, and whether to show its payload."""

    event: str
    payload: bool = False


class ModelViewArguments(ViewArguments, frozen=True, kw_only=True):
    """In which turn; the last one if it is left out."""

    turn: int | None = None


def event_drawer(request: PageRequest) -> Markup:
    """Return one event: header, references, links of the chain; the payload on request."""
    session = opened(request)
    event = event_of(request, request.arguments.event)
    before = _neighbour(session, event, -1)
    after = _neighbour(session, event, 1)
    return html(
        """<header><h2 id="beside-title">Event {seq}</h2>
<button type="button" class="plain" data-close>Close</button></header>
<p>{before} {after} <button type="button" class="copy" data-copy="{id}"
 title="Copy the id of the event">{id}</button></p>
<dl class="facts">{facts}</dl>
{refs}
<h3>In the chain</h3>
<dl class="facts"><dt>content</dt><dd class="mono">{digest}</dd>
<dt>link</dt><dd class="mono">{link}</dd>
<dt>link before</dt><dd class="mono">{link_before}</dd></dl>
<p class="row"><button type="button" data-verify="{verify}">Verify this session</button>
<output class="verified" role="status"></output></p>
{payload}""",
        seq=f"{event.seq:,}",
        id=event.event_id,
        before=_step(request, before, "Before"),
        after=_step(request, after, "After"),
        facts=[
            html("<dt>{}</dt><dd>{}</dd>", name, value) for name, value in _facts(request, event)
        ],
        refs=_refs(request, event),
        digest=event.content_digest.hex(),
        link=event.link.hex(),
        link_before="the first one" if before is None else before.link.hex(),
        verify=_verify_url(session),
        payload=_payload(request, event),
    )


def model_view(request: PageRequest) -> Markup:
    """Return what the model saw in a turn, if that is recorded, and what was cut and why."""
    session = opened(request)
    turn = request.arguments.turn
    turns = session.summary().turns
    head = html(
        """<header><h2 id="beside-title">What the model saw</h2>
<button type="button" class="plain" data-close>Close</button></header>
<p class="row"><label>Turn <input type="number" id="saw-turn" min="1" max="{}" value="{}"></label>
<small class="muted">of {}</small></p>""",
        max(turns, 1),
        turn or turns or 1,
        turns,
    )
    try:
        shown = session.shown(turn=turn or turns or None)
        times = [with_contributors(request.ledger, session, each) for each in shown[-3:]]
    except NotFound:
        times = []
    if not times:
        return html("{}{}", head, _not_recorded(session, turn or turns))
    return html("{}{}", head, [_seen(request, time, len(shown)) for time in times])


def fork_tree(request: PageRequest) -> Markup:
    """Return the sessions that were forked from one another, and what was undone, as a tree."""
    session = opened(request)
    family = request.ledger.family(session.scope, session.session_id)
    count = session.summary().turns
    latest = [*session.turns(last=TREE_TURNS_MAX)] if count else []
    turns = [*enumerate(latest, count - len(latest) + 1)]
    undone = [(number, turn) for number, turn in turns if turn.is_undone]
    actions = undo_buttons(request, session, turns)
    return html(
        """<header><h2 id="beside-title">Forks and undo</h2>
<button type="button" class="plain" data-close>Close</button></header>
<ul class="tree">{}</ul>{}{}""",
        _branch(request, session, family, undone),
        html(
            '<p class="muted small">No other session was forked from this one, and nothing was'
            " undone.</p>"
        )
        if not (family.forks or undone)
        else None,
        actions,
    )


def _facts(request: PageRequest, event: Event) -> list[tuple[str, str]]:
    named = (
        ("kind", event.kind),
        ("summary", event.summary),
        ("time", moment(event.ts_ms)),
        ("recorded", moment(event.recorded_ms)),
        ("session", event.session_id),
        ("agent", event.agent_id),
        ("user", event.user_id),
        ("run", event.run_id),
        ("turn", event.turn_id),
        ("origin", event.origin),
        ("source", event.source),
        ("visibility", event.visibility),
        ("payload", size_text(event.payload_bytes) if event.payload_bytes else "none"),
        ("erased", "expired" if event.expired else "redacted" if event.redacted else None),
        ("schema", str(event.schema_version)),
        ("position", f"{event.position:,}"),
    )
    return [(name, request.text(value)) for name, value in named if value]


def _refs(request: PageRequest, event: Event) -> Markup:
    refs = request.mask.value(event.refs) if isinstance(event.refs, dict) else {}
    if not refs:
        return NOTHING
    rows = [
        html("<dt>{}</dt><dd>{}</dd>", name, _ref(request, name, value))
        for name, value in refs.items()
    ]
    return html('<h3>Refers to</h3><dl class="facts">{}</dl>', rows)


def _ref(request: PageRequest, name: str, value: Any) -> Markup:
    text = value if isinstance(value, str) else encode(value).decode()
    shown = request.text(text)[:500]
    if name in _SESSION_REFS and isinstance(value, str):
        return html('<a href="{}">{}</a>', session_address(request.the_scope, value), shown)
    if name in _EVENT_REFS and isinstance(value, str):
        return html('<a href="{}">{}</a>', _url(request, event=value, open="event"), shown)
    return html("{}", shown)


def _step(request: PageRequest, header: Header | None, name: str) -> Markup:
    if header is None:
        return NOTHING
    url = _url(request, event=header.event_id, open="event")
    return html('<a class="button" href="{}">{}</a>', url, name)


def _neighbour(session: Session, event: Header, step: int) -> Header | None:
    seq = event.seq + step
    header = next(session.headers(after_seq=seq - 1), None) if seq >= 1 else None
    return header if header is not None and header.seq == seq else None


def _verify_url(session: Session) -> str:
    query = urlencode({"session_id": session.session_id})
    return f"/v1/scopes/{quote(session.scope, safe='')}/verify?{query}"


def _payload(request: PageRequest, event: Event) -> Markup:
    if event.redacted:
        return html('<p class="erased">Its content was erased.</p>')
    if event.payload is None:
        return html('<p class="muted">It has no payload.</p>')
    if not request.arguments.payload:
        return html(
            '<p><button type="button" data-payload>Show the payload ({})</button></p>',
            size_text(event.payload_bytes),
        )
    value = request.mask.value(split_media(event.payload)[0])
    text = clean(msgspec.json.format(encode(value), indent=2).decode(), request.mask)
    cut = max(len(text) - PAYLOAD_CHARACTERS_MAX, 0)
    text = text[:PAYLOAD_CHARACTERS_MAX]
    block = TextBlock(label="payload", lines=code_lines(text, "json"), cut=cut)
    return html(
        '<div class="io">{}</div><p><button type="button" data-copy-text=".io pre">Copy the'
        " payload</button></p>",
        Markup(blocks_html([block], PageLinks())),
    )


def _not_recorded(session: Session, turn: int) -> Markup:
    """Return a turn whose context was not recorded."""
    behind = session.summary().turns - turn
    turn_view = next(session.turns(last=behind + 1), None) if behind >= 0 and turn > 0 else None
    count = sum(used.total_tokens for used in turn_view.usage) if turn_view is not None else 0
    return html(
        '<p class="notice">What the model was shown in this turn is not recorded: the agent did'
        " not have Treering assemble it (<code>turn.context()</code> does).</p>{}",
        html_if(
            "<p>The provider counted <b>{}</b> tokens in this turn.</p>", count and f"{count:,}"
        ),
    )


def _seen(request: PageRequest, shown: Shown, times: int) -> Markup:
    context = shown.context
    system, messages = message_parts(context.request)
    pieces = [*pieces_of(system, messages)]
    sizes: Counter[str] = Counter()
    for piece in pieces:
        sizes[piece.speaker] += estimate(piece.text)
    limit = f" of {context.max_tokens:,}" if context.max_tokens else ""
    return html(
        """<p class="large"><b>{tokens}</b>{limit} tokens{times}</p>
{gauge}<p class="muted small">{exact}</p>
<table><caption>Where they are, about</caption><tbody>{sizes}</tbody></table>
{cuts}
<h3>Messages</h3>{pieces}""",
        tokens=f"{context.tokens:,}",
        limit=limit,
        times=f", the last of {times} times" if times > 1 else "",
        gauge=html(
            '<meter min="0" max="{}" value="{}">{} tokens</meter>',
            context.max_tokens,
            context.tokens,
            context.tokens,
        )
        if context.max_tokens
        else None,
        exact="Exactly what was shown."
        if shown.exact
        else "Not exact: some of it was erased since, or would be assembled otherwise today.",
        sizes=[
            html('<tr><th scope="row">{}</th><td class="number">{}</td></tr>', name, f"{size:,}")
            for name, size in sizes.most_common()
        ],
        cuts=_cuts(request, context),
        pieces=[_piece(request, piece.speaker, piece.text) for piece in pieces[-PIECES_MAX:]],
    )


def _cuts(request: PageRequest, context: Context) -> Markup:
    report = [
        explain_repair(request.ledger, request.the_scope, repair, request.mask)
        for repair in context.report[:CUTS_MAX]
    ]
    if not report:
        return html("<p>Nothing was cut or repaired.</p>")
    groups = []
    for code in dict.fromkeys(repair.code for repair in report):
        repairs = [repair for repair in report if repair.code == code]
        items = [
            html(
                "<li>{}{}</li>",
                html('<a href="{}">event {}</a> ', _url(request, seq=repair.seq), repair.seq)
                if repair.seq is not None
                else None,
                request.text(repair.detail or repair.summary or ""),
            )
            for repair in repairs
        ]
        groups.append(
            html(
                "<details><summary>{}: {}</summary><ul>{}</ul></details>",
                len(repairs),
                repairs[0].meaning,
                items,
            )
        )
    return html("<h3>Cut or repaired</h3>{}", groups)


def _url(request: PageRequest, **query: Any) -> str:
    """Return an address in the session of the page."""
    return session_address(request.the_scope, request.names["session_id"], **query)


def _piece(request: PageRequest, speaker: str, text: str) -> Markup:
    shown = request.text(text)
    line = " ".join(shown[:300].split())[:100]
    return html(
        '<details class="piece"><summary><b>{}</b> <span class="hint">{}</span></summary>'
        "<pre>{}</pre></details>",
        speaker,
        line,
        shown[:PIECE_CHARACTERS_MAX] + ("…" if len(shown) > PIECE_CHARACTERS_MAX else ""),
    )


def _branch(
    request: PageRequest, session: Session, node: Family, undone: list[tuple[int, TurnView]]
) -> Markup:
    outline = node.session
    is_here = outline.session_id == session.session_id
    title = request.text(outline.title).split("\n")[0][:100] or outline.session_id
    since = f" from event {outline.forked_seq:,}" if outline.forked_seq is not None else ""
    name = (
        html("<b>{}</b>", title)
        if is_here
        else html('<a href="{}">{}</a>', session_address(session.scope, outline.session_id), title)
    )
    compare = (
        NOTHING
        if is_here
        else html(
            ' · <a href="/compare?{}">compare</a>',
            urlencode(
                {
                    "a": f"{session.scope}|{session.session_id}",
                    "b": f"{session.scope}|{outline.session_id}",
                }
            ),
        )
    )
    gone = [
        html(
            '<li class="undone"><a href="{}">turn {}: {}</a> <span class="tag">undone</span></li>',
            _url(request, seq=turn.first_seq),
            number,
            request.text(turn.prompt)[:80],
        )
        for number, turn in (undone if is_here else ())
    ]
    below = [*gone, *(_branch(request, session, fork, undone) for fork in node.forks)]
    return html(
        '<li>{}<span class="muted small">{}{}</span>{}</li>',
        name,
        since,
        compare,
        html_if("<ul>{}</ul>", below),
    )
