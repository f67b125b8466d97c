"""A session as one HTML file that needs nothing else: no network, no other file.

Its policy forbids everything but the one style and the one script that it holds, named by their
digests. Entries are written as they are read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Final

import msgspec

from treering.surfaces.pages.blocks_html import PageLinks, entry_html
from treering.surfaces.pages.display import EntryDisplay, display_entry, grouped
from treering.surfaces.pages.entries import Checked
from treering.surfaces.pages.transcripts import PageCover, TurnHead
from treering.surfaces.pages.wording import clean, span_text, spent_text, state_of
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import utc_clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.surfaces.pages.entries import PageEntry
    from treering.surfaces.shared.texts import Mask


WITHHELD: Final = "withheld: this seemed to hold a secret"
_MARKUP: Final = re.compile(
    r'</?(?:span|ins|del|i|b)(?: class="[a-z0-9 ]*")?>'
    r'|src="data:image/[a-z]+;base64,[A-Za-z0-9+/=]*"'
)
"""Invisible separators and bytes of pictures, which are not searched for secrets."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    entries: int
    withheld: int
    """Pieces that still seemed to hold a secret."""


def write_html(
    stream: IO[bytes],
    cover: PageCover,
    parts: Iterable[TurnHead | PageEntry],
    mask: Mask,
    *,
    with_payloads: bool,
) -> Written:
    """Write a session to ``stream`` as a page."""
    page = Checked(stream, lambda piece: _MARKUP.sub("", piece))
    links = PageLinks()
    title = escape(clean(cover.session.title or cover.session.session_id, mask))
    page.write(_opening(title, _facts(cover, mask)), instead=_opening(WITHHELD, []))
    count, in_turn = 0, False
    for piece in grouped(_displayed(parts, cover, mask)):
        if isinstance(piece, TurnHead):
            page.write("</section>\n" if in_turn else "")
            page.write(_turn(piece), instead='<section class="turn">')
            in_turn = True
            continue
        count += max(len(piece.members), 1)
        page.write(
            entry_html(piece, links),
            instead=f'<p class="note bad" data-item tabindex="-1">{WITHHELD}</p>\n',
        )
    page.write("</section>\n" if in_turn else "")
    page.write(_closing(mask, page.withheld, with_payloads=with_payloads))
    return Written(entries=count, withheld=page.withheld)


def _displayed(
    parts: Iterable[TurnHead | PageEntry], cover: PageCover, mask: Mask
) -> Iterator[TurnHead | EntryDisplay]:
    for piece in parts:
        if isinstance(piece, TurnHead):
            yield piece
        else:
            yield display_entry(piece, mask, subagent=cover.subagent)


def _opening(title: str, parts: Iterable[tuple[str, str]]) -> str:
    """Return everything before the first turn; ``title`` and ``parts`` are HTML."""
    style, script = _style(), _resource("pages/page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}';"
        " img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="treering">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#transcript">Skip to the transcript</a>
<nav class="bar" aria-label="Search and view" hidden>
<input id="search" type="search" placeholder="Search this session" aria-label="Search this session"
 autocomplete="off" spellcheck="false">
<output id="count" role="status" for="search"></output>
<button id="expand" type="button" aria-pressed="false">Expand all</button>
<button id="theme" type="button">Theme: auto</button>
</nav>
<header>
<h1 dir="auto">{title}</h1>
<dl>{facts}</dl>
</header>
<main id="transcript" tabindex="-1">
"""


def _facts(cover: PageCover, mask: Mask) -> Iterator[tuple[str, str]]:
    """Return the facts about the session at the top, as HTML."""
    outline, counts = cover.session, cover.counts
    named = (
        ("session", outline.session_id),
        ("scope", cover.scope),
        ("agent", outline.agent),
        ("user", outline.user),
        ("model", outline.model),
        ("taken from", outline.imported_from),
    )
    for name, text in named:
        if text:
            yield name, escape(clean(text, mask))
    if counts.first_ms is not None and counts.last_ms is not None:
        span = span_text(counts.last_ms - counts.first_ms)
        about = "about " if cover.is_approximate else ""
        first, last = utc_clock(counts.first_ms), utc_clock(counts.last_ms)
        yield "when", f"{about}{first} to {last} UTC, {span}"
    failing = f" ({cover.failing_calls:,} failing)" if cover.failing_calls else ""
    erased = f", {counts.erased:,} erased" if counts.erased else ""
    size = f"{counted(counts.turns, 'turn')}, {counted(counts.tool_calls, 'tool call')}{failing}"
    yield "size", f"{size}, {counted(counts.events, 'event')}{erased}"
    if spent := spent_text(cover.usage.total):
        yield "used", escape(spent)
    if outline.parent is not None:
        yield "forked from", escape(f"{clean(outline.parent, mask)} at {outline.forked_seq}")
    if outline.spawned_by is not None:
        yield "subagent of", escape(clean(outline.spawned_by, mask))
    if cover.forks:
        yield "forks", escape(", ".join(clean(name, mask) for name in cover.forks))
    if cover.spawned:
        yield "subagents", escape(", ".join(clean(name, mask) for name in cover.spawned))


def _closing(mask: Mask, withheld: int, *, with_payloads: bool) -> str:
    parts = []
    if not with_payloads:
        parts.append("Texts are shortened: payloads were withheld.")
    if mask.masked:
        parts.append(f"{counted(mask.masked, 'text')} held secrets, masked here.")
    if withheld:
        parts.append(f"{counted(withheld, 'entry').replace('entrys', 'entries')} withheld.")
    lines = "".join(f"<p>{part}</p>" for part in parts)
    keys = (
        "<kbd>j</kbd> <kbd>k</kbd> next and previous · <kbd>/</kbd> search"
        " · <kbd>e</kbd> expand all · <kbd>t</kbd> theme"
    )
    return f"""</main>
<footer>{lines}<p class="keys">{keys}</p></footer>
<script>{_resource("pages/page.js")}</script>
</body>
</html>
"""


def _turn(head: TurnHead) -> str:
    turn, state = head.turn, state_of(head)
    tokens = sum(used.total_tokens for used in turn.usage)
    facts = (
        span_text(turn.ended_ms - turn.started_ms) if turn.ended_ms > turn.started_ms else "",
        counted(turn.tool_calls, "tool") if turn.tool_calls else "",
        counted(tokens, "token") if tokens else "",
    )
    shown = "".join(f"<span>{fact}</span>" for fact in facts if fact)
    name = f"turn-{head.number}"
    return (
        f'<section class="turn {state}" aria-labelledby="{name}"><h2 id="{name}">'
        f'<a href="#{name}">Turn {head.number:,}</a>'
        f"{'~' if turn.is_approximate else ''}{_time(turn.started_ms)}"
        f'<span class="{state}">{state}</span>{shown}</h2>\n'
    )


def _time(ts_ms: int) -> str:
    time = utc_clock(ts_ms)
    return f'<time datetime="{time.replace(" ", "T")}Z">{time}</time>'


def _style() -> str:
    names = ("viewer/static/tokens.css", "viewer/static/blocks.css", "pages/page.css")
    return "".join(map(_resource, names))


def _resource(name: str) -> str:
    return files("treering.surfaces").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
