"""``treering copy``, ``treering episodes export`` and ``import``: from one ledger to another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from treering.errors import InvalidInput, InvalidScope
from treering.ledger.jsonl import OpeningLine, decode_line
from treering.model.scopes import GLOBAL, Scope, parse_scope
from treering.surfaces.cli.commands import fail, invocation, show, show_aside
from treering.surfaces.cli.declare import (
    argument,
    command,
    flag,
    out_option,
    require,
    session_id_option,
)
from treering.surfaces.cli.finding import session_or_text
from treering.surfaces.cli.ledgers import (
    database_path,
    open_existing,
    open_pair,
    open_to_write,
    shown,
)
from treering.surfaces.cli.output import STANDARD, input_stream, note, output_stream
from treering.surfaces.cli.progress import Advance, counting, filling, measuring
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from treering.model.receipts import CopyReceipt, RestoreReceipt

OPENING_BYTES_MAX: Final = 16_384
"""A longer first line opens no export."""


@command(
    scope="required",
    short_help="Write a scope or a session as JSONL.",
    examples="""
    treering episodes export --scope acme/app --include-payload --out acme.jsonl
    treering episodes export --scope acme/app --session-id s1 | jq .summary
    """,
    if_stopped="a file appears when it is complete; run it again",
)
def export(
    *,
    scope: Scope,
    session_id: str | None = session_id_option,
    out: str = out_option("The file to write. Default: standard output.", default=STANDARD),
    include_payload: bool = flag(
        "Include payloads; required for an import.", "--include-payload", "--payload"
    ),
) -> None:
    """Write a scope or a session as JSONL, with the chain that proves it.

    A file appears under its name when it is complete, readable by you alone. An export to
    standard output puts its receipt on standard error.
    """
    session = None if session_id is None else require(session_id, "session_id")
    with (
        open_existing() as ledger,
        output_stream(out, database=database_path()) as stream,
        counting("exported", "events") as advance,
    ):
        session = None if session is None else session_or_text(ledger, scope, session)
        receipt = ledger.admin.export(
            scope,
            stream,
            session_id=session,
            payloads="included" if include_payload else "withheld",
            progress=advance,
        )
    if not receipt.events:
        note(f"nothing is recorded in scope {scope}{f', session {session}' if session else ''}")
    elif not include_payload:
        note(
            "payloads are withheld, so this export cannot be imported;"
            " add --include-payload for a full copy"
        )
    if out == STANDARD:
        show_aside(receipt)
        return
    sessions = counted(receipt.sessions, "session")
    show(
        receipt,
        f"exported {counted(receipt.events, 'event')} of {sessions} to {out}",
        done=f"the export was written to {out}",
    )


@command(
    scope="required",
    short_help="Import an export, with its chain.",
    examples=r"""
    treering episodes import acme.jsonl --scope acme/app
    ssh build treering episodes export --scope ci --include-payload \
      | treering episodes import - --scope ci
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
def import_(*, scope: Scope, file: str = argument()) -> None:
    """Import an export, and verify its chain. FILE may be - for standard input.

    The scope must be the exported one. Events are never duplicated, so you can repeat an
    import. Lines that cannot be imported are reported and do not stop the rest; the exit status
    is then 1.

    An import restores a ledger as it was: secrets are neither masked nor refused, because the
    chain is valid only for the recorded bytes.
    """
    # The file is checked first: what is not an export must not create a ledger.
    with input_stream(file) as stream:
        export = of_scope(stream, scope)
        with open_to_write() as ledger, _progress(file) as advance:
            receipt = ledger.admin.restore(export, progress=advance)
    if receipt.errors or not receipt.complete:
        _fail_import(receipt)
    duplicates = f" ({receipt.duplicates:,} were here already)" if receipt.duplicates else ""
    sessions = counted(receipt.sessions, "session")
    show(
        receipt,
        f"imported {counted(receipt.imported, 'event')} of {sessions}{duplicates}",
        done="the export was imported",
    )


def _progress(file: str) -> AbstractContextManager[Advance]:
    path = Path(file)
    if file == STANDARD or not path.is_file():
        return counting("read", "bytes")
    return measuring("importing", path.stat().st_size)


