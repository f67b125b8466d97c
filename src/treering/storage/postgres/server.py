"""The server: connections with their settings, scope and epoch, and retries when one is lost."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from functools import cached_property, partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import (
    InvalidSqlStatementName,
    ReadOnlySqlTransaction,
    UndefinedFunction,
    UndefinedTable,
)
from psycopg.generators import execute
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrDumperUnknown
from psycopg_pool import ConnectionPool, PoolTimeout

from treering.errors import Closed, NotPermitted, OutcomeUnknown, ReadOnly, TreeringError
from treering.locks import Lock
from treering.storage.postgres import roles, schema
from treering.storage.postgres.faults import is_passing, translate
from treering.storage.postgres.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from psycopg.pq.abc import PGresult

    from treering.model.scopes import Scope
    from treering.storage import Durability, Mode
    from treering.storage.encoding import Row
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


INT8: Final = 20
TEXT: Final = 25
BYTEA: Final = 17
BOOL: Final = 16
"""Types of values, by PostgreSQL's own numbers."""
_BINARY: Final = psycopg.pq.Format.BINARY
Value: TypeAlias = bytes | None
"""A value as it is sent."""


int8: Final = Struct(">q").pack
"""A number as it is sent."""
YES: Final = b"\1"
NO: Final = b"\0"
"""Truth values as they are sent."""


class PreparedStatement:
    """A statement that is sent over and over. Its text has the names of its values in braces."""

    def __init__(self, name: str, statement: str, types: Mapping[str, int]) -> None:
        numbers = {value: f"${at}" for at, value in enumerate(types, 1)}
        self.name: Final = name.encode()
        self.text: Final = statement.format_map(numbers).encode()
        self.types: Final = tuple(types.values())
        self.formats: Final = (_BINARY,) * len(types)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows its scope and epoch."""

    epoch: int = -1
    """Below 0 on a replica, which may be promoted while the connection is open."""
    scope: str | None = None
    owner: int = -1
    """The process that made it, if it was made outside the pool."""

    @cached_property
    def _sent(self) -> dict[PreparedStatement, bool]:
        """Return the statements that were sent here, and whether each is prepared."""
        return {}

    def row(self, statement: PreparedStatement, values: Sequence[Value]) -> list[Any] | None:
        """Return the first row of the result; a fifth of the work that a cursor has with it.

        A statement is prepared when it is sent again.
        """
        sent, sender = self._sent, self.pgconn
        is_prepared = sent.get(statement)
        if is_prepared is None or sender.transaction_status != TransactionStatus.IDLE:
            # A transaction would not survive that the statement is not prepared any more.
            sent[statement] = bool(is_prepared)
            sender.send_query_params(
                statement.text, values, statement.types, statement.formats, _BINARY
            )
        else:
            if not is_prepared:
                sender.send_prepare(statement.name, statement.text, statement.types)
                self._result()
                sent[statement] = True
            sender.send_query_prepared(statement.name, values, statement.formats, _BINARY)
        try:
            result = self._result()
        except InvalidSqlStatementName:
            # psycopg lets go of everything that is prepared when a transaction is rolled back.
            sent[statement] = False
            return self.row(statement, values)
        if not result.ntuples:
            return None
        return [
            value
            if (value := result.get_value(0, column)) is None or result.ftype(column) == BYTEA
            else int.from_bytes(value, "big", signed=True)
            for column in range(result.nfields)
        ]

    def _result(self) -> PGresult:
        result: PGresult = self.wait(execute(self.pgconn))[-1]
        if result.status not in _DONE:
            raise psycopg.errors.error_from_result(result)
        return result


_DONE: Final = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK)


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


CONNECTIONS_MAX: Final = 32
SLICE_S: Final = 2.0
"""The pool waits longer and longer between its tries, so it is asked again."""
PATIENCE_S: Final = 30.0
"""How long to wait for a lost server."""

# The pool would print why it cannot connect; we raise it.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

_ENTER: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN -1 ELSE enter_epoch() END,
  pg_postmaster_start_time()::text
"""

Result = TypeVar("Result")
Done_co = TypeVar("Done_co", covariant=True)


class Attempt(Protocol[Done_co]):
    """Work on a connection that may have been done before."""

    def __call__(self, connection: Connection, *, again: bool) -> Done_co:
        """Do the work; ``again`` says that an earlier try may be committed."""


def _nothing() -> None:
    """Do nothing."""


