"""``treering tools``: what was called, how it ended, how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import NotFound, NotPermitted, ReadOnly
from treering.model.tools import REASONS, STATUSES
from treering.surfaces.cli.commands import Command, LazyGroup, invocation, show
from treering.surfaces.cli.ledgers import is_on_server, open_if_there
from treering.surfaces.cli.options import (
    clamp,
    cursor_option,
    db_option,
    json_option,
    keys_option,
    limit_option,
    require,
)
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.queries import Page
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolRecord

LIST_ITEMS: Final = 50
SAME_ID_ITEMS: Final = 20
_HERE: Final = "treering.surfaces.cli.tools"


def _windowed(command: Callable[..., Any]) -> Callable[..., Any]:
    session = click.option("--session", "session_id", metavar="ID", help="Of this session only.")
    tool = click.option("--tool", metavar="NAME", help="Of this tool only.")
    since = click.option(
        "--since", metavar="WHEN", help="Started since then: 30m, 2h, 7d, a date, or milliseconds."
    )
    until = click.option("--until", metavar="WHEN", help="Started until then, inclusive.")
    return session(tool(since(until(command))))


@click.group(
    name="tools",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}:list_",
        "stats": f"{_HERE}:stats",
        "show": f"{_HERE}:show_call",
    },
    invoke_without_command=True,
    examples="""
    treering tools list --scope acme/app --failing --since 1d
    treering tools stats --scope acme/app
    treering tools show call-1 --scope acme/app --session s1
    """,
)
@keys_option
@db_option
@click.pass_context
def tools(context: click.Context) -> None:
    """List tool calls, measure tools, show one call.

    There is one record for each call, of every run, also of those that failed. Input and output are
    private: they are shown only if that is asked for.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "list",
    cls=Command,
    short_help="Show the latest tool calls of a scope.",
    examples="""
    treering tools list --scope acme/app
    treering tools list --scope acme/app --tool git_log --slowest --limit 10
    treering tools list --scope acme/app --status synthetic --reason crashed --json
    """,
)
@project_scope_options
@_windowed
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES),
    help="With this outcome only; repeatable.",
)
@click.option("--failing", is_flag=True, help="Short for --status failed --status synthetic.")
@click.option("--reason", type=click.Choice(REASONS), help="Synthetic for this reason only.")
@click.option("--run", "run_id", metavar="ID", help="Of this run only.")
@click.option("--slowest", is_flag=True, help="The longest first, of those whose time is known.")
@limit_option(LIST_ITEMS)
@cursor_option
@json_option
@db_option
def list_(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    tool: str | None,
    since: str | None,
    until: str | None,
    statuses: Sequence[str],
    failing: bool,
    reason: str | None,
    run_id: str | None,
    slowest: bool,
    limit: int,
    cursor: str | None,
) -> None:
    """Show the tool calls of a scope that began last, in order; --cursor goes on to earlier ones.

    With --slowest, those that took longest come first.
    """
    name = find_scope(scope, is_global=is_global)
    window = _window(session_id, tool, since, until)
    named = [*statuses, *(["failing"] if failing else [])]
    narrowed = {**window, "status": named, "reason": reason, "run_id": run_id}
    extent: dict[str, Any] = {"first" if slowest else "last": clamp(limit)}
    with _open() as ledger, _catching_up() as progress:
        page = ledger.tool_calls(
            name,
            **narrowed,
            **extent,
            order="slowest" if slowest else "time",
            after=cursor,
            progress=progress,
        )
    if invocation().as_json:
        filters = {**narrowed, "slowest": slowest, "limit": clamp(limit)}
        show({"scope": name, "filters": filters, "count": len(page.items),
              **msgspec.structs.asdict(page)})  # fmt: skip
        return
    with writing_output():
        _print_page(name, page, is_filtered=any(narrowed.values()), with_session=session_id is None)


def _print_page(
    scope: Scope, page: Page[ToolRecord], *, is_filtered: bool, with_session: bool
) -> None:
    if not page.items:
        say(_nothing(scope, is_filtered=is_filtered))
        return
    from treering.surfaces.cli.calls import print_calls  # noqa: PLC0415  (for people)

    print_calls(page.items, with_session=with_session)
    shown = f"{counted(len(page.items), 'call')} of scope {scope}"
    if page.has_more:
        say(f"{shown}, and more: run it again with --cursor {page.next_cursor}")
    else:
        say(shown)


