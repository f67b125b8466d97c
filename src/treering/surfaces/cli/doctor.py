"""``treering doctor``: check everything, and give a remedy for each problem."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from treering.adapters.backlog import WRITES_FOLDER
from treering.app import administer
from treering.capture.health import (
    CUT_OFF,
    FILES_MAX,
    damage_in,
    log_files,
    look_at,
    unreadable_folders,
)
from treering.capture.hooks.installing import AGENTS, Plan, plan_uninstall
from treering.capture.hooks.settings import HOOKED, found_hooks
from treering.capture.hooks.spool import UNREAD, default_spool, spool_files
from treering.capture.intake.log_search import LogFolder, log_folders
from treering.capture.quarantine import quarantine_folder, quarantined, read_quarantine
from treering.clock import now_ms
from treering.errors import InvalidScope, NotFound, NotPermitted, TreeringError
from treering.formats.registry import failed_plugins
from treering.hook import SPOOL_BYTES_MAX
from treering.model.fields import instant
from treering.surfaces.cli.commands import invocation, kind_of
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.context import explain_all
from treering.surfaces.cli.db import sized
from treering.surfaces.cli.declare import argument, command, flag
from treering.surfaces.cli.finding import open_session
from treering.surfaces.cli.imports import Outline, deleted_soon
from treering.surfaces.cli.ledgers import (
    MEMORY,
    catching_up,
    database_path,
    is_on_server,
    open_to_ask,
    shown,
)
from treering.surfaces.cli.output import painted, print_receipt, say, say_painted, writing_output
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.tables import say_folded
from treering.surfaces.shared.health import (
    CONTEXT_TOKENS,
    LEVELS,
    DoctorFinding,
    check_scope,
    counts,
    failure,
    masked,
    passed,
    safely,
    some,
    warning,
)
from treering.surfaces.shared.session_commands import origin_of, resuming, scope_flag
from treering.surfaces.shared.texts import Mask, counted, days, in_words, one_line, scope_names
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.capture.health import LogHealth
    from treering.capture.quarantine import QuarantineEntry
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.messages import RepairCode
    from treering.model.receipts import Verification
    from treering.model.scopes import Scope

_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_MARGIN: Final = max(map(len, LEVELS)) + 2


@command(
    scope="optional",
    examples="""
    treering doctor
    treering doctor --quick --json
    treering doctor main:telegram:jo --scope acme/app
    """,
)
def doctor(
    *,
    scope: Scope | None,
    session: str | None = argument(required=False, shell_complete=complete_session),
    quick: bool = flag("Skip the proof of the ledger, which reads all of it."),
) -> None:
    """Check the ledger, the logs of agents on this machine, and what connects them.

    Each check is ok, a warning or an error, and says what to do. With a SESSION it checks what
    has to be repaired in the context of its model, and whether its log still exists. Nothing is
    changed, except that runs of dead processes are closed. The exit status is 1 if there is an
    error.
    """
    context = click.get_current_context()
    is_named = context.params["scope"] is not None or context.params["is_global"]
    at_ms = now_ms()
    mask = Mask()
    with contextlib.ExitStack() as stack:
        ledger, results = _open(stack)
        if session is not None:
            results += _of_session(ledger, scope, session, at_ms, results)
        else:
            results += _of_all(ledger, scope, at_ms, quick=quick, is_named=is_named)
    findings = [masked(finding, mask) for finding in results]
    body: dict[str, Any] = {
        "scope": scope,
        "ledger": shown(database_path()),
        "session": session,
        "quick": quick,
        "counts": counts(findings),
        "findings": findings,
    }
    is_well = not any(finding.level == "error" for finding in findings)
    with writing_output():
        if invocation().as_json:
            print_receipt(kind_of(context), body, ok=is_well)
        else:
            print_findings(findings)
    if not is_well:
        context.exit(1)


def _open(stack: contextlib.ExitStack) -> tuple[Ledger | None, list[DoctorFinding]]:
    """Open the ledger, or say why that cannot be done."""
    try:
        return stack.enter_context(open_to_ask()), []
    except NotFound:
        return None, [
            warning(
                "no_ledger", f"no ledger at {shown(database_path())} yet", fix="treering import"
            )
        ]
    except TreeringError as error:
        return None, [failure(error.code, f"the ledger cannot be opened: {error}", fix=error.hint)]


def _of_all(
    ledger: Ledger | None, scope: Scope | None, at_ms: int, *, quick: bool, is_named: bool
) -> Iterator[DoctorFinding]:
    if ledger is not None:
        yield from safely("the ledger", look_at_ledger)
        yield from safely("writers", look_at_writers)
        yield from safely("erasure", lambda: look_at_erasure(ledger))
        yield from safely("the key of ids", lambda: look_at_id_key(ledger))
        proved = scope if is_named else None
        if not quick:
            yield from safely("the proof", lambda: prove(ledger, proved, scope))
        if scope is None:
            yield passed(
                "scope",
                "no scope was checked: the name of this folder is not a valid scope",
                fix="treering doctor --scope acme/app",
            )
        else:
            with catching_up() as progress:
                yield from check_scope(ledger, scope, at_ms, progress=progress)
    for what, check in (
        ("logs of agents", lambda: look_at_logs(ledger, scope, at_ms)),
        ("readers", look_at_readers),
        ("hooks", look_at_hooks),
        ("the spool", lambda: look_at_spool(at_ms)),
        ("lines set aside", look_at_quarantine),
    ):
        yield from safely(what, check, level="warning")


def _of_session(
    ledger: Ledger | None,
    scope: Scope | None,
    session: str,
    at_ms: int,
    findings: list[DoctorFinding],
) -> Iterator[DoctorFinding]:
    """Check one session. Raise NotFound if it does not exist."""
    if scope is None:
        raise InvalidScope("a scope is required", hint="name one, as in --scope acme/app")
    if ledger is None:
        raise NotFound(findings[0].message, hint=findings[0].fix)
    return look_at_session(ledger, scope, session, at_ms)


def print_findings(findings: Sequence[DoctorFinding]) -> None:
    """Print findings and their remedies, the worst first, and how many there are."""
    for finding in sorted(findings, key=lambda each: -LEVELS.index(each.level)):
        level = painted(f"{finding.level:<{_MARGIN}}", _COLOURS[finding.level])
        indent = " " * _MARGIN
        say_folded(one_line(finding.message), lead=level, indent=indent)
        for item in finding.items:
            say_painted(painted(f"{indent}  {one_line(item)}", dim=True))
        if finding.fix:
            # Not folded: most of it is commands, to be copied whole.
            say_painted(f"{indent}→ {one_line(finding.fix)}")
    number = counts(findings)
    if number["error"] or number["warning"]:
        parts = (counted(number["error"], "error"), counted(number["warning"], "warning"))
        say(f"{in_words(parts)}; {counted(number['ok'], 'check')} passed")
    else:
        say(f"{counted(number['ok'], 'check')} passed")


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
        yield passed(
            "no_logs",
            "no logs of agents were found on this machine",
            fix="name a file or a folder: treering import PATH",
        )


def _agent(
    agent: str, places: Sequence[LogFolder], ledger: Ledger | None, scope: Scope | None, at_ms: int
) -> Iterator[DoctorFinding]:
    forbidden = [folder for log_folder in places for folder in unreadable_folders(log_folder.root)]
    if forbidden:
        yield warning(
            "unreadable_logs",
            f"{agent}: {counted(len(forbidden), 'folder')} may not be read",
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
        yield warning(
            "torn_logs",
            f"{agent}: {counted(len(torn), 'log')} cut off; nothing of it can be read",
            fix="restore it from a copy, if there is one",
            items=some((str(log.path) for log in torn), of=len(torn)),
        )
    if all(log.state == "unknown" for log in logs):
        return  # Databases and the like: nothing is noted of them.
    waiting = [log for log in logs if log.state in {"new", "grown"}]
    yield _taken_in(agent, logs, waiting, of=len(files))
    damaged = [log for log in logs if log.damage is not None and log.state != "unknown"]
    if damaged:
        yield warning(
            "damaged_logs",
            f"{agent}: {counted(len(damaged), 'log')} damaged at the end; the part"
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
        return passed("imported", f"{agent}: {counted(number, 'log')} imported, none waits{among}")
    new = sum(log.state == "new" for log in waiting)
    grown = len(waiting) - new
    parts = [f"{counted(new, 'log')} not imported yet"] * bool(new)
    parts += [f"{counted(grown, 'log')} grown since the import"] * bool(grown)
    return warning(
        "not_imported",
        f"{agent}: {', '.join(parts)}{among}",
        fix="treering import",
        items=some((str(log.path) for log in waiting), of=len(waiting)),
    )


def _kept(
    folder: LogFolder, files: Sequence[tuple[Path, os.stat_result]], at_ms: int, *, is_safe: bool
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
        return passed(
            "log_retention",
            f"{folder.agent} keeps its logs {span} ({keeping.source})",
            fix=keeping.remedy,
        )
    message = soon.partition("; to prevent it, ")[0]
    if is_safe:
        return passed(
            "log_retention_soon", f"{message}; all of them are imported", fix=keeping.remedy
        )
    remedy = "" if keeping.remedy is None else f"; or {keeping.remedy}"
    return warning(
        "log_retention_soon", f"{message}, and not all are imported", fix=f"treering import{remedy}"
    )


def look_at_readers() -> Iterator[DoctorFinding]:
    """Name the plug-ins for other agents' logs that cannot be used."""
    for plugin in failed_plugins():
        yield warning(
            "reader_failed",
            f"the reader {plugin.name} cannot be used: {plugin.reason}",
            fix="update or remove its package; docs/how-to/add-a-reader.md says what a reader is",
        )


