"""``treering import``: import the logs that agents have written, before they are deleted."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treering.app import now_ms
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_scope
from treering.surfaces.cli.imports.page import keep_faults, report, warn
from treering.surfaces.cli.imports.survey import outline, print_outlines
from treering.surfaces.cli.ledgers import MEMORY, database_path, open_to_write
from treering.surfaces.cli.options import db_option, json_option, keys_option, resolve_scope
from treering.surfaces.cli.progress import counting, transferring
from treering.surfaces.cli.times import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.intakes import ImportReceipt
    from treering.model.scopes import Scope


@click.command(
    "import",
    cls=Command,
    short_help="Import the logs that agents have written.",
    examples="""
    treering import
    treering import --dry-run
    treering import ~/.claude/projects ~/.codex/sessions
    treering import session.jsonl --scope acme/app
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option(
    "--scope",
    metavar="SCOPE",
    shell_complete=complete_scope,
    help="Put all sessions here. Default: each by its project's git remote or folder.",
)
@click.option(
    "--global", "is_global", is_flag=True, help="Use the scope named global (not all scopes)."
)
@click.option(
    "--since", metavar="WHEN", help="Only files changed since then: 3d, a date, or milliseconds."
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and write nothing.")
@click.option("--again", is_flag=True, help="Read unchanged files again, too.")
@click.option("--no-index", is_flag=True, help="Do not index now; the first search does it.")
@keys_option
@json_option
@db_option
def import_(
    *,
    paths: Sequence[Path],
    scope: str | None,
    is_global: bool,
    since: str | None,
    dry_run: bool,
    again: bool,
    no_index: bool,
) -> None:
    """Import the logs of Claude Code, Codex, OpenClaw, pi, Gemini CLI and others.

    Without a PATH, it searches all the places where these agents keep their logs. A PATH is a
    file or a folder; the format is detected from the content.

    Importing again never duplicates events; a log that has grown is read from where the last
    import stopped. Secrets are masked. Logs are only read, never changed.

    Every line is accounted for: imported, known already, skipped for a reason, or in error with
    its file, line and offset. Imported events stay when the agent deletes its log.
    """
    at_ms = now_ms()
    since_ms = parse_moment(since, now_ms=at_ms, flag="--since")
    named: Scope | None = None
    if scope is not None or is_global:
        named = resolve_scope(scope, is_global=is_global)
    if not paths:
        outlines = outline()
        if not invocation().as_json:
            print_outlines(outlines, at_ms=at_ms)
        paths = [one.place.root for one in outlines]
    with _ledger(dry_run=dry_run) as ledger:
        receipt = _take(ledger, paths, scope=named, since_ms=since_ms, dry_run=dry_run, again=again)
        if not (dry_run or no_index):
            with counting("indexing", "events") as progress:
                for one in receipt.by_scope:
                    ledger.admin.index(one, progress=progress)
    keep_faults(receipt)
    warn(receipt)
    show(receipt, *report(receipt, paths), done="the logs were imported")
    if receipt.unreadable:
        click.get_current_context().exit(1)


def _take(
    ledger: Ledger,
    paths: Sequence[Path],
    *,
    scope: Scope | None,
    since_ms: int | None,
    dry_run: bool,
    again: bool,
) -> ImportReceipt:
    from treering.app import import_logs  # noqa: PLC0415  (not for --help)

    with transferring("importing") as progress:
        return import_logs(
            ledger,
            paths,
            scope=scope,
            since_ms=since_ms,
            dry_run=dry_run,
            again=again,
            parallel=True,
            progress=progress,
        )


@contextlib.contextmanager
def _ledger(*, dry_run: bool) -> Iterator[Ledger]:
    """Open the ledger; a dry run does not create one."""
    path = database_path()
    missing = "://" not in path and path != MEMORY and not Path(path).exists()
    if dry_run and missing:
        invocation().database = MEMORY
    with open_to_write() as ledger:
        yield ledger
