"""Migrations: numbered SQL files, each applied once, all in one transaction.

``differences`` compares a ledger's walls, triggers and functions with those that our migrations and
roles make: a file of the program, written from a new ledger; nothing in the checked database is
trusted. Texts are compared as the catalogue holds them, function bodies by digest.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uuid_utils
from psycopg import sql

from treering.errors import Corrupt, NotFound, SchemaTooNew, SchemaTooOld, Unsupported
from treering.storage.postgres.leaks import leaks

if TYPE_CHECKING:
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.server import Connection

SERVER_VERSION_MIN: Final = 15
PARTITIONS: Final = 16
PARTITIONED: Final = ("events", "blobs")
SCRUBBED: Final = (*PARTITIONED, "search_documents", "memory_documents")
"""Tables whose partitions are rewritten after an erasure."""
HASHING: Final = (
    "heads", "sessions", "runs", "record_keys", "memory_rows", "tool_calls", "tool_extras",
)  # fmt: skip
"""Tables that hold names, or hashes of names and words: rewritten after those were erased."""
SAMPLES: Final = "pg_statistic"
"""The planner's table: it held samples of erasable columns before version 17."""
ERASABLE: Final = {
    "events": (
        "agent_id", "blob", "content_digest", "event_name", "origin", "payload", "payload_bytes",
        "recorded_ms", "refs", "run_seq", "salt", "source", "summary", "ts_ms", "turn_id",
        "user_id",
    ),
    "blobs": ("body", "key"),
}  # fmt: skip
"""Columns that an erasure blanks."""
_LAYING_OUT: Final = 0x74726E67
"""The lock for creating or upgrading a ledger, and for its roles."""
_EXTENSION: Final = re.compile(r"^-- requires extension: (\w+)$", re.MULTILINE)


@cache
def migrations() -> tuple[str, ...]:
    """Return the SQL of every migration, in order; the first is version 1."""
    folder = resources.files(__package__).joinpath("migrations")
    files = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return tuple(entry.read_text() for entry in files if entry.name.endswith(".sql"))


