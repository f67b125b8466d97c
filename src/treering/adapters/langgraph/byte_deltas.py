"""Values that grow, stored as what changed since an earlier version.

A list of messages is serialized as a whole at every step, and all but its end is as before. One
version in a while is stored whole, and the others as a difference to an earlier one, arranged as in
a Fenwick tree: version n differs from version n without its lowest bit. So a step stores a few
times what it added, and no version needs more than ``WINDOW.bit_length()`` others to be read.

    version   0 whole   1 ─► 0   2 ─► 0   3 ─► 2   4 ─► 0   5 ─► 4   6 ─► 4   7 ─► 6   8 ─► 0
"""

from __future__ import annotations

from typing import Final, NamedTuple

WINDOW: Final = 64
"""Versions after which one is stored whole again."""
WHOLE_BYTES_MAX: Final = 256
"""Smaller values are always stored whole."""
_STEP: Final = 4_096
_HEADERS: Final = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
"""The first byte of long lists and maps in MessagePack, and the size of their headers."""
_SHORT: Final = range(0x80, 0xA0)


class Delta(NamedTuple):
    """How to make a value of an earlier one: ``head``, a range of it, ``middle``, its end."""

    head: bytes
    start: int
    length: int
    middle: bytes
    tail: int


class Version(NamedTuple):
    """A version that later ones may be stored as a difference to."""

    number: int
    name: str
    record: str
    """The id of its event."""
    content: bytes


class Addition(NamedTuple):
    """How the next version of a value is to be stored."""

    number: int
    delta: Delta | None
    """The difference to the last of ``bases``; None if the version is to be stored whole."""
    bases: tuple[Version, ...]
    """All versions that it is made of, the whole one first."""


class GrowingValue(NamedTuple):
    """The versions of one value that the next one can be stored against."""

    path: tuple[Version, ...] = ()

    def next(self, content: bytes) -> Addition:
        """Return how to store the next version."""
        number = self.path[-1].number + 1 if self.path else 0
        whole = Addition(0, None, ())
        if number % WINDOW == 0 or len(content) <= WHOLE_BYTES_MAX:
            return whole
        base = number & (number - 1)
        bases = tuple(version for version in self.path if version.number <= base)
        delta = difference(bases[-1].content, content)
        if len(delta.middle) + len(delta.head) > len(content) // 2:
            return whole
        return Addition(number, delta, bases)


def difference(old: bytes, new: bytes) -> Delta:
    """Return how to make ``new`` of ``old``."""
    begin, head = _header(old), _header(new)
    room = min(len(old) - begin, len(new) - head)
    length = _common_start(old, begin, new, head, room)
    tail = _common_end(old, new, room - length)
    return Delta(new[:head], begin, length, new[head + length : len(new) - tail], tail)


def applied(delta: Delta, old: bytes) -> bytes:
    """Return ``old`` with ``delta`` applied."""
    stretch = old[delta.start : delta.start + delta.length]
    return b"".join((delta.head, stretch, delta.middle, old[len(old) - delta.tail :]))


def _header(content: bytes) -> int:
    """Return the size of the header that counts the items."""
    first = content[0] if content else 0
    return 1 if first in _SHORT else _HEADERS.get(first, 0)


def _common_start(old: bytes, begin: int, new: bytes, head: int, room: int) -> int:
    at = 0
    while at < room:
        step = min(_STEP, room - at)
        before, after = old[begin + at : begin + at + step], new[head + at : head + at + step]
        if before != after:
            return at + next(n for n in range(step) if before[n] != after[n])
        at += step
    return at


def _common_end(old: bytes, new: bytes, room: int) -> int:
    at = 0
    while at < room:
        step = min(_STEP, room - at)
        before, after = (
            old[len(old) - at - step : len(old) - at],
            new[len(new) - at - step : len(new) - at],
        )
        if before != after:
            return at + next(n for n in range(step) if before[step - 1 - n] != after[step - 1 - n])
        at += step
    return at
