"""``treering rebuild``: rebuild all data that is derived from the events."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import is_on_server, of_all_scopes, open_existing
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.texts import counted


@command(
    "rebuild",
    short_help="Rebuild all derived data.",
    examples="""
    treering rebuild
    treering rebuild --vectors
    treering rebuild --json
    """,
    if_stopped="run it again; missing parts are rebuilt when they are needed",
)
@click.option(
    "--vectors", is_flag=True, help="Rebuild only the vectors, with the current embedder."
)
def rebuild(*, vectors: bool) -> None:
    """Delete all derived data, and rebuild it from the events.

    The events do not change. Use it when verify says that derived data does not match the events.
    It rebuilds time order, run states, tool calls, facts, episodes and their indexes.

    --vectors rebuilds only the vectors that find memories and events by meaning: after choosing
    another embedder.
    """
    if vectors:
        _rebuild_vectors()
        return
    with open_existing("change") as ledger, of_all_scopes():
        receipt = ledger.admin.rebuild()
    # A server keeps the orders of time itself.
    events = "" if is_on_server() else f"the indexes of {counted(receipt.events, 'event')}, "
    show(
        receipt,
        f"rebuilt {events}the states of {counted(receipt.runs, 'run')},"
        f" the records of {counted(receipt.tool_calls, 'tool call')}"
        f" and {counted(receipt.documents, 'document')} of memory",
        done="the ledger was rebuilt",
    )


def _rebuild_vectors() -> None:

    with (
        open_existing("change") as ledger,
        of_all_scopes(),
        counting("embedding", "documents") as progress,
    ):
        receipt = ledger.admin.rebuild_vectors(progress=progress)
    documents = f"{counted(receipt.documents, 'document')} of {counted(receipt.scopes, 'scope')}"
    show(
        receipt,
        f"deleted the vectors of {documents}: no embedder is in use"
        if receipt.embedder is None
        else f"rebuilt the vectors of {documents} with {receipt.embedder}",
        done="the vectors were rebuilt",
    )
