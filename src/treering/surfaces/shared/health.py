"""The health of a ledger as findings: what was checked, its state, and what to do about it."""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from treering.errors import TreeringError
from treering.ledger.records import AGENT
from treering.model.kinds import RUN_ENDS
from treering.model.queries import items_of
from treering.model.scopes import DAY_MS, Scope
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import Mask, counted, days_kept
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.ledger.ledger import Ledger

Level = Literal["ok", "warning", "error"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
ITEMS_MAX: Final = 5
"""How many of the same sort are listed."""
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


class DoctorFinding(msgspec.Struct, frozen=True):
    """What was found."""

    level: Level
    code: str
    """For programs; one code may be found several times, as for several agents."""
    message: str
    fix: str | None = None
    """A command to run, or a setting to change."""
    items: list[str] = []
    """Some of the things that it is about."""


passed = partial(DoctorFinding, "ok")
warning = partial(DoctorFinding, "warning")
failure = partial(DoctorFinding, "error")


def check_scope(
    ledger: Ledger, scope: Scope, at_ms: int, *, progress: Callable[[int], None] | None = None
) -> Iterator[DoctorFinding]:
    """Yield what is found in a scope; ``progress`` takes how many events were caught up with."""
    for what, check in (
        ("the scope", _sessions),
        ("tool calls", partial(_open_calls, progress=progress)),
        ("runs", _open_runs),
        ("the search index", _projections),
        ("retention", _retention),
        ("users", _users),
    ):
        yield from safely(what, partial(check, ledger, scope, at_ms))


def safely(
    what: str, check: Callable[[], Iterable[DoctorFinding]], *, level: Level = "error"
) -> Iterator[DoctorFinding]:
    """Yield the findings of a check; a check that fails is a finding of ``level``."""
    findings: list[DoctorFinding] = []
    try:
        findings.extend(check())
    except TreeringError as error:
        findings.append(
            DoctorFinding(level=level, code=error.code, message=f"{what}: {error}", fix=error.hint)
        )
    except OSError as error:
        findings.append(
            warning("unreadable", f"{what}: {error.strerror or error}", fix="check the permissions")
        )
    yield from findings


def masked(finding: DoctorFinding, mask: Mask) -> DoctorFinding:
    """Return a finding with secrets in it masked."""
    return msgspec.structs.replace(
        finding,
        message=mask.text(finding.message) or "",
        fix=mask.text(finding.fix),
        items=[mask.text(item) or "" for item in finding.items],
    )


def counts(findings: Iterable[DoctorFinding]) -> dict[str, int]:
    """Return how many findings there are of each level."""
    number = dict.fromkeys(LEVELS, 0)
    for finding in findings:
        number[finding.level] += 1
    return {str(level): count for level, count in number.items()}


def some(items: Iterable[str], *, of: int) -> list[str]:
    """Return the first few of ``items``, and how many more there are."""
    shown: list[str] = []
    with contextlib.suppress(StopIteration):
        iterator = iter(items)
        while len(shown) < ITEMS_MAX:
            shown.append(next(iterator))
    left = of - len(shown)
    return [*shown, f"… and {left:,} more"] if left > 0 else shown


def _sessions(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say whether anything is recorded in the scope."""
    latest = ledger.sessions(scope, limit=1).items
    if latest:
        when = ago(latest[0].updated_ms, now_ms=at_ms)
        yield passed("scope", f"scope {scope} was last written to {when}")
    else:
        yield warning(
            "scope_empty",
            f"nothing is recorded in scope {scope}",
            fix="name another with --scope, or import logs: treering import",
        )


def _open_calls(
    ledger: Ledger, scope: Scope, at_ms: int, *, progress: Callable[[int], None] | None
) -> Iterator[DoctorFinding]:
    """Say which tool calls have had no result for long."""
    page = ledger.tool_calls(
        scope, status="open", until_ms=max(at_ms - OPEN_MS, 1), last=CALLS_MAX, progress=progress
    )
    if not page.items:
        yield passed("calls", f"every tool call of scope {scope} has its result")
        return
    calls_by_session = Counter(record.session_id for record in page.items)
    calls = f"{'at least ' if page.has_more else ''}{counted(len(page.items), 'tool call')}"
    session, flag = shlex.quote(calls_by_session.most_common(1)[0][0]), scope_flag(scope)
    yield warning(
        "open_calls",
        f"{calls} of {counted(len(calls_by_session), 'session')} never got a result;"
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


def _open_runs(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say which runs do not end, and which were closed because their process is gone."""
    # To open a ledger closes the runs of processes that are gone: that was a moment ago.
    closed = ledger.headers(scope, kinds=["run.interrupted"], since_ms=at_ms, last=RUNS_MAX).items
    if closed:
        yield passed(
            "runs_closed",
            f"{counted(len(closed), 'run')} of dead processes closed just now",
            items=some((run.session_id for run in closed), of=len(closed)),
        )
    stuck = [
        (session, seen_ms)
        for session in _running(ledger, scope)
        if (seen_ms := _last_seen(ledger, scope, session)) < at_ms - OPEN_MS
    ]
    if stuck:
        yield warning(
            "open_runs",
            f"{counted(len(stuck), 'session')} with a run that is open and silent for more"
            " than an hour",
            fix="stop the program that runs it: the next command closes the run",
            items=some(
                (f"{session}: {ago(seen_ms, now_ms=at_ms)}" for session, seen_ms in stuck),
                of=len(stuck),
            ),
        )
    elif not closed:
        yield passed("runs", "no run was left open")


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


def _projections(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say how many events are not in the search index and the other projections yet."""
    del at_ms
    lags = ledger.admin.lags(scope)
    search = lags.pop("search")
    if not search:
        yield passed("index", "the search index is up to date")
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
        yield passed(
            "projections_behind",
            f"derived data of scope {scope} lags behind; the next query updates it",
            items=behind,
        )


def _retention(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say what of our own would be removed soon."""
    soon = ledger.expire(scope, now_ms=at_ms + SOON_DAYS * DAY_MS, dry_run=True)
    if not soon.deleted_total:
        yield passed(
            "retention", f"nothing of scope {scope} reaches the end of its retention within a week"
        )
        return
    flag = scope_flag(scope)
    yield warning(
        "retention_soon",
        f"past their retention within a week in scope {scope}:"
        f" {counted(soon.deleted_total, 'event')}; treering gc removes them, nothing else does",
        fix=f"treering gc {flag} --dry-run counts them; --policy KIND=forever keeps them",
        items=[
            f"{kind}: {counted(count, 'event')} older than {days_kept(soon, kind)}"
            for kind, count in soon.deleted_by_type.items()
            if count
        ],
    )


def _users(ledger: Ledger, scope: Scope, at_ms: int) -> Iterator[DoctorFinding]:
    """Say which users may be several people, or two users one person."""
    del at_ms
    flag = scope_flag(scope)
    joined = ledger.admin.joined_users(scope)
    if joined:
        user, handles = next(iter(joined.items()))
        channel, handle = map(shlex.quote, handles[-1])
        yield warning(
            "users_joined",
            f"{counted(len(joined), 'user')} of scope {scope} had main sessions on several"
            " channels before handles were distinguished, and may be several people",
            fix=f"one person: treering users link {shlex.quote(user)} {channel} {handle} {flag};"
            f" two: the same with another name, as {shlex.quote(f'{handles[-1][0]}-{user}')}",
            items=some((_handles(user_id, at) for user_id, at in joined.items()), of=len(joined)),
        )
    relinked = ledger.admin.relinked_handles(scope)
    if relinked:
        _, _, opened, linked = relinked[0]
        yield passed(
            "users_relinked",
            f"{counted(len(relinked), 'main session')} of scope {scope} belong to another"
            " user than the one the handle is linked to now, whose facts are not recalled there",
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
