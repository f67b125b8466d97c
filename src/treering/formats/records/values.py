"""JSON values as logs hold them: read if at all possible, and storable in any case.

Whole values are always read. After a torn value, the rest of the line is searched for records, and
following lines are tried as one value; in a log full of torn values, this would be repeated for
each. So each new byte earns a part of a step, and each unsuccessful step costs one. Without steps
left, a torn value is skipped to the end of its line.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import msgspec

from treering.model.codec import NESTING_MAX, decode

TOO_DEEP: Final = "nested too deeply"
NOT_JSON: Final = "not JSON"
_DIGITS_MAX: Final = 4_300
"""More digits are not made an integer of: it takes Python too long, and it refuses."""


class Unreadable(Exception):
    """The text is not a value; the message says why in a word or two."""


def read_value(text: bytes) -> tuple[Any, list[str]]:
    """Return the value of ``text``, and what had to be put right. Raises Unreadable.

    Numbers that cannot be held stay as they are spelled, as text.
    """
    try:
        value = decode(text)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_leniently(text)
    if is_deep(text, value):
        raise Unreadable(TOO_DEEP)
    return value, []


def is_deep(text: bytes, value: Any) -> bool:
    """Whether ``value``, which ``text`` spells, has more levels than can be stored."""
    # Each level opens one bracket, so few brackets settle it without a walk.
    if text.count(b"{") + text.count(b"[") <= NESTING_MAX:
        return False
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(NESTING_MAX):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


class _HugeNumber(str):
    """A number that cannot be held."""

    __slots__ = ()


def _real(number: str) -> float | str:
    read = float(number)
    return read if math.isfinite(read) else _HugeNumber(number)


def _integer(number: str) -> int | str:
    return int(number) if len(number) <= _DIGITS_MAX else _HugeNumber(number)


_LENIENT: Final = json.JSONDecoder(
    strict=False, parse_constant=_HugeNumber, parse_float=_real, parse_int=_integer
)


def _read_leniently(text: bytes) -> tuple[Any, list[str]]:
    mended: dict[str, None] = {}
    try:
        spelled = text.decode()
    except UnicodeDecodeError:
        spelled = text.decode(errors="replace")
        mended["encoding"] = None
    if spelled.startswith("\ufeff"):
        spelled = spelled[1:]
        mended["BOM"] = None
    try:
        value = _LENIENT.decode(spelled)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except ValueError:
        raise Unreadable(NOT_JSON) from None
    if is_deep(text, value):
        raise Unreadable(TOO_DEEP)
    value = _storable(value, mended)
    if b"\x00" in text:
        mended["NUL"] = None
    return value, list(mended) or ["control characters"]


def _storable(value: Any, mended: dict[str, None]) -> Any:
    if isinstance(value, str):
        if type(value) is _HugeNumber:
            mended["number"] = None
            return str(value)
        try:
            value.encode()
        except UnicodeEncodeError:
            mended["surrogate"] = None
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, list):
        return [_storable(item, mended) for item in value]
    if isinstance(value, dict):
        return {_storable(key, mended): _storable(item, mended) for key, item in value.items()}
    return value


STEPS_MAX: Final = 100_000
"""The most steps that are saved up, and the initial number: a tenth of a second."""
BYTES_A_STEP: Final = 8
STEPS_A_LINE: Final = 4
"""The cost of reading a line again."""


class Patience:
    """The steps left for a log that is read from ``offset`` on."""

    def __init__(self, offset: int = 0) -> None:
        self.left = STEPS_MAX
        self._reached = offset

    def renew(self, offset: int, end: int) -> None:
        """Earn by a line from ``offset`` to ``end``, and all before it, unless it is known."""
        earned = (end - self._reached) // BYTES_A_STEP
        if earned > 0:
            self._reached += earned * BYTES_A_STEP
            most = max(STEPS_MAX, (end - offset) // BYTES_A_STEP)
            self.left = min(self.left + earned, most)

    def spend(self, steps: int) -> None:
        """Spend unsuccessful steps."""
        self.left -= steps
