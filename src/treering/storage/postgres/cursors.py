"""The cursors of followers, kept in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.scopes import Scope
    from treering.storage.postgres.server import Connection, Server


class Cursors:
    """Keeps the cursors of followers."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self, scope: Scope, follower: str) -> str | None:
        """Return the stored cursor of a follower; None if it has none."""
        return self.find_all(scope, [follower]).get(follower)

    def find_all(self, scope: Scope, followers: Sequence[str]) -> dict[str, str]:
        """Return the stored cursors of those of ``followers`` that have one."""
        statement = "SELECT follower, cursor FROM cursors WHERE scope = %s AND follower = ANY(%s)"
        return dict(self._server.fetch(statement, (scope, list(followers)), scope))

    def all(self, scope: Scope) -> dict[str, str]:
        """Return the stored cursor of each follower."""
        statement = "SELECT follower, cursor FROM cursors WHERE scope = %s"
        return dict(self._server.fetch(statement, (scope,), scope))

    def set(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store the cursor of a follower durably."""
        self.set_all(scope, {follower: cursor})

    def set_all(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO cursors (scope, follower, cursor)"
                " SELECT %s, * FROM unnest(%s::text[], %s::text[])"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                (scope, list(cursors), list(cursors.values())),
            )

        self._server.write(work, scope)
