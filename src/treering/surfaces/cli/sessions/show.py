"""``treering sessions show``: one session with its last turns, goals, schedules and cost."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import PAGE_ITEMS_MAX, db_option, json_option, keys_option
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

LAST_TURNS: Final = 5


@click.command(
    "show",
    cls=Command,
    short_help="Show one session.",
    examples="""
    treering sessions show main:telegram:jo --scope acme/app
    treering sessions show main:tele --scope acme/app --last 20 --json
    """,
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option(
    "--last",
    type=click.IntRange(0, PAGE_ITEMS_MAX),
    default=LAST_TURNS,
    metavar="N",
    help=f"The last N turns, up to {PAGE_ITEMS_MAX}. Default: {LAST_TURNS}.",
)
@keys_option
@json_option
@db_option
def show_session(*, session: str, scope: str | None, is_global: bool, last: int) -> None:
    """Show SESSION at a glance: state, last turns, goals, schedules, cost and forks.

    Turns are shortened: treering show reads them in full, treering context shows what a model
    sees. Failed and undone turns are marked; the model does not see them.
    """
    name = find_scope(scope, is_global=is_global)
    with open_existing() as ledger:
        from treering.surfaces.cli.sessions.details import sheet_of  # noqa: PLC0415
        from treering.surfaces.cli.sessions.search import (  # noqa: PLC0415
            open_session,
            short_sessions,
        )

        sheet = sheet_of(ledger, open_session(ledger, name, session), last=last, mask=Mask())
        short = short_sessions(ledger, name)
        forks = [short.within(one, "session_id") for one in sheet.forks]
        sheet = msgspec.structs.replace(sheet, forks=forks)
    if invocation().as_json:
        turns = [{"number": one.number, **msgspec.structs.asdict(one.turn)} for one in sheet.turns]
        show({**msgspec.structs.asdict(sheet), "turns": turns})
        return
    from treering.surfaces.cli.sessions.page import print_sheet  # noqa: PLC0415  (for people)

    with writing_output():
        print_sheet(sheet)
