"""JSON as a browser writes it, and lines of JSON, each parsed on its own.

Clawser writes with JSON.stringify, and this module writes the same bytes. The only exception are
integers above a browser's safe range, which keep all their digits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec

from treering.errors import InvalidInput

NESTING_MAX: Final = 200
"""Deeper lines are reported as bad: writing them could overflow the stack."""
BAD_LINES_MAX: Final = 100

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_quote: Final = json.encoder.encode_basestring


class UnreadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is not an event."""

    line: int
    """Counted from 1."""
    message: str


class ParsedLines(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a text of lines."""

    values: list[Any]
    lines: int
    """The number of lines, including blank and bad ones."""
    bad: int
    """The number of lines that could not be read."""
    bad_lines: tuple[UnreadLine, ...]
    """The first of these lines."""


def stringify(value: Any) -> str:
    """Return ``value`` as JSON.stringify writes it; keys keep their order.

    Raises InvalidInput if it is not a JSON value.
    """
    try:
        return _spell(value, 0)
    except ValueError as error:
        raise InvalidInput(f"not a JSON value: {error}", hint="record JSON values only") from None


def parse(text: str) -> Any:
    """Return the value of JSON ``text``. Raises InvalidInput if it is not JSON or too deep."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {_reason(error)}", hint="see the line itself") from None
    if _is_deep(text, value):
        raise InvalidInput(f"nested deeper than {NESTING_MAX} levels", hint="see the line itself")
    return value


def parse_lines(text: str | bytes) -> ParsedLines:
    """Return the values of all lines, and count the lines that cannot be read.

    Blank lines and values that are falsy in a browser, such as null, are skipped.
    """
    values: list[Any] = []
    bad_lines: list[UnreadLine] = []
    number = bad = 0
    for number, line in enumerate(_split(text), 1):
        try:
            value = _value_of(line, first=number == 1)
        except InvalidInput as error:
            bad += 1
            if len(bad_lines) < BAD_LINES_MAX:
                bad_lines.append(UnreadLine(line=number, message=str(error)))
        else:
            if truthy(value):
                values.append(value)
    return ParsedLines(values=values, lines=number, bad=bad, bad_lines=tuple(bad_lines))


def truthy(value: Any) -> bool:
    """Return whether ``value`` is truthy in a browser: empty lists and objects are."""
    return isinstance(value, dict | list) or bool(value)


def _split(text: str | bytes) -> Iterator[str | bytes]:
    # Only at newlines: a text may contain other line separators.
    if isinstance(text, bytes):
        yield from text.removesuffix(b"\n").split(b"\n") if text else ()
    else:
        yield from text.removesuffix("\n").split("\n") if text else ()


def _value_of(line: str | bytes, *, first: bool) -> Any:
    if isinstance(line, bytes):
        try:
            line = line.decode()
        except UnicodeDecodeError:
            raise InvalidInput("not UTF-8", hint="see the line itself") from None
    if first:
        line = line.removeprefix(_BYTE_ORDER_MARK)
    return parse(line) if line.strip() else None


def _spell(value: Any, depth: int) -> str:
    if depth > NESTING_MAX:
        raise ValueError(f"nested deeper than {NESTING_MAX} levels")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _spell_text(value)
        case int():
            return str(value)
        case float():
            return _spell_number(value)
        case dict():
            inner = (f"{_spell_key(k)}:{_spell(v, depth + 1)}" for k, v in value.items())
            return "{" + ",".join(inner) + "}"
        case list():
            return "[" + ",".join([_spell(item, depth + 1) for item in value]) + "]"
        case _:
            raise ValueError(f"a {type(value).__name__}")


def _spell_key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r}")  # noqa: TRY004  (one error for all invalid values)
    return _spell_text(key)


def _spell_text(text: str) -> str:
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", _quote(text))


def _spell_number(number: float) -> str:
    if not math.isfinite(number):
        raise ValueError(str(number))
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    if 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f")
    digits, _, exponent = repr(number).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"nested deeper than {NESTING_MAX} levels"
    # Only the reason: the decoder's full message may quote the line.
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def _is_deep(text: str, value: Any) -> bool:
    # Each level opens one bracket, so a small count of brackets rules out deep nesting.
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return False
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for container in level
            if isinstance(container, dict | list)
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
    return depth > NESTING_MAX
