"""The ledger: its file, its writers, its keys, and what is recorded in a scope."""

from __future__ import annotations

import shlex
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.errors import NotPermitted
from treering.ledger.erasure import AGENT
from treering.model.kinds import RUN_ENDS
from treering.model.retention import DAY_MS
from treering.model.times import instant
from treering.surfaces.cli.db import sized
from treering.surfaces.cli.doctor.findings import ITEMS_MAX, DoctorFinding, some
from treering.surfaces.cli.erase import days_kept
from treering.surfaces.cli.ledgers import (
    MEMORY,
    catching_up,
    database_path,
    is_on_server,
    items_of,
    scope_names,
    shown,
)
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.times import ago

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
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
OPEN_MS: Final = 3_600_000
"""A call that has no result after so long will not get one."""
CALLS_MAX: Final = 500
RUNS_MAX: Final = 50
RUNS_PAGE: Final = 1_000
RUN_PAGES_MAX: Final = 20
"""How many of the newest runs are checked for their ends: pages of RUNS_PAGE."""
LAG_HIGH: Final = 10_000
"""From this lag on, a search takes seconds to catch up."""
SOON_DAYS: Final = 7
CONTEXT_TOKENS: Final = 200_000
"""The window that commands are suggested with."""


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
        fix = "treering db scrub"
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
    from treering.app import administer  # noqa: PLC0415  (only for a server)

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


