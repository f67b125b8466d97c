"""One session, found by its id or by how its id begins."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput, NotFound
from treering.ledger.erasure import AGENT
from treering.model.sessions import SESSION_STATES
from treering.surfaces.cli.options import require
from treering.surfaces.cli.run_search import PREFIX_CHARACTERS_MIN, some_of

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope

PAGES_MAX: Final = 20
"""Pages of sessions with the text in their title or id that are looked through."""
NEAR_AMONG: Final = 500
"""Sessions among which one is suggested: those that were last written to."""

_ALL: Final[Any] = SESSION_STATES


def find_session(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the id of the session that ``text`` is, or of the only one that begins like this.

    Raises NotFound if there is none, and InvalidInput if there are several.
    """
    name = require(text, "session", hint="name the session before the options")
    if ledger.query(scope, session_id=name, last=1).items:
        return name
    begun: list[str] = []
    if len(name) >= PREFIX_CHARACTERS_MIN:
        # The ids of subagents' sessions may begin with those of the sessions they were begun in.
        begun = _beginning_with(ledger, scope, name) or _beginning_with(
            ledger, scope, name, subagents=True
        )
    if len(begun) > 1:
        raise InvalidInput(
            f"{len(begun)} sessions begin with {name}",
            hint=f"write more of the id: {some_of(begun)}",
        )
    if not begun:
        raise _unknown(ledger, scope, name)
    return begun[0]


def open_session(ledger: Ledger, scope: Scope, text: str) -> Session:
    """Return a handle on the session that is named, as its agent and its user."""
    name = find_session(ledger, scope, text)
    outline = ledger.session(name, scope=scope, agent=AGENT).outline()
    return ledger.session(name, scope=scope, agent=outline.agent or AGENT, user=outline.user)


def _beginning_with(
    ledger: Ledger, scope: Scope, text: str, *, subagents: bool = False
) -> list[str]:
    found: list[str] = []
    cursor = None
    for _ in range(PAGES_MAX):
        page = ledger.sessions(
            scope, prefix=text, state=_ALL, subagents=subagents, first=NEAR_AMONG, after=cursor
        )
        found += [one.session_id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _unknown(ledger: Ledger, scope: Scope, text: str) -> NotFound:
    latest = [one.session_id for one in ledger.sessions(scope, state=_ALL, first=NEAR_AMONG).items]
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
