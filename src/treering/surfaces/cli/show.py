"""``treering show``: one session as it went, turn by turn."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, invocation, kind_of
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import PAGE_ITEMS_MAX, db_option, json_option, keys_option
from treering.surfaces.cli.output import FIELDS_VERSION, RECEIPT_VERSION
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.sessions import Session
    from treering.surfaces.cli.show_lines import Showing
    from treering.surfaces.pages.transcripts import PageCover, PageExtent

LINES_AT_ONCE: Final = 100
"""Lines that are printed together."""


@click.command(
    "show",
    cls=Command,
    short_help="Read one session, turn by turn.",
    examples="""
    treering show main:telegram:jo --scope acme/app
    treering show main:tele --scope acme/app --last 2 --payload
    treering show main:tele --scope acme/app --turn 7 --payload --full
    """,
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option(
    "--payload",
    is_flag=True,
    help="Include private content: full messages, tool inputs and outputs.",
)
@click.option("--full", is_flag=True, help="With --payload: do not shorten long tool texts.")
@click.option("--turn", type=int, metavar="N", help="Only turn N, counted from 1.")
@click.option(
    "--last",
    type=click.IntRange(1, PAGE_ITEMS_MAX),
    metavar="N",
    help=f"Only the last N turns, up to {PAGE_ITEMS_MAX}.",
)
@click.option("--no-pager", is_flag=True, help="Do not use a pager on a terminal.")
@keys_option
@json_option
@db_option
def show_transcript(
    *,
    session: str,
    scope: str | None,
    is_global: bool,
    payload: bool,
    full: bool,
    turn: int | None,
    last: int | None,
    no_pager: bool,
) -> None:
    """Show what happened in SESSION, in order: messages, tool calls and every mark.

    Texts are shortened. --payload shows full messages, tool inputs and outputs, with secrets
    masked. Failed runs, undone turns and synthetic results are marked. SESSION is an id or a
    short id; treering sessions show gives an overview of it.
    """
    from treering.surfaces.cli.sessions.search import (  # noqa: PLC0415  (not for --help)
        open_session,
        short_sessions,
    )
    from treering.surfaces.cli.show_lines import Showing, lines_of  # noqa: PLC0415
    from treering.surfaces.pages.transcripts import pieces, read_cover  # noqa: PLC0415

    if turn is not None and last is not None:
        raise InvalidInput("--turn and --last exclude each other", hint="drop one of the two")
    if full and not payload:
        raise InvalidInput("--full needs --payload", hint="add --payload")
    name = find_scope(scope, is_global=is_global)
    with open_to_ask() as ledger:
        opened = open_session(ledger, name, session)
        cover = read_cover(ledger, opened)
        extent = _extent(opened, cover, turn=turn, last=last)
        parts = pieces(ledger, opened, extent, with_payloads=payload)
        short = short_sessions(ledger, name)
        showing = Showing(cover=cover, mask=Mask(), with_payloads=payload, full=full, short=short)
        if invocation().as_json:
            with writing_output():
                _write_json(showing, parts)
            return
        is_paged = sys.stdout.isatty() and not no_pager
        with writing_output():
            _print(lines_of(showing, parts), is_paged=is_paged)


def _extent(
    session: Session, cover: PageCover, *, turn: int | None, last: int | None
) -> PageExtent:
    from treering.surfaces.pages.transcripts import last_turns, one_turn, whole  # noqa: PLC0415

    if turn is not None:
        return one_turn(session, cover, turn)
    return whole() if last is None else last_turns(session, cover, last)


def _print(lines: Iterator[str], *, is_paged: bool) -> None:
    from treering.surfaces.cli.output import has_colour, say_painted  # noqa: PLC0415

    if not is_paged:
        while some := list(islice(lines, LINES_AT_ONCE)):
            say_painted("\n".join(some))
        return
    # What fits the screen needs no pager; colours pass through.
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager((f"{line}\n" for line in lines), color=has_colour())


def _write_json(showing: Showing, parts: Iterator[Any]) -> None:
    """Print the receipt, an item at a time: a session may be longer than memory."""
    from treering.surfaces.cli.show_items import cover_item, item_of  # noqa: PLC0415

    head = {
        "kind": f"{kind_of(click.get_current_context())}.{RECEIPT_VERSION}",
        "ts": datetime.now(UTC).isoformat(),
        "version": {"treering": __version__, "schema": FIELDS_VERSION},
        "ok": True,
        **cover_item(showing),
    }
    click.echo(msgspec.json.encode(head)[:-1] + b',"items":[', nl=False)
    count = 0
    while some := list(islice(parts, LINES_AT_ONCE)):
        items = b",".join(msgspec.json.encode(item_of(piece, showing)) for piece in some)
        click.echo((b"," if count else b"") + items, nl=False)
        count += len(some)
    click.echo(f'],"count":{count},"masked":{showing.mask.masked}}}')
