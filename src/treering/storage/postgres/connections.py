"""Connections prepared for the ledger: their settings, scope and epoch."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrDumperUnknown

from treering.storage.postgres.faults import translate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.scopes import Scope
    from treering.storage import Durability
    from treering.storage.postgres.address import Address

CONNECT_S: Final = 10
_PATIENCE: Final = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A host that stops answering is given up within 20 seconds."""
LOCK_PATIENCE: Final = "10s"
IDLE_PATIENCE: Final = "60s"
"""An open transaction stalls every follower."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows its scope and epoch."""

    epoch: int = -1
    """Below 0 on a replica, which may be promoted while the connection is open."""
    scope: str | None = None
    owner: int = -1
    """The process that made it, if it was made outside the pool."""


class Bytes(bytes):
    """Bytes sent with their type: arrays need it."""

    __slots__ = ()


class _BytesDumper(BytesBinaryDumper):
    # Untyped, like a NULL: the statement is prepared once, whichever values are NULL.
    oid = 0


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, StrDumperUnknown)
    adapters.register_dumper(bytes, _BytesDumper)
    adapters.register_dumper(Bytes, BytesBinaryDumper)
    return adapters


class _Context:
    """Hands the adapters to each connection."""

    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


_ADAPTERS: Final = _Context(_adapters())


def connect(
    address: Address, durability: Durability = "full", *, read_only: bool = False
) -> Connection:
    """Return a connection prepared for the ledger."""
    connection: Connection = Connection.connect(address.conninfo(), **connection_arguments(address))
    try:
        connection.owner = os.getpid()
        prepare(connection, address, durability, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def naming_faults(address: Address) -> Iterator[None]:
    """Raise the ledger's errors for PostgreSQL's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, address.shown) from error


def connection_arguments(address: Address) -> dict[str, Any]:
    """Return the options of every connection, except those that the address sets."""
    given = conninfo_to_dict(address.conninfo())
    return {name: value for name, value in _PATIENCE.items() if name not in given} | {
        "autocommit": True,
        "prepare_threshold": 2,
        "context": _ADAPTERS,
        "client_encoding": "utf8",
        "fallback_application_name": "treering",
    }


def prepare(
    connection: Connection, address: Address, durability: Durability, *, read_only: bool
) -> None:
    """Set up a new connection for the ledger."""
    connection.execute(
        "SELECT set_config('search_path', %s, false),"
        " set_config('synchronous_commit', coalesce(%s, nullif("
        " current_setting('synchronous_commit'), 'off'), 'on'), false),"
        " set_config('default_transaction_isolation', 'read committed', false),"
        " set_config('default_transaction_read_only',"
        " coalesce(%s, current_setting('default_transaction_read_only')), false),"
        # Every statement reads few rows by an index. Plans are made once, even while the tables
        # are empty, and must suit large ones.
        " set_config('plan_cache_mode', 'force_generic_plan', false),"
        " set_config('enable_seqscan', 'off', false),"
        " set_config('lock_timeout', %s, false),"
        " set_config('idle_in_transaction_session_timeout', %s, false)",
        (
            f'"{address.schema}"',  # After the built-in schema, which always comes first.
            "off" if durability == "normal" else None,
            "on" if read_only else None,
            LOCK_PATIENCE,
            IDLE_PATIENCE,
        ),
    )


def enter_scope(connection: Connection, scope: Scope | None) -> None:
    """Set the scope that row-level security lets this connection see."""
    if scope is not None and connection.scope != scope:
        connection.execute("SELECT set_config('treering.scope', %s, false)", (scope,))
        connection.scope = scope