def _fail_import(receipt: RestoreReceipt) -> None:
    taken = f"{counted(receipt.imported, 'event')} imported"
    if receipt.errors:
        message = f"{counted(receipt.errors, 'line')} could not be imported; {taken}"
        hint = "export again and repeat the import: nothing is duplicated"
    elif receipt.errors_sample:
        message = f"what was imported cannot be verified; {taken}"
        hint = "run treering verify, and import an unchanged export"
    else:
        message = f"the file ends before its closing line; {taken}"
        hint = "get a whole copy and repeat the import: nothing is duplicated"
    for fault in receipt.errors_sample if not invocation().as_json else ():
        where = f"line {fault.line}, byte {fault.offset}: " if fault.line else ""
        note(f"{where}{fault.reason}")
    fail(receipt, message, code="incomplete", hint=hint)


def of_scope(stream: IO[bytes], scope: Scope) -> IO[bytes]:
    """Return the export in ``stream``, line by line; its first line is read and checked now.

    Raises InvalidScope where it opens another scope, now or later, and InvalidInput if it is not an
    export or cannot be restored.
    """
    first = stream.readline(OPENING_BYTES_MAX)
    opening = _opening(first)
    if opening is None:
        raise InvalidInput(
            "the file does not start like an export",
            hint="import what treering episodes export --include-payload wrote",
        )
    if opening.scope != scope:
        raise InvalidScope(
            f"the export is not of scope {scope}", hint=f"pass {_flag(opening.scope)}"
        )
    if opening.payloads == "withheld":
        raise InvalidInput(
            "this export has no payloads and cannot be restored",
            hint="export again with --include-payload",
        )
    return cast("IO[bytes]", _ScopedLines(first, stream, scope))


class _ScopedLines(io.BufferedIOBase):
    """The lines of an export, as long as they are of one scope."""

    def __init__(self, first: bytes, stream: IO[bytes], scope: Scope) -> None:
        super().__init__()
        self._first = first
        self._stream = stream
        self._scope = scope

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line. Raises InvalidScope if it opens another scope."""
        if self._first:
            line, self._first = self._first, b""
            return line
        line = self._stream.readline(-1 if size is None else size)
        # Every line that opens an export has this word, if only in escapes.
        opening = _opening(line) if b"export" in line or b"\\u" in line else None
        if opening is not None and opening.scope != self._scope:
            raise InvalidScope(
                f"a second export, not of scope {self._scope}, follows in the same file",
                hint=f"what came before it is kept; import it alone with {_flag(opening.scope)}",
            )
        return line


def _opening(line: bytes) -> OpeningLine | None:
    try:
        entry = decode_line(line)
    except (msgspec.MsgspecError, ValueError):
        return None
    return entry if isinstance(entry, OpeningLine) else None


def _flag(scope: str) -> str:
    """Return how the command line names ``scope``. Raise InvalidScope if it is not one."""
    if parse_scope(scope) != scope:
        raise InvalidScope("the export names no scope", hint="import the file as it was exported")
    return "--global" if scope == GLOBAL else f"--scope {scope}"


@command(
    scope="all",
    examples="""
    treering copy agents.db backup.db
    treering copy agents.db backup.db --scope acme/app
    treering copy agents.db postgresql://treering@db.example.org/agents
    """,
    if_stopped="what was copied is kept; run it again for the rest: nothing is duplicated",
)
def copy(*, scope: Scope | None, source: str = argument(), target: str = argument()) -> None:
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
        _fail_copy(receipt)
    if not receipt.sessions:
        note(f"nothing is recorded in {f'scope {scope}' if scope else shown(source)}")
    present = f" ({receipt.present:,} were there already)" if receipt.present else ""
    sessions = counted(receipt.sessions, "session")
    show(
        receipt,
        f"copied {counted(receipt.copied, 'event')} of {sessions} to {shown(target)}{present}",
        done="the copy is there",
    )


def _fail_copy(receipt: CopyReceipt) -> None:
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
