"""Row-level security: roles that see one scope, whatever they ask for.

An application's role states its scope in each transaction and sees that scope: this guards against
mistakes. A scoped role cannot state a scope that it was not granted: this withstands hostile SQL.
Neither may touch a partition, for policies apply to the table that a query names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from treering.errors import InvalidInput, NotFound
from treering.storage.postgres.schema import HASHING, SCRUBBED, lock

if TYPE_CHECKING:
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.server import Connection

WALLED: Final = (
    *("scopes", "seals", "sessions", "heads", "events", "blobs", "runs", "retention"),
    *("cursors", "tool_calls", "tool_extras", "tool_marks", "forks", "snapshots"),
    "record_keys",
    *("search_documents", "search_marks"),
    *("memory_rows", "memory_marks", "memory_shelves", "memory_documents"),
)
MAINTAIN_VERSION: Final = 170_000
"""From this version on VACUUM can be granted."""

_PRIVILEGES: Final = """
GRANT USAGE ON SCHEMA {schema} TO {app}, {scoped};
GRANT SELECT ON ledger, grants, episodic_events TO {app}, {scoped};
GRANT SELECT, INSERT ON
  scopes, seals, heads, forks, events, blobs, runs, retention, cursors, scrubs TO {app}, {scoped};
GRANT SELECT, INSERT (scope, key, name, salt, genesis) ON sessions TO {app}, {scoped};
GRANT UPDATE (days) ON retention TO {app}, {scoped};
GRANT UPDATE (cursor) ON cursors TO {app}, {scoped};
GRANT UPDATE (round) ON seals TO {app}, {scoped};
GRANT UPDATE (key, name, salt) ON sessions TO {app}, {scoped};
GRANT UPDATE (seq, key, link) ON heads TO {app}, {scoped};
GRANT UPDATE (run_id, state, last_seq, writer) ON runs TO {app}, {scoped};
GRANT UPDATE (key) ON blobs TO {app}, {scoped};
GRANT UPDATE (since) ON scrubs TO {app}, {scoped};
GRANT UPDATE (
  event_id, summary, refs, payload, salt, blob, payload_bytes, flags, event_name, source, origin,
  run_id,
  run_seq, turn_id, agent_id, user_id, ts_ms, recorded_ms, content_digest
) ON events TO {app}, {scoped};
GRANT DELETE ON blobs, retention TO {app}, {scoped};
GRANT SELECT, INSERT, UPDATE, DELETE ON
  tool_calls, tool_extras, tool_marks, snapshots, record_keys, search_documents, search_marks,
  memory_rows, memory_marks, memory_shelves, memory_documents
  TO {app}, {scoped};
GRANT DELETE ON scrubs TO {app};
GRANT USAGE ON SEQUENCE event_positions, sessions_id_seq TO {app}, {scoped};
GRANT EXECUTE ON FUNCTION
  enter_epoch(), search_scope(text, text[], text[], bigint, bigint, bigint, bigint),
  nearest_documents(text, text, text, bytea, bigint, bigint)
  TO {app}, {scoped};
"""
_POLICIES: Final = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS stated ON {table};
CREATE POLICY stated ON {table} TO {app}
  USING (scope = current_setting('treering.scope', true));
DROP POLICY IF EXISTS granted ON {table};
CREATE POLICY granted ON {table} TO {scoped}
  USING (scope IN (SELECT g.scope FROM grants AS g WHERE g.role = current_user));
"""
# A query that names a partition is subject to the partition's policies: it has none.
_CLOSED: Final = """
ALTER TABLE {part} ENABLE ROW LEVEL SECURITY;
REVOKE ALL ON {part} FROM PUBLIC, {app}, {scoped};
"""
_OWN_GRANTS: Final = """
DROP POLICY IF EXISTS own ON grants;
CREATE POLICY own ON grants FOR SELECT TO {scoped} USING (role = current_user);
"""
_MAKE: Final = """
DO $$ BEGIN
  CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$
"""
_MEMBER: Final = """
SELECT 1
FROM pg_auth_members AS a
JOIN pg_roles AS r ON r.oid = a.roleid
JOIN pg_roles AS m ON m.oid = a.member
WHERE m.rolname = %s AND r.rolname = %s
"""
_HELD: Final = "SELECT 1 FROM grants WHERE role = %s AND scope = %s"
_MEMBERS: Final = """
SELECT m.rolname, r.rolname
FROM pg_auth_members AS a
JOIN pg_roles AS r ON r.oid = a.roleid
JOIN pg_roles AS m ON m.oid = a.member
WHERE r.rolname IN (%s, %s)
ORDER BY 1
"""


