"""What agents keep on this machine: how many logs, how old, how large, and for how long still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.capture.intake.log_search import find_files
from treering.capture.log_folders import LogFolder, all_log_folders, log_folders
from treering.surfaces.cli.output import counted, days, note, say
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.cli.times import ago

if TYPE_CHECKING:
    from collections.abc import Sequence

SOON_DAYS: Final = 7
"""Warn of a log that will be deleted within this many days."""
_DAY_MS: Final = 86_400_000


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The logs in one place."""

    place: LogFolder
    files: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None


def outline() -> list[Outline]:
    """Return what is in each of the known places that are there."""
    return [_outline(folder) for folder in log_folders()]


def print_outlines(outlines: Sequence[Outline], *, at_ms: int) -> None:
    """Print what was found, and warn of what is deleted soon."""
    if not any(outline.files for outline in outlines):
        say("no logs of agents were found; name a file or a folder: treering import PATH")
        say("these folders were searched:")
        for folder in all_log_folders():
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
