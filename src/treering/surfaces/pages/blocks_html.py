"""Blocks as HTML that loads and runs nothing: texts are text, links name their address.

Every style is a class, so that a page may forbid all styles but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.events import Header
from treering.surfaces.pages.blocks import (
    AttachmentBlock,
    Block,
    DiffBlock,
    DiffRow,
    PictureBlock,
    ProseBlock,
    QuestionBlock,
    SourcesBlock,
    StyledLine,
    SubagentBlock,
    TasksBlock,
    TextBlock,
    TextSpan,
)
from treering.surfaces.pages.styles import code_lines, language_of
from treering.surfaces.pages.wording import size_text
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import about, utc_clock

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from treering.surfaces.pages.display import EntryDisplay

MARKDOWN_CHARACTERS_MAX: Final = 200_000
"""A longer text is shown as it is."""
FOLDED_LINES: Final = 30
"""A text of more lines is folded, and shows its first or last ones."""
SHOWN_LINES: Final = 12
OPEN_ROWS: Final = 60
"""A diff of more rows is folded."""
SPEAKERS: Final = {"user": "User", "assistant": "Assistant", "thinking": "Thinking"}
_OPEN_SORTS: Final = frozenset({"edit", "tasks", "question", "plan"})
_CODE: Final = ("fence", "code_block")
_TASK_MARKS: Final = {"done": "✓", "doing": "→", "dropped": "✕", "open": "○"}
_HINT_CHARACTERS: Final = 120


class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of what a page refers to; None where it cannot be opened."""

    session: Callable[[str], str | None] = lambda _: None
    event: Callable[[Header], str | None] = lambda _: None
    picture: Callable[[PictureBlock], str] = lambda picture: (
        f"data:{picture.mime};base64,{picture.data}"
    )
    speakers: dict[str, str] = msgspec.field(default_factory=lambda: SPEAKERS)


def entry_html(shown: EntryDisplay, links: PageLinks) -> str:
    """Return the HTML of one entry."""
    match shown.sort:
        case "tool":
            return _tool(shown, links)
        case "group":
            return _group(shown, links)
        case "rule":
            bad = " bad" if shown.is_bad else ""
            below = f'<div class="text" dir="auto">{blocks_html(shown.blocks, links)}</div>'
            return (
                f'<div class="mark{bad}" {_item(shown)}><p class="rule">'
                f"{escape(shown.title)}{_when(shown.event, links)}</p>"
                f"{below if shown.blocks else ''}</div>\n"
            )
        case "note":
            bad = " bad" if shown.is_bad else ""
            return (
                f'<p class="note{bad}" {_item(shown)}><b>{escape(shown.title)}</b>'
                f" {escape(shown.text)} {_when(shown.event, links)}</p>\n"
            )
        case "more":
            return f'<p class="more" {_item(shown)}>{escape(shown.title)}</p>\n'
        case "thinking" if not shown.event.redacted:
            return _thinking(shown, links)
        case _:
            return _said(shown, links)


def blocks_html(blocks: Iterable[Block], links: PageLinks) -> str:
    """Return the HTML of blocks."""
    return "".join(_block(block, links) for block in blocks)


def _item(shown: EntryDisplay) -> str:
    seq = shown.event.seq
    return f'id="e{seq}" data-item data-seq="{seq}" data-kind="{_kind(shown)}" tabindex="-1"'


def _kind(shown: EntryDisplay) -> str:
    """Return the kind that filters use."""
    if shown.sort == "tool":
        return f"tool {shown.tool_sort}{' failure' if shown.is_bad else ''}"
    return f"{shown.sort}{' failure' if shown.is_bad else ''}"


def _said(shown: EntryDisplay, links: PageLinks) -> str:
    event = shown.event
    body = (
        f'<p class="erased">{escape(_words(shown))}</p>'
        if event.redacted
        else blocks_html(shown.blocks, links)
    )
    name = links.speakers.get(shown.title, shown.title)
    return (
        f'<article class="said {shown.sort}" {_item(shown)} aria-labelledby="h{event.seq}">'
        f'<h3 id="h{event.seq}"><b>{escape(name)}</b>{_when(event, links)}</h3>'
        f'<div class="text" dir="auto">{body}</div></article>\n'
    )


