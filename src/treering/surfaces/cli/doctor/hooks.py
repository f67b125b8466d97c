"""Hooks in other agents, and what they have left in the spool."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.capture.hooks.installing import AGENTS, plan_uninstall
from treering.capture.hooks.settings import HOOKED, found_hooks
from treering.capture.hooks.spool import UNREAD, default_spool, spool_files
from treering.capture.quarantine import quarantine_folder, quarantined, read_quarantine
from treering.errors import TreeringError
from treering.hook import SPOOL_BYTES_MAX
from treering.surfaces.cli.doctor.findings import DoctorFinding
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.status import sized
from treering.surfaces.cli.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.hooks.installing import Plan
    from treering.capture.quarantine import QuarantineEntry

WAITING_MS: Final = 3_600_000
"""What has waited for so long waits for a watch that does not run."""
_BOM: Final = "\ufeff"


def look() -> Iterator[DoctorFinding]:
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
            message=f"the hooks of {agent} call {program}, which is not there",
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


def _waiting(folder: Path) -> list[os.stat_result]:
    return [status for _, status in spool_files(folder) if status.st_size > 0]
