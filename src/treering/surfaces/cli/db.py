"""``treering db``: laying out and looking after a ledger on a database server."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import fail, invocation, show
from treering.surfaces.cli.declare import command, flag, group, option, resolve_scope
from treering.surfaces.cli.ledgers import database_path, open_existing
from treering.surfaces.cli.output import note
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.model.receipts import (
        Blocker,
        DatabaseStatus,
        InitReceipt,
        Partition,
        ScrubReceipt,
    )
    from treering.storage.postgres.administration import Administration

PASSWORD_BYTES_MAX: Final = 1_000

role_option = option("ROLE", "A role of the server.", required=True)
PARTITIONS_SHOWN_MAX: Final = 8
EVEN: Final = 1.5
"""A partition is reported if it is larger than this many times the smallest."""
BEHIND_BYTES_MIN: Final = 64 * 1024
"""A replica that lags less is up to date: a little is always in flight."""
_MARGIN: Final = 12


@group(
    "db",
    keys=False,
    commands="init status grant revoke scrub",
    examples="""
    treering db init --db postgresql://owner@db.example.org/agents
    treering db grant --role lyria --scope acme/app --set-password
    treering db status
    """,
)
def db() -> None:
    """Set up, inspect and share a ledger on PostgreSQL.

    These commands are for the owner of the ledger. They show no content.
    """


@command(
    keys=False,
    short_help="Create a ledger, or migrate it to the newest schema.",
    examples="""
    treering db init --db postgresql://owner@db.example.org/agents
    treering db init --partitions 64
    """,
    if_stopped="everything was created or nothing was; run it again",
)
def init(
    *,
    partitions: int | None = option(
        "N", "Spread the events over N tables; fixed once created. Default: 16.", type=int
    ),
) -> None:
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


@command(
    keys=False,
    short_help="Show the state of a ledger and its server.",
    examples="""
    treering db status
    treering db status --json
    """,
)
def status() -> None:
    """Show version, size, roles, replicas, and who keeps followers or an erasure waiting."""
    from treering.app import is_server  # noqa: PLC0415  (not for --help)

    path = database_path()
    if is_server(path):
        database = _administration().status()
        show(database, *lines_of(database))
    else:
        _show_file(path)


@command(
    keys=False,
    short_help="Let a role use the ledger.",
    examples="""
    treering db grant --role app --set-password
    treering db grant --role lyria --scope acme/app
    """,
    if_stopped="the grant is complete or missing; run it again",
)
def grant(
    *,
    role: str = role_option,
    scope: str | None = option(
        "SCOPE", "Limit the role to this scope; repeat the command for more. Default: any scope."
    ),
    set_password: bool = flag("Ask for a password, or read one line of standard input."),
) -> None:
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


@command(
    keys=False,
    short_help="Revoke what was granted.",
    examples="""
    treering db revoke --role app
    treering db revoke --role lyria --scope acme/app
    """,
    if_stopped="see treering db status for what the role still has",
)
def revoke(
    *, role: str = role_option, scope: str | None = option("SCOPE", "Revoke only this scope.")
) -> None:
    """Revoke what was granted to a role; the role itself stays, and can do nothing here."""
    name = None if scope is None else resolve_scope(scope, is_global=False)
    _administration().revoke(role, name)
    show(
        {"role": role, "scope": name},
        f"role {role} may no longer use {'the ledger' if name is None else f'scope {name}'}",
        done="the grant was revoked",
    )


@command(
    keys=False,
    short_help="Remove erased bytes from the tables.",
    examples="""
    treering db scrub
    """,
    if_stopped="tables that were not rewritten are still listed; run it again",
)
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
            " or run it as the owner (for pg_statistic, as a superuser)",
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


def lines_of(status: DatabaseStatus) -> Iterator[str]:
    """Return what a person wants to know of ``status``, one thing a line."""
    for title, lines in (
        ("server", [f"PostgreSQL {status.server}{', a replica' if status.is_replica else ''}"]),
        ("ledger", [f"schema {status.schema}, {_version(status)}"]),
        ("size", [sized(status.bytes)]),
        ("partitions", _partitions(status.partitions)),
        ("followers", _followers(status)),
        ("replicas", _replicas(status)),
        ("erasure", [_erasure(status)]),
        ("roles", _roles(status.roles)),
        ("changes", _changes(status)),
    ):
        yield from _titled(title, lines)


def _changes(status: DatabaseStatus) -> Iterator[str]:
    """Say how the schema differs from what this program makes, if it does."""
    yield from status.differences
    if status.differences:
        yield "treering db init renews the walls: policies, grants; a backup has the rest"


def sized(size: int) -> str:
    """Return ``512 bytes`` or ``1.2 MB``, of 1,024 each, as PostgreSQL shows sizes."""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1_000:
            break
        amount, unit = amount / 1_024, larger
    digits = 1 if amount < 10 and unit != "bytes" else 0
    return f"{amount:,.{digits}f} {unit}"


def lasting(seconds: float) -> str:
    """Return ``12 s``, ``3 min`` or ``5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{title:<{_MARGIN}}{line}"
        title = ""