def sessions(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say whether anything is recorded in the scope."""
    latest = ledger.sessions(scope, limit=1).items
    if latest:
        when = ago(latest[0].updated_ms, now_ms=at_ms)
        message = f"scope {scope} was last written to {when}"
        yield DoctorFinding(level="ok", code="scope", message=message)
    else:
        yield DoctorFinding(
            level="warning",
            code="scope_empty",
            message=f"nothing is recorded in scope {scope}",
            fix="name another with --scope, or import logs: treering import",
        )


def open_calls(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say which tool calls have had no result for long."""
    with catching_up() as progress:
        page = ledger.tool_calls(
            scope,
            status="open",
            until_ms=max(at_ms - OPEN_MS, 1),
            last=CALLS_MAX,
            progress=progress,
        )
    if not page.items:
        yield DoctorFinding(
            level="ok", code="calls", message=f"every tool call of scope {scope} has its result"
        )
        return
    calls_by_session = Counter(record.session_id for record in page.items)
    calls = f"{'at least ' if page.has_more else ''}{counted(len(page.items), 'tool call')}"
    session, flag = shlex.quote(calls_by_session.most_common(1)[0][0]), scope_flag(scope)
    yield DoctorFinding(
        level="warning",
        code="open_calls",
        message=f"{calls} of {counted(len(calls_by_session), 'session')} never got a result;"
        " contexts have a synthetic result instead",
        fix=f"treering context {session} {flag} --max-tokens {CONTEXT_TOKENS} --explain;"
        f" a log with results for all: treering export {session} {flag} --format claude-code",
        items=some(
            (
                f"{name}: {counted(count, 'open call')}"
                for name, count in calls_by_session.most_common(ITEMS_MAX)
            ),
            of=len(calls_by_session),
        ),
    )


def open_runs(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say which runs do not end, and which were closed because their process is gone."""
    # To open a ledger closes the runs of processes that are gone: that was a moment ago.
    closed = ledger.headers(scope, kinds=["run.interrupted"], since_ms=at_ms, last=RUNS_MAX).items
    if closed:
        yield DoctorFinding(
            level="ok",
            code="runs_closed",
            message=f"{counted(len(closed), 'run')} of dead processes closed just now",
            items=some((run.session_id for run in closed), of=len(closed)),
        )
    stuck = [
        (session, seen_ms)
        for session in _running(ledger, scope)
        if (seen_ms := _last_seen(ledger, scope, session)) < at_ms - OPEN_MS
    ]
    if stuck:
        yield DoctorFinding(
            level="warning",
            code="open_runs",
            message=f"{counted(len(stuck), 'session')} with a run that is open and silent for more"
            " than an hour",
            fix="stop the program that runs it: the next command closes the run",
            items=some(
                (f"{session}: {ago(seen_ms, now_ms=at_ms)}" for session, seen_ms in stuck),
                of=len(stuck),
            ),
        )
    elif not closed:
        yield DoctorFinding(level="ok", code="runs", message="no run was left open")


def _running(ledger: Ledger, scope: Scope) -> list[str]:
    """Return the sessions with an open run, among the newest runs."""
    begun: dict[tuple[str, str | None], None] = {}
    ended: set[tuple[str, str | None]] = set()
    kinds = ["run.started", *RUN_ENDS]
    headers = items_of(
        lambda after: ledger.headers(scope, kinds=kinds, last=RUNS_PAGE, after=after),
        pages_max=RUN_PAGES_MAX,
    )
    for header in headers:
        run = header.session_id, header.run_id
        if header.kind == "run.started":
            begun[run] = None
        else:
            ended.add(run)
    return list(dict.fromkeys(session for session, run in begun if (session, run) not in ended))


def _last_seen(ledger: Ledger, scope: Scope, session_id: str) -> int:
    last = ledger.session(session_id, scope=scope, agent=AGENT).headers(last=1)
    return max((header.recorded_ms for header in last), default=0)


def projections(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say how many events are not in the search index and the other projections yet."""
    del at_ms
    lags = ledger.admin.lags(scope)
    search = lags.pop("search")
    if not search:
        yield DoctorFinding(level="ok", code="index", message="the search index is up to date")
    else:
        yield DoctorFinding(
            level="warning" if search >= LAG_HIGH else "ok",
            code="index_behind",
            message=f"not yet in the search index of scope {scope}: {counted(search, 'event')};"
            " the next search catches up",
            fix=f"treering search WORDS {scope_flag(scope)}",
        )
    behind = [f"{name}: {counted(lag, 'event')}" for name, lag in lags.items() if lag]
    if behind:
        message = f"not yet in the projections of scope {scope}; the next question enters them"
        yield DoctorFinding(level="ok", code="projections_behind", message=message, items=behind)


def retention(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say what of our own would be removed soon."""
    soon = ledger.expire(scope, now_ms=at_ms + SOON_DAYS * DAY_MS, dry_run=True)
    if not soon.deleted_total:
        message = f"nothing of scope {scope} reaches the end of its retention within a week"
        yield DoctorFinding(level="ok", code="retention", message=message)
        return
    flag = scope_flag(scope)
    yield DoctorFinding(
        level="warning",
        code="retention_soon",
        message=f"past their retention within a week in scope {scope}:"
        f" {counted(soon.deleted_total, 'event')}; treering gc removes them, nothing else does",
        fix=f"treering gc {flag} --dry-run counts them; --policy KIND=forever keeps them",
        items=[
            f"{kind}: {counted(count, 'event')} older than {days_kept(soon, kind)}"
            for kind, count in soon.deleted_by_type.items()
            if count
        ],
    )


def users(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say which users may be several people, or two users one person."""
    del at_ms
    flag = scope_flag(scope)
    joined = ledger.admin.joined_users(scope)
    if joined:
        user, handles = next(iter(joined.items()))
        channel, handle = map(shlex.quote, handles[-1])
        yield DoctorFinding(
            level="warning",
            code="users_joined",
            message=f"{counted(len(joined), 'user')} of scope {scope} had main sessions on several"
            " channels before handles were distinguished, and may be several people",
            fix=f"one person: treering users link {shlex.quote(user)} {channel} {handle} {flag};"
            f" two: the same with another name, as {shlex.quote(f'{handles[-1][0]}-{user}')}",
            items=some((_handles(user_id, at) for user_id, at in joined.items()), of=len(joined)),
        )
    relinked = ledger.admin.relinked_handles(scope)
    if relinked:
        _, _, opened, linked = relinked[0]
        yield DoctorFinding(
            level="ok",
            code="users_relinked",
            message=f"{counted(len(relinked), 'main session')} of scope {scope} began as another"
            " user than the handle is linked to: what is known of that user is not recalled there",
            fix="if they are one person: treering users merge"
            f" {shlex.quote(linked)} {shlex.quote(opened)} {flag}",
            items=some(
                (
                    f"{handle} on {channel}: {was}, now {now}"
                    for channel, handle, was, now in relinked
                ),
                of=len(relinked),
            ),
        )


def _handles(user: str, handles: list[tuple[str, str]]) -> str:
    return f"{user}: {', '.join(f'{handle} on {channel}' for channel, handle in handles)}"


CHECKS: Final[tuple[tuple[str, Callable[[Ledger, Scope, int], Iterator[DoctorFinding]]], ...]] = (
    ("the scope", sessions),
    ("tool calls", open_calls),
    ("runs", open_runs),
    ("the search index", projections),
    ("retention", retention),
    ("users", users),
)
