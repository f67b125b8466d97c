"""Roles, views, rules and functions of the whole database that read a ledger past its policies.

What cannot be told from the catalogue is not found: SQL that a function puts together, copies in
ordinary tables, and what somebody does with the password of an owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.storage.postgres.server import Connection

# Whoever can act as one of the ledger's roles, and what else it can act as. A membership that
# gives no right now counts as well: its holder may have been allowed to grant it to itself.
_ROLES: Final = """
WITH RECURSIVE owner AS (
  SELECT DISTINCT c.relowner AS role
  FROM pg_class AS c
  WHERE c.relnamespace = %(schema)s::text::regnamespace
), held AS (
  SELECT unnest(%(groups)s::text[]::regrole[]::oid[]) AS role
  UNION
  SELECT a.member
  FROM held
  JOIN pg_auth_members AS a ON a.roleid = held.role
  WHERE a.member <> (SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'events'::regclass)
), reach AS (
  SELECT held.role, held.role AS other FROM held
  UNION
  SELECT reach.role, a.roleid
  FROM reach
  JOIN pg_auth_members AS a ON a.member = reach.other
), beyond AS (
  SELECT reach.role, bool_or(reach.role = r.oid) AS is_itself, min(r.rolname) AS other
  FROM reach
  JOIN pg_roles AS r ON r.oid = reach.other
  WHERE r.rolsuper OR r.rolbypassrls OR r.rolreplication
    OR r.oid IN (SELECT owner.role FROM owner)
    OR r.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
    -- Until version 16 it could make itself a member of every role but superusers.
    OR (r.rolcreaterole AND current_setting('server_version_num')::integer < 160000)
  GROUP BY reach.role
)
SELECT concat('policies do not hold the role ', m.rolname,
  CASE WHEN NOT beyond.is_itself THEN ': it can become ' || beyond.other END)
FROM beyond
JOIN pg_roles AS m ON m.oid = beyond.role
UNION ALL
SELECT format('CREATE on the schema was granted to %%s',
  CASE g.grantee WHEN 0 THEN 'everybody' ELSE g.grantee::regrole::text END)
FROM pg_namespace AS n
CROSS JOIN aclexplode(n.nspacl) AS g
WHERE n.oid = %(schema)s::text::regnamespace
  AND g.grantee <> n.nspowner AND g.privilege_type = 'CREATE'
"""
# Outside the ledger's schema a view that nobody else may read is its owner's business. A copy in a
# materialized view is not: no erasure reaches it.
_OBJECTS: Final = """
WITH RECURSIVE own AS (
  SELECT c.oid, c.relname
  FROM pg_class AS c
  WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind IN ('r', 'p', 'v')
), rewriting AS (
  SELECT r.oid, r.rulename, r.ev_class, d.refobjid
  FROM pg_depend AS d
  JOIN pg_rewrite AS r ON r.oid = d.objid
  WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
), reading AS (
  SELECT own.oid FROM own
  UNION
  SELECT w.ev_class
  FROM reading
  JOIN rewriting AS w ON w.refobjid = reading.oid AND w.rulename = '_RETURN'
), words AS (
  SELECT format(
      '\\m(%%s)\\M',
      string_agg(regexp_replace(own.relname, '(\\W)', '\\\\\\1', 'g'), '|')
    ) AS tables
  FROM own
)
SELECT format('view %%s reads with the rights of its owner', c.oid::regclass)
FROM reading
JOIN pg_class AS c ON c.oid = reading.oid AND c.relkind = 'v'
WHERE NOT EXISTS (
    SELECT 1 FROM pg_options_to_table(c.reloptions) AS o
    WHERE o.option_name = 'security_invoker' AND o.option_value::boolean
  )
  AND (
    c.relnamespace = %(schema)s::text::regnamespace
    OR EXISTS (SELECT 1 FROM aclexplode(c.relacl) AS g WHERE g.grantee <> c.relowner)
    OR EXISTS (
      SELECT 1 FROM pg_attribute AS a CROSS JOIN aclexplode(a.attacl) AS g
      WHERE a.attrelid = c.oid AND g.grantee <> c.relowner
    )
  )
UNION ALL
SELECT format('materialized view %%s is a copy: no policy and no erasure reaches it',
  c.oid::regclass)
FROM reading
JOIN pg_class AS c ON c.oid = reading.oid AND c.relkind = 'm'
WHERE c.relnamespace <> %(schema)s::text::regnamespace
UNION ALL
SELECT DISTINCT format('rule %%s on %%s reads with the rights of its owner',
  w.rulename, c.oid::regclass)
FROM reading
JOIN rewriting AS w ON w.refobjid = reading.oid AND w.rulename <> '_RETURN'
JOIN pg_class AS c ON c.oid = w.ev_class
WHERE c.relnamespace <> %(schema)s::text::regnamespace
UNION ALL
SELECT format('function %%s reads with the rights of its owner', p.oid::regprocedure)
FROM pg_proc AS p
JOIN pg_language AS l ON l.oid = p.prolang
CROSS JOIN words
WHERE p.prosecdef AND p.pronamespace <> %(schema)s::text::regnamespace
  AND (
    p.proacl IS NULL
    OR EXISTS (SELECT 1 FROM aclexplode(p.proacl) AS g WHERE g.grantee <> p.proowner)
  )
  AND NOT EXISTS (
    SELECT 1 FROM pg_depend AS d
    WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  )
  AND (
    EXISTS (
      SELECT 1
      FROM pg_depend AS d
      JOIN reading ON reading.oid = d.refobjid
      WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
        AND d.refclassid = 'pg_class'::regclass
    )
    OR (
      l.lanname NOT IN ('internal', 'c')
      AND has_table_privilege(p.proowner, 'events'::regclass, 'SELECT')
      AND p.prosrc ~* words.tables
      -- Without a path of its own it reads in the schema that its caller chooses.
      AND (
        array_to_string(p.proconfig, ' ') IS NULL
        OR NOT array_to_string(p.proconfig, ' ') ~* '\\msearch_path='
        OR concat_ws(' ', array_to_string(p.proconfig, ' '), p.prosrc)
          ~* format('\\m%%s\\M', %(schema)s::text)
      )
    )
  )
"""


def leaks(connection: Connection, schema: str, groups: list[str]) -> list[str]:
    """Return what lets ``groups``, the ledger's roles, or anybody read past the policies."""
    values = {"schema": schema, "groups": groups}
    return [
        row[0] for statement in (_ROLES, _OBJECTS) for row in connection.execute(statement, values)
    ]
