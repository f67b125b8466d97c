"""``treering import``: import the logs that agents have written, before they are deleted."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.app import import_logs, new_guard
from treering.capture.intake.log_search import LogFolder, all_log_folders, find_files, log_folders
from treering.capture.intake.probe import ASK
from treering.capture.quarantine import note_faults
from treering.clock import now_ms
from treering.errors import InvalidInput, InvalidScope
from treering.formats.registry import left_out_by
from treering.model.intakes import NOT_A_LOG, Fault, ImportReceipt, SourceReceipt
from treering.surfaces.cli.commands import fail, invocation, show
from treering.surfaces.cli.declare import argument, command, find_scope, flag, option
from treering.surfaces.cli.ledgers import MEMORY, database_path, open_to_write
from treering.surfaces.cli.output import note, say
from treering.surfaces.cli.progress import counting, transferring
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.shared.texts import counted, days
from treering.surfaces.shared.times import ago, parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
FAULTS_SHOWN: Final = 5
"""Files with faults of one sort that are named."""
REASONS_SHOWN: Final = 3
REFUSED_SHOWN: Final = 5
SCOPES_SHOWN: Final = 8
ENDINGS_SHOWN: Final = 5
SOON_DAYS: Final = 7
"""Warn of a log that will be deleted within this many days."""
_DAY_MS: Final = 86_400_000


@command(
    scope="each",
    examples="""
    treering import
    treering import --dry-run
    treering import ~/.claude/projects ~/.codex/sessions
    treering import session.jsonl --scope acme/app
    treering import --home /mnt/c/Users/jo
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
def import_(
    *,
    scope: Scope | None,
    paths: Sequence[Path] = argument(
        nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]..."
    ),
    since: str | None = option(
        "WHEN", "Only files changed since then: 3d, a date, or milliseconds."
    ),
    dry_run: bool = flag("Show what would be imported, and write nothing."),
    again: bool = flag(
        "Read unchanged files again, too, and replace what an older reader derived."
    ),
    home: Path | None = option(
        "DIR",
        "Search this home folder instead of yours: of another user, or of Windows.",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
    ),
    no_index: bool = flag("Do not index now; the first search does it."),
    verbose: bool = flag("List every reason and every fault.", "-v", "--verbose"),
) -> None:
    """Import the logs of agents: Claude Code, Codex, Copilot, Gemini, Qwen and others.

    Without a PATH, it searches all the places where agents keep their logs. A PATH is a file or a
    folder; the format is detected from the content. docs/how-to/importing.md lists the agents.

    Importing again never duplicates events; a log that has grown is read from where the last
    import stopped. Secrets are masked. Logs are only read, never changed.

    Every line is accounted for: imported, known already, skipped for a reason, or in error with
    its file, line and offset. Imported events stay when the agent deletes its log.
    """
    at_ms = now_ms()
    since_ms = parse_moment(since, now_ms=at_ms, flag="--since")
    check_home(paths, home)
    if not paths:
        outlines = outline(home)
        if not invocation().as_json:
            print_outlines(outlines, at_ms=at_ms, home=home)
        paths = [folder.place.root for folder in outlines]
    with _ledger(dry_run=dry_run) as ledger:
        with transferring("importing") as progress:
            receipt = import_logs(
                ledger,
                paths,
                scope=scope,
                since_ms=since_ms,
                dry_run=dry_run,
                again=again,
                parallel=True,
                progress=progress,
                report=None if dry_run else keep_faults,
            )
        if not (dry_run or no_index):
            with counting("indexing", "events") as progress:
                for name in receipt.by_scope:
                    ledger.admin.index(name, progress=progress)
    warn(receipt, verbose=verbose)
    if others := not_logs(receipt, paths):
        fail(
            receipt,
            f"nothing was imported: {others}",
            code="not_a_log",
            hint="name a log of an agent that Treering reads, or a folder of logs; without a PATH,"
            f" all places where these agents keep logs are searched. {ASK}",
        )
    if _unclaimed(receipt) and not invocation().as_json:
        note(ASK)
    show(receipt, *report(receipt, paths, verbose=verbose), done="the logs were imported")
    if receipt.unreadable:
        click.get_current_context().exit(1)


@contextlib.contextmanager
def _ledger(*, dry_run: bool) -> Iterator[Ledger]:
    """Open the ledger; a dry run does not create one."""
    path = database_path()
    missing = "://" not in path and path != MEMORY and not Path(path).exists()
    if dry_run and missing:
        invocation().database = MEMORY
    with open_to_write() as ledger:
        yield ledger


def keep_faults(source: SourceReceipt) -> None:
    """Set aside which lines of a file could not be recorded, for ``treering doctor`` to show."""
    # The receipt is valid even if the note cannot be written.
    with contextlib.suppress(OSError):
        note_faults(source, new_guard())


