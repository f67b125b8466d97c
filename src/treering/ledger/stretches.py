"""Stretches of a session: all of it, its first events or its last, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from treering.errors import InvalidInput
from treering.model.fields import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.model.events import Header

PAGE: Final = 1_000
Item = TypeVar("Item", bound="Header")


def stretch(
    after: Callable[[int, int], list[Item]],
    before: Callable[[int | None, int], list[Item]],
    first: int | None,
    last: int | None,
) -> Iterator[Item]:
    """Return what is asked for, read behind or before a seq. Raises InvalidInput for both."""
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    if last is not None:
        return _backwards(before, check_count(last, "last"))
    return _forwards(after, None if first is None else check_count(first, "first"))


def _forwards(after: Callable[[int, int], list[Item]], count: int | None) -> Iterator[Item]:
    seq, left = 0, PAGE if count is None else count
    # A page may be short because its payloads are large; only an empty one is the end.
    while left > 0 and (page := after(seq, min(PAGE, left))):
        yield from page
        seq = page[-1].seq
        left = PAGE if count is None else left - len(page)


def _backwards(before: Callable[[int | None, int], list[Item]], count: int) -> Iterator[Item]:
    pages: list[list[Item]] = []
    seq: int | None = None
    while count > 0 and (page := before(seq, min(PAGE, count))):
        pages.append(page)
        seq = page[0].seq
        count -= len(page)
    for page in reversed(pages):
        yield from page
