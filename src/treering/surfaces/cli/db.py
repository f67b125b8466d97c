"""``treering db``: laying out and looking after a ledger on a database server."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, LazyGroup, fail, invocation, show
from treering.surfaces.cli.ledgers import database_path, open_existing
from treering.surfaces.cli.options import db_option, json_option, resolve_scope
from treering.surfaces.cli.output import counted, note
from treering.surfaces.cli.status import lines_of, sized

if TYPE_CHECKING:
    from treering.model.receipts import InitReceipt, ScrubReceipt
    from treering.storage.postgres.administration import Administration

PASSWORD_BYTES_MAX: Final = 1_000
_HERE: Final = "treering.surfaces.cli.db"

role_option = click.option("--role", required=True, metavar="ROLE", help="A role of the server.")


@click.group(
    name="db",
    cls=LazyGroup,
    lazy={
        "init": f"{_HERE}:init",
        "status": f"{_HERE}:status",
        "grant": f"{_HERE}:grant",
        "revoke": f"{_HERE}:revoke",
        "scrub": f"{_HERE}:scrub",
    },
    invoke_without_command=True,
    short_help="Manage a ledger on PostgreSQL.",
    examples="""
    treering db init --db postgresql://owner@db.example.org/agents
    treering db grant --role lyria --scope acme/app --set-password
    treering db status
    """,
)
@db_option
@click.pass_context
def db(context: click.Context) -> None:
    """Set up, inspect and share a ledger on PostgreSQL.

    These commands are for the owner of the ledger. They show no content.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "init",
    cls=Command,
    short_help="Create a ledger, or migrate it to the newest schema.",
    examples="""
    treering db init --db postgresql://owner@db.example.org/agents
    treering db init --partitions 64
    """,
    if_stopped="everything was created or nothing was; run it again",
)
@click.option(
    "--partitions",
    type=int,
    metavar="N",
    help="Spread the events over N tables; fixed once created. Default: 16.",
)
@json_option
@db_option
def init(*, partitions: int | None) -> None:
    """Create a ledger with its roles, or migrate an existing one to the newest schema.

    Events do not change, and running it again changes nothing.
    """
    from treering.app import open as open_ledger  # noqa: PLC0415  (not for --help)

    receipt = _administration().init(partitions=partitions)
    # Only the owner may hide what ids of earlier versions give away: opening does it.
    open_ledger(database_path()).close()
    if not invocation().as_json:
        _note_what_is_not_as_asked(receipt, partitions)
    show(receipt, _laid_out(receipt), done="the ledger was laid out")


@click.command(
    "status",
    cls=Command,
    short_help="Show the state of a ledger and its server.",
    examples="""
    treering db status
    treering db status --json
    """,
)
@json_option
@db_option
def status() -> None:
    """Show version, size, roles, replicas, and who keeps followers or an erasure waiting."""
    from treering.app import is_server  # noqa: PLC0415  (not for --help)

    path = database_path()
    if is_server(path):
        database = _administration().status()
        show(database, *lines_of(database))
    else:
        _show_file(path)


@click.command(
    "grant",
    cls=Command,
    short_help="Let a role use the ledger.",
    examples="""
    treering db grant --role app --set-password
    treering db grant --role lyria --scope acme/app
    """,
    if_stopped="the grant is complete or missing; run it again",
)
@role_option
@click.option(
    "--scope",
    metavar="SCOPE",
    help="Limit the role to this scope; repeat the command for more. Default: any scope.",
)
@click.option(
    "--set-password",
    is_flag=True,
    help="Ask for a password, or read one line of standard input.",
)
@json_option
@db_option
def grant(*, role: str, scope: str | None, set_password: bool) -> None:
    """Let a role use the ledger; a missing role is created.

    Without a scope the role is an application: it states the scope of each action, and sees
    only that one. This guards against mistakes. With a scope the role is limited to it,
    whatever SQL it runs.
    """
    name = None if scope is None else resolve_scope(scope, is_global=False)
    administration = _administration()
    password = _ask_password(role) if set_password else None
    administration.grant(role, name, password=password)
    show(
        {"role": role, "scope": name, "password_set": set_password},
        f"role {role} may use the ledger, and states its scope itself"
        if name is None
        else f"role {role} may use scope {name}, and is held to what it was granted",
        *(["its password is set"] * set_password),
        done="the role may use the ledger",
    )


