"""``treering show``: one session as it went, turn by turn, its blocks as lines for a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import invocation, kind_of
from treering.surfaces.cli.declare import PAGE_ITEMS_MAX, command, flag, option, session_argument
from treering.surfaces.cli.finding import ShortIds, open_to_read, short_sessions
from treering.surfaces.cli.ledgers import open_to_ask
from treering.surfaces.cli.output import (
    FIELDS_VERSION,
    RECEIPT_VERSION,
    has_colour,
    is_terminal,
    painted,
    say_painted,
    writing_output,
)
from treering.surfaces.cli.tables import width
from treering.surfaces.pages.blocks import (
    BOXES,
    AttachmentBlock,
    Block,
    DiffBlock,
    PictureBlock,
    ProseBlock,
    QuestionBlock,
    SourcesBlock,
    StyledLine,
    SubagentBlock,
    TasksBlock,
    TextBlock,
)
from treering.surfaces.pages.display import EntryDisplay, display_entry, grouped
from treering.surfaces.pages.transcripts import PageCover, PageExtent, TurnHead
from treering.surfaces.pages.wording import (
    body_of,
    clean,
    counted_of,
    input_of,
    note_of,
    output_of,
    rule_of,
    size_text,
    span_text,
    spent_text,
    state_of,
    text_of,
    tool_of,
)
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import clock, moment
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console
    from rich.text import Text

    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.surfaces.pages.blocks import DiffRow, TextSpan
    from treering.surfaces.pages.entries import PageEntry

LINES_AT_ONCE: Final = 100
"""Lines that are printed together."""
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


@command(
    "show",
    scope="wide",
    examples="""
    treering show main:telegram:jo --scope acme/app
    treering show main:tele --scope acme/app --last 2 --payload
    treering show main:tele --scope acme/app --turn 7 --payload --full
    """,
)
def show_transcript(
    *,
    scope: Scope | None,
    session: str = session_argument,
    payload: bool = flag("Include private content: full messages, tool inputs and outputs."),
    full: bool = flag("With --payload: do not shorten long tool texts."),
    turn: int | None = option("N", "Only turn N, counted from 1.", type=int),
    last: int | None = option(
        "N",
        f"Only the last N turns, up to {PAGE_ITEMS_MAX}.",
        type=click.IntRange(1, PAGE_ITEMS_MAX),
    ),
    no_pager: bool = flag("Do not use a pager on a terminal."),
) -> None:
    """Show what happened in SESSION, in order: messages, tool calls and markers.

    Texts are shortened. --payload shows full messages, tool inputs and outputs, with secrets
    masked. Failed runs, undone turns and synthetic results are marked. SESSION is an id or a
    short id; treering sessions show gives an overview of it.
    """
    from treering.surfaces.pages.transcripts import pieces, read_cover  # noqa: PLC0415

    if turn is not None and last is not None:
        raise InvalidInput("--turn and --last exclude each other", hint="drop one of the two")
    if full and not payload:
        raise InvalidInput("--full needs --payload", hint="add --payload")
    with open_to_ask() as ledger:
        opened = open_to_read(ledger, scope, session)
        cover = read_cover(ledger, opened)
        extent = _extent(opened, cover, turn=turn, last=last)
        parts = pieces(ledger, opened, extent, with_payloads=payload)
        short = short_sessions(ledger, opened.scope)
        showing = Showing(cover=cover, mask=Mask(), with_payloads=payload, full=full, short=short)
        if invocation().as_json:
            with writing_output():
                _write_json(showing, parts)
            return
        is_paged = sys.stdout.isatty() and not no_pager
        with writing_output():
            _print(lines_of(showing, parts), is_paged=is_paged)


def _extent(
    session: Session, cover: PageCover, *, turn: int | None, last: int | None
) -> PageExtent:
    from treering.surfaces.pages.transcripts import last_turns, one_turn, whole  # noqa: PLC0415

    if turn is not None:
        return one_turn(session, cover, turn)
    return whole() if last is None else last_turns(session, cover, last)


def _print(lines: Iterator[str], *, is_paged: bool) -> None:
    if not is_paged:
        while some := list(islice(lines, LINES_AT_ONCE)):
            say_painted("\n".join(some))
        return
    # What fits the screen needs no pager; colours pass through.
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager((f"{line}\n" for line in lines), color=has_colour())


def _write_json(showing: Showing, parts: Iterator[Any]) -> None:
    """Print the receipt, an item at a time: a session may be longer than memory."""
    head = {
        "kind": f"{kind_of(click.get_current_context())}.{RECEIPT_VERSION}",
        "ts": datetime.now(UTC).isoformat(),
        "version": {"treering": __version__, "schema": FIELDS_VERSION},
        "ok": True,
        **cover_item(showing),
    }
    click.echo(msgspec.json.encode(head)[:-1] + b',"items":[', nl=False)
    count = 0
    while some := list(islice(parts, LINES_AT_ONCE)):
        items = b",".join(msgspec.json.encode(item_of(piece, showing)) for piece in some)
        click.echo((b"," if count else b"") + items, nl=False)
        count += len(some)
    click.echo(f'],"count":{count},"masked":{showing.mask.masked}}}')


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
    # What was asked for in full is not folded.
    shown = _displayed(showing, pieces)
    for piece in shown if showing.with_payloads else grouped(shown):
        if isinstance(piece, TurnHead):
            yield ""
            yield _rule(_turn(piece), _STATES.get(state_of(piece)), bold=True)
            speaker = None
            continue
        role = piece.sort if piece.sort in _SPEAKERS else None
        lines = [*_entry(piece, showing)]
        if role and role != speaker and lines:
            yield painted(role, _SPEAKERS[role], bold=True)
        if lines:
            speaker = role if role or piece.sort in {"rule", "note"} else speaker
        yield from lines
    yield from _closing(showing)


def _displayed(
    showing: Showing, pieces: Iterable[TurnHead | PageEntry]
) -> Iterator[TurnHead | EntryDisplay]:
    most = None if showing.full else TOOL_CHARACTERS_MAX
    for piece in pieces:
        if isinstance(piece, TurnHead):
            yield piece
        else:
            yield display_entry(
                piece, showing.mask, characters_max=most, subagent=showing.cover.subagent
            )


def _cover(showing: Showing) -> Iterator[str]:
    cover, outline = showing.cover, showing.cover.session
    counts = cover.counts
    yield painted(one_line(clean(outline.title or outline.session_id, showing.mask)), bold=True)
    facts = (("agent", outline.agent), ("user", outline.user), ("model", outline.model),
             ("from", outline.imported_from))  # fmt: skip
    named = "".join(f", {name} {printable(value)}" for name, value in facts if value)
    yield from _folded(
        f"session {printable(outline.session_id)} of scope {cover.scope}, {outline.state}{named}",
        "",
    )
    if counts.first_ms is not None and counts.last_ms is not None:
        span = span_text(counts.last_ms - counts.first_ms)
        mark, last = "~" if cover.is_approximate else "", moment(counts.last_ms)
        is_span = counts.last_ms > counts.first_ms or not mark
        first = f"{clock(counts.first_ms)} to " if is_span else ""
        yield f"{mark}{first}{last}" + (f", {span}" if is_span else "")
    calls = counted(counts.tool_calls, "tool call")
    calls += f" ({cover.failing_calls:,} failing)" if cover.failing_calls else ""
    parts = [counted(counts.turns, "turn"), calls, spent_text(cover.usage.total)]
    if counts.erased:
        parts.append(f"{counted(counts.erased, 'event')} erased")
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
        f"{'~' if turn.is_approximate else ''}{clock(turn.started_ms)}",
        state_of(head),
        span_text(turn.ended_ms - turn.started_ms) if turn.ended_ms > turn.started_ms else "",
        counted(turn.tool_calls, "tool") if turn.tool_calls else "",
        counted(tokens, "token") if tokens else "",
    )
    return " · ".join(filter(None, parts))


def _entry(entry: EntryDisplay, showing: Showing) -> Iterator[str]:
    match entry.sort:
        case "tool":
            yield from _tool(entry, showing)
        case "group":
            hints = ", ".join(
                member.tool.hint for member in entry.members if member.tool and member.tool.hint
            )
            detail = painted(printable(f": {hints}"), dim=True) if hints else ""
            yield from _folded(f"{painted(entry.title, bold=True)}{detail}", f"{_INDENT}> ")
        case "rule":
            colour = "red" if entry.event.kind.startswith(("run.", "ledger.")) else "yellow"
            yield _rule(printable(entry.title), colour)
            yield from _said(entry.blocks)
        case "note":
            lead = f"! {entry.title}: "
            lead = painted(lead, "red") if entry.is_bad else painted(lead, dim=True)
            yield from _folded(one_line(entry.text), lead)
        case "more":
            yield painted(f"{_INDENT}· {printable(entry.title)}", dim=True)
        case _:
            yield from _said(entry.blocks)


def _said(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, ProseBlock):
            for line in block.text.split("\n"):
                yield from _folded(printable(line.replace("\t", "    ")), _INDENT)
        else:
            yield from (f"{_INDENT}{line}" for _, line in block_lines(block, cut_hint=""))


def _tool(entry: EntryDisplay, showing: Showing) -> Iterator[str]:
    tool = entry.tool
    if tool is None:
        return
    status = painted(tool.status, _STATES.get(tool.status))
    facts = ", ".join(entry.facts)
    why = f" ({one_line(tool.remark)})" if tool.remark else ""
    tail = f" {status}{why}{f' {facts}' if facts else ''}"
    name, hint = one_line(tool.name), one_line(tool.hint)
    room = _room() - width(f"{_INDENT}> {name}  {tool.status}{why} {facts}") if is_terminal() else 0
    if is_terminal() and width(hint) > max(room, 10):
        hint = f"{hint[: max(room, 10) - 1]}…"
    yield f"{_INDENT}> {painted(name, bold=True)}{f' {hint}' if hint else ''}{tail}"
    for block in entry.blocks:
        if isinstance(block, SubagentBlock):
            yield f"{_INDENT * 2}{_link(showing, block.session_id)}"
            yield f"{_INDENT * 2}{painted(', '.join(block.facts), dim=True)}"
        elif showing.with_payloads:
            hint = "" if showing.full else ": --full shows them"
            for label, line in block_lines(block, cut_hint=hint):
                lead = f"{_INDENT * 2}{painted(f'{label:3}', dim=True)} | "
                yield from _folded(line, lead)


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
    styled = Text.from_ansi(text) if "\x1b" in text else Text(text)
    if styled.cell_len > room:
        console = Console(color_system="standard", force_terminal=True, highlight=False)
        pieces = styled.wrap(console, room, overflow="fold")
        # Colours continue in the next line.
        lines = [_ansi(piece, console) if "\x1b" in text else piece.plain for piece in pieces]
    for number, line in enumerate(lines):
        yield f"{lead if number == 0 else ' ' * shown}{line.rstrip()}"


def _ansi(text: Text, console: Console) -> str:
    with console.capture() as captured:
        console.print(text, end="", soft_wrap=True)
    return captured.get()


def _room() -> int:
    return min(shutil.get_terminal_size().columns, COLUMNS_MAX) if is_terminal() else 80


def cover_item(showing: Showing) -> dict[str, Any]:
    """Return what a session is."""
    cover = showing.mask.value(msgspec.to_builtins(showing.cover))
    return {**cover, "include_payload": showing.with_payloads}


def item_of(piece: TurnHead | PageEntry, showing: Showing) -> dict[str, Any]:
    """Return one item: a turn's head has ``number``, everything else ``seq``."""
    if isinstance(piece, TurnHead):
        turn = msgspec.structs.asdict(piece.turn)
        turn["prompt"] = clean(piece.turn.prompt, showing.mask)
        return {"sort": "turn", "number": piece.number, **turn, "outcome": state_of(piece) or None}
    event = piece.event
    item: dict[str, Any] = {
        "sort": piece.sort,
        "seq": event.seq,
        "event_id": event.event_id,
        "ts_ms": event.ts_ms,
        "type": event.kind,
        "redacted": event.redacted,
    }
    return item | _content(piece, showing)


