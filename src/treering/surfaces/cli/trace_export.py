"""``treering trace export``: the trace of one run as a zip."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.files import STANDARD, output_stream, refuse_folder
from treering.surfaces.cli.ledgers import database_path, open_existing
from treering.surfaces.cli.opening import session_option
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.trace import find_named_run

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.sinks.bundle_files import MemoryFiles
    from treering.surfaces.cli.run_trace import RunTrace

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
    _check_target(out, force=force)
    with open_existing() as ledger:
        started = find_named_run(ledger, name, run, session_id)
        trace, files = _made(ledger, started, private=private)
    with output_stream(out, database=database_path(), example=_EXAMPLE) as stream:
        files.write_zip(stream)
    receipt = _receipt(started, trace, files, out)
    show(receipt, *_told(receipt), done=f"the trace was written to {out}")


def _receipt(started: Header, trace: RunTrace, files: MemoryFiles, out: str) -> TraceReceipt:
    bundle = trace.bundle
    return TraceReceipt(
        scope=started.scope,
        run_id=started.run_id or "",
        session_id=started.session_id,
        out=out,
        visibility=bundle.visibility,
        complete=bundle.is_over,
        truncated=bundle.is_truncated,
        kept=trace.kept,
        events=bundle.counts["events"],
        tool_calls=bundle.counts["toolCalls"],
        files=files.sizes(),
    )


def _check_target(out: str, *, force: bool) -> None:
    if out == STANDARD:
        raise InvalidInput("a trace is written to a file", hint=f"name it, as in --out {_EXAMPLE}")
    refuse_folder(out, example=_EXAMPLE)
    if os.path.lexists(out) and not force:
        raise InvalidInput(
            f"{out} is there already", hint="name another file, or pass --force to write over it"
        )


def _told(receipt: TraceReceipt) -> list[str]:
    """Return what people are told of an export."""
    untold = receipt.kept - receipt.events
    of_all = f"{receipt.events:,} of " if untold else ""
    counts = f"{counted(receipt.kept, 'event')}, {counted(receipt.tool_calls, 'tool call')}"
    lines = [f"exported run {receipt.run_id} to {receipt.out}: {of_all}{counts}"]
    if untold:
        lines.append(
            "kinds that a trace has no place for, such as what users said, stay in the ledger"
        )
    if receipt.visibility == "private":
        lines.append("it holds private content, secrets masked: mind who gets it")
    else:
        lines.append("private content is left out; --private includes it")
    if not receipt.complete:
        lines.append("the run is not over: export it again for the rest")
    if receipt.truncated:
        lines.append("it was too large to be whole: redactions.json says what is cut")
    return lines


def _made(ledger: Ledger, started: Header, *, private: bool) -> tuple[RunTrace, MemoryFiles]:
    from treering.sinks.bundle_files import MemoryFiles  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.run_trace import (  # noqa: PLC0415
        write_private_trace,
        write_safe_trace,
    )

    files = MemoryFiles()
    if not private:
        return write_safe_trace(ledger, started, files), files
    from treering.app import new_guard  # noqa: PLC0415  (only for private content)

    return write_private_trace(ledger, started, files, new_guard()), files