class Server:
    """Lends connections, translates errors, and retries where that is safe."""

    def __init__(
        self, address: Address, *, durability: Durability = "full", mode: Mode = "rw"
    ) -> None:
        self.address = address
        self.read_only = mode == "ro"
        self._durability = durability
        self._lock = Lock()
        self._pool: tuple[int, ConnectionPool[Connection]] | None = None
        """The process that made it, and the pool."""
        self._loans: weakref.WeakSet[_Loan] = weakref.WeakSet()
        self._spare: list[Connection] = []
        """The connection that the ledger was opened with, unless it is lent.

        A process that does one thing at a time needs no other, and no pool.
        """
        self._aside: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._closed = False
        self._started: str | None = None
        """When the server that we last connected to was started."""
        self.on_loss: Callable[[], None] = _nothing
        """Called when the server may have lost events that were not on its disk yet."""
        with self.naming_faults():
            connection = self.connect()
            try:
                self._look(connection)
                self._enter(connection)
            except BaseException:
                connection.close()
                raise
            self.keep_spare(connection)

    def connect(self) -> Connection:
        """Return a new connection outside the pool."""
        return connect(self.address, self._durability, read_only=self.read_only)

    def naming_faults(self) -> contextlib.AbstractContextManager[None]:
        """Raise the ledger's errors for PostgreSQL's."""
        return naming_faults(self.address)

    def read(self, work: Callable[[Connection], Result], scope: Scope | None = None) -> Result:
        """Do ``work`` within ``scope``, again on another connection if one is lost.

        Without a scope it needs a role that sees all of them.
        """
        return self._persevere(lambda connection, **_: work(connection), scope)

    def fetch(self, statement: str, values: Any, scope: Scope | None = None) -> list[Row]:
        """Return the rows of a statement, read as ``read`` does."""
        return self.read(lambda connection: fetch(connection, statement, values), scope)

    def read_state(self, work: Callable[[Connection], Result], scope: Scope | None) -> Result:
        """Do the same with a connection that shows one state, whatever others write."""

        def look(connection: Connection) -> Result:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return work(connection)

        return self.read(look, scope)

    def write(self, work: Callable[[Connection], Result], scope: Scope | None = None) -> Result:
        """Do ``work`` as ``read`` does, where it may write. It must be safe to do twice."""
        return self.write_once(lambda connection, **_: work(connection), scope)

    def write_once(
        self, work: Attempt[Result], scope: Scope | None = None, event_ids: Sequence[str] = ()
    ) -> Result:
        """Do ``work`` as ``write`` does; ``again`` says that an earlier try may be committed.

        Raise OutcomeUnknown if the server is lost while it may have stored ``event_ids``.
        """
        if self.read_only:
            raise ReadOnly("the ledger was opened read-only", hint="open it with mode='rw'")

        return self._persevere(work, scope, event_ids, writing=True)

    @contextlib.contextmanager
    def lend(
        self, scope: Scope | None = None, timeout_s: float = PATIENCE_S
    ) -> Iterator[Connection]:
        """Lend a connection that sees ``scope``."""
        loan = _Loan(self)
        with loan, loan:
            yield loan.take(scope, timeout_s)

    @contextlib.contextmanager
    def aside(self, scope: Scope) -> Iterator[Connection]:
        """Lend a new connection, for something that may take long."""
        owner, connection = os.getpid(), self.connect()
        self._aside.add(connection)
        try:
            if self.walled:
                enter_scope(connection, scope)
            yield connection
        finally:
            if os.getpid() == owner:
                connection.close()
            else:
                _abandoned.append(connection)

    def close(self) -> None:
        """Close every connection."""
        with self._lock.guard, self._lock:
            self._closed = True
            made, self._pool = self._pool, None
        self._drop_spare()
        if made is not None and made[0] == os.getpid():
            made[1].close()
        for connection in list(self._aside):
            connection.close()

    def take_spare(self) -> Connection | None:
        """Return the spare connection to the caller alone; None if it is in use."""
        try:
            connection = self._spare.pop()
        except IndexError:
            return None
        if connection.owner == os.getpid():
            return connection
        _abandoned.append(connection)
        return None

    def keep_spare(self, connection: Connection) -> None:
        """Keep a connection for the next caller; close it if it cannot be used again."""
        if connection.owner != os.getpid():
            _abandoned.append(connection)  # Lent when its process forked: the parent still uses it.
            return
        connection._pool = None  # noqa: SLF001  (psycopg does not warn of it at exit)
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.close()
            return
        self._spare.append(connection)
        if self._closed:
            self._drop_spare()

    def note_loan(self, loan: _Loan) -> None:
        """Note that a connection of the pool is about to be lent."""
        self._loans.add(loan)

    def drop_pool(self, pool: ConnectionPool[Connection]) -> None:
        """Use another pool from now on; connections of this one are closed once they are back."""
        made = self._pool
        if made is not None and made[1] is pool:
            self._pool = None
        # An interrupt may have left one of its locks taken: we would wait for ever.
        close = partial(pool.close, 0)
        threading.Thread(target=close, name="treering-closer", daemon=True).start()

    def _drop_spare(self) -> None:
        connection = self.take_spare()
        if connection is not None:
            connection.close()

    def after_fork(self) -> None:
        """Continue as the only thread of a child: with another lock and its own connections."""
        self._lock = Lock()
        _abandoned.extend(self._aside)
        self._aside = weakref.WeakSet()
        self._abandon_pool()

    def _persevere(
        self,
        work: Attempt[Result],
        scope: Scope | None,
        event_ids: Sequence[str] = (),
        *,
        writing: bool = False,
    ) -> Result:
        if scope is None and self.walled:
            raise NotPermitted(
                "this role sees one scope at a time",
                hint="name the scope, or connect as the ledger's owner",
            )
        deadline, pause, sent = time.monotonic() + PATIENCE_S, 0.02, False
        while True:
            lent, loan = False, _Loan(self)
            try:
                with loan, loan:
                    connection = loan.take(scope, self._slice(deadline))
                    lent = True
                    if writing and connection.epoch < 0:
                        self._enter_as_primary(connection)
                    return work(connection, again=sent)
            except psycopg.Error as found:
                error = self._reason(found) if isinstance(found, PoolTimeout) else found
                sent = sent or (lent and _may_have_gone_through(error))
                if not is_passing(error) or time.monotonic() + pause > deadline:
                    raise self._failure(error, event_ids if sent else ()) from found
                self._drop_dead(error)
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _enter_as_primary(self, connection: Connection) -> None:
        """Read the epoch of a connection that went to a replica when it was last read."""
        self._enter(connection)
        if connection.epoch < 0:
            raise ReadOnlySqlTransaction("the server is a replica")

    def _slice(self, deadline: float) -> float:
        """Return how long to wait for the pool at a time: after a restart it is asked again."""
        return min(max(deadline - time.monotonic(), 0.1), SLICE_S)

    def _reason(self, error: PoolTimeout) -> psycopg.Error:
        """Return why the pool has no connection: it does not say."""
        try:
            self.connect().close()
        except psycopg.Error as reason:
            return reason
        made = self._pool
        if made is not None and len(self._loans) < made[1].get_stats()["pool_size"]:
            # Callers were interrupted before they could note what the pool gave them.
            self.drop_pool(made[1])
        return error

    def _drop_dead(self, error: psycopg.Error) -> None:
        """Discard the connections that were lost together with one."""
        if _may_have_gone_through(error) and not isinstance(error, PoolTimeout):
            self.on_loss()
            self._drop_spare()
            made = self._pool
            if made is not None:
                with contextlib.suppress(psycopg.Error):
                    made[1].check()

    def _failure(self, error: psycopg.Error, event_ids: Sequence[str]) -> TreeringError:
        if event_ids:
            return OutcomeUnknown(
                f"{self.address.shown} was lost while recording: the events may be stored or not",
                event_ids=event_ids,
                hint="append them again with the same event ids: none is recorded twice",
            )
        if isinstance(error, UndefinedTable | UndefinedFunction) and not self._may_look():
            return NotPermitted(
                f"{self.address.shown} is closed to this role",
                hint="have the ledger's owner run treering db grant",
            )
        return translate(error, self.address.shown)

    def _may_look(self) -> bool:
        """Whether this role may use the schema; if not, its tables seem not to exist."""
        try:
            with self.connect() as connection:
                row = connection.execute(
                    "SELECT has_schema_privilege(%s, 'USAGE')", (self.address.schema,)
                ).fetchone()
        except psycopg.Error:
            return True
        return row is None or bool(row[0])

    def _look(self, connection: Connection) -> None:
        """Check or create the ledger, and read the facts that hold for all connections."""
        schema.check_server(connection, self.address)
        version = schema.stored_version(connection, self.address)
        row = connection.execute(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean"
        ).fetchone()
        fixed = row is not None and (row[0] or row[1])
        if fixed and not self.read_only:
            raise ReadOnly(
                f"{self.address.shown} is a read-only replica, or the database is set read-only",
                hint="write to the primary; it can be read here, in Python with mode='ro'",
            )
        if not schema.is_current(version):
            if self.read_only:
                schema.check_version(version, self.address)
            with connection.transaction():
                schema.migrate(connection, self.address)
                roles.renew(connection, self.address)
        facts = connection.execute(
            "SELECT row_security_active('events'),"
            " (SELECT value FROM ledger WHERE name = 'lock_key'),"
            " (SELECT value FROM ledger WHERE name = 'id'),"
            " (SELECT value::bigint FROM ledger WHERE name = 'rekeyed_ms')"
        ).fetchone()
        if facts is None:
            raise AssertionError
        self.walled: bool = facts[0]
        try:
            self.lock_key: bytes = bytes.fromhex(facts[1] or "")
        except ValueError:
            self.lock_key = b""
        if not self.lock_key or facts[2] is None:
            raise schema.damaged(self.address, "its name or its key of locks is gone")
        self.ledger_id: str = facts[2]
        self.rekeyed_ms: int | None = facts[3]

    def open_pool(self) -> ConnectionPool[Connection]:
        """Return the pool of this process."""
        made = self._pool
        if made is not None and made[0] == os.getpid():
            return made[1]
        with self._lock.guard, self._lock:
            if self._closed:
                raise Closed("the ledger is closed", hint="open it again")
            if self._pool is not None and self._pool[0] != os.getpid():
                self._abandon_pool()
            if self._pool is None:
                self._pool = (os.getpid(), self._make_pool())
            return self._pool[1]

    def _abandon_pool(self) -> None:
        if self._pool is not None:
            # The parent's sockets: closing them here would end them there.
            _abandoned.append(self._pool[1])
            self._pool = None

    def _make_pool(self) -> ConnectionPool[Connection]:
        pool = ConnectionPool(
            self.address.conninfo(),
            connection_class=Connection,
            kwargs=connection_arguments(self.address),
            min_size=0,  # With 1, the first caller would make the pool open a second one.
            max_size=CONNECTIONS_MAX,
            open=False,
            configure=self._configure,
            name="treering",
            num_workers=1,
            reconnect_timeout=SLICE_S,
        )
        pool.open()
        return pool

    def _configure(self, connection: Connection) -> None:
        prepare(connection, self.address, self._durability, read_only=self.read_only)
        self._enter(connection)

    def _enter(self, connection: Connection) -> None:
        """Read the epoch of a connection, and whether the server was restarted."""
        row = connection.execute(_ENTER).fetchone()
        if row is None:
            raise AssertionError
        connection.epoch, started = row
        if started != self._started:
            self._started = started
            self.on_loss()


