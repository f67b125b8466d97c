"""``treering tail``: the last events of a scope, and those that come."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import session_option
from treering.surfaces.cli.options import (
    PAGE_ITEMS_MAX,
    db_option,
    json_option,
    keys_option,
    parse_kinds,
)
from treering.surfaces.cli.output import is_terminal, one_line, painted, printable, say_painted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.signals import status_of
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.cli.tables import clock, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header

EVENTS: Final = 20
_KIND_COLUMNS: Final = 22
_COLOURS: Final = {
    "conversation": "cyan",
    "tool": "yellow",
    "run": "green",
    "boundary": "magenta",
    "session": "magenta",
    "ledger": "red",
}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are asked for."""

    scope: str
    session_id: str | None
    kinds: list[str]

    def holds(self, header: Header) -> bool:
        """Whether an event of the scope is one of them."""
        return (self.session_id is None or header.session_id == self.session_id) and (
            not self.kinds or header.kind in self.kinds
        )


@click.command(
    "tail",
    cls=Command,
    short_help="Show the last events, and follow.",
    examples="""
    treering tail --scope acme/app
    treering tail -f --scope acme/app --kind tool.call,tool.result
    treering tail -f --scope acme/app --session main:telegram:jo --json
    """,
)
@project_scope_options
@session_option
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only of this kind; repeatable."
)
@click.option(
    "-n",
    "--last",
    "last",
    type=click.IntRange(0, PAGE_ITEMS_MAX),
    default=EVENTS,
    metavar="N",
    help=f"The last N events, up to {PAGE_ITEMS_MAX}. Default: {EVENTS}.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until you stop it.")
@keys_option
@json_option
@db_option
def tail(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    kinds: Sequence[str],
    last: int,
    follow: bool,
) -> None:
    """Show the last events of a scope by time, one a line; -f continues with new ones.

    Payloads are left out, and secrets in summaries are masked. With -f and --json each event is
    one JSON object on a line of its own.
    """
    from treering.surfaces.cli.sessions.search import find_session  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    chosen = parse_kinds(kinds)
    with open_existing() as ledger:
        session = None if session_id is None else find_session(ledger, name, session_id)
        wanted = Wanted(scope=name, session_id=session, kinds=chosen)
        start = ledger.end(name) if follow else None
        found = _last(ledger, wanted, last)
        mask = Mask()
        if not follow:
            _print_all(wanted, found, mask)
            return
        try:
            with writing_output():
                _follow(ledger, wanted, found, start, mask)
        except KeyboardInterrupt as stopped:
            # That is how one stops following: nothing to complain about.
            click.get_current_context().exit(status_of(stopped))


def _last(ledger: Ledger, wanted: Wanted, count: int) -> list[Header]:
    if not count:
        return []
    return ledger.query(
        wanted.scope, session_id=wanted.session_id, kinds=wanted.kinds, last=count
    ).items


def _follow(
    ledger: Ledger, wanted: Wanted, found: Sequence[Header], start: str | None, mask: Mask
) -> None:
    shown = {one.event_id for one in found}
    for header in _both(found, ledger.follow(wanted.scope, after=start), shown):
        if not wanted.holds(header):
            continue
        if invocation().as_json:
            click.echo(msgspec.json.encode(_item(header, mask)))
        else:
            say_painted(_line(header, mask, with_session=wanted.session_id is None))


def _both(found: Sequence[Header], coming: Iterator[Header], shown: set[str]) -> Iterator[Header]:
    yield from found
    for header in coming:
        if header.event_id in shown:
            shown.discard(header.event_id)
        else:
            yield header


def _print_all(wanted: Wanted, found: Sequence[Header], mask: Mask) -> None:
    if invocation().as_json:
        items = [_item(one, mask) for one in found]
        filters = {"session_id": wanted.session_id, "types": wanted.kinds}
        show(
            {
                "scope": wanted.scope,
                "filters": filters,
                "count": len(items),
                "items": items,
                "masked": mask.masked,
            }
        )
        return
    with writing_output():
        for one in found:
            say_painted(_line(one, mask, with_session=wanted.session_id is None))
        if not found:
            say_painted(f"no such events are recorded in scope {wanted.scope}")


def _item(header: Header, mask: Mask) -> dict[str, Any]:
    from treering.surfaces.cli.episodes.items import item  # noqa: PLC0415  (only for programs)

    fields = item(header)
    return fields | {"summary": mask.text(header.summary), "refs": mask.value(header.refs)}


def _line(header: Header, mask: Mask, *, with_session: bool) -> str:
    session = f"{printable(header.session_id)}  " if with_session else ""
    lead = f"{clock(header.ts_ms)}  {header.kind:<{_KIND_COLUMNS}}  {session}"
    text = one_line(mask.text(header.summary) or "")
    if is_terminal():
        room = max(shutil.get_terminal_size().columns - width(lead), 20)
        text = text if width(text) <= room else f"{text[: room - 1]}…"
    colour = _COLOURS.get(header.kind.partition(".")[0])
    kind = painted(f"{header.kind:<{_KIND_COLUMNS}}", colour)
    return f"{painted(clock(header.ts_ms), dim=True)}  {kind}  {session}{text}"
