"""Where a ledger on PostgreSQL is: a server, a database, and a schema in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from treering.errors import InvalidInput

SCHEMES: Final = ("postgresql", "postgres")
SCHEMA: Final = "treering"
"""The schema of a ledger whose address names none."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")


class Address(msgspec.Struct, frozen=True):
    """A ledger's place."""

    conninfo: str
    """What libpq is told."""
    schema: str
    shown: str
    """The address as it may be shown: without its password."""

    @property
    def app_role(self) -> str:
        """Return the role that sees the scope that it states."""
        return f"{self.schema}_app"

    @property
    def scoped_role(self) -> str:
        """Return the role of those who are held to the scopes they were granted."""
        return f"{self.schema}_scoped"


def parse_address(location: str) -> Address:
    """Return the address in a ``postgresql://`` URL; ``?schema=`` names another schema."""
    parts = urlsplit(location)
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(options).get("schema", SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInput(
            f"{schema!r} cannot be a schema of a ledger",
            hint="use up to 50 small letters, digits and _, beginning with a letter",
        )
    query = urlencode([option for option in options if option[0] != "schema"])
    return Address(
        conninfo=urlunsplit(parts._replace(query=query)),
        schema=schema,
        shown=_without_password(location),
    )


def _without_password(location: str) -> str:
    parts = urlsplit(location)
    user, at, host = parts.netloc.rpartition("@")
    options = [
        (name, "***" if name in {"password", "sslpassword"} else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    name, colon, _ = user.partition(":")
    netloc = f"{name}{':***' if colon else ''}{at}{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(options, safe="/*")))
