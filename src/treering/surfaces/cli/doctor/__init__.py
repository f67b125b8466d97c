"""``treering doctor``: check everything, and give a remedy for each problem."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import click

from treering.app import now_ms
from treering.errors import InvalidScope, NotFound, TreeringError
from treering.surfaces.cli.commands import invocation, kind_of
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import catching_up, database_path, open_to_ask, shown
from treering.surfaces.cli.output import painted, print_receipt, say, say_painted, writing_output
from treering.surfaces.cli.tables import say_folded
from treering.surfaces.shared.health import (
    LEVELS,
    DoctorFinding,
    check_scope,
    counts,
    masked,
    safely,
)
from treering.surfaces.shared.texts import Mask, counted, in_words, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_MARGIN: Final = max(map(len, LEVELS)) + 2


@command(
    "doctor",
    scope="optional",
    short_help="Find problems, and say how to fix them.",
    examples="""
    treering doctor
    treering doctor --quick --json
    treering doctor main:telegram:jo --scope acme/app
    """,
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--quick", is_flag=True, help="Skip the proof of the ledger, which reads all of it.")
def doctor(*, session: str | None, scope: Scope | None, quick: bool) -> None:
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
            DoctorFinding(
                level="warning",
                code="no_ledger",
                message=f"no ledger at {shown(database_path())} yet",
                fix="treering import",
            )
        ]
    except TreeringError as error:
        return None, [
            DoctorFinding(
                level="error",
                code=error.code,
                message=f"the ledger cannot be opened: {error}",
                fix=error.hint,
            )
        ]


def _of_all(
    ledger: Ledger | None, scope: Scope | None, at_ms: int, *, quick: bool, is_named: bool
) -> Iterator[DoctorFinding]:
    # Each is loaded when it is needed.
    from treering.surfaces.cli.doctor import agents  # noqa: PLC0415
    from treering.surfaces.cli.doctor import ledger as ledger_checks  # noqa: PLC0415

    if ledger is not None:
        yield from safely("the ledger", ledger_checks.look)
        yield from safely("writers", ledger_checks.look_at_writers)
        yield from safely("erasure", lambda: ledger_checks.look_at_erasure(ledger))
        yield from safely("the key of ids", lambda: ledger_checks.look_at_id_key(ledger))
        proved = scope if is_named else None
        if not quick:
            yield from safely("the proof", lambda: ledger_checks.prove(ledger, proved, scope))
        if scope is None:
            yield DoctorFinding(
                level="ok",
                code="scope",
                message="no scope was checked: the name of this folder is not a valid scope",
                fix="treering doctor --scope acme/app",
            )
        else:
            with catching_up() as progress:
                yield from check_scope(ledger, scope, at_ms, progress=progress)
    for what, check in (
        ("logs of agents", lambda: agents.look_at_logs(ledger, scope, at_ms)),
        ("readers", agents.look_at_readers),
        ("hooks", agents.look_at_hooks),
        ("the spool", lambda: agents.look_at_spool(at_ms)),
        ("lines set aside", agents.look_at_quarantine),
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
    from treering.surfaces.cli.doctor.ledger import look_at_session  # noqa: PLC0415  (not for --help)

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
