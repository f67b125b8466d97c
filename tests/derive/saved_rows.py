"""Rows of a fold as a store gives them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.derive.fact_rows import GAP, SavedRows

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_ROWS = 2


def saved(rows: Iterable[tuple[str, str, bytes | None]]) -> dict[str, SavedRows]:
    """Return rows by their sort, a few on a page."""
    tables: dict[str, dict[str, bytes]] = {}
    for table, key, body in rows:
        if body is not None:
            tables.setdefault(table, {})[key] = body
    return {table: SavedRows(_pages(bodies)) for table, bodies in tables.items()}


def _pages(bodies: dict[str, bytes]) -> Iterable[tuple[list[str], list[int], bytes]]:
    keys = [*bodies]
    for at in range(0, len(keys), PAGE_ROWS):
        page = keys[at : at + PAGE_ROWS]
        told = [bodies[key] for key in page]
        yield page, [*map(len, told)], GAP.join(told)
