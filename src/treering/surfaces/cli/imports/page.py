"""The outcome of an import, for people."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.capture.intake.log_search import repeats_others
from treering.surfaces.cli.commands import invocation
from treering.surfaces.cli.output import counted, note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.model.intakes import ImportReceipt

FAULTS_SHOWN: Final = 10
REFUSED_SHOWN: Final = 5
SCOPES_SHOWN: Final = 8
ENDINGS_SHOWN: Final = 5


def keep_faults(receipt: ImportReceipt) -> None:
    """Set aside which lines could not be recorded, for ``treering doctor`` to show."""
    if receipt.dry_run:
        return
    from treering.app import new_guard  # noqa: PLC0415
    from treering.capture.quarantine import note_faults  # noqa: PLC0415  (not for --help)

    # The receipt is valid even if the note cannot be written.
    with contextlib.suppress(OSError):
        note_faults(receipt.sources, new_guard())


def warn(receipt: ImportReceipt) -> None:
    """Report what could not be imported, on standard error."""
    if invocation().as_json:
        return
    for fault in receipt.faults[:FAULTS_SHOWN]:
        note(f"{fault.file}, line {fault.line}, byte {fault.offset}: {fault.reason}")
    if receipt.errors > FAULTS_SHOWN:
        note(f"… and {receipt.errors - FAULTS_SHOWN:,} more; --json names up to 100")
    for path in receipt.unreadable[:REFUSED_SHOWN]:
        note(f"nothing of {path} can be read: it is damaged, or its permissions forbid it")
    if len(receipt.unreadable) > REFUSED_SHOWN:
        note(f"… and {len(receipt.unreadable) - REFUSED_SHOWN:,} more; --json names them")
    refused = [
        source
        for source in receipt.sources
        if source.state == "refused" and repeats_others(Path(source.file)) != source.reason
    ]
    for source in refused[:REFUSED_SHOWN]:
        note(f"{source.file} was left out: {source.reason}")
    if len(refused) > REFUSED_SHOWN:
        note(f"… and {counted(len(refused) - REFUSED_SHOWN, 'more file')} left out")


def report(receipt: ImportReceipt, paths: Sequence[Path]) -> Iterator[str]:
    """Yield the lines that report what was imported, and what to do next.

    ``paths`` are the files and folders that were named or found.
    """
    read = receipt.files + receipt.files_unchanged + receipt.files_refused
    if paths and not (read or receipt.others or receipt.unreadable):
        yield f"found nothing to import in {', '.join(str(path) for path in paths)}"
        return
    verb = "would import" if receipt.dry_run else "imported"
    sessions = counted(receipt.sessions, "session")
    subagents = f" and {counted(receipt.subagents, 'subagent')}" if receipt.subagents else ""
    new = f", {receipt.sessions_new:,} of them new" if receipt.sessions_new else ""
    yield f"{verb} {counted(receipt.events, 'event')} of {sessions}{subagents}{new}"
    if receipt.lines:
        yield (
            f"lines: {receipt.lines:,} = {receipt.imported:,} imported"
            f" + {receipt.duplicates:,} known already"
            f" + {sum(receipt.skipped.values()):,} skipped + {receipt.errors:,} in error"
        )
    for reason, count in sorted(receipt.skipped.items(), key=lambda item: -item[1]):
        yield f"  skipped {count:,}: {reason}"
    for what, count in receipt.mended.items():
        yield f"  mended {count:,}: {what}"
    if receipt.files_unchanged:
        yield f"unchanged files, not read again: {receipt.files_unchanged:,}"
    yield from _left_out(receipt)
    scopes = sorted(receipt.by_scope.items(), key=lambda item: -item[1])
    for scope, count in scopes[:SCOPES_SHOWN]:
        yield f"  scope {scope}: {counted(count, 'event')}"
    if len(scopes) > SCOPES_SHOWN:
        yield f"  … and {counted(len(scopes) - SCOPES_SHOWN, 'more scope')}"
    if scopes and not receipt.dry_run:
        first = scopes[0][0]
        yield f"list them: treering sessions list --scope {first}"
        yield f"search them: treering search WORDS --scope {first}"


def _left_out(receipt: ImportReceipt) -> Iterator[str]:
    """Return the lines on files that repeat others, or are not logs by their names."""
    reasons = Counter(
        source.reason
        for source in receipt.sources
        if source.state == "refused"
        and source.reason
        and repeats_others(Path(source.file)) == source.reason
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
