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
    if_stopped="all is made anew or nothing is; run it again",
)
@json_option
@db_option
def rebuild() -> None:
    """Throw away all that is derived from the events, and make it anew.

    The events themselves are not touched. Use it when verify says that the orders of time or the
    states of runs are not what the events say.
    """
    with open_existing("change") as ledger, of_all_scopes():
        receipt = ledger.rebuild()
    # A server keeps the orders of time itself.
    orders = "" if is_on_server() else f"the orders of {counted(receipt.events, 'event')} and "
    show(
        receipt,
        f"rebuilt {orders}the states of {counted(receipt.runs, 'run')}",
        done="the ledger was rebuilt",
    )
