"""The cursors of followers, kept in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.model.codec import encode
from treering.storage.sqlite.reader import find_note
from treering.storage.sqlite.rows import fetch_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.writer import Writer


class Cursors:
    """Keeps the cursors of followers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._database = writer.database

    def find(self, scope: Scope, follower: str) -> str | None:
        """Return the cursor of a follower; None if it has none."""
        with self._database.reading() as connection:
            return find_note(connection, scope, follower)

    def find_all(self, scope: Scope, followers: Sequence[str]) -> dict[str, str]:
        """Return the cursors of those of ``followers`` that have one."""
        with self._database.reading() as connection:
            rows = fetch_all(
                connection,
                "SELECT follower, cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
                " WHERE scopes.name = ? AND follower IN (SELECT value FROM json_each(?))",
                (scope, encode(list(followers))),
            )
        return dict(rows)

    def all(self, scope: Scope) -> dict[str, str]:
        """Return the cursors of all followers."""
        with self._database.reading() as connection:
            rows = fetch_all(
                connection,
                "SELECT follower, cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
                " WHERE scopes.name = ?",
                (scope,),
            )
        return dict(rows)

    def set(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store the cursor of a follower durably."""
        self.set_all(scope, {follower: cursor})

    def set_all(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""

        def work(batch: Batch, _: None) -> None:
            number = self._writer.ids.scope(batch.connection, scope, create=True)[0]
            batch.connection.executemany(
                "INSERT INTO cursors (scope, follower, cursor) VALUES (?, ?, ?)"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                [(number, follower, cursor) for follower, cursor in cursors.items()],
            )
            batch.dirty = True

        self._writer.transact(work, None)
