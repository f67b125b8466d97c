"""A session as Markdown. Messages are quoted, so that nothing in them can pass for the page."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Final

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
from treering.surfaces.pages.blocks_html import fenced_lines
from treering.surfaces.pages.display import EntryDisplay, display_entry
from treering.surfaces.pages.entries import Checked
from treering.surfaces.pages.html_page import WITHHELD, Written
from treering.surfaces.pages.styles import plain_text
from treering.surfaces.pages.transcripts import PageCover, TurnHead
from treering.surfaces.pages.wording import clean, size_text, span_text, spent_text, state_of
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import utc_clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.surfaces.pages.entries import PageEntry
    from treering.surfaces.shared.texts import Mask

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
            page.write(_turn(piece), instead="\n## Turn\n")
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


def _turn(head: TurnHead) -> str:
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
