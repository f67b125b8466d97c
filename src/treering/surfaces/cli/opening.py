"""What the commands about runs and tool calls share: opening the ledger, and spans of time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from treering.errors import NotFound, NotPermitted, ReadOnly
from treering.surfaces.cli.commands import invocation
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import database_path, is_on_server, open_existing, shown
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

session_option = click.option(
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=complete_session,
    help="Only this session.",
)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span of time, both ends included; None where it is open."""

    since_ms: int | None = None
    until_ms: int | None = None


def span_options(command: Decorated) -> Decorated:
    """Add ``--since`` and ``--until``; read them with ``read_span``."""
    since = click.option(
        "--since", metavar="WHEN", help="Started since then: 3d, a date, or milliseconds."
    )
    until = click.option("--until", metavar="WHEN", help="Started until then, inclusive.")
    return since(until(command))


def read_span(since: str | None, until: str | None) -> Span:
    """Return the span that was given. Raise InvalidInput if it makes no sense."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import check_order, parse_moment  # noqa: PLC0415

    now = now_ms()
    span = Span(
        since_ms=parse_moment(since, now_ms=now, flag="--since"),
        until_ms=parse_moment(until, now_ms=now, flag="--until"),
    )
    check_order((since, span.since_ms), (until, span.until_ms))
    return span


def going_on(span: Span, cursor: str | None) -> str:
    """Return how to continue after a page; an age would mean another time by then."""
    since = "" if span.since_ms is None else f"--since {span.since_ms} "
    until = "" if span.until_ms is None else f"--until {span.until_ms} "
    return f"run it again with {since}{until}--cursor {cursor}"


@contextlib.contextmanager
def asking(opening: Callable[[], Ledger]) -> Iterator[Ledger | None]:
    """Open the ledger to read it; None, and nothing is created, if it does not exist."""
    with contextlib.ExitStack() as stack:
        ledger = None
        try:
            ledger = stack.enter_context(opening())
        except NotFound:
            if not invocation().as_json:
                note(f"no ledger at {shown(database_path())} yet")
        yield ledger


def open_to_ask() -> Ledger:
    """Open the ledger to ask about its tool calls; what is caught up with is kept, if we may.

    Raises NotFound if it is not there.
    """
    if not is_on_server():
        return open_existing()
    try:
        return open_existing("change")
    except (ReadOnly, NotPermitted):
        return open_existing()


@contextlib.contextmanager
def catching_up() -> Iterator[Callable[[int], None] | None]:
    """Count the events that are caught up with, on a terminal."""
    from treering.surfaces.cli.progress import counting  # noqa: PLC0415  (not for --help)

    with counting("catching up with", "events") as progress:
        yield progress


def location_of(ledger: Ledger | None) -> str | None:
    """Return where the ledger is, without a password; None if it does not exist."""
    return None if ledger is None else shown(database_path())


def nothing_found(
    nouns: str, scope: Scope, *, is_filtered: bool, is_there: bool, remark: str = ""
) -> str:
    """Return what to say where nothing was found."""
    if not is_there:
        return f"no {nouns} are recorded in scope {scope}"
    if is_filtered:
        return f"no {nouns} of scope {scope} match{remark}: drop a filter, or check the names"
    return f"no {nouns} are recorded in scope {scope}{remark}: check its name"
