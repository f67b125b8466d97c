"""One session: what has to be repaired in its context, and where its log is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.finding import open_session
from treering.surfaces.shared.health import CONTEXT_TOKENS, DoctorFinding, safely
from treering.surfaces.shared.session_commands import origin_of, resuming, scope_flag
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.messages import RepairCode
    from treering.model.scopes import Scope

WINDOW_TOKENS: Final = 1_000_000
"""How much of its end is checked: no model is shown more."""
_CUTS: Final[frozenset[RepairCode]] = frozenset(
    {
        *("shortened_output", "restarted", "dropped_turn", "dropped_message"),
        *("shortened_message", "summarised", "budget_too_small"),
    }
)
"""What was left out to fit is nothing that is wrong."""


def look(ledger: Ledger, scope: Scope, text: str, at_ms: int) -> Iterator[DoctorFinding]:
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