def check_server(connection: Connection, address: Address) -> None:
    """Raise Unsupported if the server is too old or its encoding is not UTF8."""
    version = connection.info.server_version // 10_000
    if version < SERVER_VERSION_MIN:
        raise Unsupported(
            f"{address.shown} runs PostgreSQL {version}, {SERVER_VERSION_MIN} or newer is needed",
            hint="upgrade the server",
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Unsupported(
            f"the database of {address.shown} is encoded in {encoding}, not UTF8",
            hint="create a database with ENCODING 'UTF8'",
        )


def stored_version(connection: Connection, address: Address) -> int:
    """Return the schema version of the ledger; 0 if the database has none."""
    table = connection.execute("SELECT to_regclass(%s)", (f"{address.schema}.ledger",)).fetchone()
    if table is None or table[0] is None:
        return 0
    row = connection.execute("SELECT value FROM ledger WHERE name = 'version'").fetchone()
    if row is not None and not row[0].isdecimal():
        raise damaged(address, f"its version is {row[0]!r:.40}")
    return int(row[0]) if row else 0


def damaged(address: Address, what: str) -> Corrupt:
    """Return the error for notes of a ledger that are not what was written."""
    return Corrupt(
        f"{address.shown} is damaged: {what}",
        hint="restore from a backup, then run treering verify",
    )


def check_version(version: int, address: Address) -> None:
    """Raise if this program cannot use a ledger of schema ``version``; 0 means no ledger."""
    newest = len(migrations())
    if not version:
        raise NotFound(f"no ledger at {address.shown}", hint="make one with treering db init")
    if version > newest:
        raise SchemaTooNew(
            f"{address.shown} has schema {version}, this program knows up to {newest}",
            hint="upgrade treering: pip install --upgrade treering",
        )
    if version < newest:
        raise SchemaTooOld(
            f"{address.shown} has schema {version} and needs {newest}",
            hint="run treering db init as the owner",
        )


def is_current(version: int) -> bool:
    """Whether a ledger of schema ``version`` needs no migration."""
    return version == len(migrations())


def migrate(connection: Connection, address: Address, partitions: int = PARTITIONS) -> int:
    """Upgrade the ledger to the newest schema, or create it; return the version it had, or 0.

    No other process does so until the caller's transaction ends.
    """
    schema = sql.Identifier(address.schema)
    with connection.transaction():
        lock(connection)
        # Read under the lock: another process may have been faster.
        version = stored_version(connection, address)
        if version > len(migrations()):
            check_version(version, address)
        if not version:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        for number, statements in enumerate(migrations()[version:], start=version + 1):
            check_extensions(connection, statements, address)
            connection.execute(statements)
            if number == 1:
                _found(connection, address, partitions)
            connection.execute(
                "INSERT INTO ledger (name, value) VALUES ('version', %s)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (str(number),),
            )
    return version


def lock(connection: Connection) -> None:
    """Keep others from changing the schema or its roles until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LAYING_OUT,))


def check_extensions(connection: Connection, statements: str, address: Address) -> None:
    """Raise Unsupported if the server lacks an extension that a migration says it requires."""
    for name in _EXTENSION.findall(statements):
        row = connection.execute(
            "SELECT 1 FROM pg_available_extensions WHERE name = %s", (name,)
        ).fetchone()
        if row is None:
            raise Unsupported(
                f"the server of {address.shown} lacks the extension {name}",
                hint=f"install {name} on the server (its package, or your provider's switch),"
                " then run treering db init",
            )


def _keep_no_samples(connection: Connection, table: str, relation: str) -> None:
    """Keep erasable columns out of the statistics; a partition does not inherit that."""
    changes = (
        sql.SQL("ALTER COLUMN {} SET STATISTICS 0").format(sql.Identifier(column))
        for column in ERASABLE[table]
    )
    connection.execute(
        sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(relation), sql.SQL(", ").join(changes))
    )


def _found(connection: Connection, address: Address, partitions: int) -> None:
    for table in PARTITIONED:
        _keep_no_samples(connection, table, table)
        for remainder in range(partitions):
            partition = f"{table}_{remainder:02}"
            name = sql.Identifier(partition)
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})"
                ).format(name, sql.Identifier(table), partitions, remainder)
            )
            _keep_no_samples(connection, table, partition)
            # A query that names a partition is subject to the partition's policies: it has none.
            connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name))
    connection.execute(
        sql.SQL("ALTER FUNCTION enter_epoch() SET search_path = {}, pg_temp").format(
            sql.Identifier(address.schema)
        )
    )
    connection.execute("REVOKE ALL ON FUNCTION enter_epoch() FROM PUBLIC")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO ledger (name, value) VALUES (%s, %s)",
            [
                ("id", str(uuid_utils.uuid7())),
                ("created_ms", str(time.time_ns() // 1_000_000)),
                ("lock_key", os.urandom(8).hex()),
                ("cluster", ""),
                ("epoch", "0"),
                ("partitions", str(partitions)),
            ],
        )


EXPECTED: Final = "layout.json"
SHOWN_MAX: Final = 20
"""The most differences that are reported."""
_NEAR: Final = "^memory_near_[0-9a-f]{32}$"
"""Tables that the memory creates and drops as it needs them."""
_FUNCTIONS: Final = """
SELECT format('function %%s(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
  concat_ws(' ', l.lanname, p.prokind, p.prosecdef, p.provolatile,
    encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), array_to_string(p.proconfig, '; '),
    a.aggtransfn::text, a.aggfinalfn::text,
    CASE WHEN p.proacl IS NULL OR EXISTS (
      SELECT 1 FROM aclexplode(p.proacl) AS g WHERE g.grantee = 0
    ) THEN 'for all' ELSE 'for some' END)
FROM pg_proc AS p
JOIN pg_language AS l ON l.oid = p.prolang
LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
WHERE p.pronamespace = %(schema)s::text::regnamespace
"""
# A partition has its table's triggers, unless somebody disabled one there.
_TRIGGERS: Final = """
SELECT format('trigger %%s on %%s', t.tgname, c.relname),
  concat_ws(' ', t.tgenabled, pg_get_triggerdef(t.oid))
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = %(schema)s::text::regnamespace AND NOT t.tgisinternal
  AND (t.tgparentid = 0 OR t.tgenabled <> 'O')
"""
_TABLES: Final = """
SELECT format('table %%s', c.relname),
  concat_ws(' ', c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, (
    SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attnotnull THEN 'not null' END), ', ' ORDER BY a.attnum)
    FROM pg_attribute AS a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  ))
FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind IN ('r', 'p', 'f', 'm')
  AND NOT c.relispartition AND c.relname !~ %(near)s
UNION ALL
SELECT format('rule %%s on %%s', r.rulename, c.relname), 'a rule'
FROM pg_rewrite AS r
JOIN pg_class AS c ON c.oid = r.ev_class
WHERE c.relnamespace = %(schema)s::text::regnamespace AND r.rulename <> '_RETURN'
"""
_INDEXES: Final = """
SELECT format('index %%s', c.relname),
  concat_ws(' ', CASE WHEN i.indisvalid THEN 'valid' ELSE 'invalid' END, pg_get_indexdef(c.oid))
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_class AS t ON t.oid = i.indrelid
WHERE t.relnamespace = %(schema)s::text::regnamespace AND t.relname !~ %(near)s
  AND NOT (t.relispartition AND EXISTS (SELECT 1 FROM pg_inherits AS h WHERE h.inhrelid = c.oid))
