"""Tool calls, found by their id or a short id, in one session or a whole scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import NotFound
from treering.surfaces.cli.run_search import find_run_id
from treering.surfaces.cli.short_ids import TYPED_CHARACTERS_MIN, ShortIds, for_people, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolRecord

SAME_ID_ITEMS: Final = 20
"""How many calls with the same id are shown: the last ones."""
PAGES_MAX: Final = 20
"""How far back calls are searched where no index helps: 20,000 of them."""

SHORT_PAGES_MAX: Final = 5
"""Pages of calls that are compared to shorten ids: 5,000 calls, a third of a second."""
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
    """Return the calls of one session with this id or short id.

    Raise NotFound if there is none, or if several ids or sessions match.
    """
    if session_id is not None and (records := _exact(ledger, scope, (session_id, text), progress)):
        return records
    places, is_cut = _places(
        ledger, scope, session_id=session_id, progress=progress, pages_max=pages_max
    )
    call_id = ShortIds(places).find(text, "call")
    if call_id is None:
        raise _unknown(scope, text, session_id, is_cut=is_cut)
    sessions = list(places[call_id])
    if len(sessions) > 1:
        raise NotFound(
            f"{len(sessions)} sessions have a call {call_id}",
            hint=f"name one of them with --session: {some_of(sessions)}",
        )
    return _exact(ledger, scope, (sessions[0], call_id), progress)


def short_calls(
    ledger: Ledger, scope: Scope, *, progress: Callable[[int], None] | None = None
) -> ShortIds:
    """Return the ids of the calls of a scope, to show people; none if there are too many."""

    def ids() -> Iterable[str]:
        sessions_by_call, is_cut = _places(
            ledger, scope, progress=progress, pages_max=SHORT_PAGES_MAX
        )
        return () if is_cut else sessions_by_call

    return for_people(ids)


def run_named(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Return the id of the run that ``text`` is, or is short for. Raise as ``find_run_id`` does."""
    # Runs of other programs may have calls and no start.
    page = ledger.tool_calls(scope, session_id=session_id, run_id=text, first=1, progress=progress)
    return text if page.items else find_run_id(ledger, scope, text, session_id=session_id)


def _exact(ledger: Ledger, scope: Scope, place: _Place, progress: Any) -> list[ToolRecord]:
    session_id, call_id = place
    return ledger.tool_calls(
        scope, session_id=session_id, call_id=call_id, last=SAME_ID_ITEMS, progress=progress
    ).items


def _places(
    ledger: Ledger,
    scope: Scope,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    pages_max: int = PAGES_MAX,
) -> tuple[dict[str, dict[str, None]], bool]:
    """Return the sessions of each call id, and whether there are more calls."""
    sessions_by_call: dict[str, dict[str, None]] = {}
    cursor = None
    for _ in range(pages_max):
        page = ledger.tool_calls(
            scope, session_id=session_id, last=_PAGE, after=cursor, progress=progress
        )
        for record in page.items:
            if record.call_id is not None:
                sessions_by_call.setdefault(record.call_id, {})[record.session_id] = None
        cursor = page.next_cursor
        if cursor is None:
            break
    return sessions_by_call, cursor is not None


def _unknown(scope: Scope, text: str, session_id: str | None, *, is_cut: bool) -> NotFound:
    of = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    narrowed = f" --session {session_id}" if session_id else ""
    listing = f"treering tools list --scope {scope}{narrowed} shows the calls"
    if is_cut:
        return NotFound(
            f"no call {text} among the latest of {of}; earlier ones were not searched",
            hint="give the whole id and its session, with --session" if session_id is None
            else "give the whole id",
        )  # fmt: skip
    short = f"{TYPED_CHARACTERS_MIN} characters of an id are enough if no other call matches"
    return NotFound(f"no call {text} in {of}", hint=f"{listing} except redacted ones; {short}")