def _content(piece: PageEntry, showing: Showing) -> dict[str, Any]:
    mask = showing.mask
    if piece.sort == "tool":
        tool = tool_of(piece, mask)
        body = {**msgspec.structs.asdict(tool), "session": showing.subagent(tool.call_id)}
        if showing.with_payloads:
            body |= {"input": input_of(piece, mask), "output": output_of(piece, mask)}
        return body
    if piece.sort == "rule":
        body = {"body": body_of(piece.event, mask)} if showing.with_payloads else {}
        return {"text": rule_of(piece.event, mask), **body}
    if piece.sort == "note":
        return {"text": note_of(piece.event, mask)[1]}
    if piece.sort == "more":
        return {"text": counted_of(piece), "counts": piece.counts}
    return {"text": text_of(piece.event, mask)}


_COLOURS: Final = (
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    "bright_black", "bright_red", "bright_green", "bright_yellow", "bright_blue",
    "bright_magenta", "bright_cyan", "bright_white",
)  # fmt: skip
_SYNTAX: Final = {
    "hk": "magenta", "hs": "green", "hc": "bright_black", "hn": "cyan", "hf": "blue", "hb": "cyan",
}  # fmt: skip
_LABELS: Final = {"input": "in ", "output": "out", "error": "out", "command": "in "}
_SIGNS: Final = {"+": "green", "-": "red"}