def warn(receipt: ImportReceipt, *, verbose: bool) -> None:
    """Report what could not be imported, on standard error."""
    if invocation().as_json:
        return
    _warn_of_faults(receipt, verbose=verbose)
    for path in receipt.unreadable[:REFUSED_SHOWN]:
        note(f"nothing of {path} can be read: it is damaged, or its permissions forbid it")
    if len(receipt.unreadable) > REFUSED_SHOWN:
        note(f"… and {len(receipt.unreadable) - REFUSED_SHOWN:,} more; --json names them")
    refused = [
        source
        for source in receipt.sources
        if source.state == "refused" and left_out_by(Path(source.file)) != source.reason
    ]
    for source in refused[:REFUSED_SHOWN]:
        note(f"{source.file} was left out: {source.reason}")
    if len(refused) > REFUSED_SHOWN:
        note(f"… and {counted(len(refused) - REFUSED_SHOWN, 'more file')} left out")


def _warn_of_faults(receipt: ImportReceipt, *, verbose: bool) -> None:
    """Report lines in error: each of them, or the first of its sort in a file."""
    alike: dict[tuple[str, str, int], list[Fault]] = {}
    for fault in receipt.faults:
        alike.setdefault((fault.file, fault.reason, fault.line if verbose else 0), []).append(fault)
    shown = list(alike.values())[: None if verbose else FAULTS_SHOWN]
    for fault, *others in shown:
        more = f", and {counted(len(others), 'more such line')}" if others else ""
        note(f"{fault.file}, line {fault.line}, byte {fault.offset}: {fault.reason}{more}")
    left = receipt.errors - sum(map(len, shown))
    if left:
        how = "--json names" if verbose else "-v and --json name"
        note(f"… and {left:,} more; {how} up to 100")


def not_logs(receipt: ImportReceipt, paths: Sequence[Path]) -> str:
    """Return what is wrong with the files that were named, if no reader understands any of them.

    Empty otherwise: in a folder, files that are not logs are to be expected.
    """
    refused = _unclaimed(receipt)
    named = {str(path) for path in paths}
    if not named or not named <= refused:
        return ""
    if len(named) == 1:
        return f"{next(iter(named))} is {NOT_A_LOG}"
    return f"none of the {len(named):,} files is a log Treering can read"


def _unclaimed(receipt: ImportReceipt) -> set[str]:
    """Return the files that no reader claims."""
    return {
        source.file
        for source in receipt.sources
        if source.state == "refused" and (source.reason or "").startswith(NOT_A_LOG)
    }


def report(receipt: ImportReceipt, paths: Sequence[Path], *, verbose: bool) -> Iterator[str]:
    """Yield the lines that report what was imported, and what to do next.

    ``paths`` are the files and folders that were named or found. Few reasons are listed unless
    ``verbose``: most skipped lines repeat another one.
    """
    read = receipt.files + receipt.files_unchanged + receipt.files_refused
    if paths and not (read or receipt.others or receipt.unreadable):
        yield f"found nothing to import in {', '.join(str(path) for path in paths)}"
        return
    done = "would import" if receipt.dry_run else "imported"
    sessions = counted(receipt.sessions, "session")
    subagents = f" and {counted(receipt.subagents, 'subagent')}" if receipt.subagents else ""
    new = f", {receipt.sessions_new:,} of them new" if receipt.sessions_new else ""
    yield f"{done} {counted(receipt.events, 'event')} of {sessions}{subagents}{new}"
    if receipt.lines:
        yield (
            f"lines: {receipt.lines:,} = {receipt.imported:,} imported"
            f" + {receipt.duplicates:,} known already"
            f" + {sum(receipt.skipped.values()):,} skipped + {receipt.errors:,} in error"
        )
    shown_max = None if verbose else REASONS_SHOWN
    for verb, reasons in (("skipped", receipt.skipped), ("mended", receipt.mended)):
        counts = Counter(reasons).most_common()
        yield from (f"  {verb} {count:,}: {reason}" for reason, count in counts[:shown_max])
        if rest := counts[len(counts) if shown_max is None else shown_max :]:
            lines = sum(count for _, count in rest)
            others = counted(len(rest), "other reason")
            yield f"  {verb} {lines:,} for {others}: -v lists them"
    if receipt.replaced:
        yield f"erased what an older reader derived: {counted(receipt.replaced, 'event')}"
    if receipt.files_unchanged:
        yield f"unchanged files, not read again: {receipt.files_unchanged:,}"
    yield from _left_out(receipt)
    scopes = sorted(receipt.by_scope.items(), key=lambda item: -item[1])
    for scope, count in scopes[:SCOPES_SHOWN]:
        yield f"  scope {scope}: {counted(count, 'event')}"
    if len(scopes) > SCOPES_SHOWN:
        yield f"  … and {counted(len(scopes) - SCOPES_SHOWN, 'more scope')}"
    if scopes and not receipt.dry_run:
        named = _suggested(receipt.by_scope)
        yield f"list them: treering sessions list --scope {named}"
        yield f"search them: treering search WORDS --scope {named}"


