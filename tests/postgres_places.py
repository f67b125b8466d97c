"""Ledgers on a server of the tests' own, with their roles, and plain SQL behind their backs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import psycopg

from postgres_server import SUPERUSER, Server
from treering.app import administer

if TYPE_CHECKING:
    from treering.storage.postgres.administration import Administration


class Place:
    """One ledger, in a schema of its own."""

    def __init__(
        self,
        server: Server,
        *,
        database: str = "treering",
        owner: str = SUPERUSER,
        schema: str | None = None,
    ) -> None:
        self.server = server
        self.owner = owner
        self.database = database
        self.schema = schema or f"t_{secrets.token_hex(6)}"

    @property
    def url(self) -> str:
        """Return the address of the ledger for its owner."""
        return self.url_of(self.owner)

    @property
    def administration(self) -> Administration:
        """Return what the owner does with the ledger."""
        return administer(self.url)

    def url_of(self, role: str) -> str:
        """Return the address of the ledger for ``role``."""
        return f"{self.server.url(self.database, user=role)}&schema={self.schema}"

    def role(self, *scopes: str | None) -> str:
        """Return a new role: held to ``scopes``, or an application if that is None."""
        name = f"{self.schema}_{secrets.token_hex(3)}"
        for scope in scopes:
            self.administration.grant(name, scope)
        return name

    def connect(self, role: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a bare connection that looks into the ledger's schema."""
        connection = psycopg.connect(
            self.server.url(self.database, user=role or self.owner), autocommit=True
        )
        connection.execute(f"SET search_path = {self.schema}".encode())
        return connection

    def sql(
        self, statement: str, *values: object, role: str | None = None, stating: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement, as ``role`` or the owner; return its rows.

        ``stating`` is the scope that is stated before, as an application does.
        """
        with self.connect(role) as connection:
            if stating is not None:
                connection.execute("SELECT set_config('treering.scope', %s, false)", (stating,))
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []
