"""PostgreSQL's errors, translated to the ledger's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from treering.errors import (
    Busy,
    Closed,
    Corrupt,
    NotPermitted,
    ReadOnly,
    StorageError,
    StorageFull,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from treering.errors import TreeringError

_PASSING: Final = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.TooManyConnections,
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.ReadOnlySqlTransaction,
    pg.IdleInTransactionSessionTimeout,
    pg.IdleSessionTimeout,
    PoolTimeout,
    TooManyRequests,
)
"""Errors that another try may avoid: restarts, failovers, deadlocks."""


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same call may succeed on a new connection, or a little later."""
    if isinstance(error, _PASSING):
        return True
    # No code from the server, or a pooler's: the connection was lost, or refused. What was cut off
    # amid an answer may be no answer that psycopg knows: an internal error.
    lost = error.sqlstate is None or error.sqlstate.startswith("08")
    return isinstance(error, psycopg.OperationalError | psycopg.InternalError) and lost


_LOGIN: Final = (
    NotPermitted,
    "{shown} refuses the login: {text}",
    "check user and password: in the URL, PGPASSWORD, or ~/.pgpass",
)
_UNREACHABLE: Final = (
    Unavailable,
    "{shown} cannot be reached: {text}",
    "check host, port and that the server runs, then try again",
)
_CROWDED: Final = (
    Busy,
    "{shown} has no connection left: {text}",
    "close programs that you do not need, raise max_connections, or put a pooler before the server",
)
_FORBIDDEN: Final = (
    NotPermitted,
    "{shown}: {text}",
    "connect as the ledger's owner, or have treering db init and db grant run by the owner",
)
_NO_DATABASE: Final = (
    Unavailable,
    "{shown}: {text}",
    "make the database first: createdb, or CREATE DATABASE",
)
_REFUSALS: Final = (
    ('FATAL:  database "', _NO_DATABASE),
    ('FATAL:  role "', _LOGIN),
    ("permission denied", _FORBIDDEN),
    ("pg_hba.conf", _LOGIN),
    ("too many clients", _CROWDED),
    ("too many connections", _CROWDED),
    ("connection slots are reserved", _CROWDED),
    ("password", _LOGIN),
    ("authentication", _LOGIN),
)
"""Messages of a server that refuses a connection: it sends no code then."""
_TOO_SLOW: Final = (
    Busy,
    "{shown} was too slow for a time limit, nothing of this call was recorded: {text}",
    "see treering db status for what it waits for; or ALTER ROLE … SET statement_timeout",
)
_EXTENSION: Final = (
    Unsupported,
    "{shown}: {text}",
    "install the extension on the server, then run treering db init",
)
_TRANSLATIONS: Final[tuple[tuple[Any, tuple[type[StorageError], str, str]], ...]] = (
    (PoolClosed, (Closed, "the ledger is closed", "open it again")),
    (pg.InvalidPassword | pg.InvalidAuthorizationSpecification, _LOGIN),
    (pg.InvalidCatalogName, _NO_DATABASE),
    (pg.ReadOnlySqlTransaction, (
        ReadOnly,
        "{shown} is a read-only replica, or the database is set read-only",
        "write to the primary; it can be read here, in Python with mode='ro'",
    )),
    (pg.InsufficientPrivilege, _FORBIDDEN),
    (pg.DiskFull | pg.ConfigurationLimitExceeded, (
        StorageFull,
        "the server is out of room, nothing of this call was recorded: {text}",
        "free some space on the server, then try again",
    )),
    (pg.OutOfMemory, (
        StorageFull,
        "the server is out of memory, nothing of this call was recorded: {text}",
        "see the server's log; fewer connections or less work_mem leave it more",
    )),
    (pg.TooManyConnections, _CROWDED),
    (pg.LockNotAvailable | pg.DeadlockDetected | pg.SerializationFailure, (
        Busy,
        "{shown} is kept locked by another transaction: {text}",
        "see treering db status for who holds it, then try again",
    )),
    (pg.QueryCanceled, (
        Busy,
        "{shown} cancelled a statement, nothing of this call was recorded: {text}",
        "somebody ended it on the server, with pg_cancel_backend for instance: try again",
    )),
    (pg.UndefinedTable | pg.UndefinedFunction | pg.UndefinedColumn, (
        StorageError,
        "{shown} lacks a part of the ledger: {text}",
        "run treering db init; treering db status shows what is there",
    )),
    (PoolTimeout | TooManyRequests, (
        Busy,
        "every connection of this process to {shown} is in use",
        "use fewer threads at a time, and take exports to their end",
    )),
    (psycopg.OperationalError, _UNREACHABLE),
)  # fmt: skip
"""For each of PostgreSQL's errors: ours, its message, and its hint."""


def translate(error: psycopg.Error, shown: str) -> TreeringError:
    """Return the ledger's error for PostgreSQL's ``error``; ``shown`` names the ledger."""
    text = _first_line(error)
    if isinstance(error, pg.DataCorrupted | pg.IndexCorrupted):
        return Corrupt(
            f"{shown} is damaged: {text}", hint="restore from a backup, then run treering verify"
        )
    if isinstance(error, pg.InsufficientPrivilege) and "row-level security" in text:
        return NotPermitted(
            f"{shown} does not let this role into that scope",
            hint="have the ledger's owner run treering db grant with --scope",
        )
    translation = next((entry for kinds, entry in _TRANSLATIONS if isinstance(error, kinds)), None)
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        translation = next((entry for word, entry in _REFUSALS if word in text), translation)
    elif isinstance(error, pg.QueryCanceled) and "timeout" in text:
        translation = _TOO_SLOW
    elif isinstance(error, pg.FeatureNotSupported | pg.UndefinedFile) and "extension" in text:
        translation = _EXTENSION
    if translation is None:
        return StorageError(f"{shown}: {text}", hint="see the server's log")
    ours, message, hint = translation
    return ours(message.format(shown=shown, text=text), hint=hint)


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary or str(error)
    lines = [line.strip() for line in primary.splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    # Our own message says it already.
    return text.removeprefix("connection failed: ")
