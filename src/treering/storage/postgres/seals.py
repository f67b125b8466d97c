"""Which scopes are encrypted, and under which keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.ledger.chain import SALT_BYTES
from treering.model.scopes import Scope
from treering.storage.sealing import generation_of

if TYPE_CHECKING:
    from treering.ledger.ports import Vault
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Server

_SEALED: Final = """
SELECT substr(salt, 1, 5), count(*)
FROM events
WHERE scope = %s AND length(salt) > %s
GROUP BY 1
"""


class Seals:
    """Knows the encrypted scopes of a ledger."""

    def __init__(self, server: Server, cache: IdCache, vault: Vault) -> None:
        self._server = server
        self._cache = cache
        self._vault = vault

    def seal(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO seals (scope, round) VALUES (%s, 1) ON CONFLICT DO NOTHING", (scope,)
            )

        self._server.write(work, scope)
        self._cache.forget()

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""
        # A key of the scope proves it, even if the mark is gone.
        return bool(self._vault.records(scope) or self._sealed("WHERE scope = %s", (scope,), scope))

    def scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        return self._sealed("", (), None)

    def _sealed(self, where: str, values: tuple[object, ...], scope: Scope | None) -> list[Scope]:
        rows = self._server.read(
            lambda c: c.execute(
                f"SELECT scope FROM seals {where} ORDER BY scope", values
            ).fetchall(),
            scope,
        )
        return [Scope(row[0]) for row in rows]

    def payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        rows = self._server.read(
            lambda c: c.execute(_SEALED, (scope, SALT_BYTES), binary=True).fetchall(), scope
        )
        return dict(sorted((generation_of(opening), count) for opening, count in rows))

    def await_writers(self, scope: Scope) -> None:
        """Return when all writes to the scope in progress are committed or rolled back.

        A writer that has sealed under an older key and not begun to write has to seal again.
        """

        def work(connection: Connection) -> None:
            connection.execute("UPDATE seals SET round = round + 1 WHERE scope = %s", (scope,))
            lock = self._cache.lock_of(scope, "")
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))

        self._server.write(work, scope)
        self._cache.forget()
