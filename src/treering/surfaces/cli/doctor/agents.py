"""What agents keep on this machine: their logs, the hooks, the spool, and lines set aside."""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.adapters.backlog import WRITES_FOLDER
from treering.capture.health import CUT_OFF, FILES_MAX, log_files, look_at, unreadable_folders
from treering.capture.hooks.installing import AGENTS, plan_uninstall
from treering.capture.hooks.settings import HOOKED, found_hooks
from treering.capture.hooks.spool import UNREAD, default_spool, spool_files
from treering.capture.intake.log_search import log_folders
from treering.capture.quarantine import quarantine_folder, quarantined, read_quarantine
from treering.errors import TreeringError
from treering.formats.registry import failed_plugins
from treering.hook import SPOOL_BYTES_MAX
from treering.surfaces.cli.db import sized
from treering.surfaces.cli.imports import Outline, deleted_soon
from treering.surfaces.shared.health import DoctorFinding, some
from treering.surfaces.shared.texts import counted, days
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.capture.health import LogHealth
    from treering.capture.hooks.installing import Plan
    from treering.capture.intake.log_search import LogFolder
    from treering.capture.quarantine import QuarantineEntry
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope


CLAUDE_CODE: Final = "claude-code"
WAITING_MS: Final = 3_600_000
"""What has waited for so long waits for a watch that does not run."""
_BOM: Final = "\ufeff"


def look_at_logs(ledger: Ledger | None, scope: Scope | None, at_ms: int) -> Iterator[DoctorFinding]:
    """Look at the logs of each agent that is known and has any."""
    by_agent = groupby(log_folders(), key=lambda folder: folder.agent)
    any_found = False
    for agent, places in by_agent:
        for finding in _agent(agent, list(places), ledger, scope, at_ms):
            any_found = True
            yield finding
    if not any_found:
        yield DoctorFinding(
            level="ok",
            code="no_logs",
            message="no logs of agents were found on this machine",
            fix="name a file or a folder: treering import PATH",
        )


def _agent(
    agent: str, places: Sequence[LogFolder], ledger: Ledger | None, scope: Scope | None, at_ms: int
) -> Iterator[DoctorFinding]:
    forbidden = [folder for log_folder in places for folder in unreadable_folders(log_folder.root)]
    if forbidden:
        yield DoctorFinding(
            level="warning",
            code="unreadable_logs",
            message=f"{agent}: {counted(len(forbidden), 'folder')} may not be read",
            fix="check the permissions",
            items=some(iter(forbidden), of=len(forbidden)),
        )
    files = sorted(
        (pair for log_folder in places for pair in log_files(log_folder.root)),
        key=lambda pair: -pair[1].st_mtime_ns,
    )
    if not files:
        return
    scopes = () if scope is None else (scope,)
    logs = list(look_at(files, ledger, scopes=scopes, now_ms=at_ms))
    torn = [log for log in logs if log.damage == CUT_OFF]
    if torn:
        yield DoctorFinding(
            level="warning",
            code="torn_logs",
            message=f"{agent}: {counted(len(torn), 'log')} cut off; nothing of it can be read",
            fix="restore it from a copy, if there is one",
            items=some((str(log.path) for log in torn), of=len(torn)),
        )
    if all(log.state == "unknown" for log in logs):
        return  # Databases and the like: nothing is noted of them.
    waiting = [log for log in logs if log.state in {"new", "grown"}]
    yield _taken_in(agent, logs, waiting, of=len(files))
    damaged = [log for log in logs if log.damage is not None and log.state != "unknown"]
    if damaged:
        yield DoctorFinding(
            level="warning",
            code="damaged_logs",
            message=f"{agent}: {counted(len(damaged), 'log')} damaged at the end; the part"
            " before the damage is imported",
            fix=f"treering import {damaged[0].path} names line and byte{_export_of(agent)}",
            items=some((f"{log.path}: {log.damage}" for log in damaged), of=len(damaged)),
        )
    yield _kept(places[0], files, at_ms, is_safe=not waiting and len(files) <= FILES_MAX)


def _export_of(agent: str) -> str:
    """Return how to have a whole log again, if that can be written in the agent's own format."""
    if agent != CLAUDE_CODE:
        return ""
    return f"; a whole one of a session: treering export SESSION --format {CLAUDE_CODE}"


def _taken_in(
    agent: str, logs: Sequence[LogHealth], waiting: Sequence[LogHealth], *, of: int
) -> DoctorFinding:
    among = "" if of <= FILES_MAX else f" (of the newest {FILES_MAX:,} of {of:,})"
    if not waiting:
        number = sum(log.state == "current" for log in logs)
        message = f"{agent}: {counted(number, 'log')} imported, none waits{among}"
        return DoctorFinding(level="ok", code="imported", message=message)
    new = sum(log.state == "new" for log in waiting)
    grown = len(waiting) - new
    parts = [f"{counted(new, 'log')} not imported yet"] * bool(new)
    parts += [f"{counted(grown, 'log')} grown since the import"] * bool(grown)
    return DoctorFinding(
        level="warning",
        code="not_imported",
        message=f"{agent}: {', '.join(parts)}{among}",
        fix="treering import",
        items=some((str(log.path) for log in waiting), of=len(waiting)),
    )