def _thinking(shown: EntryDisplay, links: PageLinks) -> str:
    words = _words(shown)
    name = escape(links.speakers.get("thinking", "Thinking"))
    hint = escape(" ".join(words.split())[:_HINT_CHARACTERS])
    head = f'<b>{name}</b><span class="hint">{hint}</span>'
    if not words:
        return f'<p class="note" {_item(shown)}><b>{name}</b> {_when(shown.event, links)}</p>\n'
    return (
        f'<div class="thinking" {_item(shown)}><details><summary>{head}</summary>'
        f'<div class="text" dir="auto">{blocks_html(shown.blocks, links)}</div></details>'
        f"{_when(shown.event, links)}</div>\n"
    )


def _tool(shown: EntryDisplay, links: PageLinks) -> str:
    tool = shown.tool
    if tool is None:
        return ""
    cards = [block for block in shown.blocks if isinstance(block, SubagentBlock)]
    body = blocks_html((block for block in shown.blocks if block not in cards), links)
    why = f" ({escape(tool.remark)})" if tool.remark else ""
    status = f'<span class="status {tool.status}">{tool.status}{why}</span>'
    status = "" if tool.status == "ok" else status
    mark = '<span class="cross" aria-hidden="true">✕</span>' if shown.is_bad else ""
    line = (
        f'{mark}<span class="name">{escape(tool.name)}</span>'
        f'<span class="hint">{escape(tool.hint)}</span>{status}'
        f'<span class="facts">{escape(" · ".join(shown.facts))}</span>'
    )
    head = f'<div class="line">{line}</div>'
    if body:
        opened = " open" if _is_open(shown) else ""
        head = (
            f"<details{opened}><summary>{line}</summary>"
            f'<div class="io">{body}</div></details>'
        )  # fmt: skip
    tail = (
        f'<pre class="tail">{_lines(shown.tail)}</pre>'
        if shown.tail and body and not _is_open(shown)
        else ""
    )  # fmt: skip
    bad = " bad" if shown.is_bad else ""
    return (
        f'<div class="tool {tool.status}{bad}" {_item(shown)}>{head}{tail}'
        f"{blocks_html(cards, links)}{_when(shown.event, links)}</div>\n"
    )


def _is_open(shown: EntryDisplay) -> bool:
    rows = sum(
        len(hunk.rows)
        for block in shown.blocks
        if isinstance(block, DiffBlock)
        for hunk in block.hunks
    )
    return shown.tool_sort in _OPEN_SORTS and rows <= OPEN_ROWS and not shown.is_bad


def _group(shown: EntryDisplay, links: PageLinks) -> str:
    hints = ", ".join(member.tool.hint for member in shown.members if member.tool is not None)
    hints = escape(hints[:_HINT_CHARACTERS])
    inner = "".join(_tool(member, links) for member in shown.members)
    return (
        '<details class="group" data-kind="tool"><summary>'
        f'<span class="name">{escape(shown.title)}</span>'
        f'<span class="hint">{hints}</span></summary>\n{inner}</details>\n'
    )


def _when(event: Header, links: PageLinks) -> str:
    """Return the time of an event, linked with what else is known about it."""
    time = utc_clock(event.ts_ms)
    mark = about(event.refs)
    remark = "approximate, since the log does not say: " if mark else ""
    exact = f'datetime="{time.replace(" ", "T")}Z" title="{remark}{time} UTC"'
    shown = f"<time {exact}>{mark}{time.rpartition(' ')[2]}</time>"
    address = links.event(event)
    return shown if address is None else f'<a class="when" href="{escape(address)}">{shown}</a>'


def _words(shown: EntryDisplay) -> str:
    return "\n".join(block.text for block in shown.blocks if isinstance(block, ProseBlock))


