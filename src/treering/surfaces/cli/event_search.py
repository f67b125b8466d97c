"""One event, found by its id or a short id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import NotFound
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.cli.options import require
from treering.surfaces.cli.short_ids import TYPED_CHARACTERS_MIN, ShortIds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope


def find_event(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the id of the event that ``text`` is, or is short for.

    Raise NotFound if there is none, or if several match. A short id is compared with every event
    of the scope: no index knows the ends of ids.
    """
    name = require(text, "event_id")
    if name in ledger.find_ids(scope, [name]):
        return name
    ids = _every_id(ledger, scope) if len(name) >= TYPED_CHARACTERS_MIN else ()
    matching = (
        event_id for event_id in ids if event_id.startswith(name) or event_id.endswith(name)
    )
    whole = ShortIds(matching).find(name, "event")
    if whole is None:
        raise NotFound(
            f"no event {name} in scope {scope}",
            hint=f"treering episodes query --scope {scope} --json shows the ids of events",
        )
    return whole


def _every_id(ledger: Ledger, scope: Scope) -> Iterator[str]:
    cursor = None
    while True:
        page = ledger.headers(scope, first=PAGE_ITEMS_MAX, after=cursor)
        yield from (header.event_id for header in page.items)
        cursor = page.next_cursor
        if cursor is None:
            return