@click.command(
    "stats",
    cls=Command,
    short_help="Show how each tool did.",
    examples="""
    treering tools stats --scope acme/app
    treering tools stats --scope acme/app --since 7d --tool git_log --json
    """,
)
@project_scope_options
@_windowed
@json_option
@db_option
def stats(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    tool: str | None,
    since: str | None,
    until: str | None,
) -> None:
    """Show for each tool how often it was called, how that ended and how long it took.

    Percentiles are exact, by nearest rank, of the calls that the tool itself ended.
    """
    name = find_scope(scope, is_global=is_global)
    window = _window(session_id, tool, since, until)
    with _open() as ledger, _catching_up() as progress:
        found = ledger.tool_statistics(name, **window, progress=progress)
    if invocation().as_json:
        show({"scope": name, "filters": window, "count": len(found), "tools": found})
        return
    with writing_output():
        if not found:
            say(_nothing(name, is_filtered=any(window.values())))
            return
        from treering.surfaces.cli.calls import print_statistics  # noqa: PLC0415  (for people)

        print_statistics(found)
        say(f"{counted(len(found), 'tool')} of scope {name}")


@click.command(
    "show",
    cls=Command,
    short_help="Show one tool call.",
    examples="""
    treering tools show call-1 --scope acme/app --session s1
    treering tools show call-1 --scope acme/app --session s1 --payloads --json
    """,
)
@click.argument("call_id")
@project_scope_options
@click.option("--session", "session_id", metavar="ID", help="The session of the call.")
@click.option("--payloads", is_flag=True, help="Give the private input and output too, as stored.")
@keys_option
@json_option
@db_option
def show_call(
    *, call_id: str, scope: str | None, is_global: bool, session_id: str | None, payloads: bool
) -> None:
    """Show how the call CALL_ID of a session went; every one, if the id came again.

    A call id is known within its session.
    """
    name = find_scope(scope, is_global=is_global)
    session = require(session_id, "session")
    with _open() as ledger, _catching_up() as progress:
        page = ledger.tool_calls(
            name, session_id=session, call_id=call_id, last=SAME_ID_ITEMS, progress=progress
        )
        if not page.items:
            raise NotFound(
                f"no call {call_id} in session {session} of scope {name}",
                hint=f"treering tools list --scope {name} --session {session} shows all of them",
            )
        events = [_events(ledger, record) if payloads else [] for record in page.items]
    if invocation().as_json:
        items = [
            {
                **msgspec.structs.asdict(record),
                **{part: event.payload for part, event in parts},
            }
            for record, parts in zip(page.items, events, strict=True)
        ]
        show({"scope": name, "session_id": session, "call_id": call_id,
              "include_payload": payloads, "count": len(items), "items": items})  # fmt: skip
        return
    from treering.surfaces.cli.calls import print_call  # noqa: PLC0415  (for people)

    with writing_output():
        for record, parts in zip(page.items, events, strict=True):
            print_call(record, parts)


def _events(ledger: Ledger, record: ToolRecord) -> list[tuple[str, Event]]:
    """Return the events of a call, each under the name of what its payload holds."""
    parts = (
        ("input", record.call_event_id),
        ("output", record.result_event_id),
        ("late_output", record.late_event_id),
    )
    return [(name, ledger.event(record.scope, found)) for name, found in parts if found]


def _window(
    session_id: str | None, tool: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import parse_moment  # noqa: PLC0415

    now = now_ms()
    return {
        "session_id": None if session_id is None else require(session_id, "session"),
        "tool": tool,
        "since": parse_moment(since, now_ms=now),
        "until": parse_moment(until, now_ms=now),
    }


def _open() -> Ledger:
    """Open the ledger so that what is caught up with is kept, if we may."""
    if not is_on_server():
        return open_if_there()
    try:
        return open_if_there("change")
    except (ReadOnly, NotPermitted):
        return open_if_there()


def _catching_up() -> Any:
    from treering.surfaces.cli.progress import counting  # noqa: PLC0415  (not for --help)

    return counting("catching up with", "events")


def _nothing(scope: Scope, *, is_filtered: bool) -> str:
    if is_filtered:
        return f"no tool calls of scope {scope} match: drop a filter, or check the names"
    return f"no tool calls are recorded in scope {scope}: check its name"
