"""A session as one file: HTML that needs nothing else, or Markdown whose messages are quoted.

The policy of the HTML forbids everything but the one style and the one script that it holds, named
by their digests. Entries are written as they are read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from typing import IO, Final

import msgspec

from treering.capture.secret_values import MASK
from treering.surfaces.pages.blocks import (
    BOXES,
    AttachmentBlock,
    Block,
    DiffBlock,
    PictureBlock,
    ProseBlock,
    QuestionBlock,
    SourcesBlock,
    SubagentBlock,
    TasksBlock,
    TextBlock,
)
from treering.surfaces.pages.blocks_html import PageLinks, entry_html, fenced_lines
from treering.surfaces.pages.display import EntryDisplay, display_entry, grouped
from treering.surfaces.pages.entries import Checked, PageEntry
from treering.surfaces.pages.styles import plain_text
from treering.surfaces.pages.transcripts import PageCover, TurnHead
from treering.surfaces.pages.wording import clean, size_text, span_text, spent_text, state_of
from treering.surfaces.shared.texts import Mask, counted
from treering.surfaces.shared.times import utc_clock

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


_SPECIAL: Final = re.compile(rf"(?P<mask>{MASK.pattern})|[\\`*_{{}}\[\]<>#|~!]|(?<=[0-9a-f]\])[(:]")
"""Markdown syntax, and what could make a link of a mask.

