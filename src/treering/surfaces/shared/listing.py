"""All items of a listing that comes in pages."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, TypeVar

from treering.model.queries import PAGE_ITEMS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.queries import Page

Item = TypeVar("Item")


def scope_names(ledger: Ledger) -> list[str]:
    """Return the scopes of a ledger, all pages of them, by name."""
    outlines = items_of(lambda after: ledger.scopes(limit=PAGE_ITEMS_MAX, after=after))
    return [outline.scope for outline in outlines]


def items_of(
    read: Callable[[str | None], Page[Item]], *, pages_max: int | None = None
) -> Iterator[Item]:
    """Return the items of all pages that ``read`` returns after a cursor, or of the first few."""
    cursor = None
    for _ in count() if pages_max is None else range(pages_max):
        page = read(cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
