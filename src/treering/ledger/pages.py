"""Reading a session a page at a time: all of it, its first events or its last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from treering.derive.visible import UndoFilter
from treering.errors import InvalidInput
from treering.ledger.lineage import NO_END
from treering.model.fields import check_count
from treering.model.kinds import HIDING_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.lineage import Lineage
    from treering.model.events import Event, Header

PAGE: Final = 1_000
Item = TypeVar("Item", bound="Header")


def read_pages(
    after: Callable[[int, int], list[Item]],
    before: Callable[[int | None, int], list[Item]],
    first: int | None,
    last: int | None,
    keep: Callable[[Header], bool] | None = None,
    *,
    after_seq: int = 0,
) -> Iterator[Item]:
    """Return all events, the ``first`` or the ``last``. Raises InvalidInput for both.

    ``keep`` says which events are wanted: no more pages are read than it takes to find them.
    ``after_seq`` skips the beginning, except for the ``last``.
    """
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    if last is not None:
        return _backwards(before, check_count(last, "last"), keep)
    count = None if first is None else check_count(first, "first")
    return _forwards(
        after, count, keep, 0 if after_seq == 0 else check_count(after_seq, "after_seq")
    )


def live_events(lineage: Lineage, kinds: frozenset[str], last: int | None) -> Iterator[Event]:
    """Return the events of ``kinds`` that count and are not hidden, or the last of them.

    They are in order. Read from the end, a page at a time, as far back as needed.
    """
    hidden = UndoFilter()
    live: list[Event] = []
    before, size = NO_END, PAGE if last is None else min(PAGE, last + 8)
    while last is None or len(live) < last:
        page = lineage.committed_before(before, kinds=kinds | HIDING_KINDS, limit=size)
        if not page:
            break
        live += [
            event
            for event in reversed(page)
            if hidden.is_visible(event) and event.kind in kinds and not event.redacted
        ]
        before = min(page[0].seq, hidden.before or NO_END)
        size = min(2 * size, PAGE)
    return reversed(live if last is None else live[:last])


def _forwards(
    after: Callable[[int, int], list[Item]],
    count: int | None,
    keep: Callable[[Header], bool] | None,
    after_seq: int,
) -> Iterator[Item]:
    seq, left = after_seq, count
    # A page may be short because its payloads are large; only an empty one is the end.
    while left != 0 and (page := after(seq, _size(left, keep))):
        wanted = page if keep is None else list(filter(keep, page))
        wanted = wanted if left is None else wanted[:left]
        yield from wanted
        seq = page[-1].seq
        left = None if left is None else left - len(wanted)


def _backwards(
    before: Callable[[int | None, int], list[Item]],
    count: int,
    keep: Callable[[Header], bool] | None,
) -> Iterator[Item]:
    pages: list[list[Item]] = []
    seq: int | None = None
    while count > 0 and (page := before(seq, _size(count, keep))):
        wanted = page if keep is None else list(filter(keep, page))[-count:]
        pages.append(wanted)
        seq = page[0].seq
        count -= len(wanted)
    for page in reversed(pages):
        yield from page


def _size(wanted: int | None, keep: object) -> int:
    """Return how many events to read at once: of those that are filtered, more than are wanted."""
    return PAGE if wanted is None or keep is not None else min(PAGE, wanted)
