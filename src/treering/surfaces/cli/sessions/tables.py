"""Sessions as people read them: one a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import one_line, printable
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.cli.times import ago

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.sessions import SessionOutline

STATE_COLOURS: Final = {
    "running": "green",
    "open": "cyan",
    "idle": "yellow",
    "closed": "bright_black",
    "pruned": "bright_black",
}
NONE: Final = "-"

_COLUMNS: Final = (
    Column("session"),
    Column("state", colours=STATE_COLOURS),
    Column("written to", leaves=5),
    Column("agent", leaves=4),
    Column("model", leaves=1),
    Column("events", leaves=2, noun="event"),
    Column("forked from", leaves=3),
    Column("title", is_prose=True),
)


def print_sessions(sessions: Sequence[SessionOutline]) -> None:
    """Print ``sessions``, one a row."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

    now = now_ms()
    rows = [
        [
            printable(session.session_id),
            session.state,
            ago(session.updated_ms, now_ms=now),
            printable(session.agent or NONE),
            printable(session.model or NONE),
            f"{session.event_count:,}",
            forked_from(session) or NONE,
            title_of(session) or NONE,
        ]
        for session in sessions
    ]
    print_filled(_COLUMNS, rows)


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


def forked_from(outline: SessionOutline) -> str:
    """Return where a session comes from, if it is a fork."""
    if outline.parent is None:
        return ""
    return f"{printable(outline.parent)} at {outline.forked_seq}"


def title_of(outline: SessionOutline) -> str:
    """Return the title of a session on one line."""
    return one_line(outline.title or "")
