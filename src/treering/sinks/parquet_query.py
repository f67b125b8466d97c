"""Questions over a mirror, in SQL: one statement that reads, and nothing but the mirror.

The tables are ``events``, one row each, and views of them: ``tool_calls``, ``usage``, ``runs`` and
``sessions``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.sinks.parquet_mirror import (
    COLUMNS,
    MANIFEST,
    connect,
    read_manifest,
    read_marker,
    scope_folder,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

TABLES: Final = ("events", "tool_calls", "usage", "runs", "sessions")
ROWS: Final = 1_000
_VIEWS: Final = """
CREATE VIEW tool_calls AS
SELECT called.scope, called.day, called.session_id, called.run_id, called.agent_id, called.call_id,
       called.tool, coalesce(result.status, 'open') AS status, called.ts AS started_at,
       result.ts AS ended_at, result.duration_ms, result.error_class, result.reason,
       called.input_bytes, result.output_bytes, called.event_id AS call_event_id,
       result.event_id AS result_event_id
FROM events AS called
LEFT JOIN (
    SELECT *
    FROM events
    WHERE kind = 'tool.result'
    QUALIFY row_number() OVER (PARTITION BY scope, session_id, call_id ORDER BY seq) = 1
) AS result
ON called.scope = result.scope
   AND called.session_id = result.session_id
   AND called.call_id = result.call_id
WHERE called.kind = 'tool.call';

CREATE VIEW usage AS
SELECT scope, day, session_id, run_id, agent_id, ts, model, provider, input_tokens, output_tokens,
       cached_tokens, cache_write_tokens, total_tokens, cost_usd, event_id
FROM events
WHERE kind = 'usage.reported'
QUALIFY row_number() OVER (
    PARTITION BY scope, session_id, run_id, coalesce(message_id, request_id, event_id)
    ORDER BY total_tokens DESC, seq
) = 1;

CREATE VIEW runs AS
SELECT started.scope, started.day, started.session_id, started.run_id, started.agent_id,
       started.ts AS started_at, ended.ts AS ended_at, started.model, started.provider,
       CASE ended.kind WHEN 'run.ended' THEN 'ended' WHEN 'run.failed' THEN 'failed'
            WHEN 'run.interrupted' THEN 'interrupted' ELSE 'open' END AS state,
       ended.duration_ms, ended.reason, ended.error_class
FROM events AS started
LEFT JOIN (
    SELECT *
    FROM events
    WHERE kind IN ('run.ended', 'run.failed', 'run.interrupted')
    QUALIFY row_number() OVER (PARTITION BY scope, run_id ORDER BY seq) = 1
) AS ended
ON started.scope = ended.scope AND started.run_id = ended.run_id
WHERE started.kind = 'run.started';

CREATE VIEW sessions AS
SELECT scope, session_id, min(ts) AS first_at, max(ts) AS last_at, count(*) AS events,
       count(DISTINCT run_id) AS runs, count_if(kind = 'tool.call') AS tool_calls,
       any_value(agent_id) AS agent_id
FROM events
GROUP BY scope, session_id;
"""


class MirrorQuery:
    """The answer to one question: its columns, and its rows as they are read."""

    def __init__(
        self, folder: str | os.PathLike[str], sql: str, *, scope: str | None = None
    ) -> None:
        self._duckdb = _opened(Path(folder).resolve(), scope)
        try:
            self._result = _asked(self._duckdb, sql)
        except BaseException:
            self._duckdb.close()
            raise
        self.columns: list[str] = [column[0] for column in self._result.description or ()]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the answer."""
        while page := self._result.fetchmany(ROWS):
            yield from page

    def close(self) -> None:
        """Free the resources of the question."""
        self._duckdb.close()


def _opened(folder: Path, scope: str | None) -> DuckDBPyConnection:
    """Return a connection that sees the mirror, or one scope of it, and nothing else."""
    read_marker(folder)
    homes = sorted(path.parent for path in folder.glob(f"scope=*/{MANIFEST}"))
    if scope is not None:
        homes = [home for home in homes if home.name == scope_folder(scope)]
        if not homes:
            raise InvalidInput(
                f"the mirror does not have scope {scope}",
                hint=f"mirror it: treering mirror parquet {folder} --scope {scope}",
            )
    paths = [
        str(home / file.path)
        for home in homes
        if (manifest := read_manifest(home)) is not None
        for file in manifest.files
    ]
    duckdb = connect()
    duckdb.execute("SET TimeZone = 'UTC'")
    duckdb.execute(_events_view(paths))
    duckdb.execute(_VIEWS)
    # From here on no other file can be read, nothing written, and no setting changed.
    allowed = ", ".join(f"'{path}'" for path in paths)
    duckdb.execute(f"SET allowed_paths = [{allowed}]")
    duckdb.execute("SET enable_external_access = false")
    duckdb.execute("SET lock_configuration = true")
    return duckdb


def _events_view(paths: list[str]) -> str:
    if not paths:
        columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMNS.items())
        return (
            "CREATE VIEW events AS"
            f" SELECT {columns}, NULL::VARCHAR AS scope, NULL::DATE AS day WHERE false"
        )
    listed = ", ".join(f"'{path}'" for path in paths)
    return (
        f"CREATE VIEW events AS SELECT * FROM read_parquet([{listed}], hive_partitioning=true,"
        " hive_types={'scope': VARCHAR, 'day': DATE}, union_by_name=true)"
    )


def _asked(duckdb: DuckDBPyConnection, sql: str) -> DuckDBPyConnection:
    """Return the answer to one statement that reads. Raise InvalidInput for any other."""
    import duckdb as module  # noqa: PLC0415  (an extra)

    try:
        statements = duckdb.extract_statements(sql)
        kinds = [statement.type for statement in statements]
        allowed = {module.StatementType.SELECT, module.StatementType.EXPLAIN}
        if len(kinds) != 1 or kinds[0] not in allowed:
            raise InvalidInput(
                "a query must be a single SELECT", hint=f"the tables are {', '.join(TABLES)}"
            )
        return duckdb.execute(statements[0])
    except module.Error as error:
        raise InvalidInput(
            f"the query failed: {' '.join(str(error).split())}",
            hint=f"the tables are {', '.join(TABLES)}; DESCRIBE events lists columns",
        ) from error