def make(connection: Connection, address: Address) -> bool:
    """Create the ledger's roles and policies; return False if this user may not create roles."""
    names = _names(address)
    try:
        with connection.transaction():
            for role in ("app", "scoped"):
                _make_group(connection, address, getattr(address, f"{role}_role"), names[role])
    except InsufficientPrivilege:
        return False
    _let_in(connection, names)
    return True


def renew(connection: Connection, address: Address) -> None:
    """Give the ledger's roles, if it has any, access to new tables of an upgrade."""
    if _are_laid(connection, address):
        _let_in(connection, _names(address))


def _let_in(connection: Connection, names: dict[str, sql.Identifier]) -> None:
    with connection.transaction():
        connection.execute(sql.SQL(_PRIVILEGES).format(**names))
        for table in WALLED:
            connection.execute(sql.SQL(_POLICIES).format(table=sql.Identifier(table), **names))
        connection.execute(sql.SQL(_OWN_GRANTS).format(**names))
        for part in _partitions(connection):
            connection.execute(sql.SQL(_CLOSED).format(part=sql.SQL(part), **names))
        if connection.info.server_version >= MAINTAIN_VERSION:
            _let_maintain(connection, names)


def _make_group(connection: Connection, address: Address, role: str, name: sql.Identifier) -> None:
    """Create a group role. Raise InvalidInput if it belongs to another ledger.

    Roles belong to the whole server: members in another database would have access here.
    """
    row = connection.execute(
        "SELECT oid::text FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    mark = f"treering, schema {address.schema} of database {row[0] if row else ''}"
    comment = connection.execute(
        "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s", (role,)
    ).fetchone()
    if comment is None:
        connection.execute(sql.SQL(_MAKE).format(role=name))
        connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(mark)))
    elif (comment[0] or mark) != mark:
        if not _is_left_over(connection, address, role, comment[0]):
            raise InvalidInput(
                f"the role {role} belongs to a ledger in another database of this server",
                hint=f"give this one its own schema: ?schema={address.schema}_2",
            )
        connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(mark)))


def _is_left_over(connection: Connection, address: Address, role: str, mark: str) -> bool:
    """Whether a role's database is gone and this one was restored from its dump.

    A dump has the privileges of the role, so that its members have access already.
    """
    row = connection.execute(
        "SELECT has_schema_privilege(%s, %s, 'USAGE')"
        " AND NOT EXISTS (SELECT FROM pg_database WHERE oid::text = %s)",
        (role, address.schema, mark.rpartition(" ")[2]),
    ).fetchone()
    return row is not None and bool(row[0])


def grant(
    connection: Connection, address: Address, role: str, scope: str | None, password: str | None
) -> None:
    """Let ``role`` use the ledger; create the role if it does not exist."""
    with connection.transaction():
        lock(connection)
        _check_walls(connection, address)
        _check_name(address, role)
        if not _exists(connection, role):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        _check_holdable(connection, address, role, scope)
        if password is not None:
            # Hashed here: a server may log its statements.
            hashed = connection.pgconn.encrypt_password(
                password.encode(), role.encode(), b"scram-sha-256"
            )
            connection.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(role), sql.Literal(hashed.decode())
                )
            )
        group = address.app_role if scope is None else address.scoped_role
        connection.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(role))
        )
        if scope is not None:
            connection.execute(
                "INSERT INTO grants (role, scope) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (role, scope),
            )


