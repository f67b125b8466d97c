"""Reading a session a page at a time: all of it, its first events or its last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from treering.errors import InvalidInput
from treering.model.fields import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.model.events import Header

PAGE: Final = 1_000
Item = TypeVar("Item", bound="Header")


def read_pages(
    after: Callable[[int, int], list[Item]],
    before: Callable[[int | None, int], list[Item]],
    first: int | None,
    last: int | None,
    keep: Callable[[Header], bool] | None = None,
) -> Iterator[Item]:
    """Return all events, the ``first`` or the ``last``. Raises InvalidInput for both.

    ``keep`` says which events are wanted: no more pages are read than it takes to find them.
    """
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    if last is not None:
        return _backwards(before, check_count(last, "last"), keep)
    return _forwards(after, None if first is None else check_count(first, "first"), keep)


def _forwards(
    after: Callable[[int, int], list[Item]],
    count: int | None,
    keep: Callable[[Header], bool] | None,
) -> Iterator[Item]:
    seq, left = 0, count
    # A page may be short because its payloads are large; only an empty one is the end.
    while left != 0 and (page := after(seq, _size(left, keep))):
        found = page if keep is None else list(filter(keep, page))
        found = found if left is None else found[:left]
        yield from found
        seq = page[-1].seq
        left = None if left is None else left - len(found)


def _backwards(
    before: Callable[[int | None, int], list[Item]],
    count: int,
    keep: Callable[[Header], bool] | None,
) -> Iterator[Item]:
    pages: list[list[Item]] = []
    seq: int | None = None
    while count > 0 and (page := before(seq, _size(count, keep))):
        found = page if keep is None else list(filter(keep, page))[-count:]
        pages.append(found)
        seq = page[0].seq
        count -= len(found)
    for page in reversed(pages):
        yield from page


def _size(wanted: int | None, keep: object) -> int:
    """Return how many events to read at once: of those that are filtered, more than are wanted."""
    return PAGE if wanted is None or keep is not None else min(PAGE, wanted)