@click.command(
    "revoke",
    cls=Command,
    short_help="Revoke what was granted.",
    examples="""
    treering db revoke --role app
    treering db revoke --role lyria --scope acme/app
    """,
    if_stopped="see treering db status for what the role still has",
)
@role_option
@click.option("--scope", metavar="SCOPE", help="Revoke only this scope.")
@json_option
@db_option
def revoke(*, role: str, scope: str | None) -> None:
    """Take back what was granted to a role; the role itself is kept, and can do nothing here."""
    name = None if scope is None else resolve_scope(scope, is_global=False)
    _administration().revoke(role, name)
    show(
        {"role": role, "scope": name},
        f"role {role} may no longer use {'the ledger' if name is None else f'scope {name}'}",
        done="the grant was revoked",
    )


@click.command(
    "scrub",
    cls=Command,
    short_help="Remove erased bytes from the tables.",
    examples="""
    treering db scrub
    """,
    if_stopped="tables that were not rewritten are still listed; run it again",
)
@json_option
@db_option
def scrub() -> None:
    """Rewrite the tables whose files still hold bytes of erased events.

    Each table is locked meanwhile. The exit status is 1 if some tables have to wait for an
    older transaction or a lock, or if this role may not rewrite them: run it as the owner.
    """
    receipt = _administration().scrub()
    if receipt.pending:
        fail(
            receipt,
            f"erased bytes are left in {', '.join(receipt.pending)}: an older transaction or a lock"
            " is in the way, or this role may not",
            code="pending",
            hint="run it again once that has ended (pg_stat_activity shows the oldest xact_start),"
            " or run it as the owner",
        )
    show(receipt, _scrubbed(receipt), done="the tables were rewritten")


def _administration() -> Administration:
    from treering.app import administer  # noqa: PLC0415  (not for --help)

    return administer(database_path())


def _note_what_is_not_as_asked(receipt: InitReceipt, partitions: int | None) -> None:
    if partitions is not None and partitions != receipt.partitions:
        note(f"the ledger keeps its {receipt.partitions} partitions: their number is fixed")
    if not receipt.roles:
        note("no roles were made, for this user may not: db grant needs one who has CREATEROLE")


def _laid_out(receipt: InitReceipt) -> str:
    if not receipt.schema_version_before:
        partitions = counted(receipt.partitions, "partition")
        return f"laid out a ledger of {partitions} in schema {receipt.schema}"
    if receipt.schema_version_before < receipt.schema_version:
        versions = f"version {receipt.schema_version_before} to {receipt.schema_version}"
        return f"brought the ledger in schema {receipt.schema} from {versions}"
    return f"the ledger in schema {receipt.schema} is at version {receipt.schema_version} already"


def _show_file(path: str) -> None:
    """Show the state of a ledger in a file."""
    with open_existing():
        from treering.storage.sqlite.schema import migrations  # noqa: PLC0415  (loaded by now)

        # Whatever was older is brought up when it is opened; whatever is newer is refused.
        version = len(migrations())
        files = [file for suffix in ("", "-wal") if (file := Path(f"{path}{suffix}")).exists()]
        size = sum(file.stat().st_size for file in files)
    show(
        {"file": path, "schema_version": version, "bytes": size},
        f"file    {path}",
        f"ledger  version {version}",
        f"size    {sized(size)}",
    )


def _ask_password(role: str) -> str:
    is_typed = sys.stdin.isatty()
    if is_typed:
        password = _ask_hidden(f"Password of {role}: ")
    else:
        password = sys.stdin.readline(PASSWORD_BYTES_MAX + 1).rstrip("\r\n")
    if not password.strip() or len(password) > PASSWORD_BYTES_MAX or "\0" in password:
        raise InvalidInput(
            "the password is empty or too long",
            hint=f"give up to {PASSWORD_BYTES_MAX:,} characters, on one line",
        )
    if is_typed and _ask_hidden("Repeat for confirmation: ") != password:
        raise InvalidInput("the two passwords differ", hint="nothing was granted; run it again")
    return password


def _ask_hidden(prompt: str) -> str:
    try:
        return getpass(prompt, sys.stderr)
    except (EOFError, KeyboardInterrupt) as stopped:
        click.echo(err=True)  # The question gets a line of its own.
        if isinstance(stopped, EOFError):
            return ""
        raise


def _scrubbed(receipt: ScrubReceipt) -> str:
    if not receipt.done:
        return "nothing is left to scrub"
    tables = counted(len(receipt.done), "table")
    return f"rewrote {tables}; no erased bytes are left: {', '.join(receipt.done)}"
