"""A session as Markdown. What was said is quoted, so that nothing in it can pass for the page."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Final

from treering.capture.secret_values import MASK
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.times import utc_clock
from treering.surfaces.pages.checked import Checked
from treering.surfaces.pages.html_page import WITHHELD, Written
from treering.surfaces.pages.markup import code_lines
from treering.surfaces.pages.transcripts import PageCover, TurnHead
from treering.surfaces.pages.wording import (
    body_of,
    clean,
    counted_of,
    input_of,
    note_of,
    output_of,
    rule_of,
    span_text,
    spent_text,
    state_of,
    text_of,
    tool_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.surfaces.cli.masking import Mask
    from treering.surfaces.pages.entries import PageEntry

_SPECIAL: Final = re.compile(rf"(?P<mask>{MASK.pattern})|[\\`*_{{}}\[\]<>#|~!]|(?<=[0-9a-f]\])[(:]")
"""What Markdown takes for its own, and what could make a link of a mask.

A mask stays as it is, so that the last look knows it.
"""
_TICKS: Final = re.compile(r"`+")
_LIVE: Final = re.compile(
    r"(\\*)(<(?=[A-Za-z/!?])|!(?=\[)"
    r"|\[(?=[^\]\n]{0,500}\](?:\(|:)\s{0,9}<?\s{0,9}(?i:javascript|vbscript|data)\b))"
)
"""What a Markdown viewer takes for more than text: HTML, an image, a link that runs something."""


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
        page.write(_entry(piece, mask), instead=f"\n*{WITHHELD}*\n")
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


def _entry(entry: PageEntry, mask: Mask) -> str:
    match entry.sort:
        case "tool":
            return _tool(entry, mask)
        case "rule":
            body = body_of(entry.event, mask)
            quoted = f"\n{_quoted(body)}\n" if body else ""
            return f"\n---\n\n*{_line(rule_of(entry.event, mask))}*\n{quoted}"
        case "note":
            label, text = note_of(entry.event, mask)
            return f"\n- **{_line(label)}** {_line(text)}\n"
        case "more":
            return f"\n- {_line(counted_of(entry))}\n"
        case _:
            return f"\n### {entry.sort.capitalize()}\n\n{_quoted(text_of(entry.event, mask))}\n"


def _tool(entry: PageEntry, mask: Mask) -> str:
    tool = tool_of(entry, mask)
    why = f" ({_line(tool.remark)})" if tool.remark else ""
    facts = ", ".join(filter(None, (tool.took, tool.size)))
    hint = f" {_code(tool.hint)}" if tool.hint else ""
    head = f"\n- **{_line(tool.name)}**{hint}: {tool.status}{why}{f', {facts}' if facts else ''}\n"
    parts = (("input", input_of(entry, mask)), ("output", output_of(entry, mask)))
    return head + "".join(_fenced(name, text) for name, text in parts if text)


def _quoted(text: str) -> str:
    """Return ``text`` as a quotation that loads and runs nothing; code in it stays as it is."""
    lines = [f"> {line}".rstrip() for line in text.split("\n")]
    if _LIVE.search(text):
        code = code_lines("\n".join(lines))
        lines = [
            line if number in code else _LIVE.sub(_as_text, line)
            for number, line in enumerate(lines)
        ]
    return "\n".join(lines)


def _as_text(match: re.Match[str]) -> str:
    # After an odd number of backslashes it is text already.
    return match[0] if len(match[1]) % 2 else f"{match[1]}\\{match[2]}"


def _fenced(name: str, text: str) -> str:
    """Return ``text`` in a fence that nothing in it can close."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    body = "\n".join(f"  {line}".rstrip() for line in text.rstrip("\n").split("\n"))
    return f"\n  {fence}text {name}\n{body}\n  {fence}\n"


def _code(text: str) -> str:
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks} {text} {ticks}" if ticks != "`" else f"`{text}`"


def _line(text: str) -> str:
    """Return ``text`` on one line, with what Markdown would take for its own written out."""
    return _SPECIAL.sub(lambda match: match["mask"] or f"\\{match[0]}", " ".join(text.split()))
