"""JSON as JavaScript reads and writes it, byte for byte.

Numbers are doubles, an object lists keys that are array indexes first, and strings are UTF-16
units. A value that is parsed and stringified here has the bytes that ``JSON.stringify`` writes.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from treering.errors import InvalidInput
from treering.formats.apeira.faults import describe_fault

NESTING_MAX: Final = 200
"""Deeper values are refused; JavaScript allows some thousand levels."""
INTEGER_MAX: Final = 2**53
"""Above this, not every integer is a double."""
BLANKS: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's ``trim`` removes; Python's ``strip`` differs."""

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_INDEX_MAX: Final = 2**32 - 2
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_EXPONENT_MIN: Final = -6
_EXPONENT_MAX: Final = 21
"""Between these, a number is written without an exponent."""


class JsonParseError(Exception):
    """The text is not JSON; the message is that of ``JSON.parse``."""


def parse(text: str) -> Any:
    """Return the value of ``text``. Raises JsonParseError with the message of ``JSON.parse``."""
    try:
        value = json.loads(
            text, parse_int=_parse_number, parse_float=_parse_number, parse_constant=_refuse
        )
        return copy(value)
    except (ValueError, RecursionError) as error:
        raise JsonParseError(
            describe_fault(text) or f"nested deeper than {NESTING_MAX} levels"
        ) from error
    except InvalidInput as error:
        raise JsonParseError(str(error)) from error


def copy(value: Any, *, depth: int = 0) -> Any:
    """Return ``value`` as JavaScript would hold it. Raises InvalidInput if it is not JSON."""
    match value:
        case str():
            return join_surrogates(value)
        case None | bool():
            return value
        case int() | float():
            return _as_double(value)
        case list() if depth < NESTING_MAX:
            return [copy(item, depth=depth + 1) for item in value]
        case dict() if depth < NESTING_MAX:
            return _copy_object(value, depth)
        case list() | dict():
            raise InvalidInput(f"nested deeper than {NESTING_MAX} levels", hint="flatten it")
        case _:
            raise InvalidInput(
                f"a {type(value).__name__} is not JSON", hint="give dicts, lists, text and numbers"
            )


def stringify(value: Any) -> str:
    """Return ``value`` as ``JSON.stringify`` writes it; NaN and infinities become null."""
    match value:
        case str():
            return _quote(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value) if math.isfinite(value) else "null"
        case list():
            return "[" + ",".join(map(stringify, value)) + "]"
        case _:
            pairs = (f"{_quote(key)}:{stringify(item)}" for key, item in value.items())
            return "{" + ",".join(pairs) + "}"


def number_text(number: float) -> str:
    """Return ``number`` as JavaScript writes it."""
    if isinstance(number, int) and abs(number) <= INTEGER_MAX:
        return str(number)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    text = "".join(map(str, digits))
    # The position of the decimal point, counted from the first digit.
    point = len(text) + int(exponent)
    return ("-" if sign else "") + _place_point(text, point)


def text_of(value: Any) -> str:
    """Return ``value`` as JavaScript inserts it into a template string."""
    match value:
        case str():
            return value
        case list():
            return ",".join("" if item is None else text_of(item) for item in value)
        case dict():
            return "[object Object]"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return number_text(value)


def join_surrogates(text: str) -> str:
    """Return ``text`` with each surrogate pair joined into one character."""
    return units_text(units(text)) if _SURROGATE.search(text) else text


def units(text: str) -> bytes:
    """Return the UTF-16 units of ``text``, two bytes each: JavaScript's unit of length."""
    return text.encode("utf-16-le", "surrogatepass")


def units_text(cut: bytes) -> str:
    """Return the text of UTF-16 units; an unpaired surrogate is kept."""
    return cut.decode("utf-16-le", "surrogatepass")


def _place_point(digits: str, point: int) -> str:
    if len(digits) <= point <= _EXPONENT_MAX:
        return digits.ljust(point, "0")
    if 0 < point <= _EXPONENT_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if _EXPONENT_MIN < point <= 0:
        return f"0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _copy_object(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    copied: dict[str, Any] = {}
    indexed = False
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidInput(f"the key {key!r} is not text", hint="JSON keys are text")
        copied[join_surrogates(key)] = copy(item, depth=depth + 1)
        indexed = indexed or _is_index(key)
    if not indexed:
        return copied
    first = sorted(filter(_is_index, copied), key=int)
    return {key: copied[key] for key in first} | copied


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None and int(key) <= _INDEX_MAX


def _parse_number(text: str) -> float:
    return _as_double(float(text))


def _as_double(number: float) -> float:
    """Return ``number`` as a double; an integer stays an int while doubles can represent it."""
    if isinstance(number, int):
        return number if abs(number) <= INTEGER_MAX else _double(number)
    return int(number) if number.is_integer() and abs(number) <= INTEGER_MAX else number


def _double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _refuse(name: str) -> Any:
    raise ValueError(name)
