"""``treering doctor``: check everything, and give a remedy for each problem."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from treering.app import now_ms
from treering.errors import InvalidScope, NotFound, TreeringError
from treering.surfaces.cli.commands import Command, invocation, kind_of
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.doctor.findings import LEVELS, DoctorFinding, counts, masked, safely
from treering.surfaces.cli.ledgers import database_path, shown
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, one_line, painted, print_receipt, say, say_painted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.cli.tables import say_folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_MARGIN: Final = max(map(len, LEVELS)) + 2


@click.command(
    "doctor",
    cls=Command,
    short_help="Find problems, and say how to fix them.",
    examples="""
    treering doctor
    treering doctor --quick --json
    treering doctor main:telegram:jo --scope acme/app
    """,
)
@click.argument("session", required=False, shell_complete=complete_session)
@project_scope_options
@click.option("--quick", is_flag=True, help="Skip the proof of the ledger, which reads all of it.")
@keys_option
@json_option
@db_option
def doctor(*, session: str | None, scope: str | None, is_global: bool, quick: bool) -> None:
    """Check the ledger, the logs of agents on this machine, and what connects them.

    Each check is ok, a warning or an error, and says what to do. With a SESSION it checks what
    has to be repaired in the context of its model, and whether its log still exists. Nothing is
    changed, except that runs of dead processes are closed. The exit status is 1 if there is an
    error.
    """
    name = _scope(scope, is_global=is_global)
    at_ms = now_ms()
    mask = Mask()
    with contextlib.ExitStack() as stack:
        ledger, found = _open(stack)
        if session is not None:
            found += _of_session(ledger, name, session, at_ms, found)
        else:
            found += _of_all(
                ledger, name, at_ms, quick=quick, is_named=scope is not None or is_global
            )
    findings = [masked(one, mask) for one in found]
    body: dict[str, Any] = {
        "scope": name,
        "ledger": shown(database_path()),
        "session": session,
        "quick": quick,
        "counts": counts(findings),
        "findings": findings,
    }
    is_well = not any(one.level == "error" for one in findings)
    context = click.get_current_context()
    with writing_output():
        if invocation().as_json:
            print_receipt(kind_of(context), body, ok=is_well)
        else:
            print_findings(findings)
    if not is_well:
        context.exit(1)


def _scope(scope: str | None, *, is_global: bool) -> Scope | None:
    """Return the scope that is meant; None if none was named and the folder can name none."""
    try:
        return find_scope(scope, is_global=is_global)
    except InvalidScope:
        if scope is not None:
            raise
        return None


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
    from treering.surfaces.cli.doctor import hooks, ledger_file, logs, past  # noqa: PLC0415

    if ledger is not None:
        yield from safely("the ledger", ledger_file.look)
        yield from safely("writers", ledger_file.look_at_writers)
        yield from safely("erasure", lambda: ledger_file.look_at_erasure(ledger))
        yield from safely("the key of ids", lambda: ledger_file.look_at_id_key(ledger))
        proved = scope if is_named else None
        if not quick:
            yield from safely("the proof", lambda: ledger_file.prove(ledger, proved, scope))
        if scope is None:
            yield DoctorFinding(
                level="ok",
                code="scope",
                message="no scope was looked into: the name of this folder cannot be one",
                fix="treering doctor --scope acme/app",
            )
        else:
            for what, look in past.CHECKS:
                yield from safely(what, partial(look, ledger, scope, at_ms))
    for what, check in (
        ("logs of agents", lambda: logs.look(ledger, scope, at_ms)),
        ("hooks", hooks.look),
        ("the spool", lambda: hooks.look_at_spool(at_ms)),
        ("lines set aside", hooks.look_at_quarantine),
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
    from treering.surfaces.cli.doctor import one_session  # noqa: PLC0415  (not for --help)

    return one_session.look(ledger, scope, session, at_ms)


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
        say(f"{' and '.join(parts)}; {counted(number['ok'], 'check')} passed")
    else:
        say(f"{counted(number['ok'], 'check')} passed")
