"""Short ids: what people read, and may type, in place of a long id.

A short id is the shortest beginning of an id, or its shortest end, that no other id of the scope
begins or ends with; it has eight characters or more. UUIDs of version 7 that were made in the same
minute share their beginnings, so theirs are ends:

    01997e76-d124-7592-9cac-2ec05abbca08    5abbca08
    01997e76-d124-7da3-8c20-c736db82a7c5    db82a7c5

An id that extends another one, as those of subagents and forks do, does not make it ambiguous.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.errors import NotFound
from treering.surfaces.cli.commands import invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

WHOLE_CHARACTERS_MAX: Final = 24
"""Ids that are no longer than this are shown whole: they are names, or short enough."""
SHOWN_CHARACTERS_MIN: Final = 8
TYPED_CHARACTERS_MIN: Final = 4
EXTENSIONS_MAX: Final = 100
"""Subagents and forks that an id may have and still be shown short."""
_EXTENDING: Final = ("/", "-fork-")
"""What comes after an id in those of its subagents and its forks."""
_NAMED_MAX: Final = 3

Record = TypeVar("Record", bound=msgspec.Struct)

_LAST: Final = "\U0010ffff"


class ShortIds:
    """All ids of one sort in a scope, shortened and found again."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = sorted(set(ids))
        self._reversed = sorted(text[::-1] for text in self._ids)
        self._short: dict[str, str] = {}

    def shown(self, whole: str) -> str:
        """Return the short id of ``whole``; ``whole`` itself if it is short, or not known here."""
        if whole not in self._short:
            self._short[whole] = self._shortened(whole)
        return self._short[whole]

    def within(self, record: Record, *fields: str) -> Record:
        """Return ``record`` with short ids in these fields, where they have any."""
        whole = {field: getattr(record, field) for field in fields}
        short = {field: self.shown(one) for field, one in whole.items() if one is not None}
        changes: dict[str, Any] = {
            field: one for field, one in short.items() if one != whole[field]
        }
        return msgspec.structs.replace(record, **changes) if changes else record

    def knows(self, whole: str) -> bool:
        """Whether ``whole`` is one of the ids."""
        return any(self._ids[at] == whole for at in _range(self._ids, whole)[:1])

    def _shortened(self, whole: str) -> str:
        if len(whole) <= WHOLE_CHARACTERS_MAX or not self.knows(whole):
            return whole
        for length in range(SHOWN_CHARACTERS_MIN, len(whole)):
            for text in (whole[:length], whole[-length:]):
                # What begins or ends with a dash reads badly, or as an option.
                if text[0].isalnum() and text[-1].isalnum() and self._means_only(text, whole):
                    return text
        return whole

    def _means_only(self, text: str, whole: str) -> bool:
        # Counted first: thousands of ids may share a beginning.
        begun, ended = _range(self._ids, text), _range(self._reversed, text[::-1])
        if len(begun) + len(ended) > EXTENSIONS_MAX:
            return False
        return self.matching(text) == [whole]

    def matching(self, text: str) -> list[str]:
        """Return the ids that ``text`` may mean: itself, else those that begin or end with it."""
        begun = [self._ids[at] for at in _range(self._ids, text)]
        if begun and begun[0] == text:
            return [text]
        ended = [self._reversed[at][::-1] for at in _range(self._reversed, text[::-1])]
        matches = dict.fromkeys([*begun, *ended])
        return [one for one in matches if not any(other in matches for other in _extended_by(one))]

    def find(self, text: str, noun: str) -> str | None:
        """Return the id that ``text`` is, or is short for; None if there is none.

        Raise NotFound if several match: none of them was named.
        """
        matches = self.matching(text)
        if not matches or (matches != [text] and len(text) < TYPED_CHARACTERS_MIN):
            return None
        if len(matches) > 1:
            raise NotFound(
                f"{text} is ambiguous: {len(matches)} {noun}s match",
                hint=f"type more of the id: {some_of(matches)}",
            )
        return matches[0]


def for_people(ids: Callable[[], Iterable[str]]) -> ShortIds:
    """Return the ids to shorten what people read; none of them, for a receipt has whole ids."""
    return ShortIds(() if invocation().as_json else ids())


def some_of(names: Sequence[str]) -> str:
    """Return the first few of ``names``, and whether there are more."""
    return ", ".join([*names[:_NAMED_MAX], *(["…"] if len(names) > _NAMED_MAX else [])])


def _range(ids: Sequence[str], text: str) -> range:
    """Return where the ids are that begin with ``text``."""
    return range(bisect_left(ids, text), bisect_right(ids, text + _LAST))


def _extended_by(whole: str) -> Iterator[str]:
    """Give what ``whole`` would extend, if it is an id."""
    for mark in _EXTENDING:
        at = whole.find(mark)
        while at > 0:
            yield whole[:at]
            at = whole.find(mark, at + 1)