def _block(block: Block, links: PageLinks) -> str:
    match block:
        case ProseBlock():
            return markdown(block.text)
        case TextBlock():
            return _text(block)
        case DiffBlock():
            return _diff(block)
        case TasksBlock():
            items = "".join(
                f'<li class="{task.state}"><span aria-hidden="true">{_TASK_MARKS[task.state]}'
                f'</span><span class="unseen">{task.state}: </span>{escape(task.text)}</li>'
                for task in block.tasks
            )
            return f'<ul class="tasks">{items}</ul>'
        case QuestionBlock():
            return _question(block)
        case SourcesBlock():
            items = "".join(
                f"<li>{escape(source.title)} {_address(source.address)}"
                f"{f'<p>{escape(source.excerpt)}</p>' if source.excerpt else ''}</li>"
                for source in block.sources
            )
            return f'<ol class="sources">{items}</ol>'
        case PictureBlock():
            about = block.name or f"picture, {block.width} × {block.height}"  # noqa: RUF001
            return (
                f'<figure><img src="{escape(links.picture(block))}" width="{block.width}"'
                f' height="{block.height}" alt="{escape(about)}" loading="lazy" decoding="async">'
                f"<figcaption>{escape(about)}, {size_text(block.bytes_count)}</figcaption></figure>"
            )
        case AttachmentBlock():
            return f'<p class="image">{escape(block.text)}</p>'
        case SubagentBlock():
            return _card(block, links)


def _text(block: TextBlock) -> str:
    label = f'<p class="label">{escape(block.label)}</p>' if block.label != "command" else ""
    cut = ""
    if block.cut:
        where = "before" if block.is_end else "more"
        cut = f'<p class="cut">… {counted(block.cut, "character")} {where}, not shown</p>'
    body = _folded(block)
    return f"{label}{cut}{body}" if block.is_end else f"{label}{body}{cut}"


def _folded(block: TextBlock) -> str:
    lines, number = block.lines, block.first_number
    kind = "command" if block.label == "command" else ""
    if len(lines) <= FOLDED_LINES:
        return _pre(lines, number, kind)
    rest = len(lines) - SHOWN_LINES
    if block.is_end:
        return (
            f'<details class="rest"><summary>{counted(rest, "line")} before</summary>'
            f"{_pre(lines[:rest], number, kind)}</details>{_pre(lines[rest:], None, kind)}"
        )
    behind = None if number is None else number + SHOWN_LINES
    return (
        f'{_pre(lines[:SHOWN_LINES], number, kind)}<details class="rest">'
        f"<summary>{rest:,} more lines</summary>{_pre(lines[SHOWN_LINES:], behind, kind)}</details>"
    )


def _pre(lines: Sequence[StyledLine], number: int | None, kind: str) -> str:
    name = f' class="{kind}"' if kind else ""
    if number is None:
        return f"<pre{name}>{_lines(lines)}</pre>"
    rows = "".join(
        f'<span class="r"><i>{at}</i>{_spans(line)}\n</span>'
        for at, line in enumerate(lines, number)
    )
    return f'<pre class="numbered {kind}">{rows}</pre>'


def _lines(lines: Iterable[StyledLine]) -> str:
    return "\n".join(map(_spans, lines))


def _spans(line: StyledLine) -> str:
    return "".join(map(_span, line))


def _span(span: TextSpan) -> str:
    text = escape(span.text, quote=False)
    if not span.style:
        return text
    names = span.style.split()
    tag = "ins" if "wi" in names else "del" if "wd" in names else "span"
    rest = " ".join(name for name in names if name not in {"wi", "wd"})
    return f'<{tag} class="{rest}">{text}</{tag}>' if rest else f"<{tag}>{text}</{tag}>"


def _diff(block: DiffBlock) -> str:
    note = f'<span class="facts">{escape(block.note)}</span>' if block.note else ""
    head = (
        f'<p class="file"><b>{escape(block.path or "(no file named)")}</b>'
        f'<span class="plus">+{block.added:,}</span>'
        f'<span class="minus">−{block.removed:,}</span>{note}</p>'  # noqa: RUF001
    )
    is_numbered = any(row.number is not None for hunk in block.hunks for row in hunk.rows)
    parts = []
    for at, hunk in enumerate(block.hunks):
        title = hunk.title or ("⋯" if at else "")
        if title:
            parts.append(f'<span class="hunk">{escape(title)}\n</span>')
        parts += [_row(row, is_numbered=is_numbered) for row in hunk.rows]
    cut = f'<p class="cut">… {counted(block.cut, "line")} more, not shown</p>' if block.cut else ""
    body = f'<pre class="diff">{"".join(parts)}</pre>' if parts else ""
    return f"{head}{body}{cut}"


