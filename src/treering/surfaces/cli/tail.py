"""``treering tail``: the last events of a scope, and new ones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.model.scopes import Scope, parse_scope
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import (
    PAGE_ITEMS_MAX,
    command,
    flag,
    option,
    parse_kinds,
    session_option,
)
from treering.surfaces.cli.finding import WHOLE_CHARACTERS_MAX, narrow_to_session, short_sessions
from treering.surfaces.cli.ledgers import is_unknown, open_existing, say_unknown
from treering.surfaces.cli.output import (
    check_reader,
    is_terminal,
    painted,
    say,
    say_painted,
    status_of,
    writing_output,
)
from treering.surfaces.cli.tables import width
from treering.surfaces.shared.texts import Mask, one_line, printable
from treering.surfaces.shared.times import about, clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.surfaces.cli.finding import ShortIds

EVENTS: Final = 20
READER_S: Final = 0.5
"""How long after its reader has ended a quiet follower ends."""
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
    """Which events to show."""

    scope: str
    session_id: str | None
    kinds: list[str]

    def holds(self, header: Header) -> bool:
        """Whether an event of the scope is one of them."""
        return (self.session_id is None or header.session_id == self.session_id) and (
            not self.kinds or header.kind in self.kinds
        )


class Names:
    """The column of short session ids; none, if only one session is shown.

    It is as wide as the ids of ``headers``, and grows with those that come.
    """

    def __init__(self, ledger: Ledger, wanted: Wanted, headers: Sequence[Header]) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._short = self._read()
        self._columns = 0
        for header in headers:
            self.of(header)

    def of(self, header: Header) -> str:
        """Return the short id of an event's session, and a gap."""
        if self._wanted.session_id is not None:
            return ""
        if not self._short.knows(header.session_id):
            self._short = self._read()
        name = printable(self._short.shown(header.session_id))
        columns = width(name)
        self._columns = max(self._columns, min(columns, WHOLE_CHARACTERS_MAX))
        return name + " " * (max(self._columns - columns, 0) + 2)

    def _read(self) -> ShortIds:
        return short_sessions(self._ledger, parse_scope(self._wanted.scope))


@command(
    scope="project",
    examples="""
    treering tail --scope acme/app
    treering tail -f --scope acme/app --kind tool.call,tool.result
    treering tail -f --scope acme/app --session main:telegram:jo --json
    """,
)
def tail(
    *,
    scope: Scope,
    session_id: str | None = session_option,
    kinds: Sequence[str] = option(
        "KIND", "Only events of this kind; repeatable.", "--kind", multiple=True
    ),
    last: int = option(
        "N",
        f"The last N events, up to {PAGE_ITEMS_MAX}. Default: {EVENTS}.",
        "-n",
        "--last",
        type=click.IntRange(0, PAGE_ITEMS_MAX),
        default=EVENTS,
    ),
    follow: bool = flag("Keep printing new events until you stop it.", "-f", "--follow"),
) -> None:
    """Show the last events of a scope by time, one per line; -f follows new ones.

    Payloads are left out, and secrets in summaries are masked. With -f and --json each event is
    one JSON object on a line of its own.
    """
    chosen = parse_kinds(kinds)
    with open_existing() as ledger:
        session = narrow_to_session(ledger, scope, session_id)
        wanted = Wanted(scope=scope, session_id=session, kinds=chosen)
        start = ledger.end_cursor(scope) if follow else None
        headers = _last(ledger, wanted, last)
        mask = Mask()
        if not follow:
            is_new = not headers and is_unknown(ledger, scope)
            _print_all(wanted, headers, mask, Names(ledger, wanted, headers), is_new=is_new)
            return
        try:
            with writing_output():
                _follow(ledger, wanted, headers, start, mask)
        except KeyboardInterrupt as stopped:
            # That is how one stops following: nothing to complain about.
            click.get_current_context().exit(status_of(stopped))


def _last(ledger: Ledger, wanted: Wanted, count: int) -> list[Header]:
    if not count:
        return []
    return ledger.headers(
        wanted.scope, session_id=wanted.session_id, kinds=wanted.kinds, last=count
    ).items


def _follow(
    ledger: Ledger, wanted: Wanted, headers: Sequence[Header], start: str | None, mask: Mask
) -> None:
    shown = {header.event_id for header in headers}
    names = Names(ledger, wanted, headers)
    for header in _both(headers, _coming(ledger, wanted.scope, start), shown):
        if not wanted.holds(header):
            continue
        if invocation().as_json:
            click.echo(msgspec.json.encode(_item(header, mask)))
        else:
            say_painted(_line(header, mask, names))


def _coming(ledger: Ledger, scope: str, cursor: str | None) -> Iterator[Header]:
    """Yield new events until nobody reads them any more: without news, no write would tell."""
    while True:
        check_reader()
        follower = ledger.follow(scope, after=cursor, idle_s=READER_S)
        yield from follower
        cursor = follower.cursor


def _both(headers: Sequence[Header], coming: Iterator[Header], shown: set[str]) -> Iterator[Header]:
    yield from headers
    for header in coming:
        if header.event_id in shown:
            shown.discard(header.event_id)
        else:
            yield header


def _print_all(
    wanted: Wanted, headers: Sequence[Header], mask: Mask, names: Names, *, is_new: bool
) -> None:
    items = [_item(header, mask) for header in headers]
    body = {
        "scope": wanted.scope,
        "filters": {"session_id": wanted.session_id, "types": wanted.kinds},
        "count": len(items),
        "items": items,
        "masked": mask.masked,
    }

    def page() -> None:
        for header in headers:
            say_painted(_line(header, mask, names))
        if is_new:
            say_unknown(parse_scope(wanted.scope))
        elif not headers:
            say(f"no such events are recorded in scope {wanted.scope}")

    show(body, page=page)


def _item(header: Header, mask: Mask) -> dict[str, Any]:
    from treering.surfaces.cli.episodes.read import item  # noqa: PLC0415  (only for programs)

    fields = item(header)
    return fields | {"summary": mask.text(header.summary), "refs": mask.value(header.refs)}


def _line(header: Header, mask: Mask, names: Names) -> str:
    session = names.of(header)
    when = f"{about(header.refs)}{clock(header.ts_ms)}"
    lead = f"{when}  {header.kind:<{_KIND_COLUMNS}}  {session}"
    text = one_line(mask.text(header.summary) or "")
    if is_terminal():
        room = max(shutil.get_terminal_size().columns - width(lead), 20)
        text = text if width(text) <= room else f"{text[: room - 1]}…"
    colour = _COLOURS.get(header.kind.partition(".")[0])
    kind = painted(f"{header.kind:<{_KIND_COLUMNS}}", colour)
    return f"{painted(when, dim=True)}  {kind}  {session}{text}"
