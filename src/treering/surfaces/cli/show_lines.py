"""A session as lines that people read: a cover, then each turn under a rule of its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.output import counted, is_terminal, one_line, painted, printable
from treering.surfaces.cli.short_ids import ShortIds
from treering.surfaces.cli.tables import width
from treering.surfaces.cli.times import clock, moment
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
    from collections.abc import Iterable, Iterator

    from treering.surfaces.pages.entries import PageEntry

COLUMNS_MAX: Final = 100
"""Longer lines are hard to read."""
TOOL_CHARACTERS_MAX: Final = 2_000
"""Characters of a tool's input or output, unless ``full``."""
_INDENT: Final = "  "
_STATES: Final = {
    "failed": "red",
    "interrupted": "yellow",
    "undone": "bright_black",
    "open": "cyan",
    "synthetic": "yellow",
    "ok": "green",
}
_SPEAKERS: Final = {"user": "cyan", "assistant": "green", "thinking": "bright_black"}


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a session, and how."""

    cover: PageCover
    mask: Mask
    with_payloads: bool
    full: bool = False
    short: ShortIds = msgspec.field(default_factory=lambda: ShortIds(()))
    """The ids of the sessions that are named on the way."""

    def subagent(self, call_id: str | None) -> str | None:
        """Return the session that a tool call began, if it began one."""
        if call_id is None:
            return None
        spawned = self.cover.spawned
        return next((name for name, call in spawned.items() if call == call_id), None)


def lines_of(showing: Showing, pieces: Iterable[TurnHead | PageEntry]) -> Iterator[str]:
    """Return a session line by line, as it is read."""
    yield from _cover(showing)
    speaker = None
    for piece in pieces:
        if isinstance(piece, TurnHead):
            yield ""
            yield _rule(_turn(piece), _STATES.get(state_of(piece)), bold=True)
            speaker = None
            continue
        role = piece.sort if piece.sort in _SPEAKERS else None
        if role and role != speaker:
            yield painted(role, _SPEAKERS[role], bold=True)
        speaker = role if role or piece.sort in {"rule", "note"} else speaker
        yield from _entry(piece, showing)
    yield from _closing(showing)


def _cover(showing: Showing) -> Iterator[str]:
    cover, outline = showing.cover, showing.cover.session
    counts = cover.counts
    yield painted(one_line(clean(outline.title or outline.session_id, showing.mask)), bold=True)
    about = (("agent", outline.agent), ("user", outline.user), ("model", outline.model),
             ("from", outline.imported_from))  # fmt: skip
    named = "".join(f", {name} {printable(value)}" for name, value in about if value)
    yield from _folded(
        f"session {printable(outline.session_id)} of scope {cover.scope}, {outline.state}{named}",
        "",
    )
    if counts.first_ms is not None and counts.last_ms is not None:
        span = span_text(counts.last_ms - counts.first_ms)
        yield f"{clock(counts.first_ms)} to {moment(counts.last_ms)}, {span}"
    calls = counted(counts.tool_calls, "tool call")
    calls += f" ({cover.failing_calls:,} failing)" if cover.failing_calls else ""
    parts = [counted(counts.turns, "turn"), calls, spent_text(cover.usage.total)]
    if counts.erased:
        parts.append(f"{counts.erased:,} of the events erased")
    yield f"{counted(counts.events, 'event')}: {', '.join(filter(None, parts))}"
    if outline.parent is not None:
        yield f"forked at {outline.forked_seq} from {_link(showing, outline.parent)}"
    if outline.spawned_by is not None:
        yield f"subagent of {_link(showing, outline.spawned_by)}"
    yield from (f"fork {_link(showing, name)}" for name in cover.forks)
    yield from (f"subagent {_link(showing, name)}" for name in cover.spawned)


def _closing(showing: Showing) -> Iterator[str]:
    yield ""
    session = printable(showing.short.shown(showing.cover.session.session_id))
    if not showing.with_payloads:
        yield painted("texts are shortened: --payload shows them in full", dim=True)
    if showing.mask.masked:
        yield f"{counted(showing.mask.masked, 'text')} held secrets, masked here"
    more = f"treering sessions show {session} --scope {showing.cover.scope}"
    yield painted(f"goals, schedules, memories and cost: {more}", dim=True)


def _turn(head: TurnHead) -> str:
    turn = head.turn
    tokens = sum(used.total_tokens for used in turn.usage)
    parts = (
        f"turn {head.number:,}",
        clock(turn.started_ms),
        state_of(head),
        span_text(turn.ended_ms - turn.started_ms) if turn.ended_ms > turn.started_ms else "",
        counted(turn.tool_calls, "tool") if turn.tool_calls else "",
        counted(tokens, "token") if tokens else "",
    )
    return " · ".join(filter(None, parts))


def _entry(entry: PageEntry, showing: Showing) -> Iterator[str]:
    mask = showing.mask
    match entry.sort:
        case "tool":
            yield from _tool(entry, showing)
        case "rule":
            is_bad = entry.event.kind.startswith(("run.", "ledger."))
            yield _rule(printable(rule_of(entry.event, mask)), "red" if is_bad else "yellow")
            yield from _said(body_of(entry.event, mask))
        case "note":
            label, text = note_of(entry.event, mask)
            colour = "red" if label in {"error", "alert", "warning", "blocked"} else None
            yield from _folded(one_line(text), painted(f"! {label}: ", colour, dim=not colour))
        case "more":
            yield painted(f"{_INDENT}· {printable(counted_of(entry))}", dim=True)
        case _:
            yield from _said(text_of(entry.event, mask))


def _said(text: str) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        yield from _folded(printable(line.replace("\t", "    ")), _INDENT)


def _tool(entry: PageEntry, showing: Showing) -> Iterator[str]:
    tool = tool_of(entry, showing.mask)
    status = painted(tool.status, _STATES.get(tool.status))
    facts = ", ".join(filter(None, (tool.took, tool.size)))
    why = f" ({one_line(tool.remark)})" if tool.remark else ""
    tail = f" {status}{why}{f' {facts}' if facts else ''}"
    name, hint = one_line(tool.name), one_line(tool.hint)
    room = _room() - width(f"{_INDENT}> {name}  {tool.status}{why} {facts}") if is_terminal() else 0
    if is_terminal() and width(hint) > max(room, 10):
        hint = f"{hint[: max(room, 10) - 1]}…"
    yield f"{_INDENT}> {painted(name, bold=True)}{f' {hint}' if hint else ''}{tail}"
    began = showing.subagent(tool.call_id)
    if began is not None:
        yield f"{_INDENT * 2}{_link(showing, began)}"
    if showing.with_payloads:
        parts = (("in ", input_of(entry, showing.mask)), ("out", output_of(entry, showing.mask)))
        for label, text in parts:
            yield from _quoted(label, text, showing) if text else ()


def _quoted(label: str, text: str, showing: Showing) -> Iterator[str]:
    cut = ""
    if not showing.full and len(text) > TOOL_CHARACTERS_MAX:
        left_out = len(text) - TOOL_CHARACTERS_MAX
        text, cut = text[:TOOL_CHARACTERS_MAX], f"… {left_out:,} more characters: --full shows them"
    lines = text.rstrip("\n").split("\n")
    for number, line in enumerate([*lines, cut] if cut else lines):
        head = label if number == 0 else " " * len(label)
        yield from _folded(
            printable(line.replace("\t", "    ")), f"{_INDENT * 2}{painted(head, dim=True)} | "
        )


def _link(showing: Showing, session_id: str) -> str:
    name = printable(showing.short.shown(session_id))
    return f"→ treering show {name} --scope {showing.cover.scope}"


def _rule(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """Return a line across the page that says something."""
    rest = max(_room() - width(text) - 4, 2)
    return painted(f"── {text} {'─' * rest}", colour, bold=bold)


def _folded(text: str, lead: str) -> Iterator[str]:
    """Return ``text`` after ``lead``, folded on a terminal; elsewhere nothing is cut."""
    if not is_terminal():
        yield f"{lead}{text}".rstrip()
        return
    from rich.console import Console  # noqa: PLC0415  (only for a terminal)
    from rich.text import Text  # noqa: PLC0415

    shown = Text.from_ansi(lead).cell_len
    room = max(_room() - shown, 20)
    lines = [text]
    if width(text) > room:
        lines = [one.plain for one in Text(text).wrap(Console(), room, overflow="fold")]
    for number, line in enumerate(lines):
        yield f"{lead if number == 0 else ' ' * shown}{line.rstrip()}"


def _room() -> int:
    return min(shutil.get_terminal_size().columns, COLUMNS_MAX) if is_terminal() else 80
