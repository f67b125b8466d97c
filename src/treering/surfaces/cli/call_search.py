"""Tool calls, found by their id or by how it begins, in one session or in all of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput, NotFound
from treering.surfaces.cli.run_search import PREFIX_CHARACTERS_MIN, find_run, some_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolRecord

SAME_ID_ITEMS: Final = 20
"""So many calls of the same id are shown: the last."""
PAGES_MAX: Final = 20
"""How far back calls are looked through, where no index leads to them: 20,000 of them."""

_PAGE: Final = 1_000
_Place = tuple[str, str]
"""A session, and the id of a call in it."""


def find_calls(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    pages_max: int = PAGES_MAX,
) -> list[ToolRecord]:
    """Return the calls with this id, or with the only id that begins like this, of one session.

    Raises NotFound if there is none, and InvalidInput if there are several such ids or sessions.
    """
    if session_id is not None and (found := _exact(ledger, scope, (session_id, text), progress)):
        return found
    exact, begun, is_cut = _look_through(
        ledger, scope, text, session_id=session_id, progress=progress, pages_max=pages_max
    )
    places = exact or begun
    if not places:
        raise _unknown(scope, text, session_id, is_cut=is_cut)
    if len(places) > 1:
        raise _ambiguous(text, places, is_exact=bool(exact))
    return _exact(ledger, scope, places[0], progress)


def run_named(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Return the id of the run that ``text`` is, or begins. Raises as ``find_run`` does."""
    # Runs of other programs may have calls and no start.
    known = ledger.tool_calls(scope, session_id=session_id, run_id=text, first=1, progress=progress)
    return (
        text if known.items else find_run(ledger, scope, text, session_id=session_id).run_id or ""
    )


def _exact(ledger: Ledger, scope: Scope, place: _Place, progress: Any) -> list[ToolRecord]:
    session_id, call_id = place
    return ledger.tool_calls(
        scope, session_id=session_id, call_id=call_id, last=SAME_ID_ITEMS, progress=progress
    ).items


def _look_through(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None,
    progress: Callable[[int], None] | None,
    pages_max: int,
) -> tuple[list[_Place], list[_Place], bool]:
    """Return where the id is, where one that begins so is, and whether there is more to look at."""
    exact: dict[_Place, None] = {}
    begun: dict[_Place, None] = {}
    cursor = None
    for _ in range(pages_max):
        page = ledger.tool_calls(
            scope, session_id=session_id, last=_PAGE, after=cursor, progress=progress
        )
        for record in page.items:
            call_id = record.call_id or ""
            if call_id == text:
                exact[record.session_id, call_id] = None
            elif len(text) >= PREFIX_CHARACTERS_MIN and call_id.startswith(text):
                begun[record.session_id, call_id] = None
        cursor = page.next_cursor
        if cursor is None:
            break
    return list(exact), list(begun), cursor is not None


def _ambiguous(text: str, places: list[_Place], *, is_exact: bool) -> InvalidInput:
    if is_exact:
        sessions = some_of([session for session, _ in places])
        return InvalidInput(
            f"{len(places)} sessions have a call {text}",
            hint=f"name one of them with --session: {sessions}",
        )
    ids = some_of(list(dict.fromkeys(call_id for _, call_id in places)))
    return InvalidInput(
        f"{len(places)} calls begin with {text}",
        hint=f"write more of the id: {ids}; --session looks in one session only",
    )


def _unknown(scope: Scope, text: str, session_id: str | None, *, is_cut: bool) -> NotFound:
    of = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    narrowed = f" --session {session_id}" if session_id else ""
    listing = f"treering tools list --scope {scope}{narrowed} shows the calls"
    if is_cut:
        return NotFound(
            f"no call {text} among the latest of {of}; earlier ones were not looked at",
            hint="give the whole id and its session, with --session" if session_id is None
            else "give the whole id",
        )  # fmt: skip
    cut = f"an id may be cut to {PREFIX_CHARACTERS_MIN} characters or more"
    return NotFound(f"no call {text} in {of}", hint=f"{listing}, but redacted ones; {cut}")