def _row(row: DiffRow, *, is_numbered: bool) -> str:
    kind = {"+": " a", "-": " d", " ": ""}[row.sign]
    number = f"<i>{row.number if row.number is not None else ''}</i>" if is_numbered else ""
    return f'<span class="r{kind}">{number}<b>{row.sign}</b>{_spans(row.spans)}\n</span>'


def _question(block: QuestionBlock) -> str:
    options = "".join(
        f'<li class="{"chosen" if option.is_chosen else "other"}">'
        f'<span aria-hidden="true">{"●" if option.is_chosen else "○"}</span>'
        f"{'<span class=unseen>chosen: </span>' if option.is_chosen else ''}"
        f"<b>{escape(option.label)}</b> {escape(option.description)}</li>"
        for option in block.options
    )
    listed = f'<ul class="options">{options}</ul>' if options else ""
    answer = f'<p class="answer">→ {escape(block.answer)}</p>' if block.answer else ""
    return f'<div class="question"><p>{escape(block.text)}</p>{listed}{answer}</div>'


def _card(block: SubagentBlock, links: PageLinks) -> str:
    address = links.session(block.session_id)
    name = escape(block.title or block.session_id)
    shown = f'<a href="{escape(address)}">{name}</a>' if address else f"<b>{name}</b>"
    facts = " · ".join(filter(None, (block.agent, *block.facts)))
    return (
        f'<p class="subagent"><span>Subagent</span> {shown}'
        f' <span class="facts">{escape(facts)}</span></p>'
    )


def _address(address: str) -> str:
    return f'<span class="address">({escape(address[:200])})</span>'


def markdown(text: str) -> str:
    """Return the HTML of a message."""
    if len(text) > MARKDOWN_CHARACTERS_MAX:
        return f"<pre>{escape(text)}</pre>"
    parser = _parser()
    tokens = parser.parse(text)
    _tame(tokens)
    return str(parser.renderer.render(tokens, parser.options, {}))


def fenced_lines(text: str) -> set[int]:
    """Return the numbers of the lines of Markdown that are blocks of code; none of a long text."""
    if len(text) > MARKDOWN_CHARACTERS_MAX:
        return set()
    blocks = [token.map for token in _parser().parse(text) if token.type in _CODE and token.map]
    return {line for first, behind in blocks for line in range(first, behind)}


def _tame(tokens: Sequence[Token]) -> None:  # noqa: C901  (one branch for each sort of token)
    """Remove from ``tokens`` what would load something, link anywhere or need a style."""
    link: tuple[str, str] | None = None
    """The address of the link that is open, and its text so far."""
    for token in tokens:
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrs["class"] = str(style).rpartition(":")[2]
        if token.type in {"heading_open", "heading_close"}:
            # The page has three levels of its own.
            token.tag = f"h{min(int(token.tag[1:]) + 3, 6)}"
        elif token.type == "link_open":
            link = str(token.attrs.get("href", "")), ""
            token.tag, token.attrs = "span", {"class": "link"}
        elif token.type == "link_close":
            address, label = link or ("", "")
            token.tag = "span"
            if address.rstrip("/") != label.rstrip("/"):
                token.type, token.content = "html_inline", f"</span> {_address(address)}"
            link = None
        elif token.type == "image":
            token.type, token.content = "html_inline", _image(token)
        elif token.type == "table_open":
            token.attrs["tabindex"] = "0"
        elif token.type == "fence":
            language = language_of(token.info.split(maxsplit=1)[0]) if token.info.strip() else ""
            lines = code_lines(token.content.rstrip("\n"), language)
            token.type, token.content = "html_block", f"<pre><code>{_lines(lines)}</code></pre>\n"
        if link is not None and token.type in {"text", "code_inline"}:
            link = link[0], link[1] + token.content
        if token.type not in {"html_inline", "html_block"}:
            _tame(token.children or ())


def _image(token: Token) -> str:
    text = token.content or "no description"
    address = str(token.attrs.get("src", ""))
    return f'<span class="image">[image: {escape(text)} {escape(address[:200])}]</span>'


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (only for a page)

    # People break lines on purpose.
    options: Any = {"html": False, "breaks": True, "maxNesting": 20}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
