"""``treering trace``: the runs of a scope, how one of them went, and its trace as a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, LazyGroup, invocation, show
from treering.surfaces.cli.files import STANDARD, output_stream
from treering.surfaces.cli.ledgers import database_path, open_existing, open_if_there
from treering.surfaces.cli.options import (
    clamp,
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
    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.sinks.bundle import Bundle
    from treering.sinks.bundle_files import MemoryFiles

LIST_ITEMS: Final = 20
SHOW_ITEMS: Final = 200
_HERE: Final = "treering.surfaces.cli.trace"

session_option = click.option("--session", "session_id", metavar="ID", help="Of this session only.")


class TraceReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported."""

    scope: str
    run_id: str
    session_id: str
    out: str
    visibility: str
    complete: bool
    """Whether the run is over."""
    truncated: bool
    events: int
    """Those that the event envelope has a kind for."""
    tool_calls: int
    files: dict[str, int]
    """How many bytes each of them has."""


@click.group(
    name="trace",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}:list_",
        "show": f"{_HERE}:show_run",
        "export": f"{_HERE}:export",
    },
    invoke_without_command=True,
    examples="""
    treering trace list --scope acme/app --failing
    treering trace show 01a1dea1-d82d --scope acme/app
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    """,
)
@keys_option
@db_option
@click.pass_context
def trace(context: click.Context) -> None:
    """List runs, show how one went, export it as a file.

    Every run is in the ledger, so each can be traced, whether or not somebody listened when it
    went on. What was said is private: it is exported only if that is asked for.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "list",
    cls=Command,
    short_help="Show the newest runs of a scope.",
    examples="""
    treering trace list --scope acme/app
    treering trace list --scope acme/app --session s1 --failing --since 7d
    """,
)
@project_scope_options
@session_option
@click.option("--failing", is_flag=True, help="Only runs that failed or were interrupted.")
@click.option(
    "--since", metavar="WHEN", help="Started since then: 30m, 2h, 7d, a date, or milliseconds."
)
@limit_option(LIST_ITEMS)
@keys_option
@json_option
@db_option
def list_(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    failing: bool,
    since: str | None,
    limit: int,
) -> None:
    """Show the runs of a scope that started last, the newest first."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.sinks.runs import recent_runs  # noqa: PLC0415
    from treering.surfaces.cli.times import parse_moment  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    session = None if session_id is None else require(session_id, "session")
    since_ms = parse_moment(since, now_ms=now_ms())
    with open_if_there() as ledger:
        found = recent_runs(
            ledger,
            name,
            session_id=session,
            since=since_ms,
            only_failing=failing,
            limit=clamp(limit),
        )
    filters = {
        "session_id": session,
        "since_ms": since_ms,
        "failing": failing,
        "limit": clamp(limit),
    }
    if invocation().as_json:
        show({"scope": name, "filters": filters, "count": len(found.runs),
              **msgspec.structs.asdict(found)})  # fmt: skip
        return
    with writing_output():
        if not found.runs:
            filtered = session is not None or since_ms is not None or failing
            say(
                f"no runs of scope {name} match: drop a filter, or check the names"
                if filtered
                else f"no runs are recorded in scope {name}: check its name"
            )
            return
        from treering.surfaces.cli.runs import print_runs  # noqa: PLC0415  (for people)

        print_runs(found.runs, with_session=session is None)
        more = ", and more: raise --limit, or narrow it down" if found.has_more else ""
        say(f"{counted(len(found.runs), 'run')} of scope {name}{more}")


