"""``treering tools show``: one tool call in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from treering.surfaces.cli.commands import Command, invocation, show
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
    treering tools show call-1 --scope acme/app --session s1 --payloads --json
    """,
)
@click.argument("call")
@project_scope_options
@click.option(
    "--session", "session_id", metavar="ID", help="The session of the call, if others have the id."
)
@click.option("--payloads", is_flag=True, help="Give the private input and output too, as stored.")
@keys_option
@json_option
@db_option
def show_call(
    *, call: str, scope: str | None, is_global: bool, session_id: str | None, payloads: bool
) -> None:
    """Show how the call CALL went; every one, if the id came again in its session.

    CALL is an id, or its beginning if no other call begins like that.
    """
    name = find_scope(scope, is_global=is_global)
    session = None if session_id is None else require(session_id, "session")
    text = require(call, "call", hint="name the call before the options").strip()
    with open_to_ask() as ledger, catching_up() as progress:
        from treering.surfaces.cli.call_search import find_calls  # noqa: PLC0415  (not for --help)

        records = find_calls(ledger, name, text, session_id=session, progress=progress)
        events = [_events(ledger, record) if payloads else [] for record in records]
    if invocation().as_json:
        calls = [
            {**msgspec.structs.asdict(record), **{part: event.payload for part, event in parts}}
            for record, parts in zip(records, events, strict=True)
        ]
        show({"scope": name, "session_id": records[0].session_id, "call_id": records[0].call_id,
              "include_payload": payloads, "count": len(calls), "calls": calls})  # fmt: skip
        return
    from treering.surfaces.cli.calls import print_call  # noqa: PLC0415  (for people)

    with writing_output():
        for record, parts in zip(records, events, strict=True):
            print_call(record, parts)


def _events(ledger: Ledger, record: ToolRecord) -> list[tuple[str, Event]]:
    """Return the events of a call, each under the name of what its payload holds."""
    parts = (
        ("input", record.call_event_id),
        ("output", record.result_event_id),
        ("late_output", record.late_event_id),
    )
    return [(name, ledger.event(record.scope, found)) for name, found in parts if found]
