"""``treering trace export``: the trace of one run as a zip."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.files import STANDARD, output_stream, refuse_folder
from treering.surfaces.cli.ledgers import database_path, open_existing
from treering.surfaces.cli.opening import session_option
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.trace import find_named_run

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.sinks.bundle_files import MemoryFiles
    from treering.sinks.run_trace import RunTrace

_EXAMPLE: Final = "trace.zip"


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
    kept: int
    """How many events of the run the ledger has."""
    events: int
    """Those of them that the event envelope has a kind for: they are in the trace."""
    tool_calls: int
    files: dict[str, int]
    """How many bytes each of them has."""


@click.command(
    "export",
    cls=Command,
    short_help="Write the trace of one run to a zip file.",
    examples="""
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    treering trace export 01a1dea1-d82d --scope acme/app --out t.zip --payload
    """,
    if_stopped="a file appears when it is complete; run it again",
)
@click.argument("run", shell_complete=complete_run)
@project_scope_options
@session_option
@click.option(
    "--out", required=True, metavar="FILE", help="The zip file to write, readable by you alone."
)
@click.option(
    "--payload",
    "private",
    is_flag=True,
    help="Include private content: messages, tool inputs and outputs.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
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
    """Write the trace of RUN to a zip of five files; the same run makes the same bytes.

    It holds sizes, times, names and codes, but nothing that anybody said. --payload includes
    that, with secrets masked.
    """
    name = find_scope(scope, is_global=is_global)
    _check_target(out, force=force)
    with open_existing() as ledger:
        run_id, session = find_named_run(ledger, name, run, session_id)
        session = ledger.run(name, run_id, session_id=session).session_id
        trace, files = _write_trace(ledger, name, session, run_id, private=private)
    with output_stream(out, database=database_path(), example=_EXAMPLE) as stream:
        files.write_zip(stream)
    bundle = trace.bundle
    receipt = TraceReceipt(
        scope=name,
        run_id=run_id,
        session_id=session,
        out=out,
        visibility=bundle.visibility,
        complete=bundle.is_over,
        truncated=bundle.is_truncated,
        kept=trace.kept,
        events=bundle.counts["events"],
        tool_calls=bundle.counts["toolCalls"],
        files=files.sizes(),
    )
    show(receipt, *_report(receipt), done=f"the trace was written to {out}")


def _check_target(out: str, *, force: bool) -> None:
    if out == STANDARD:
        raise InvalidInput("a trace is written to a file", hint=f"name it, as in --out {_EXAMPLE}")
    refuse_folder(out, example=_EXAMPLE)
    if os.path.lexists(out) and not force:
        raise InvalidInput(
            f"{out} already exists", hint="name another file, or pass --force to overwrite it"
        )


def _report(receipt: TraceReceipt) -> list[str]:
    """Return the lines for people about an export."""
    left_out = receipt.kept - receipt.events
    of_all = f"{receipt.events:,} of " if left_out else ""
    counts = f"{counted(receipt.kept, 'event')}, {counted(receipt.tool_calls, 'tool call')}"
    lines = [f"exported run {receipt.run_id} to {receipt.out}: {of_all}{counts}"]
    if left_out:
        lines.append(
            "a trace has no place for some kinds, such as user messages; the ledger keeps them"
        )
    if receipt.visibility == "private":
        lines.append("it holds private content, secrets masked: be careful whom you give it to")
    else:
        lines.append("private content is left out; --payload includes it")
    if not receipt.complete:
        lines.append("the run is still open: export it again for the rest")
    if receipt.truncated:
        lines.append("it was too large: redactions.json lists what was cut")
    return lines


def _write_trace(
    ledger: Ledger, scope: Scope, session_id: str, run_id: str, *, private: bool
) -> tuple[RunTrace, MemoryFiles]:
    from treering.sinks.bundle_files import MemoryFiles  # noqa: PLC0415  (not for --help)
    from treering.sinks.run_trace import (  # noqa: PLC0415
        write_private_trace,
        write_safe_trace,
    )

    files = MemoryFiles()
    if not private:
        return write_safe_trace(ledger, scope, session_id, run_id, files), files
    from treering.app import new_guard  # noqa: PLC0415  (only for private content)

    return write_private_trace(ledger, scope, session_id, run_id, files, new_guard()), files
