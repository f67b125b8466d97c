"""``treering mcp``: the server that agents start to ask about earlier sessions."""

from __future__ import annotations

import gc
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from treering.errors import Unsupported
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import open_existing, open_to_ask, open_to_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope


@command(
    "mcp",
    scope="project",
    json=False,
    short_help="Serve the record of a project to an agent (MCP).",
    examples="""
    treering mcp
    treering mcp --scope acme/app --write
    treering install claude-code --mcp
    """,
    if_stopped="nothing is lost: the agent starts it again",
)
@click.option("--write", is_flag=True, help="Let the agent remember and forget facts, too.")
def mcp(*, scope: Scope, write: bool) -> None:
    """Answer an agent's questions about earlier sessions, over standard input and output.

    It speaks the Model Context Protocol. Agents start it themselves: treering install AGENT --mcp
    adds it to their settings. It answers for one scope: by default, for the project of the folder
    that it is started in. Tools: search, timeline, fetch, sessions, recall and
    memory_episodes_query; with --write also remember and forget.
    """
    if find_spec("mcp") is None:
        raise Unsupported(
            "the MCP server needs mcp, which is not installed", hint="pip install 'treering[mcp]'"
        )
    # What is loaded lives as long as the process: to look through it for garbage again and again
    # takes a seventh of the time until the first answer.
    gc.disable()
    from treering.surfaces.mcp.server import make_server  # noqa: PLC0415  (half a second)
    from treering.surfaces.mcp.stdio import serve  # noqa: PLC0415
    from treering.surfaces.mcp.toolbox import LateLedger, Toolbox  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    late = LateLedger(
        read=_anywhere(_open_masking if write else open_to_ask),
        write=_anywhere(lambda: open_to_write().with_masking()),
    )
    toolbox = Toolbox(late, scope, writes=write)
    try:
        serve(make_server(lambda _: toolbox))
    finally:
        late.drop()


def _open_masking() -> Ledger:
    """Open the ledger to record in it, with secrets masked. Raise NotFound if it is not there."""
    return open_existing("change").with_masking()


def _anywhere(opening: Callable[[], Ledger]) -> Callable[[], Ledger]:
    """Return ``opening`` for other threads, which do not know the command line."""
    context = click.get_current_context()

    def opened() -> Ledger:
        with context.scope(cleanup=False):
            return opening()

    return opened
