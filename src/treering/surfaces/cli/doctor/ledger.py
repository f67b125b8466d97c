"""The ledger: its file, writers and keys, what a scope holds, and the repairs of one session."""

from __future__ import annotations

import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.app import administer
from treering.errors import NotPermitted
from treering.model.fields import instant
from treering.surfaces.cli.db import sized
from treering.surfaces.cli.finding import open_session
from treering.surfaces.cli.ledgers import MEMORY, database_path, is_on_server, shown
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.health import CONTEXT_TOKENS, DoctorFinding, safely
from treering.surfaces.shared.session_commands import origin_of, resuming, scope_flag
from treering.surfaces.shared.texts import counted, scope_names
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.messages import RepairCode
    from treering.model.receipts import Verification
    from treering.model.scopes import Scope


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


def look() -> Iterator[DoctorFinding]:
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
        yield DoctorFinding(
            level="warning",
            code="erasure_pending",
            message="bytes of erased events are still in the files of the ledger",
            fix=fix,
        )
    else:
        yield DoctorFinding(
            level="ok", code="erasure", message="no erased bytes are left in its files"
        )
    rekeyed_ms = ledger.importing.rekeyed_ms()
    if rekeyed_ms is not None:
        yield DoctorFinding(
            level="ok",
            code="rekeyed",
            message=f"this ledger was rekeyed on {instant(rekeyed_ms)[:10]}: backups and copies"
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
        yield DoctorFinding(
            level="error",
            code="id_key",
            message=f"ids.secret in the key folder is missing, or not the one that scope"
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
        yield DoctorFinding(level="ok", code="intact", message=f"the proof holds: {number}")
        yield from _sampled(ledger, scope)
    else:
        yield DoctorFinding(
            level="error",
            code="broken",
            message=f"the ledger is not as it was recorded: {_place(verification)}",
            fix="keep a copy of it as evidence, then compare with an export: treering verify",
        )


def _sampled(ledger: Ledger, scope: Scope | None) -> Iterator[DoctorFinding]:
    """Compare a sample of derived rows; a ledger without any passes no check."""
    verification = ledger.admin.sample_derived(scope)
    if verification.intact:
        rows = sum((verification.derived_rows or {}).values())
        if rows:
            message = f"derived data matches the events: {counted(rows, 'row')} sampled"
            yield DoctorFinding(level="ok", code="derived", message=message)
        return
    yield DoctorFinding(
        level="error",
        code="derived_broken",
        message=f"derived data does not match the events: {_place(verification)}",
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
    yield DoctorFinding(
        level="ok",
        code="ledger",
        message=f"{path} opens, schema version {len(migrations())}: {parts}",
    )
    if sizes["write-ahead log"] > LOG_BYTES_HIGH:
        yield DoctorFinding(
            level="warning",
            code="long_log",
            message=f"the write-ahead log has grown to {sized(sizes['write-ahead log'])}:"
            " a program reads the ledger and does not stop",
            fix=f"find it with: lsof {path}-wal",
        )
    yield _room(path)


def _room(path: Path) -> DoctorFinding:
    free = shutil.disk_usage(path.absolute().parent).free
    message = f"{sized(free)} are free on its disk"
    if free >= FREE_BYTES_LOW:
        return DoctorFinding(level="ok", code="disk", message=message)
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
        yield DoctorFinding(level="ok", code="ledger", message=f"{address} opens")
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
        yield DoctorFinding(
            level="error",
            code="schema_changed",
            message=f"{number} to its walls, triggers or functions: {status.differences[0]}",
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
    from treering.surfaces.cli.context import explain_all  # noqa: PLC0415

    report = session.context(WINDOW_TOKENS).report
    mended = explain_all(ledger, scope, [repair for repair in report if repair.code not in _CUTS])
    if not mended:
        message = "nothing to repair in what its model sees"
        yield DoctorFinding(level="ok", code="context", message=message)
        return
    for code in dict.fromkeys(repair.code for repair in mended):
        same = [repair for repair in mended if repair.code == code]
        yield DoctorFinding(
            level="warning",
            code=code,
            message=f"{counted(len(same), 'time')} {same[0].meaning}",
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
        yield DoctorFinding(level="ok", code="calls", message="every tool call has its result")
        return
    name, flag = shlex.quote(session.session_id), scope_flag(scope)
    yield DoctorFinding(
        level="warning",
        code="open_calls",
        message=f"{counted(len(calls), 'tool call')} without a result;"
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
        yield DoctorFinding(level="ok", code="intact", message=f"the proof holds: {number}")
        return
    broken = verification.first_broken
    yield DoctorFinding(
        level="error",
        code="broken",
        message="the session is not as it was recorded"
        + ("" if broken is None else f": seq {broken.seq}: {broken.fault}: {broken.detail}"),
        fix=f"treering verify --scope {shlex.quote(scope)}"
        f" --session-id {shlex.quote(session.session_id)}",
    )


def _log(ledger: Ledger, scope: Scope, session: Session) -> Iterator[DoctorFinding]:
    origin = origin_of(ledger, scope, session.session_id)
    if origin is None:
        message = "it was recorded here, not imported from a log"
        yield DoctorFinding(level="ok", code="no_log", message=message)
        return
    parent = session.outline().spawned_by
    resume, remark = resuming(origin, scope, session.session_id, parent=parent)
    if not origin.is_there:
        yield DoctorFinding(
            level="warning",
            code="log_gone",
            message=f"its log no longer exists: {origin.file or 'its path is unknown'};"
            " the ledger keeps what was imported",
            fix=remark,
        )
        return
    yield from _log_there(ledger, scope, Path(origin.file or ""), resume)


def _log_there(
    ledger: Ledger, scope: Scope, path: Path, resume: str | None
) -> Iterator[DoctorFinding]:
    from treering.capture.health import damage_in, look_at  # noqa: PLC0415  (only of a log)

    (log,) = look_at([(path, path.stat())], ledger, scopes=[scope], now_ms=0)
    if log.state == "grown":
        yield DoctorFinding(
            level="warning",
            code="log_grown",
            message=f"its log has grown since it was imported: {path}",
            fix=f"treering import {shlex.quote(str(path))}",
        )
    else:
        yield DoctorFinding(
            level="ok", code="log", message=f"its log is where it was: {path}", fix=resume
        )
    damage = damage_in(path)
    if damage is not None:
        yield DoctorFinding(
            level="warning",
            code="damaged_log",
            message=f"its log is damaged at the end: {damage}",
            fix=f"treering import {shlex.quote(str(path))} --again names line and byte",
        )
