"""Names of ADK's apps, users and sessions in a ledger."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from treering.errors import TreeringError
from treering.model.fields import check_name
from treering.model.scopes import parse_scope

_BYTES: Final = 12


def scope_of(app_name: str) -> str:
    """Return the scope of an app: ``adk/APP``, or its hash if that is not a valid scope."""
    name = f"adk/{app_name}"
    try:
        if parse_scope(name) == name:
            return name
    except TreeringError:
        pass
    return f"adk/{tag(app_name)}"


def session_of(user_id: str, session_id: str) -> str:
    """Return the session of a user's session: ids of two users may be the same."""
    try:
        return check_name(f"adk:{quote(user_id, safe='@')}:{session_id}", "session_id")
    except TreeringError:
        return f"adk:#{tag(user_id, session_id)}"


def tag(*texts: str) -> str:
    """Return a hash that replaces texts in a key."""
    text = "\0".join(texts).encode(errors="surrogatepass")
    return blake2b(text, digest_size=_BYTES).hexdigest()