A mask stays as it is, so that the last check recognises it.
"""
_TICKS: Final = re.compile(r"`+")
_LIVE: Final = re.compile(
    r"(\\*)(<(?=[A-Za-z/!?])|!(?=\[)"
    r"|\[(?=[^\]\n]{0,500}\](?:\(|:)\s{0,9}<?\s{0,9}(?i:javascript|vbscript|data)\b))"
)
"""What a Markdown viewer does not show as text: HTML, an image, a link that runs something."""


def write_markdown(
    stream: IO[bytes],
    cover: PageCover,
    parts: Iterable[TurnHead | PageEntry],
    mask: Mask,
    *,
    with_payloads: bool,
) -> Written:
    """Write a session to ``stream`` as Markdown."""
    page = Checked(stream)
    page.write(_cover(cover, mask), instead=f"# {WITHHELD}\n")
    count = 0
    for piece in parts:
        if isinstance(piece, TurnHead):
            page.write(_markdown_turn(piece), instead="\n## Turn\n")
            continue
        count += 1
        shown = display_entry(piece, mask, subagent=cover.subagent)
        page.write(_entry(shown), instead=f"\n*{WITHHELD}*\n")
    if not with_payloads:
        page.write("\n---\n\nTexts are shortened: payloads were withheld.\n")
    if mask.masked:
        page.write(f"\n{counted(mask.masked, 'text')} held secrets, masked here.\n")
    return Written(entries=count, withheld=page.withheld)


def _cover(cover: PageCover, mask: Mask) -> str:
    outline, counts = cover.session, cover.counts
    title = _line(clean(outline.title or outline.session_id, mask))
    facts = [
        f"session {outline.session_id} of scope {cover.scope}",
        *(f"{name} {value}" for name, value in
          (("agent", outline.agent), ("user", outline.user), ("model", outline.model)) if value),
        counted(counts.turns, "turn"),
        counted(counts.tool_calls, "tool call"),
        counted(counts.events, "event"),
        spent_text(cover.usage.total),
        f"forked from {outline.parent} at {outline.forked_seq}" if outline.parent else "",
        f"subagent of {outline.spawned_by}" if outline.spawned_by else "",
    ]  # fmt: skip
    if counts.first_ms is not None and counts.last_ms is not None:
        span = span_text(counts.last_ms - counts.first_ms)
        facts.append(f"{utc_clock(counts.first_ms)} to {utc_clock(counts.last_ms)} UTC, {span}")
    listed = "\n".join(f"- {_line(clean(fact, mask))}" for fact in facts if fact)
    return f"# {title}\n\n{listed}\n"


def _markdown_turn(head: TurnHead) -> str:
    state = f", {state_of(head)}" if state_of(head) else ""
    return f"\n## Turn {head.number}{state}\n\n{utc_clock(head.turn.started_ms)} UTC\n"


def _entry(shown: EntryDisplay) -> str:
    match shown.sort:
        case "tool":
            return _tool(shown)
        case "rule":
            return f"\n---\n\n*{_line(shown.title)}*\n{_said(shown.blocks)}"
        case "note":
            return f"\n- **{_line(shown.title)}** {_line(shown.text)}\n"
        case "more":
            return f"\n- {_line(shown.title)}\n"
        case _:
            return f"\n### {shown.sort.capitalize()}\n{_said(shown.blocks)}"


def _said(blocks: tuple[Block, ...]) -> str:
    return "".join(
        f"\n{_quoted(block.text)}\n" if isinstance(block, ProseBlock) else _block(block)
        for block in blocks
    )


def _tool(shown: EntryDisplay) -> str:
    tool = shown.tool
    if tool is None:
        return ""
    why = f" ({_line(tool.remark)})" if tool.remark else ""
    facts = ", ".join(shown.facts)
    hint = f" {_code(tool.hint)}" if tool.hint else ""
    head = f"\n- **{_line(tool.name)}**{hint}: {tool.status}{why}{f', {facts}' if facts else ''}\n"
    return head + "".join(map(_block, shown.blocks))


def _block(block: Block) -> str:
    """Return what belongs to a tool, in its item of the list."""
    match block:
        case TextBlock():
            return _fenced(f"text {block.label}", plain_text(block.lines))
        case ProseBlock():
            return _fenced("text", block.text)
        case DiffBlock():
            rows = [
                f"{row.sign}{''.join(span.text for span in row.spans)}"
                for hunk in block.hunks
                for row in hunk.rows
            ]
            name = f"{block.path} +{block.added} -{block.removed} {block.note}".strip()
            return _fenced("diff", "\n".join([f"@@ {name} @@", *rows]))
        case TasksBlock():
            tasks = [f"[{BOXES[task.state]}] {task.text}" for task in block.tasks]
            return _fenced("text", "\n".join(tasks))
        case QuestionBlock():
            options = [
                f"({'x' if option.is_chosen else ' '}) {option.label} {option.description}".rstrip()
                for option in block.options
            ]
            answer = [f"→ {block.answer}"] if block.answer else []
            return _fenced("text", "\n".join([block.text, *options, *answer]))
        case SourcesBlock():
            listed = [f"{source.title} <{source.address}>" for source in block.sources]
            return _fenced("text", "\n".join(listed))
        case PictureBlock():
            size = f"{block.width} x {block.height}, {size_text(block.bytes_count)}"
            return f"\n  {_line(' '.join(filter(None, ('picture', block.name))))}: {size}\n"
        case AttachmentBlock():
            return f"\n  {_line(block.text)}\n"
        case SubagentBlock():
            facts = ", ".join(filter(None, (block.agent, *block.facts)))
            return f"\n  → {_line(f'{block.session_id} {block.title}: {facts}')}\n"


def _quoted(text: str) -> str:
    """Return ``text`` as a quotation that loads and runs nothing; code in it stays as it is."""
    lines = [f"> {line}".rstrip() for line in text.split("\n")]
    if _LIVE.search(text):
        code = fenced_lines("\n".join(lines))
        lines = [
            line if number in code else _LIVE.sub(_as_text, line)
            for number, line in enumerate(lines)
        ]
    return "\n".join(lines)


def _as_text(match: re.Match[str]) -> str:
    # After an odd number of backslashes it is text already.
    return match[0] if len(match[1]) % 2 else f"{match[1]}\\{match[2]}"


def _fenced(info: str, text: str) -> str:
    """Return ``text`` in a fence that nothing in it can close."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    body = "\n".join(f"  {line}".rstrip() for line in text.rstrip("\n").split("\n"))
    return f"\n  {fence}{info}\n{body}\n  {fence}\n"


def _code(text: str) -> str:
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks} {text} {ticks}" if ticks != "`" else f"`{text}`"


def _line(text: str) -> str:
    """Return ``text`` on one line, with Markdown syntax escaped."""
    return _SPECIAL.sub(lambda match: match["mask"] or f"\\{match[0]}", " ".join(text.split()))