def revoke(connection: Connection, address: Address, role: str, scope: str | None) -> None:
    """Revoke a scope, or the rights of an application, from ``role``."""
    with connection.transaction():
        lock(connection)
        if not _is_granted(connection, address, role, scope):
            what = "the ledger" if scope is None else f"scope {scope}"
            held = connection.execute(
                "SELECT string_agg(scope, ', ' ORDER BY scope) FROM grants WHERE role = %s", (role,)
            ).fetchone()
            raise NotFound(
                f"{role} was not granted {what}",
                hint=f"it is limited to {held[0]}: name one of them"
                if held and held[0]
                else "treering db status shows who was",
            )
        if scope is not None:
            connection.execute("DELETE FROM grants WHERE role = %s AND scope = %s", (role, scope))
            left = connection.execute(
                "SELECT 1 FROM grants WHERE role = %s LIMIT 1", (role,)
            ).fetchone()
            if left is not None:
                return
        group = address.app_role if scope is None else address.scoped_role
        connection.execute(
            sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(group), sql.Identifier(role))
        )


def members(connection: Connection, address: Address) -> dict[str, list[str] | None]:
    """Return the roles that may use the ledger and their scopes; None states its own."""
    rows = connection.execute(_MEMBERS, (address.app_role, address.scoped_role)).fetchall()
    held: dict[str, list[str]] = {}
    for role, scope in connection.execute("SELECT role, scope FROM grants ORDER BY 1, 2"):
        held.setdefault(role, []).append(scope)
    return {
        member: None if group == address.app_role else held.get(member, [])
        for member, group in rows
    }


def _is_granted(connection: Connection, address: Address, role: str, scope: str | None) -> bool:
    statement, value = (_MEMBER, address.app_role) if scope is None else (_HELD, scope)
    return connection.execute(statement, (role, value)).fetchone() is not None


def _let_maintain(connection: Connection, names: dict[str, sql.Identifier]) -> None:
    # An application that erases must be able to remove the bytes. That does not let it read.
    tables = ", ".join((*_partitions(connection), *HASHING))
    connection.execute(sql.SQL("GRANT MAINTAIN ON {} TO {}").format(sql.SQL(tables), names["app"]))


def _partitions(connection: Connection) -> list[str]:
    rows = connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = ANY(%s::text[]::regclass[])",
        (list(SCRUBBED),),
    )
    return [row[0] for row in rows]


def _check_name(address: Address, role: str) -> None:
    if (
        not role.strip()
        or role.startswith("pg_")
        or role in {address.app_role, address.scoped_role}
    ):
        raise InvalidInput(
            f"{role!r} cannot be given access", hint="name a role that users connect as"
        )


def _are_laid(connection: Connection, address: Address) -> bool:
    row = connection.execute(
        "SELECT 1 FROM pg_policies WHERE schemaname = %s AND policyname = 'granted' LIMIT 1",
        (address.schema,),
    ).fetchone()
    return row is not None


def _check_walls(connection: Connection, address: Address) -> None:
    if not _are_laid(connection, address):
        raise InvalidInput(
            f"the roles of {address.shown} do not exist yet", hint="run treering db init first"
        )


def _check_holdable(connection: Connection, address: Address, role: str, scope: str | None) -> None:
    """Raise InvalidInput if policies would not restrict ``role``."""
    row = connection.execute(
        "SELECT rolsuper OR rolbypassrls, pg_has_role(rolname,"
        " (SELECT relowner FROM pg_class WHERE oid = 'events'::regclass), 'MEMBER'),"
        " pg_has_role(rolname, %s, 'MEMBER'), pg_has_role(rolname, %s, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        (address.app_role, address.scoped_role, role),
    ).fetchone()
    beyond, owner, app, scoped = row or (False, False, False, False)
    if beyond or owner:
        raise InvalidInput(
            f"{role} is a superuser, bypasses row security or owns the ledger: no policy applies",
            hint="grant to a separate role",
        )
    if (scope is not None and app) or (scope is None and scoped):
        raise InvalidInput(
            f"{role} already has the other kind of grant, and could use either",
            hint="use another role, or revoke that first",
        )


def _exists(connection: Connection, role: str) -> bool:
    row = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    return row is not None


def _names(address: Address) -> dict[str, sql.Identifier]:
    return {
        "schema": sql.Identifier(address.schema),
        "app": sql.Identifier(address.app_role),
        "scoped": sql.Identifier(address.scoped_role),
    }
