"""Events as people read them: one a row, by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.codec import encode
from treering.model.events import REDACTED, Event, Header
from treering.surfaces.cli.output import one_line, painted, printable
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.cli.times import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAYLOAD_INDENT: Final = " " * 4
_COLUMNS: Final = (
    Column("seq", leaves=4, is_dim=True),
    Column(TIME, leaves=3, is_dim=True),
    Column("type", colour="cyan"),
    Column("session", leaves=2),
    Column("agent", leaves=1),
    Column("summary", is_prose=True, colours={REDACTED: "bright_black"}),
)


def print_timeline(events: Sequence[Header], *, with_session: bool, with_seq: bool = False) -> None:
    """Print ``events``, one per row, each payload below its row."""
    rows = [
        [
            *([str(event.seq)] if with_seq else []),
            clock(event.ts_ms),
            printable(event.kind),
            *([printable(event.session_id)] if with_session else []),
            printable(event.agent_id),
            one_line(event.summary),
        ]
        for event in events
    ]
    payloads = {
        number: _PAYLOAD_INDENT + painted(printable(encode(event.payload).decode()), "green")
        for number, event in enumerate(events)
        if isinstance(event, Event) and event.payload is not None
    }
    hidden = {*(() if with_session else ("session",)), *(() if with_seq else ("seq",))}
    columns = [one for one in _COLUMNS if one.heading not in hidden]
    print_table(columns, rows, below=payloads)