def _kept(
    folder: LogFolder,
    files: Sequence[tuple[Path, os.stat_result]],
    at_ms: int,
    *,
    is_safe: bool,
) -> DoctorFinding:
    """Say how long an agent keeps its logs, and whether it deletes some soon."""
    keeping = folder.keeping
    times = [status.st_mtime_ns // 1_000_000 for _, status in files]
    outline = Outline(
        place=folder,
        files=len(files),
        bytes=sum(status.st_size for _, status in files),
        oldest_ms=min(times),
        newest_ms=max(times),
    )
    soon = deleted_soon(outline, at_ms=at_ms)
    if soon is None or keeping.days is None:
        span = "for as long as nobody deletes them" if keeping.days is None else (
            f"for {days(keeping.days)}"
        )  # fmt: skip
        message = f"{folder.agent} keeps its logs {span} ({keeping.source})"
        return DoctorFinding(level="ok", code="log_retention", message=message, fix=keeping.remedy)
    message = soon.partition("; to prevent it, ")[0]
    if is_safe:
        return DoctorFinding(
            level="ok",
            code="log_retention_soon",
            message=f"{message}; all of them are imported",
            fix=keeping.remedy,
        )
    remedy = "" if keeping.remedy is None else f"; or {keeping.remedy}"
    return DoctorFinding(
        level="warning",
        code="log_retention_soon",
        message=f"{message}, and not all are imported",
        fix=f"treering import{remedy}",
    )


def look_at_readers() -> Iterator[DoctorFinding]:
    """Name the plug-ins for other agents' logs that cannot be used."""
    for plugin in failed_plugins():
        yield DoctorFinding(
            level="warning",
            code="reader_failed",
            message=f"the reader {plugin.name} cannot be used: {plugin.reason}",
            fix="update or remove its package; docs/how-to/add-a-reader.md says what a reader is",
        )


def look_at_hooks() -> Iterator[DoctorFinding]:
    """Say which of the agents on this machine have our hooks, and whether those work."""
    for agent in AGENTS:
        try:
            plan = plan_uninstall(agent, home=Path.home(), environment=os.environ)
        except TreeringError as error:
            yield DoctorFinding(
                level="warning",
                code="settings_unclear",
                message=f"{agent}: cannot tell whether it has hooks: {error}",
                fix=error.hint,
            )
            continue
        if plan.settings.parent.is_dir():
            yield _hooks(agent, plan)


def look_at_spool(at_ms: int) -> Iterator[DoctorFinding]:
    """Say whether something waits in the spool."""
    folder = default_spool()
    waiting = _waiting(folder)
    if waiting:
        size = sum(status.st_size for status in waiting)
        oldest_ms = min(status.st_mtime_ns for status in waiting) // 1_000_000
        is_full = size >= SPOOL_BYTES_MAX
        is_old = at_ms - oldest_ms > WAITING_MS
        yield DoctorFinding(
            level="warning" if is_full or is_old else "ok",
            code="spool_full" if is_full else "spool_waiting",
            message=f"{sized(size)} of hook notices wait in {folder},"
            f" the oldest since {ago(oldest_ms, now_ms=at_ms)}"
            f"{': it is full, and takes no more' if is_full else ''}",
            fix="treering watch --once",
        )
    else:
        yield DoctorFinding(level="ok", code="spool", message="the spool is empty")
    yield from _writes(folder / WRITES_FOLDER, at_ms)
    unread = folder / UNREAD
    if entries := read_quarantine(unread):
        yield _set_aside("spool_unread", "of hooks", unread, entries)


def look_at_quarantine() -> Iterator[DoctorFinding]:
    """Say which lines of spools and logs could not be recorded."""
    for path, entries in quarantined(quarantine_folder()):
        sources = dict.fromkeys(entry.source for entry in entries if entry.source)
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        yield _set_aside("lines_unread", f"of {next(iter(sources), '?')}{more}", path, entries)


def _set_aside(code: str, whose: str, path: Path, entries: list[QuarantineEntry]) -> DoctorFinding:
    reasons = Counter[str]()
    for entry in entries:
        reasons[entry.reason] += entry.lines
    lines = counted(reasons.total(), "line")
    why = "; ".join(f"{reason} ({number:,})" for reason, number in reasons.most_common(3))
    return DoctorFinding(
        level="warning",
        code=code,
        message=f"{lines} {whose} could not be recorded: {why}",
        fix=f"look at {path}, then remove it",
    )


def _hooks(agent: str, plan: Plan) -> DoctorFinding:
    if not plan.changes:
        return DoctorFinding(
            level="ok",
            code="no_hooks",
            message=f"{agent} has no Treering hooks; treering watch follows its logs without them",
            fix=f"treering install {agent}",
        )
    program = _program(agent, plan)
    if program is not None and program.is_absolute() and not program.is_file():
        return DoctorFinding(
            level="error",
            code="hooks_broken",
            message=f"the hooks of {agent} call {program}, which does not exist",
            fix=f"treering install {agent}",
        )
    return DoctorFinding(
        level="ok", code="hooks", message=f"{agent} has Treering hooks in {plan.settings}"
    )


def _program(agent: str, plan: Plan) -> Path | None:
    """Return the program that the hooks of an agent call; None if it calls none."""
    before = plan.changes[0].before
    if agent not in HOOKED or before is None:
        return None
    return found_hooks(before.decode(errors="replace").removeprefix(_BOM), HOOKED[agent])[0]


def _writes(folder: Path, at_ms: int) -> Iterator[DoctorFinding]:
    """Say whether adapters could not record something."""
    parts = [part for below in folder.glob("*/") for part in _waiting(below)]
    if parts:
        size = sum(status.st_size for status in parts)
        oldest_ms = min(status.st_mtime_ns for status in parts) // 1_000_000
        yield DoctorFinding(
            level="warning",
            code="writes_waiting",
            message=f"{sized(size)} of adapters could not be recorded, and wait in {folder},"
            f" the oldest since {ago(oldest_ms, now_ms=at_ms)}",
            fix="use the same adapter on the same ledger again: it records them",
        )


def _waiting(folder: Path) -> list[os.stat_result]:
    return [status for _, status in spool_files(folder) if status.st_size > 0]
