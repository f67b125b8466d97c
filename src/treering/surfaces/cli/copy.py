"""``treering copy``: what another ledger lacks, brought there and proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import fail, invocation, show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import open_pair, shown
from treering.surfaces.cli.output import note
from treering.surfaces.cli.progress import filling
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from treering.model.receipts import CopyReceipt
    from treering.model.scopes import Scope


@command(
    "copy",
    scope="all",
    short_help="Copy events from one ledger to another.",
    examples="""
    treering copy agents.db backup.db
    treering copy agents.db backup.db --scope acme/app
    treering copy agents.db postgresql://treering@db.example.org/agents
    """,
    if_stopped="what was copied is kept; run it again for the rest: nothing is duplicated",
)
@click.argument("source")
@click.argument("target")
def copy(*, source: str, target: str, scope: Scope | None) -> None:
    """Copy to TARGET the events of SOURCE that it lacks, with the chain that proves them.

    Each is a file or the URL of a PostgreSQL database; a missing TARGET is created. Without a
    scope it copies all scopes. Events are never duplicated: an interrupted copy continues where
    it stopped, and a repeated one copies what is new, erasures too. Payloads of an encrypted
    scope are sealed again with the key of the scope in TARGET; if there is none, the copy is
    refused.

    Sessions that are damaged, or differ from those in TARGET, are reported and do not stop the
    rest; the exit status is then 1. Secrets are neither masked nor refused, because the chain
    is valid only for the recorded bytes.
    """
    if invocation().database is not None:
        raise InvalidInput("copy takes both ledgers as arguments", hint="leave --db out")
    with (
        open_pair(source, target) as (ledger, other),
        filling("copying", then="proving") as advance,
    ):
        receipt = ledger.admin.copy_to(other, scope=scope, progress=advance)
    if not (receipt.complete and receipt.intact):
        _fail_incomplete(receipt)
    if not receipt.sessions:
        note(f"nothing is recorded in {f'scope {scope}' if scope else shown(source)}")
    present = f" ({receipt.present:,} were there already)" if receipt.present else ""
    sessions = counted(receipt.sessions, "session")
    show(
        receipt,
        f"copied {counted(receipt.copied, 'event')} of {sessions} to {shown(target)}{present}",
        done="the copy is there",
    )


def _fail_incomplete(receipt: CopyReceipt) -> None:
    copied = f"{counted(receipt.copied, 'event')} copied"
    if receipt.refused:
        message = f"{counted(receipt.refused, 'session')} could not be copied; {copied}"
        hint = "run treering verify on both ledgers; what was copied is kept"
    else:
        message = f"what was copied cannot be verified; {copied}"
        hint = "run treering verify on both ledgers"
    for fault in receipt.refused_sample if not invocation().as_json else ():
        where = f"scope {fault.scope}, session {fault.session_id}"
        note(f"{where}{f', seq {fault.seq}' if fault.seq else ''}: {fault.reason}")
    fail(receipt, message, code="incomplete", hint=hint)
