"""One run, found by its id or by how its id begins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, NotFound
from treering.model.fields import TIME_MS_MAX
from treering.surfaces.cli.run_outlines import PAGES_MAX, Starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.model.scopes import Scope

PREFIX_CHARACTERS_MIN: Final = 4

_DATED: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""An id that begins with the milliseconds of its making: a UUID of version 7."""
_NAMED_MAX: Final = 3
_EARLIER_MS: Final = 60_000
_LATER_MS: Final = 600_000
"""How long after its id was made a run may have started: it may have waited for its turn."""


def find_run(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    pages_max: int = PAGES_MAX,
) -> Header:
    """Return the start of the run with this id, or of the only one whose id begins like this.

    Raises NotFound if there is none, and InvalidInput if there are several.
    """
    dated = _find_dated(ledger, scope, text, session_id)
    if dated is not None:
        return dated
    found: dict[str, Header] = {}
    starts = Starts(ledger, scope, session_id=session_id, pages_max=pages_max)
    for started, _ in starts.after():
        run_id = started.run_id or ""
        if run_id == text:
            return started
        if len(text) >= PREFIX_CHARACTERS_MIN and run_id.startswith(text):
            found[run_id] = started
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} runs begin with {text}",
            hint=f"write more of the id: {some_of(list(found))}",
        )
    if not found:
        raise _unknown(scope, text, session_id, is_cut=starts.next_cursor is not None)
    return next(iter(found.values()))


def some_of(names: Sequence[str]) -> str:
    """Return the first few of ``names``, and whether there are more."""
    return ", ".join([*names[:_NAMED_MAX], *(["…"] if len(names) > _NAMED_MAX else [])])


def _find_dated(ledger: Ledger, scope: Scope, text: str, session_id: str | None) -> Header | None:
    """Return the start of a run whose id says when that was; None if it is not to be found so."""
    dated = _DATED.fullmatch(text)
    if dated is None:
        return None
    at_ms = int(dated[1] + dated[2], 16)
    if at_ms > TIME_MS_MAX:
        return None
    starts = Starts(
        ledger,
        scope,
        session_id=session_id,
        since_ms=max(1, at_ms - _EARLIER_MS),
        until_ms=min(at_ms + _LATER_MS, TIME_MS_MAX),
    )
    return next((started for started, _ in starts.after() if started.run_id == text), None)


def _unknown(
    scope: Scope, text: str, session_id: str | None, *, is_cut: bool
) -> InvalidInput | NotFound:
    of = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    listing = f"treering trace list --scope {scope} shows the runs of the scope"
    if is_cut:
        return NotFound(
            f"no run {text} among the latest of {of}; earlier ones were not looked at",
            hint="name its session with --session, or find it with treering trace list --until",
        )
    if len(text) < PREFIX_CHARACTERS_MIN:
        return InvalidInput(
            f"{text} is too short: give {PREFIX_CHARACTERS_MIN} characters or more", hint=listing
        )
    return NotFound(f"no run {text} in {of}", hint=listing)