LabelledLine = tuple[str, str]
"""A line and the label before it: ``in``, ``out``, or nothing."""


def block_lines(  # noqa: C901, PLR0912  (one branch for each sort of block)
    block: Block, *, cut_hint: str
) -> Iterator[LabelledLine]:
    """Return a block line by line; ``cut_hint`` says how to see what was cut."""
    match block:
        case TextBlock():
            label = _LABELS.get(block.label, "")
            text = f"… {counted(block.cut, 'more character')}{cut_hint}"
            if block.cut and block.is_end:
                yield label, text
            for number, line in enumerate(block.lines):
                yield "" if number or (block.cut and block.is_end) else label, styled(line)
            if block.cut and not block.is_end:
                yield "", text
        case ProseBlock():
            yield from (("", printable(line)) for line in block.text.split("\n"))
        case DiffBlock():
            yield "in ", _diff_head(block)
            for at, hunk in enumerate(block.hunks):
                if hunk.title or at:
                    yield "", painted(printable(f"@@ {hunk.title}".rstrip()), dim=True)
                yield from (("", _row(row)) for row in hunk.rows)
            if block.cut:
                yield "", f"… {counted(block.cut, 'more line')}{cut_hint}"
        case TasksBlock():
            for number, task in enumerate(block.tasks):
                text = printable(f"[{BOXES[task.state]}] {task.text}")
                yield "" if number else "in ", painted(text, dim=task.state == "done")
        case QuestionBlock():
            yield "in ", printable(block.text)
            for option in block.options:
                why = f": {option.description}" if option.description else ""
                text = printable(f"({'x' if option.is_chosen else ' '}) {option.label}{why}")
                yield "", painted(text, bold=option.is_chosen)
            if block.answer:
                yield "out", printable(block.answer)
        case SourcesBlock():
            for number, source in enumerate(block.sources):
                text = printable(f"{source.title} <{source.address}>")
                yield "" if number else "out", text
        case PictureBlock():
            size = f"{block.width}×{block.height}, {size_text(block.bytes_count)}"  # noqa: RUF001
            yield (
                "",
                painted(f"[{' '.join(filter(None, ('picture', block.name)))}: {size}]", dim=True),
            )
        case AttachmentBlock():
            yield "", painted(printable(block.text), dim=True)
        case SubagentBlock():
            facts = ", ".join(filter(None, (block.agent, *block.facts)))
            yield "", painted(printable(f"subagent {block.title or block.session_id}: {facts}"))


def styled(line: StyledLine) -> str:
    """Return a line with its colours, if standard output takes any."""
    return "".join(map(_painted, line)) if line else ""


def _painted(span: TextSpan) -> str:
    text = printable(span.text.replace("\t", "    "))
    names = set(span.style.split())
    colour = next((_COLOURS[int(name[1:])] for name in names if name[0] == "c"), None)
    colour = colour or next((_SYNTAX[name] for name in names if name in _SYNTAX), None)
    return painted(text, colour, bold=bool(names & {"tb", "wi", "wd"}), dim="td" in names)


def _diff_head(block: DiffBlock) -> str:
    plus, minus = painted(f"+{block.added:,}", "green"), painted(f"-{block.removed:,}", "red")
    note = f" {block.note}" if block.note else ""
    return f"{painted(printable(block.path), bold=True)} {plus} {minus}{printable(note)}"


def _row(row: DiffRow) -> str:
    colour = _SIGNS.get(row.sign)
    words = "".join(
        painted(
            printable(span.text.replace("\t", "    ")),
            colour,
            bold="wi" in span.style.split() or "wd" in span.style.split(),
        )
        for span in row.spans
    )
    return f"{painted(f'{row.sign} ', colour)}{words}".rstrip()
