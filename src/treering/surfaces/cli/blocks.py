"""Blocks as lines for a terminal: the same content as on a page, with colours where it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import painted
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
from treering.surfaces.pages.wording import size_text
from treering.surfaces.shared.texts import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.surfaces.pages.blocks import DiffRow, TextSpan

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
