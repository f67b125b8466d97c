"""``treering view``: everything that was recorded, in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import click

from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.finding import find_session, find_session_anywhere
from treering.surfaces.cli.ledgers import database_path, open_existing, shown
from treering.surfaces.cli.output import note
from treering.surfaces.cli.serve import check_installed, listening, page_address, run_server

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.surfaces.server.access import ServerAddress

HOST: Final = "127.0.0.1"


@command(
    "view",
    scope="all",
    short_help="Look at everything in a browser, while it happens.",
    examples="""
    treering view
    treering view 3f9c01ab
    treering view --scope acme/app --read-only
    treering view --no-open --port 8720
    """,
    if_stopped="nothing is lost; start it again",
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--no-open", is_flag=True, help="Print the address; do not open a browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="PORT",
    help="Default: a free one.",
)
@click.option("--read-only", is_flag=True, help="Offer no action that changes or erases anything.")
def view(
    *, session: str | None, scope: Scope | None, no_open: bool, port: int, read_only: bool
) -> None:
    """Open the viewer on all scopes, or at SESSION, until Ctrl-C.

    It serves the ledger to this machine only, on a free port, and opens a browser with its own
    token. SESSION is an id or a short id, in any scope.
    """
    check_installed()
    from treering.surfaces.server.grants import new_token  # noqa: PLC0415  (not for --help)

    token = new_token()
    with listening(HOST, port) as listener, open_existing() as ledger:
        path = _path(ledger, scope, session)

        def started(address: ServerAddress) -> None:
            page = page_address(address, token, path)
            body = {
                "url": page, "port": address.port, "ledger": shown(database_path()), "token": token
            }  # fmt: skip
            show(body, f"viewing {shown(database_path())} at {page}")
            sys.stdout.flush()
            if not invocation().as_json:
                note("Ctrl-C ends it")
            if not no_open and click.launch(page) != 0:
                note("no browser could be opened: open the address by hand")

        run_server(
            ledger, listener, host=HOST, token=token, is_read_only=read_only, started=started
        )


def _path(ledger: Ledger, scope: Scope | None, session: str | None) -> str:
    """Return the path of the page to open. Raise NotFound for an unknown session."""
    from treering.surfaces.viewer.requests import session_address  # noqa: PLC0415

    if session is None:
        return "/" if scope is None else f"/sessions?{urlencode({'scope': scope})}"
    if scope is not None:
        return session_address(scope, find_session(ledger, scope, session))
    return session_address(*find_session_anywhere(ledger, session))
