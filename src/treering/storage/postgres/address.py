"""Where a ledger on PostgreSQL is: a server, a database, and a schema in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from treering.errors import InvalidInput

SCHEMA: Final = "treering"
"""The schema of a ledger whose address names none."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_SECRETS: Final = frozenset(
    {"oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword"}
)


class Address:
    """The address of a ledger. Its text form leaves the password out."""

    __slots__ = ("_conninfo", "schema", "shown")

    def __init__(self, conninfo: str, schema: str, shown: str) -> None:
        self._conninfo = conninfo
        self.schema = schema
        self.shown = shown

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def conninfo(self) -> str:
        """Return the connection string for libpq."""
        return self._conninfo

    @property
    def app_role(self) -> str:
        """Return the role that sees the scope it states."""
        return f"{self.schema}_app"

    @property
    def scoped_role(self) -> str:
        """Return the role that is restricted to granted scopes."""
        return f"{self.schema}_scoped"


def parse_address(location: str) -> Address:
    """Return the address in a ``postgresql://`` URL; ``?schema=`` names another schema."""
    parts = _split(location)
    options = _options(parts.query)
    schema = dict(options).get("schema", SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInput(
            f"{schema!r} cannot be a schema of a ledger",
            hint="use up to 50 lowercase letters, digits and _, beginning with a letter",
        )
    query = urlencode([option for option in options if option[0] != "schema"], quote_via=quote)
    conninfo = _joined(parts, parts.netloc, query)
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error:
        # Not `from` it: its message may hold part of the password.
        raise _unknown_option(options) or _unreadable() from None
    return Address(conninfo, schema, _shown(parts, options))


def _split(location: str) -> SplitResult:
    """Return the parts of a URL. Raise InvalidInput if one may hold part of a password."""
    try:
        parts = urlsplit(location)
    except ValueError:
        raise _unreadable() from None
    query = parts.query.split("&") if parts.query else []
    misread = (
        parts.netloc.count("@") > 1
        or "@" in parts.path
        or parts.fragment
        or any("@" in option and "=" not in option for option in query)
    )
    if misread:
        raise _unreadable()
    return parts


def _options(query: str) -> list[tuple[str, str]]:
    """Return the options of a URL as libpq reads them: a plus is a plus."""
    pairs = (option.partition("=") for option in query.split("&") if option)
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


def _shown(parts: SplitResult, options: list[tuple[str, str]]) -> str:
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}{':***' if colon else ''}{at}{host}"
    safe = [(name, "***" if name in _SECRETS else value) for name, value in options]
    return _joined(parts, netloc, urlencode(safe, safe="/*"))


def _joined(parts: SplitResult, netloc: str, query: str) -> str:
    # Joined by hand: urlunsplit drops the slashes of a URL without a host.
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _unknown_option(options: list[tuple[str, str]]) -> InvalidInput | None:
    keywords = {option.keyword.decode() for option in Conninfo.get_defaults()}
    unknown = [name for name, _ in options if name not in keywords and name != "schema"]
    if not unknown or not unknown[0].isidentifier():
        return None
    return InvalidInput(
        f"the address has an unknown option: {unknown[0]}",
        hint="check its spelling; use libpq's options or schema",
    )


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "the address of the server cannot be read",
        hint="write postgresql://user@host:port/database, with @ / ? # % in a password as %40 %2F"
        " %3F %23 %25; or keep the password in PGPASSWORD or ~/.pgpass",
    )