class _Loan:
    """Gives a connection back at the end of a ``with``; entered twice, in any case."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pool: ConnectionPool[Connection] | None = None
        self._connection: Connection | None = None

    def take(self, scope: Scope | None, timeout_s: float) -> Connection:
        """Return the spare connection, or one of the pool, that sees ``scope``."""
        self._connection = self._server.take_spare()
        if self._connection is None:
            pool = self._server.open_pool()
            self._server.note_loan(self)
            self._pool = pool
            self._connection = pool.getconn(timeout_s)
        if self._server.walled:
            enter_scope(self._connection, scope)
        return self._connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        connection = self._connection
        is_interrupted = kind is not None and not issubclass(kind, TreeringError | psycopg.Error)
        if connection is None:
            if is_interrupted and self._pool is not None:
                self._server.drop_pool(self._pool)  # It may just have given us one.
            return
        is_ours = self._pool is not None or connection.owner == os.getpid()
        if is_ours and is_interrupted:
            # Interrupted, so its state is unknown. The server rolls back what was open.
            connection.close()
        if self._pool is None:
            self._connection = None  # First: it must not be given back twice.
            self._server.keep_spare(connection)
            return
        with contextlib.suppress(ValueError):  # It is back, and we were interrupted then.
            self._pool.putconn(connection)
        self._connection = self._pool = None


_abandoned: list[ConnectionPool[Connection] | Connection] = []
"""Connections of a parent process, kept so that nothing closes them."""


def _may_have_gone_through(error: psycopg.Error) -> bool:
    """Whether a statement may have been committed although it raised ``error``."""
    # A server that reports an error has rolled back, unless it is shutting down.
    # A pooler in between has codes of its own for a server that it lost.
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))
