"""Administration of a ledger on PostgreSQL: its schema, roles and state."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.model.receipts import (
    Blocker,
    DatabaseStatus,
    InitReceipt,
    Partition,
    Replica,
    ScrubReceipt,
)
from treering.model.scopes import parse_scope
from treering.storage.postgres import eraser, roles, schema
from treering.storage.postgres.schema import differences
from treering.storage.postgres.server import Connection, connect, naming_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.storage.postgres.address import Address

PARTITIONS_MAX: Final = 1_024
EXTENSIONS: Final = ("vector", "pg_trgm")
"""Extensions that the ledger can use."""

_PARTITIONS: Final = """
SELECT c.relname, pg_total_relation_size(c.oid), greatest(c.reltuples, 0)::bigint
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'events'::regclass
ORDER BY c.relname
"""
_BYTES: Final = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
FROM pg_class
WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'm', 'S')
"""
_UNSETTLED: Final = """
SELECT coalesce(sum(found.events), 0)::bigint
FROM scopes AS s
CROSS JOIN LATERAL (
  SELECT count(*) AS events
  FROM events AS e
  WHERE e.scope = s.scope AND e.epoch = %s
    AND e.xid >= pg_snapshot_xmin(pg_current_snapshot())
) AS found
"""
# Transactions that have written and not ended; no follower reads past the first of them.
_BLOCKER: Final = """
SELECT pid, usename, application_name, state, extract(epoch FROM now() - since)::float8, gid
FROM (
  SELECT pid, usename, application_name, state, xact_start AS since, NULL AS gid, backend_xid AS xid
  FROM pg_stat_activity
  WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL
  SELECT NULL, owner, '', 'prepared', prepared, gid, transaction
  FROM pg_prepared_xacts
) AS writing
ORDER BY age(xid) DESC
LIMIT 1
"""
_REPLICAS: Final = """
SELECT coalesce(nullif(application_name, ''), client_addr::text, 'replica'), state,
  pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint
FROM pg_stat_replication
ORDER BY 1
"""


class Administration:
    """The tasks of the owner of a ledger on PostgreSQL."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def init(self, *, partitions: int | None = None, with_roles: bool = True) -> InitReceipt:
        """Create the ledger with its roles, or upgrade it to the newest schema."""
        address = self._address
        if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidInput(
                f"a ledger has 1 to {PARTITIONS_MAX} partitions, not {partitions}",
                hint=f"leave it out for {schema.PARTITIONS}",
            )
        with self._connected() as connection:
            schema.check_server(connection, address)
            with connection.transaction():
                # The lock of a migration holds for the roles, too: others may be making them.
                before = schema.migrate(connection, address, partitions or schema.PARTITIONS)
                if not schema.is_current(before):
                    roles.renew(connection, address)
                made = with_roles and roles.make(connection, address)
            if before and not schema.is_current(before):
                # An upgrade may take something out, and cannot rewrite a table itself.
                eraser.scrub(connection, bytes_max=eraser.SCRUB_BYTES_MAX)
            return InitReceipt(
                schema=address.schema,
                schema_version_before=before,
                schema_version=schema.stored_version(connection, address),
                partitions=int(_setting(connection, "partitions")),
                roles=[address.app_role, address.scoped_role] if made else [],
            )

    def grant(self, role: str, scope: str | None = None, *, password: str | None = None) -> None:
        """Let ``role`` use the ledger: restricted to ``scope``, or to any scope that it states."""
        name = None if scope is None else parse_scope(scope)
        with self._connected() as connection:
            roles.grant(connection, self._address, role, name, password)

    def revoke(self, role: str, scope: str | None = None) -> None:
        """Revoke a grant."""
        name = None if scope is None else parse_scope(scope)
        with self._connected() as connection:
            roles.revoke(connection, self._address, role, name)

    def scrub(self) -> ScrubReceipt:
        """Rewrite every table whose files still hold bytes of erased rows, however large."""
        with self._connected() as connection:
            before = eraser.pending(connection)
            eraser.scrub(connection)
            left = eraser.pending(connection)
            return ScrubReceipt(
                done=[relation for relation in before if relation not in left], pending=left
            )

    def status(self) -> DatabaseStatus:
        """Return the state of the ledger and its server."""
        address = self._address
        with self._connected(read_only=True) as connection:
            schema.check_server(connection, address)
            version = schema.stored_version(connection, address)
            if not version:
                schema.check_version(version, address)
            is_replica = _value(connection, "SELECT pg_is_in_recovery()")
            epoch = int(_setting(connection, "epoch"))
            return DatabaseStatus(
                server=connection.info.parameter_status("server_version") or "",
                is_replica=is_replica,
                schema=address.schema,
                schema_version=version,
                schema_version_known=len(schema.migrations()),
                bytes=_value(connection, _BYTES, (address.schema,)),
                partitions=[
                    Partition(name=name, bytes=size, events_estimated=events)
                    for name, size, events in connection.execute(_PARTITIONS)
                ],
                epoch=epoch,
                events_unsettled=_value(connection, _UNSETTLED, (epoch,)),
                blocker=_blocker(connection),
                replicas=[] if is_replica else _replicas(connection),
                erasure_pending=eraser.pending(connection),
                roles=roles.members(connection, address),
                extensions=_extensions(connection),
                differences=differences(connection, address) if schema.is_current(version) else [],
            )

    @contextlib.contextmanager
    def _connected(self, *, read_only: bool = False) -> Iterator[Connection]:
        with (
            naming_faults(self._address),
            connect(self._address, read_only=read_only) as connection,
        ):
            yield connection


def _blocker(connection: Connection) -> Blocker | None:
    row = connection.execute(_BLOCKER).fetchone()
    if row is None:
        return None
    pid, user, application, state, seconds, prepared = row
    return Blocker(
        pid=pid, user=user, application=application, state=state, seconds=seconds, prepared=prepared
    )


def _replicas(connection: Connection) -> list[Replica]:
    rows = connection.execute(_REPLICAS).fetchall()
    return [
        Replica(name=name, state=state, bytes_behind=behind)
        for name, state, behind in rows
        if state is not None
    ]


def _extensions(connection: Connection) -> dict[str, str | None]:
    rows = connection.execute(
        "SELECT name, coalesce(installed_version, 'available') FROM pg_available_extensions"
        " WHERE name = ANY(%s::text[])",
        (list(EXTENSIONS),),
    ).fetchall()
    versions = dict(rows)
    return {name: versions.get(name) for name in EXTENSIONS}


def _setting(connection: Connection, name: str) -> str:
    return str(_value(connection, "SELECT value FROM ledger WHERE name = %s", (name,)))


def _value(connection: Connection, statement: str, values: tuple[Any, ...] = ()) -> Any:
    row = connection.execute(statement, values).fetchone()
    return row[0] if row else None
