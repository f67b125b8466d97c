"""``treering rebuild``: all that is derived from the events, made anew."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.ledgers import is_on_server, of_all_scopes, open_existing
from treering.surfaces.cli.options import db_option, json_option
from treering.surfaces.cli.output import counted


@click.command(
    "rebuild",
    cls=Command,
    short_help="Make what is derived from the events anew.",
    examples="""
    treering rebuild
    treering rebuild --json
    """,
    if_stopped="run it again; what is not made anew yet is made when it is asked for",
)
@json_option
@db_option
def rebuild() -> None:
    """Throw away all that is derived from the events, and make it anew.

    The events themselves are not touched. Use it when verify says that the orders of time, the
    states of runs or the tool calls are not what the events say.
    """
    with open_existing("change") as ledger, of_all_scopes():
        receipt = ledger.rebuild()
    # A server keeps the orders of time itself.
    orders = "" if is_on_server() else f"the orders of {counted(receipt.events, 'event')}, "
    show(
        receipt,
        f"rebuilt {orders}the states of {counted(receipt.runs, 'run')}"
        f" and the records of {counted(receipt.tool_calls, 'tool call')}",
        done="the ledger was rebuilt",
    )
