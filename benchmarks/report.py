"""The table of results: what was measured, what was aimed at, and whether it was met."""

import os
import platform
import sqlite3
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import apsw
import msgspec

PACKAGES: Final = (
    "treering", "apsw", "psycopg", "msgspec", "eventsourcing", "openai-agents",
    "langgraph-checkpoint-sqlite", "google-adk",
)  # fmt: skip


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None
    """None where nothing was aimed at, or nothing could be measured."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one subject, and how to read them."""

    title: str
    rows: list[Row]
    notes: list[str] = []


def at_most(what: str, value: float, limit: float, shown: str, unit: str = "x") -> Row:
    """Return a row that is met by a small value."""
    return Row(
        what=what, measured=shown, target=f"≤ {_number(limit)} {unit}".strip(), met=value <= limit
    )


def at_least(what: str, value: float, limit: float, shown: str, unit: str = "x") -> Row:
    """Return a row that is met by a large value."""
    return Row(
        what=what, measured=shown, target=f"≥ {_number(limit)} {unit}".strip(), met=value >= limit
    )


def against(
    what: str, ours_s: Sequence[float], bare_s: Sequence[float], limit: float | None = None
) -> Row:
    """Return a row that compares the median of our times with that of the bare table's."""
    ours, bare = (statistics.median(seconds) * 1e6 for seconds in (ours_s, bare_s))
    shown = f"{ours / bare:.2f} x ({ours:,.1f} : {bare:,.1f} µs)"
    if limit is None:
        return Row(what=what, measured=shown)
    return at_most(what, ours / bare, limit, shown)


def markdown(sections: Sequence[Section], *, minutes: float, source: str) -> str:
    """Return the whole report."""
    lines = [
        "# Results",
        "",
        "Written by `make bench`. Ratios are what count: contestants take turns in shuffled",
        "rounds, so that whatever else the machine does hits them alike; medians throughout.",
        "",
        f"- {_machine()}",
        f"- {_versions()}",
        f"- {datetime.now(UTC):%Y-%m-%d}, {minutes:.0f} minutes, source {source}",
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", *_table(section.rows)]
        lines += ["", *(f"- {note}" for note in section.notes)] if section.notes else []
    return "\n".join([*lines, ""])


def plain(section: Section) -> str:
    """Return a section for the terminal."""
    wide = max(len(row.what) for row in section.rows)
    return "\n".join(
        f"  {row.what:{wide}}  {row.measured}"
        + (f"  [{row.target}: {_verdict(row)}]" if row.target else "")
        for row in section.rows
    )


def _table(rows: Sequence[Row]) -> list[str]:
    return [
        "| what | measured | target | met? |",
        "|---|---|---|---|",
        *(f"| {row.what} | {row.measured} | {row.target} | {_verdict(row)} |" for row in rows),
    ]


def _verdict(row: Row) -> str:
    if row.met is None:
        return "-" if not row.target else "not measured"
    return "yes" if row.met else "**no**"


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()},"
        f" {_processor()}, {os.cpu_count()} cores, {memory:.0f} GB"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def _versions() -> str:
    found = [
        f"Python {sys.version.split()[0]}",
        f"SQLite {apsw.sqlite_lib_version()} (peers: {sqlite3.sqlite_version})",
    ]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)
