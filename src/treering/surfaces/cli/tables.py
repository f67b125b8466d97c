"""Tables as people read them: with headings on a terminal, plain columns everywhere else.

Elsewhere nothing is cut. On a terminal that is too narrow, the last column is folded if it holds
prose, and columns are left out, the least important first, and named; an id is always whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from treering.lazy import LazyModule
from treering.surfaces.cli.output import has_colour, is_terminal, painted, say_painted
from treering.surfaces.shared.times import zone_name

if TYPE_CHECKING:
    import shutil
    from collections.abc import Iterable, Sequence
else:
    shutil = LazyModule("shutil")

PROSE_COLUMNS_MIN: Final = 20
"""Prose is folded to no less than this."""
TIME: Final = "time"
"""The heading of a column of times; the zone is added when it is printed."""
_GAP: Final = "  "
NONE: Final = "-"
"""Shown instead of a missing value."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    heading: str
    leaves: int | None = None
    """When it is dropped for lack of room: 1 goes first, None never does."""
    is_prose: bool = False
    """Whether its cells may be folded; only the last column may be."""
    colour: str | None = None
    colours: Mapping[str, str] = {}
    """The colours of cells, by what they say."""
    is_dim: bool = False
    noun: str = ""
    """What its cells count: said in each cell where no heading says it."""
    suffix: str = ""
    """The same, for what is not counted."""

    def labelled(self, cell: str) -> str:
        """Return ``cell`` with what it counts."""
        if cell in {"", "-"}:
            return cell
        noun = self.noun if cell == "1" or not self.noun else f"{self.noun}s"
        return " ".join(filter(None, (cell, noun, self.suffix)))

    @property
    def title(self) -> str:
        """Return the heading as it is printed."""
        return f"{TIME} ({zone_name()})" if self.heading == TIME else self.heading

    def paint(self, cell: str) -> str:
        """Return ``cell`` in its colour."""
        return painted(cell, self.colours.get(cell.strip(), self.colour), dim=self.is_dim)


def print_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    below: Mapping[int, str] | None = None,
    is_titled: bool = False,
) -> None:
    """Print ``rows``, whose cells are printable, and the lines ``below`` some of them.

    Headings are printed on a terminal, and elsewhere if ``is_titled``.
    """
    table = [list(row) for row in rows]
    filled = shown = list(range(len(columns)))
    room = shutil.get_terminal_size().columns if is_terminal() else None
    if room is not None:
        filled = [at for at in filled if not columns[at].leaves or any(row[at] for row in table)]
        shown = _that_fit(columns, table, filled, room)
    chosen, cells = [columns[at] for at in shown], [[row[at] for at in shown] for row in table]
    has_headings = (room is not None or is_titled) and any(column.heading for column in chosen)
    if not has_headings:
        cells = [
            [column.labelled(cell) for column, cell in zip(chosen, row, strict=True)]
            for row in cells
        ]
    widths = _widths(chosen, cells, titled=has_headings)
    if has_headings:
        headings = _padded([column.title for column in chosen], widths)
        say_painted(painted(_GAP.join(headings).rstrip(), bold=True))
    for number, row in enumerate(cells):
        for line in _lines(chosen, row, widths, room):
            say_painted(line)
        if below and number in below:
            say_painted(below[number])
    if missing := ", ".join(columns[at].heading for at in filled if at not in shown):
        say_painted(painted(f"no room for: {missing}", dim=True))


def say_folded(text: str, *, lead: str = "", indent: str = "") -> None:
    """Print ``text`` after ``lead``; on a terminal, folded after an ``indent`` of that width."""
    if not is_terminal():
        say_painted(f"{lead}{text}")
        return
    first, *rest = folded(text, indent) or [indent]
    say_painted("\n".join([lead + first.removeprefix(indent), *rest]))


def folded(text: str, indent: str) -> list[str]:
    """Return coloured ``text`` as lines after ``indent`` that fit the terminal."""
    from rich.console import Console  # noqa: PLC0415  (only for a terminal)
    from rich.text import Text  # noqa: PLC0415

    room = max(shutil.get_terminal_size().columns - len(indent), PROSE_COLUMNS_MIN)
    console = Console(
        width=room, force_terminal=True, color_system="standard" if has_colour() else None
    )
    lines: list[str] = []
    for line in Text.from_ansi(text).wrap(console, room, overflow="fold"):
        line.rstrip()
        with console.capture() as captured:
            console.print(line, end="", highlight=False, soft_wrap=True)
        lines.append(indent + captured.get())
    return lines


def width(text: str) -> int:
    """Return how many columns ``text`` takes: two for a Chinese character or an emoji."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (only where a character is not a column)

    return cell_len(text)


def _that_fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], filled: Sequence[int], room: int
) -> list[int]:
    """Return which of the ``filled`` columns have room."""
    needed = _widths(columns, rows, titled=True)
    if columns[-1].is_prose:
        needed[-1] = min(needed[-1], PROSE_COLUMNS_MIN)
    chosen = {at for at in filled if not columns[at].leaves}
    room -= sum(needed[at] + len(_GAP) for at in chosen) - len(_GAP)
    for at in sorted(set(filled) - chosen, key=lambda at: -(columns[at].leaves or 0)):
        if needed[at] + len(_GAP) <= room:
            chosen.add(at)
            room -= needed[at] + len(_GAP)
    return sorted(chosen)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, titled: bool) -> list[int]:
    widest = [max(map(width, cells)) for cells in zip(*rows, strict=True)] or [0] * len(columns)
    if not titled:
        return widest
    return [max(width(column.title), least) for column, least in zip(columns, widest, strict=True)]


def _lines(
    columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], room: int | None
) -> list[str]:
    """Return the lines of one row: one, unless prose is folded."""
    *firsts, last = cells
    padded = _padded(firsts, widths)
    coloured = [column.paint(cell) for column, cell in zip(columns, padded, strict=False)]
    indent = sum(widths[:-1]) + len(_GAP) * len(firsts)
    first, *more = _folded(last, room - indent) if room and columns[-1].is_prose else [last]
    line = _GAP.join([*coloured, columns[-1].paint(first)]).rstrip()
    return [line, *(" " * indent + columns[-1].paint(piece) for piece in more)]


def _folded(text: str, room: int) -> list[str]:
    if room < PROSE_COLUMNS_MIN or width(text) <= room:
        return [text]
    from rich.console import Console  # noqa: PLC0415  (only for a terminal)
    from rich.text import Text  # noqa: PLC0415

    lines = Text(text).wrap(Console(), room, overflow="fold")
    return [line.plain.rstrip() for line in lines]


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell + " " * (size - width(cell)) for cell, size in zip(cells, widths, strict=False)]


def print_filled(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, is_titled: bool = False
) -> None:
    """Print ``rows`` without the columns, but the first and the last, that say nothing."""
    ends = {0, len(columns) - 1}
    filled = [
        at
        for at in range(len(columns))
        if at in ends or any(row[at] not in {"", NONE} for row in rows)
    ]
    print_table(
        [columns[at] for at in filled],
        [[row[at] for at in filled] for row in rows],
        is_titled=is_titled,
    )