def _version(status: DatabaseStatus) -> str:
    version, expected = status.schema_version, status.schema_version_known
    if version < expected:
        return f"version {version} of {expected}: run treering db init"
    if version > expected:
        return f"version {version}, newer than this program: upgrade treering"
    return f"version {version}"


def _partitions(partitions: Sequence[Partition]) -> Iterator[str]:
    by_size = sorted(partitions, key=lambda partition: (-partition.bytes, partition.name))
    smallest = by_size[-1].bytes if by_size else 0
    larger = [partition for partition in by_size if partition.bytes > smallest * EVEN]
    if not larger:
        total = sum(partition.events_estimated for partition in by_size)
        yield f"{len(by_size)} of {sized(smallest)} each{_events(total)}"
        return
    shown = larger[:PARTITIONS_SHOWN_MAX]
    width = max(len(partition.name) for partition in shown)
    for partition in shown:
        size = sized(partition.bytes)
        yield f"{partition.name:<{width}}  {size:>8}{_events(partition.events_estimated)}"
    rest = by_size[len(shown) :]
    yield f"and {len(rest)} of {sized(rest[0].bytes)} or less"


def _events(estimated: int) -> str:
    # The server has no estimate before it first analyses a table.
    return f", about {counted(estimated, 'event')}" if estimated else ""


def _followers(status: DatabaseStatus) -> Iterator[str]:
    waiting, blocker = status.events_unsettled, status.blocker
    events = f"{counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'}"
    if blocker is None:
        yield f"{events} a moment longer" if waiting else "see every event"
        return
    yield f"{events} for {_who(blocker)}" if waiting else f"wait for {_who(blocker)}"
    if blocker.pid is not None:
        yield f"to end it: SELECT pg_terminate_backend({blocker.pid})"
    else:
        yield f"to end it: ROLLBACK PREPARED '{blocker.prepared}', or COMMIT PREPARED"


def _who(blocker: Blocker) -> str:
    what = (
        f"prepared transaction {blocker.prepared}" if blocker.pid is None else f"pid {blocker.pid}"
    )
    since = "" if blocker.seconds is None else f" for {lasting(blocker.seconds)}"
    state = "open" if blocker.state in {None, "prepared"} else blocker.state
    facts = [f"user {blocker.user}" if blocker.user else "", blocker.application, f"{state}{since}"]
    return f"{what} ({', '.join(fact for fact in facts if fact)})"


def _replicas(status: DatabaseStatus) -> Iterator[str]:
    if status.is_replica:
        yield "see them on the primary"
    elif not status.replicas:
        yield "none"
    for replica in status.replicas:
        behind = replica.bytes_behind
        if behind is None:
            lag = "how far is unknown"
        else:
            lag = "up to date" if behind < BEHIND_BYTES_MIN else f"{sized(behind)} behind"
        yield f"{replica.name}: {replica.state}, {lag}"


def _erasure(status: DatabaseStatus) -> str:
    pending = status.erasure_pending
    if not pending:
        return "nothing is left to scrub"
    hold = "holds" if len(pending) == 1 else "hold"
    who = " as a superuser" if "pg_statistic" in pending else ""
    return f"{', '.join(pending)} still {hold} erased bytes: run treering db scrub{who}"


def _roles(roles: dict[str, list[str] | None]) -> Iterator[str]:
    if not roles:
        yield "none but the owner: see treering db grant"
        return
    width = max(len(role) for role in roles)
    for role, scopes in roles.items():
        yield f"{role:<{width}}  {_held(scopes)}"


def _held(scopes: Sequence[str] | None) -> str:
    if scopes is None:
        return "states its scope"
    return f"held to {', '.join(scopes)}" if scopes else "held, to no scope that can be seen here"
