"""The logs of agents on this machine: whether they are imported, complete, and kept for long."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from treering.capture.health import (
    CUT_OFF,
    FILES_MAX,
    log_files,
    look_at,
    unreadable_folders,
)
from treering.capture.log_folders import log_folders
from treering.surfaces.cli.doctor.findings import DoctorFinding, some
from treering.surfaces.cli.imports.survey import Outline, deleted_soon
from treering.surfaces.cli.output import counted, days

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering.capture.health import LogHealth
    from treering.capture.log_folders import LogFolder
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope


CLAUDE_CODE: Final = "claude-code"


def look(ledger: Ledger | None, scope: Scope | None, at_ms: int) -> Iterator[DoctorFinding]:
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
    forbidden = [folder for place in places for folder in unreadable_folders(place.root)]
    if forbidden:
        yield DoctorFinding(
            level="warning",
            code="unreadable_logs",
            message=f"{agent}: {counted(len(forbidden), 'folder')} may not be read",
            fix="check the permissions",
            items=some(iter(forbidden), of=len(forbidden)),
        )
    files = sorted(
        (pair for place in places for pair in log_files(place.root)),
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