def _suggested(by_scope: Mapping[str, int]) -> str:
    """Return the scope of this folder, if something was imported into it; else the largest."""
    with contextlib.suppress(InvalidScope):
        if (own := find_scope(None, is_global=False)) in by_scope:
            return own
    return max(by_scope, key=lambda scope: by_scope[scope])


def _left_out(receipt: ImportReceipt) -> Iterator[str]:
    """Return the lines on files that repeat others, or are not logs by their names."""
    reasons = Counter(
        source.reason
        for source in receipt.sources
        if source.state == "refused"
        and source.reason
        and left_out_by(Path(source.file)) == source.reason
    )
    if reasons:
        sorts = (f"{reason} ({count:,})" for reason, count in reasons.most_common())
        yield f"files left out, because they repeat others: {', '.join(sorts)}"
    if receipt.others:
        endings = [f"{ending} ({count:,})" for ending, count in receipt.others.items()]
        more = ["…"] if len(endings) > ENDINGS_SHOWN else []
        listed = ", ".join([*endings[:ENDINGS_SHOWN], *more])
        yield f"files skipped, not logs by their names: {listed}"
        yield f"  such as {receipt.others_named[0]}; --json names {_named(receipt)}"


def _named(receipt: ImportReceipt) -> str:
    count = len(receipt.others_named)
    return "them" if count == sum(receipt.others.values()) else f"the first {count:,}"


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The logs in one place."""

    place: LogFolder
    files: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None


def outline(home: Path | None = None) -> list[Outline]:
    """Return what is in each of the known places that are there."""
    return [_outline(folder) for folder in log_folders(home)]


def check_home(paths: Sequence[Path], home: Path | None) -> None:
    """Check that another home is not named together with paths. Raises InvalidInput."""
    if paths and home is not None:
        raise InvalidInput("--home and PATH exclude each other", hint="give only one of them")


def print_outlines(outlines: Sequence[Outline], *, at_ms: int, home: Path | None = None) -> None:
    """Print what was found, and warn of what is deleted soon."""
    if not any(outline.files for outline in outlines):
        say("no logs of agents were found; name a file or a folder: treering import PATH")
        say("these folders were searched:")
        for folder in all_log_folders(home):
            say(f"  {folder.root}  ({folder.agent})")
        return
    print_table(
        (
            Column("agent", colour="cyan"),
            Column("logs"),
            Column("size"),
            Column("oldest", leaves=2),
            Column("newest", leaves=1),
            Column("kept"),
            Column("folder", is_dim=True),
        ),
        [_row(logs, at_ms) for logs in outlines],
        # Other tables count sessions; these numbers are of logs.
        is_titled=True,
    )
    for logs in outlines:
        soon = deleted_soon(logs, at_ms=at_ms)
        if soon is not None:
            note(soon)


def deleted_soon(logs: Outline, *, at_ms: int) -> str | None:
    """Return a warning if an agent will delete its logs soon, and how to prevent it."""
    keeping = logs.place.keeping
    if keeping.days is None or logs.oldest_ms is None:
        return None
    left = keeping.days - (at_ms - logs.oldest_ms) / _DAY_MS
    if left > SOON_DAYS:
        return None
    when = "at any moment" if left < 1 else f"in {counted(int(left), 'day')}"
    remedy = f"; to prevent it, {keeping.remedy}" if keeping.remedy else ""
    return (
        f"{logs.place.agent} keeps its logs for {days(keeping.days)} ({keeping.source}) and"
        f" deletes the oldest {when}{remedy}"
    )


def size(number: int) -> str:
    """Return a number of bytes as people say it."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError


def _outline(folder: LogFolder) -> Outline:
    files = count = 0
    times: list[int] = []
    for file in find_files([folder.root]):
        if file.left_out is not None:
            continue
        try:
            status = file.path.stat()
        except OSError:
            continue  # It is gone since.
        files += 1
        count += status.st_size
        times.append(status.st_mtime_ns // 1_000_000)
    return Outline(
        place=folder,
        files=files,
        bytes=count,
        oldest_ms=min(times, default=None),
        newest_ms=max(times, default=None),
    )


def _row(logs: Outline, at_ms: int) -> list[str]:
    keeping = logs.place.keeping
    return [
        logs.place.agent,
        f"{logs.files:,}",
        size(logs.bytes),
        "" if logs.oldest_ms is None else ago(logs.oldest_ms, now_ms=at_ms),
        "" if logs.newest_ms is None else ago(logs.newest_ms, now_ms=at_ms),
        "forever" if keeping.days is None else days(keeping.days),
        str(logs.place.root),
    ]
