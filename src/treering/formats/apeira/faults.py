"""Error messages for invalid JSON, in the words of V8's ``JSON.parse``.

A log stores these messages for lines it cannot read, so they are part of the format. They match V8
in Node 20.
"""

from __future__ import annotations

import re
from typing import Final

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
