"""``treering tools show``: one tool call in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.opening import catching_up, open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option, require
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.tool_records import ToolRecord


@click.command(
    "show",
    cls=Command,
    short_help="Show one tool call.",
    examples="""
    treering tools show call-1 --scope acme/app
    treering tools show call-1 --scope acme/app --session s1 --payload --json
    """,
)
@click.argument("call")
@project_scope_options
@click.option(
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=complete_session,
    help="The session of the call, if several have the id.",
)
@click.option("--payload", is_flag=True, help="Include private input and output, as stored.")
@keys_option
@json_option
@db_option
def show_call(
    *, call: str, scope: str | None, is_global: bool, session_id: str | None, payload: bool
) -> None:
    """Show how the tool call CALL went; all of them, if its session reuses the id.

    CALL is an id or a short id.
    """
    name = find_scope(scope, is_global=is_global)
    text = require(call, "call", hint="name the call before the options").strip()
    with open_to_ask() as ledger, catching_up() as progress:
        from treering.surfaces.cli.call_search import find_calls  # noqa: PLC0415  (not for --help)
        from treering.surfaces.cli.sessions.search import (  # noqa: PLC0415
            narrow_to_session,
            short_sessions,
        )

        session = narrow_to_session(ledger, name, session_id)
        records = find_calls(ledger, name, text, session_id=session, progress=progress)
        events = [_events(ledger, record) if payload else [] for record in records]
        short = short_sessions(ledger, name)
    if invocation().as_json:
        calls = [
            {**msgspec.structs.asdict(record), **{part: event.payload for part, event in parts}}
            for record, parts in zip(records, events, strict=True)
        ]
        show({"scope": name, "session_id": records[0].session_id, "call_id": records[0].call_id,
              "include_payload": payload, "count": len(calls), "calls": calls})  # fmt: skip
        return
    from treering.surfaces.cli.calls import print_call  # noqa: PLC0415  (for people)

    with writing_output():
        for record, parts in zip(records, events, strict=True):
            print_call(short.within(record, "session_id"), parts)


def _events(ledger: Ledger, record: ToolRecord) -> list[tuple[str, Event]]:
    """Return the events of a call, each under the name of what its payload holds."""
    parts = (
        ("input", record.call_event_id),
        ("output", record.result_event_id),
        ("late_output", record.late_event_id),
    )
    return [(name, ledger.event(record.scope, event_id)) for name, event_id in parts if event_id]
