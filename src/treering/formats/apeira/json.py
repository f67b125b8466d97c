"""JSON as JavaScript reads and writes it, byte for byte.

Numbers are doubles, an object lists keys that are array indexes first, and strings are UTF-16
units. A value that is parsed and stringified here has the bytes that ``JSON.stringify`` writes.

A log stores these messages for lines it cannot read, so they are part of the format. They match V8
in Node 20.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from treering.errors import InvalidInput

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


_CONTEXT: Final = 10
"""UTF-16 units shown on either side of the unexpected character."""
_SPECIAL: Final = frozenset({"NaN", "Infinity", "undefined", "[object Object]"})
"""Values that were written without ``JSON.stringify``; V8 has a message of its own for them."""
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_ESCAPES: Final = frozenset('"\\/bfnrt')
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_DIGITS: Final = re.compile(r"[0-9]*")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_END: Final = "Unexpected end of JSON input"


def describe_fault(text: str) -> str | None:
    """Return why ``text`` is not JSON, or None if it is."""
    # One character for each UTF-16 unit: V8 counts positions in units.
    units = text if text.isascii() else _split(text.encode("utf-16-le", "surrogatepass"))
    try:
        _Scanner(units).scan()
    except _Fault as fault:
        return str(fault)
    return None


class _Fault(Exception):
    """The message of the error."""


class _Scanner:
    """Checks a text in one pass, without building a value."""

    def __init__(self, units: str) -> None:
        self._units = units
        self._at = 0

    def scan(self) -> None:
        """Scan the whole text. Raises _Fault where it is not JSON."""
        # Open brackets are kept in a list, not on the stack: nesting has no limit here.
        opened: list[str] = []
        self._begin(opened)
        while opened:
            if self._continues(opened):
                self._begin(opened)
        if self._peek():
            raise self._fault("Unexpected non-whitespace character after JSON")

    def _begin(self, opened: list[str]) -> None:
        """Scan a value up to its first scalar or empty container."""
        while True:
            sign = self._peek()
            if sign not in {"{", "["}:
                self._scalar(sign)
                return
            self._at += 1
            if self._peek() == {"{": "}", "[": "]"}[sign]:
                self._at += 1
                return
            opened.append(sign)
            if sign == "{":
                self._name("Expected property name or '}'")
                if self._peek() != ":":
                    raise self._fault("Expected ':' after property name")
                self._at += 1

    def _continues(self, opened: list[str]) -> bool:
        """Scan what follows a value; return whether another value must follow."""
        sign, is_object = self._peek(), opened[-1] == "{"
        if sign == ("}" if is_object else "]"):
            self._at += 1
            opened.pop()
            return False
        if sign != ",":
            raise self._fault(
                "Expected ',' or '}' after property value"
                if is_object
                else "Expected ',' or ']' after array element"
            )
        self._at += 1
        if is_object:
            self._name("Expected double-quoted property name")
            # V8 names the expected ':' only after the first property of an object.
            if self._peek() != ":":
                raise self._unexpected()
            self._at += 1
        return True

    def _name(self, expected: str) -> None:
        if self._peek() != '"':
            raise self._fault(expected)
        self._string()

    def _scalar(self, sign: str) -> None:
        if sign == '"':
            self._string()
        elif sign == "-" or self._is_digit():
            self._number(sign)
        elif sign in _LITERALS:
            for expected in _LITERALS[sign]:
                if self._unit() != expected:
                    raise self._unexpected()
                self._at += 1
        else:
            raise self._unexpected()

    def _string(self) -> None:
        self._at += 1
        while (unit := self._unit()) != '"':
            if not unit:
                raise self._fault("Unterminated string")
            if unit < " ":
                raise self._fault("Bad control character in string literal")
            self._at += 1
            if unit == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        unit = self._unit()
        if not unit:
            raise _Fault(_END)
        if unit == "u":
            for _ in range(4):
                self._at += 1
                if self._unit() not in _HEX:
                    raise self._fault("Bad Unicode escape")
        elif unit not in _ESCAPES:
            raise self._unexpected() if unit > "\xff" else self._fault("Bad escaped character")
        self._at += 1

    def _number(self, sign: str) -> None:
        if sign == "-":
            self._at += 1
            if not self._is_digit():
                raise self._fault("No number after minus sign")
        if self._unit() == "0":
            self._at += 1
            if self._is_digit():
                raise self._fault("Unexpected number")
        self._digits()
        if self._unit() == ".":
            self._at += 1
            if not self._digits():
                raise self._fault("Unterminated fractional number")
        if self._unit() in {"e", "E"}:
            self._at += 1
            if self._unit() in {"+", "-"}:
                self._at += 1
            if not self._digits():
                raise self._fault("Exponent part is missing a number")

    def _digits(self) -> bool:
        start, self._at = self._at, _end(_DIGITS, self._units, self._at)
        return self._at > start

    def _is_digit(self) -> bool:
        return "0" <= self._unit() <= "9"

    def _peek(self) -> str:
        """Return the next unit that is not whitespace, or "" at the end."""
        self._at = _end(_BLANKS, self._units, self._at)
        return self._unit()

    def _unit(self) -> str:
        return self._units[self._at : self._at + 1]

    def _fault(self, words: str) -> _Fault:
        return _Fault(f"{words} in JSON at position {self._at}".replace("JSON in JSON", "JSON"))

    def _unexpected(self) -> _Fault:
        units, at = self._units, self._at
        if at >= len(units):
            return _Fault(_END)
        if units[at] == "-" or self._is_digit():
            return self._fault("Unexpected number")
        if units[at] == '"':
            return self._fault("Unexpected string")
        if units in _SPECIAL:
            return _Fault(f'"{units}" is not valid JSON')
        start, end = at - _CONTEXT, at + _CONTEXT
        if len(units) <= 2 * _CONTEXT:
            shown = f'"{_joined(units)}"'
        elif start < 0:
            shown = f'"{_joined(units[:end])}"...'
        elif at < len(units) - _CONTEXT:
            shown = f'..."{_joined(units[start:end])}"...'
        else:
            shown = f'..."{_joined(units[start:])}"'
        return _Fault(f"Unexpected token '{units[at]}', {shown} is not valid JSON")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _split(encoded: bytes) -> str:
    pairs = zip(encoded[::2], encoded[1::2], strict=True)
    return "".join(chr(low | high << 8) for low, high in pairs)


def _joined(units: str) -> str:
    """Return units as text, with surrogate pairs joined into characters."""
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