@click.command(
    "show",
    cls=Command,
    short_help="Show how one run went.",
    examples="""
    treering trace show 01a1dea1-d82d-777b-b5a5-310511386cf7 --scope acme/app
    treering trace show 01a1dea1-d82d --scope acme/app --json
    """,
)
@click.argument("run")
@project_scope_options
@session_option
@limit_option(SHOW_ITEMS)
@keys_option
@json_option
@db_option
def show_run(
    *, run: str, scope: str | None, is_global: bool, session_id: str | None, limit: int
) -> None:
    """Show what happened in RUN and when, and how its tools did.

    RUN is an id, or its beginning if no other run begins like that. Of a long run the first and
    the last events are shown. Payloads are left out.
    """
    from treering.sinks.rundown import rundown  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_existing() as ledger:
        started = _find(ledger, name, run, session_id)
        shown = rundown(ledger, started, limit=clamp(limit))
    if invocation().as_json:
        show(shown)
        return
    from treering.surfaces.cli.runs import print_run  # noqa: PLC0415  (for people)

    with writing_output():
        print_run(shown)


@click.command(
    "export",
    cls=Command,
    short_help="Write the trace of one run as a zip.",
    examples="""
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip --private --force
    """,
    if_stopped="a file appears when it is whole; run it again",
)
@click.argument("run")
@project_scope_options
@session_option
@click.option("--out", required=True, metavar="FILE", help="The zip to write, for you alone.")
@click.option("--private", is_flag=True, help="Include what was said and what tools took and gave.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@keys_option
@json_option
@db_option
def export(
    *,
    run: str,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    out: str,
    private: bool,
    force: bool,
) -> None:
    """Write the trace of RUN as a zip of five files; the same run makes the same bytes.

    Without --private it holds sizes, times, names and codes, and nothing that anybody said. With
    it, secrets are masked.
    """
    name = find_scope(scope, is_global=is_global)
    if out == STANDARD:
        raise InvalidInput("a trace is written to a file", hint="name it, as in --out trace.zip")
    if os.path.lexists(out) and not force:
        raise InvalidInput(
            f"{out} is there already", hint="name another file, or pass --force to write over it"
        )
    with open_existing() as ledger:
        started = _find(ledger, name, run, session_id)
        bundle, files = _made(ledger, started, private=private)
    with output_stream(out, database=database_path()) as stream:
        files.write_zip(stream)
    receipt = TraceReceipt(
        scope=name,
        run_id=started.run_id or "",
        session_id=started.session_id,
        out=out,
        visibility=bundle.visibility,
        complete=bundle.is_over,
        truncated=bundle.is_truncated,
        events=bundle.counts["events"],
        tool_calls=bundle.counts["toolCalls"],
        files=files.sizes(),
    )
    show(
        receipt,
        f"exported run {receipt.run_id} to {out}:"
        f" {counted(receipt.events, 'line')} of events, {counted(receipt.tool_calls, 'tool call')}",
        "it holds private content, secrets masked: mind who gets it"
        if private
        else "private content is left out; --private includes it",
        *(["the run is not over: export it again for the rest"] * (not receipt.complete)),
        *(["it was too large to be whole: redactions.json says what is cut"] * receipt.truncated),
        done=f"the trace was written to {out}",
    )


def _find(ledger: Ledger, scope: Any, run: str, session_id: str | None) -> Header:
    from treering.sinks.runs import find_run  # noqa: PLC0415  (not for --help)

    session = None if session_id is None else require(session_id, "session")
    text = require(run, "run", hint="name the run before the options").strip()
    return find_run(ledger, scope, text, session_id=session)


def _made(ledger: Ledger, started: Header, *, private: bool) -> tuple[Bundle, MemoryFiles]:
    from treering.sinks.bundle_files import MemoryFiles  # noqa: PLC0415  (not for --help)
    from treering.sinks.runs import write_private_trace, write_safe_trace  # noqa: PLC0415

    files = MemoryFiles()
    if not private:
        return write_safe_trace(ledger, started, files), files
    from treering.capture.secrets import Guard  # noqa: PLC0415  (only for private content)
    from treering.config import mask_key  # noqa: PLC0415

    return write_private_trace(ledger, started, files, Guard(key=mask_key)), files