def look_at_hooks() -> Iterator[DoctorFinding]:
    """Say which of the agents on this machine have our hooks, and whether those work."""
    for agent in AGENTS:
        try:
            plan = plan_uninstall(agent, home=Path.home(), environment=os.environ)
        except TreeringError as error:
            yield warning(
                "settings_unclear",
                f"{agent}: cannot tell whether it has hooks: {error}",
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
        yield passed("spool", "the spool is empty")
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
    return warning(
        code, f"{lines} {whose} could not be recorded: {why}", fix=f"look at {path}, then remove it"
    )


def _hooks(agent: str, plan: Plan) -> DoctorFinding:
    if not plan.changes:
        return passed(
            "no_hooks",
            f"{agent} has no Treering hooks; treering watch follows its logs without them",
            fix=f"treering install {agent}",
        )
    program = _program(agent, plan)
    if program is not None and program.is_absolute() and not program.is_file():
        return failure(
            "hooks_broken",
            f"the hooks of {agent} call {program}, which does not exist",
            fix=f"treering install {agent}",
        )
    return passed("hooks", f"{agent} has Treering hooks in {plan.settings}")


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
        yield warning(
            "writes_waiting",
            f"{sized(size)} of adapters could not be recorded, and wait in {folder},"
            f" the oldest since {ago(oldest_ms, now_ms=at_ms)}",
            fix="use the same adapter on the same ledger again: it records them",
        )


def _waiting(folder: Path) -> list[os.stat_result]:
    return [status for _, status in spool_files(folder) if status.st_size > 0]


FREE_BYTES_MIN: Final = 100 * 1024**2
"""With less, the next commit may not find room."""
FREE_BYTES_LOW: Final = 1024**3
LOG_BYTES_HIGH: Final = 256 * 1024**2
"""A write-ahead log grows this long only if a reader blocks its checkpoint."""
HOLD_S: Final = 1.0
"""A commit takes less, unless very much is written at once."""

_FILES: Final = (
    ("ledger", ("",)),
    ("write-ahead log", ("-wal",)),
    ("search index", (".search", ".search-wal")),
    ("memory", (".memory", ".memory-wal")),
)


def look_at_ledger() -> Iterator[DoctorFinding]:
    """Say where the ledger is, how large it is, and whether there is room for more."""
    path = database_path()
    if is_on_server():
        yield from _server(path)
    elif path != MEMORY:
        yield from _file(Path(path))


def look_at_writers() -> Iterator[DoctorFinding]:
    """Say which program holds the write lock without writing, if one does."""
    from treering.storage.sqlite.write_lock import find_holder  # noqa: PLC0415  (loaded by now)

    path = database_path()
    holder = None if is_on_server() or path == MEMORY else find_holder(path)
    deadline = time.monotonic() + HOLD_S
    while holder is not None and not holder.is_stopped and time.monotonic() < deadline:
        time.sleep(HOLD_S / 20)
        again = find_holder(path)
        holder = again if holder.holds_on(again) else None
    if holder is not None:
        yield DoctorFinding(
            level="error" if holder.is_stopped else "warning",
            code="writer_stopped" if holder.is_stopped else "writer_busy",
            message=f"nobody else can write: {holder}",
            fix=holder.remedy,
        )


def look_at_erasure(ledger: Ledger) -> Iterator[DoctorFinding]:
    """Say whether bytes of what was erased are still somewhere in the files."""
    fix = "stop the other programs that have it open: the next one to open it removes them"
    if is_on_server():
        fix = "treering db scrub; treering db status says which tables, and who may"
    if ledger.admin.erasure_state() == "pending":
        yield warning(
            "erasure_pending",
            "bytes of erased events are still in the files of the ledger",
            fix=fix,
        )
    else:
        yield passed("erasure", "no erased bytes are left in its files")
    rekeyed_ms = ledger.importing.rekeyed_ms()
    if rekeyed_ms is not None:
        yield passed(
            "rekeyed",
            f"this ledger was rekeyed on {instant(rekeyed_ms)[:10]}: backups and copies"
            " made before that hold ids from which erased words can be guessed",
            fix="delete backups and copies from before that day, or open them once for writing",
        )


def look_at_id_key(ledger: Ledger) -> Iterator[DoctorFinding]:
    """Say whether the key that hides ids is the one that the ledger was used with."""
    from treering.capture.intake import BOOKMARK_SCOPE  # noqa: PLC0415  (not for --help)

    scopes = sorted({*scope_names(ledger), BOOKMARK_SCOPE})
    strange = [scope for scope in scopes if not ledger.keys.fits_id_key(scope)]
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        yield failure(
            "id_key",
            f"ids.secret in the key folder is missing, or not the one that scope"
            f" {strange[0]}{more} was used with: importing and erasing are refused there",
            fix="put back the right file; if it is lost for good: treering keys ids --accept",
        )


def prove(ledger: Ledger, scope: Scope | None, otherwise: Scope | None) -> Iterator[DoctorFinding]:
    """Prove the ledger, or one scope of it; ``otherwise`` if only the owner may prove it all."""
    with counting("proved", "events") as progress:
        try:
            verification = ledger.admin.verify(scope, progress=progress)
        except NotPermitted:
            if otherwise is None:
                raise
            scope = otherwise
            verification = ledger.admin.verify(scope, progress=progress)
    if verification.intact:
        number = counted(verification.events, "event")
        yield passed("intact", f"the proof holds: {number}")
        yield from _sampled(ledger, scope)
    else:
        yield failure(
            "broken",
            f"the ledger is not as it was recorded: {_place(verification)}",
            fix="keep a copy of it as evidence, then compare with an export: treering verify",
        )


def _sampled(ledger: Ledger, scope: Scope | None) -> Iterator[DoctorFinding]:
    """Compare a sample of derived rows; a ledger without any passes no check."""
    verification = ledger.admin.sample_derived(scope)
    if verification.intact:
        rows = sum((verification.derived_rows or {}).values())
        if rows:
            yield passed(
                "derived", f"derived data matches the events: {counted(rows, 'row')} sampled"
            )
        return
    yield failure(
        "derived_broken",
        f"derived data does not match the events: {_place(verification)}",
        fix="treering rebuild",
    )


def _place(verification: Verification) -> str:
    broken = verification.first_broken
    if broken is None:
        return "the proof fails"
    named = (("scope", broken.scope), ("session", broken.session_id), ("seq", broken.seq))
    location = ", ".join(f"{name} {value}" for name, value in named if value)
    return f"{location}{': ' if location else ''}{broken.fault}: {broken.detail}"


def _file(path: Path) -> Iterator[DoctorFinding]:
    from treering.storage.sqlite.schema import migrations  # noqa: PLC0415  (loaded by now)

    sizes = {name: sum(_size(f"{path}{end}") for end in ends) for name, ends in _FILES}
    parts = ", ".join(f"{name} {sized(size)}" for name, size in sizes.items() if size)
    # Whatever was older is brought up when it is opened; whatever is newer is refused.
    yield passed("ledger", f"{path} opens, schema version {len(migrations())}: {parts}")
    if sizes["write-ahead log"] > LOG_BYTES_HIGH:
        yield warning(
            "long_log",
            f"the write-ahead log has grown to {sized(sizes['write-ahead log'])}:"
            " a program reads the ledger and does not stop",
            fix=f"find it with: lsof {path}-wal",
        )
    yield _room(path)


def _room(path: Path) -> DoctorFinding:
    free = shutil.disk_usage(path.absolute().parent).free
    message = f"{sized(free)} are free on its disk"
    if free >= FREE_BYTES_LOW:
        return passed("disk", message)
    return DoctorFinding(
        level="error" if free < FREE_BYTES_MIN else "warning",
        code="disk_full" if free < FREE_BYTES_MIN else "disk_low",
        message=f"only {message}",
        fix="make room, or move the ledger: treering copy",
    )


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _server(path: str) -> Iterator[DoctorFinding]:
    address = shown(path)
    try:
        status = administer(path).status()
    except NotPermitted:
        yield passed("ledger", f"{address} opens")
        return
    versions = (status.schema_version, status.schema_version_known)
    yield DoctorFinding(
        level="ok" if versions[0] >= versions[1] else "warning",
        code="ledger" if versions[0] >= versions[1] else "schema_old",
        message=f"{address} opens, schema version {versions[0]} of {versions[1]}:"
        f" {sized(status.bytes)}",
        fix=None if versions[0] >= versions[1] else "treering db init",
    )
    if status.differences:
        number = counted(len(status.differences), "change")
        yield failure(
            "schema_changed",
            f"{number} to its walls, triggers or functions: {status.differences[0]}",
            fix="look at them with treering db status; treering db init renews the walls",
        )


WINDOW_TOKENS: Final = 1_000_000
"""How much of its end is checked: no model is shown more."""
_CUTS: Final[frozenset[RepairCode]] = frozenset(
    {
        *("shortened_output", "restarted", "dropped_turn", "dropped_message"),
        *("shortened_message", "summarised", "budget_too_small"),
    }
)
"""What was left out to fit is nothing that is wrong."""


def look_at_session(ledger: Ledger, scope: Scope, text: str, at_ms: int) -> Iterator[DoctorFinding]:
    """Check one session. Raise NotFound if it does not exist."""
    session = open_session(ledger, scope, text)
    findings = [
        *safely("its context", lambda: _repairs(ledger, scope, session)),
        *safely("its calls", lambda: _calls(scope, session, at_ms)),
        *safely("its chain", lambda: _chain(ledger, scope, session)),
        *safely("its log", lambda: _log(ledger, scope, session)),
    ]
    return iter(findings)


def _repairs(ledger: Ledger, scope: Scope, session: Session) -> Iterator[DoctorFinding]:
    report = session.context(WINDOW_TOKENS).report
    mended = explain_all(ledger, scope, [repair for repair in report if repair.code not in _CUTS])
    if not mended:
        yield passed("context", "nothing to repair in what its model sees")
        return
    for code in dict.fromkeys(repair.code for repair in mended):
        same = [repair for repair in mended if repair.code == code]
        yield warning(
            code,
            f"{counted(len(same), 'time')} {same[0].meaning}",
            fix=f"treering context {shlex.quote(session.session_id)} {scope_flag(scope)}"
            f" --max-tokens {CONTEXT_TOKENS} --explain",
            items=[
                _item(repair.seq, repair.event_id, repair.summary, repair.detail) for repair in same
            ],
        )


def _item(seq: int | None, event_id: str | None, summary: str | None, detail: str | None) -> str:
    where = "" if seq is None else f"seq {seq}, "
    what = " ".join(filter(None, (summary, detail and f"({detail})")))
    return f"{where}{event_id or '-'}: {what}"


def _calls(scope: Scope, session: Session, at_ms: int) -> Iterator[DoctorFinding]:
    calls = [call for call in session.tool_calls() if call.status == "open"]
    if not calls:
        yield passed("calls", "every tool call has its result")
        return
    name, flag = shlex.quote(session.session_id), scope_flag(scope)
    yield warning(
        "open_calls",
        f"{counted(len(calls), 'tool call')} without a result;"
        " contexts have a synthetic result instead",
        fix=f"a log with results for all: treering export {name} {flag} --format claude-code",
        items=[
            f"{call.tool or 'a tool'} {call.call_id or ''}: {ago(call.at_ms, now_ms=at_ms)}"
            for call in calls
        ],
    )


def _chain(ledger: Ledger, scope: Scope, session: Session) -> Iterator[DoctorFinding]:
    verification = ledger.admin.verify(scope, session_id=session.session_id)
    if verification.intact:
        number = counted(verification.events, "event")
        yield passed("intact", f"the proof holds: {number}")
        return
    broken = verification.first_broken
    yield failure(
        "broken",
        "the session is not as it was recorded"
        + ("" if broken is None else f": seq {broken.seq}: {broken.fault}: {broken.detail}"),
        fix=f"treering verify --scope {shlex.quote(scope)}"
        f" --session-id {shlex.quote(session.session_id)}",
    )


def _log(ledger: Ledger, scope: Scope, session: Session) -> Iterator[DoctorFinding]:
    origin = origin_of(ledger, scope, session.session_id)
    if origin is None:
        yield passed("no_log", "it was recorded here, not imported from a log")
        return
    parent = session.outline().spawned_by
    resume, remark = resuming(origin, scope, session.session_id, parent=parent)
    if not origin.is_there:
        yield warning(
            "log_gone",
            f"its log no longer exists: {origin.file or 'its path is unknown'};"
            " the ledger keeps what was imported",
            fix=remark,
        )
        return
    yield from _log_there(ledger, scope, Path(origin.file or ""), resume)


def _log_there(
    ledger: Ledger, scope: Scope, path: Path, resume: str | None
) -> Iterator[DoctorFinding]:
    (log,) = look_at([(path, path.stat())], ledger, scopes=[scope], now_ms=0)
    if log.state == "grown":
        yield warning(
            "log_grown",
            f"its log has grown since it was imported: {path}",
            fix=f"treering import {shlex.quote(str(path))}",
        )
    else:
        yield passed("log", f"its log is where it was: {path}", fix=resume)
    damage = damage_in(path)
    if damage is not None:
        yield warning(
            "damaged_log",
            f"its log is damaged at the end: {damage}",
            fix=f"treering import {shlex.quote(str(path))} --again names line and byte",
        )
