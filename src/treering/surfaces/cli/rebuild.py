"""``treering rebuild``: all that is derived from the events, made anew."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.ledgers import is_on_server, of_all_scopes, open_existing
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted


@click.command(
    "rebuild",
    cls=Command,
    short_help="Rebuild all derived data.",
    examples="""
    treering rebuild
    treering rebuild --vectors
    treering rebuild --json
    """,
    if_stopped="run it again; what is not made anew yet is made when it is asked for",
)
@click.option(
    "--vectors", is_flag=True, help="Only the vectors, with the embedder that is in use now."
)
@keys_option
@json_option
@db_option
def rebuild(*, vectors: bool) -> None:
    """Delete all data derived from the events, and rebuild it.

    It does not touch the events. Use it when verify says that time order, run states or tool
    calls do not match the events; it also rebuilds facts, episodes and their index. With
    --vectors it rebuilds only the vectors for search by meaning: use it after you chose another
    embedder.
    """
    if vectors:
        _rebuild_vectors()
        return
    with open_existing("change") as ledger, of_all_scopes():
        receipt = ledger.rebuild()
    # A server keeps the orders of time itself.
    orders = "" if is_on_server() else f"the orders of {counted(receipt.events, 'event')}, "
    show(
        receipt,
        f"rebuilt {orders}the states of {counted(receipt.runs, 'run')},"
        f" the records of {counted(receipt.tool_calls, 'tool call')}"
        f" and {counted(receipt.documents, 'document')} of the memory",
        done="the ledger was rebuilt",
    )


def _rebuild_vectors() -> None:
    from treering.surfaces.cli.progress import counting  # noqa: PLC0415  (not for --help)

    with (
        open_existing("change") as ledger,
        of_all_scopes(),
        counting("embedding", "documents") as progress,
    ):
        receipt = ledger.rebuild_vectors(progress=progress)
    documents = f"{counted(receipt.documents, 'document')} of {counted(receipt.scopes, 'scope')}"
    show(
        receipt,
        f"the vectors of {documents} were thrown away: no embedder is in use"
        if receipt.embedder is None
        else f"made the vectors of {documents} anew, with {receipt.embedder}",
        done="the vectors were made anew",
    )