"""
_CONSTRAINTS: Final = """
SELECT format('constraint %%s on %%s', n.conname, c.relname), pg_get_constraintdef(n.oid)
FROM pg_constraint AS n
JOIN pg_class AS c ON c.oid = n.conrelid
WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relname !~ %(near)s
  AND n.contype IN ('p', 'u', 'c', 'f', 'x') AND n.conparentid = 0
  AND NOT (c.relispartition AND n.coninhcount > 0)
"""
_POLICIES: Final = """
SELECT format('policy %%s on %%s', p.policyname, p.tablename),
  concat_ws(' ', p.permissive, p.cmd, array_to_string(p.roles, ', '),
    regexp_replace(coalesce(p.qual, ''), '\\s+', ' ', 'g'),
    regexp_replace(coalesce(p.with_check, ''), '\\s+', ' ', 'g'))
FROM pg_policies AS p
WHERE p.schemaname = %(schema)s
"""
_DESCRIPTIONS: Final = (_FUNCTIONS, _TRIGGERS, _TABLES, _INDEXES, _CONSTRAINTS, _POLICIES)

# Policies apply to the table that a query names: partitions have none, so nobody may read them.
_OPEN_PARTS: Final = """
SELECT format('row-level security of %%s is switched off', c.relname)
FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind IN ('r', 'p')
  AND (c.relispartition OR c.relname ~ %(near)s) AND NOT c.relrowsecurity
UNION ALL
SELECT format('%%s on %%s was granted to %%s', g.privilege_type, c.relname,
  CASE g.grantee WHEN 0 THEN 'everybody' ELSE g.grantee::regrole::text END)
FROM pg_class AS c
CROSS JOIN aclexplode(c.relacl) AS g
WHERE c.relnamespace = %(schema)s::text::regnamespace AND g.grantee <> c.relowner
  AND CASE
    WHEN c.relispartition OR c.relname ~ %(near)s THEN g.privilege_type <> 'MAINTAIN'
    WHEN g.grantee = ANY(%(groups)s::text[]::regrole[]::oid[]) THEN false
    ELSE g.privilege_type NOT IN ('SELECT', 'USAGE')
  END
UNION ALL
SELECT format('%%s is unlogged: a crash of the server empties it', c.relname)
FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind = 'r' AND c.relispartition
  AND c.relpersistence = 'u'
UNION ALL
SELECT format('columns of %%s were granted by themselves', c.relname)
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attacl IS NOT NULL
WHERE c.relnamespace = %(schema)s::text::regnamespace
  AND (c.relispartition OR c.relname ~ %(near)s)
"""
_GROUPS: Final = """
SELECT r.rolname
FROM pg_roles AS r
WHERE r.rolname IN (%s, %s)
  AND EXISTS (
    SELECT 1 FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS g
    WHERE c.oid = 'events'::regclass AND g.grantee = r.oid
  )
"""


def differences(connection: Connection, address: Address) -> list[str]:
    """Return how the ledger's schema differs from what this program creates; the first few."""
    groups = [
        row[0] for row in connection.execute(_GROUPS, (address.app_role, address.scoped_role))
    ]
    actual = describe(connection, address)
    expected = {
        name: text for name, text in _expected().items() if groups or not name.startswith("policy ")
    }
    changes = [
        *(f"{name} is missing" for name in expected if name not in actual),
        *(f"{name} was added" for name in actual if name not in expected),
        *(
            f"{name} was changed"
            for name in actual
            if actual[name] != expected.get(name, actual[name])
        ),
    ]
    values = {"schema": address.schema, "near": _NEAR, "groups": groups}
    changes += [row[0] for row in connection.execute(_OPEN_PARTS, values)]
    changes += leaks(connection, address.schema, groups)
    return sorted(changes)[:SHOWN_MAX]


def describe(connection: Connection, address: Address) -> dict[str, str]:
    """Return a description of every part of the ledger's schema, by name."""
    values: dict[str, Any] = {"schema": address.schema, "near": _NEAR}
    parts: dict[str, str] = {}
    for statement in _DESCRIPTIONS:
        for name, text in connection.execute(statement, values):
            parts[_plain(name, address)] = _plain(text, address)
    return dict(sorted(parts.items()))


def _plain(text: str, address: Address) -> str:
    """Return ``text`` without the names of the schema and its roles, which differ by ledger."""
    schema = address.schema
    for role, name in ((address.app_role, "app"), (address.scoped_role, "scoped")):
        text = text.replace(role, name)
    text = re.sub(f'search_path=(?:"{schema}"|{schema}),', "search_path=ledger,", text)
    # Not in a literal: a setting is called treering.scope, whatever the schema is called.
    return re.sub(f'(?<!\')(?:"{schema}"|\\b{schema})\\.', "", text)


@cache
def _expected() -> dict[str, str]:
    text = resources.files(__package__).joinpath(EXPECTED).read_bytes()
    return msgspec.json.decode(text, type=dict[str, str])
