"""Which scopes are encrypted, and under which keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from treering.ledger.chain import SALT_BYTES
from treering.model.scopes import Scope
from treering.storage.sealing import generation_of
from treering.storage.sqlite.id_cache import SEALED_MARK, sealed_scopes
from treering.storage.sqlite.sql import fetch_all

if TYPE_CHECKING:
    from treering.ledger.ports import Vault
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.writer import Writer

_SEALED: Final = """
SELECT substr(c.salt, 1, 5), count(*)
FROM scopes AS s
JOIN events AS e ON e.scope = s.id
JOIN contents AS c ON c.position = e.position
WHERE s.name = ? AND length(c.salt) > ?
GROUP BY 1
"""


class Seals:
    """Knows the encrypted scopes of a ledger."""

    def __init__(self, writer: Writer, vault: Vault) -> None:
        self._writer = writer
        self._database = writer.database
        self._vault = vault

    def seal(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

        def work(batch: Batch, _: None) -> None:
            batch.connection.execute(
                "INSERT INTO ledger (name, value) VALUES (?, 1) ON CONFLICT (name) DO NOTHING",
                (SEALED_MARK + scope,),
            )
            self._writer.ids.sealed = sealed_scopes(batch.connection)
            self._writer.ids.unsealed.discard(scope)
            batch.dirty = True

        self._writer.transact(work, None)

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""
        # Who has a key of the scope knows it, whatever became of the mark.
        return bool(self._vault.records(scope)) or scope in self.scopes()

    def scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        with self._database.reading() as connection:
            return [Scope(name) for name in sorted(sealed_scopes(connection))]

    def payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        counts: Counter[int] = Counter()
        with self._database.reading() as connection:
            for opening, count in fetch_all(connection, _SEALED, (scope, SALT_BYTES)):
                counts[generation_of(opening)] += count
        return dict(sorted(counts.items()))

    def await_writers(self, scope: Scope) -> None:  # noqa: ARG002  (all writers take turns)
        """Return when all that was being written to the scope is recorded, or given up."""
        self._writer.transact(lambda _, __: None, None)
