"""One session, found by its id or a short id."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from treering.errors import NotFound
from treering.ledger.erasure import AGENT
from treering.model.sessions import SESSION_STATES
from treering.surfaces.cli.options import require
from treering.surfaces.cli.short_ids import ShortIds, for_people

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope

NEAR_AMONG: Final = 500
"""Sessions among which one is suggested: those written to last."""

_ALL: Final[Any] = SESSION_STATES


def find_session(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the id of the session that ``text`` is, or is short for.

    Raise NotFound if there is none, or if several match.
    """
    name = require(text, "session", hint="name the session before the options")
    whole = _whole(ledger, scope, name)
    if whole is None:
        raise _unknown(ledger, scope, name)
    return whole


def narrow_to_session(ledger: Ledger, scope: Scope, text: str | None) -> str | None:
    """Return the same for an option; None if it was not given."""
    return None if text is None else find_session(ledger, scope, text)


def session_or_text(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the same, but ``text`` itself if there is no such session.

    The episodes commands have nothing to say of an unknown session, and say so without an error.
    """
    return _whole(ledger, scope, text) or text


def short_sessions(ledger: Ledger, scope: Scope) -> ShortIds:
    """Return the ids of the sessions of a scope, to show them to people."""
    return for_people(lambda: ledger.session_ids(scope))


def open_session(ledger: Ledger, scope: Scope, text: str) -> Session:
    """Return a handle on the session that is named, as its agent and its user."""
    name = find_session(ledger, scope, text)
    outline = ledger.session(name, scope=scope, agent=AGENT).outline()
    return ledger.session(name, scope=scope, agent=outline.agent or AGENT, user=outline.user)


def _whole(ledger: Ledger, scope: Scope, name: str) -> str | None:
    if ledger.headers(scope, session_id=name, last=1).items:
        return name
    return ShortIds(ledger.session_ids(scope)).find(name, "session")


def _unknown(ledger: Ledger, scope: Scope, text: str) -> NotFound:
    latest = [
        outline.session_id for outline in ledger.sessions(scope, state=_ALL, limit=NEAR_AMONG).items
    ]
    begun = [name for name in latest if name.startswith(text)]
    near = begun[:2] or difflib.get_close_matches(text, latest, n=2)
    listing = f"treering sessions list --scope {scope} shows them"
    if near:
        return NotFound(
            f"no session {text} in scope {scope}", hint=f"did you mean {' or '.join(near)}?"
        )
    if not latest:
        return NotFound(f"scope {scope} has no sessions", hint="check its name, and --db")
    return NotFound(f"no session {text} in scope {scope}", hint=listing)
