"""Values that are not JSON, as JSON: nothing raised, nothing consumed, and every change marked.

A mark says where a value was changed, which type it had, and what it became:

    {"at": "/output/when", "type": "datetime.datetime", "as": "iso"}

``at`` is a JSON pointer into the payload. ``as`` is one of the forms of ``FORMS``.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import os
from collections import UserString, deque
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import msgspec

from treering.model.codec import (
    NESTING_MAX,
    PLAIN_LEVELS,
    SPILL_BYTES_MAX,
    Json,
    decode,
    encode,
    is_plain,
)

Mark = dict[str, Any]
FORMS: Final = {
    "iso": "a date, a time or a duration, in ISO 8601",
    "text": "the value written out, as str() does",
    "utf-8": "bytes that are UTF-8, decoded",
    "base64": "other bytes",
    "list": "a tuple, set, array or other sequence, as a list; a set is sorted if it can be",
    "object": "fields by their names, or another mapping",
    "value": "the value of an enum's member, or of a subclass of a JSON type",
    "key": "the key of an object, as text",
    "pairs": "an object whose keys would be equal as text, as a list of [key, value]",
    "escaped": "text with lone surrogates, each written as \\udcff",
    "json": "JSON text: what was nested too deep, or was no text where a text belongs",
    "cycle": "the pointer of the object that contains itself",
    "repr": "what repr() says, because nothing better is known",
    "shortened": "the beginning of what is too long to be kept",
}
REPR_CHARACTERS_MAX: Final = 4_096
MARKS_MAX: Final = 100
"""Further marks are counted: the last one says how many in ``more``."""
VALUES_MAX: Final = 1_000_000
"""Values that are looked at; containers found later are kept as their repr."""
WRITTEN_MAX: Final = 2 * VALUES_MAX
"""Values that are written out as text; what holds more, or one value over and over, is named."""
SHORTENED_CHARACTERS: Final = 1_000_000
"""How much is kept of a value that makes a payload larger than a ledger holds."""
_TYPE_CHARACTERS_MAX: Final = 200
_SCALARS: Final = frozenset({str, int, float, bool, bytes, type(None)})
_CONTAINERS: Final = frozenset({dict, list, tuple})
_INTEGER_BITS: Final = 63
_MARKS: Final = "converted"
STOPS: Final = (KeyboardInterrupt, SystemExit)
"""What ends a program, and is not to be taken for an answer of foreign code."""


def to_json(value: Any, at: str = "") -> tuple[Json, list[Mark]]:
    """Return ``value`` as JSON that can be recorded, and marks for what had to be changed.

    What is JSON comes back without a mark, as a copy: another thread may still change ``value``.
    Iterators are never advanced.
    """
    try:
        converted = _copied(value, PLAIN_LEVELS)
        if is_plain(converted):
            encode(converted)  # Keys and surrogates are not looked at by is_plain.
            return converted, []
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001, S110  (not JSON: foreign code may raise anything)
        pass
    conversion = _Conversion()
    converted = conversion.convert(value, at, at.count("/"))
    return converted, conversion.marks


def _copied(value: Any, levels: int) -> Any:
    """Return ``value``; a dict or a list as a copy, and those in it ``levels`` deep."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return value
    copied = value.copy()  # At once: no other thread comes in between.
    for key, item in copied.items() if kind is dict else enumerate(copied):
        if levels and (type(item) is dict or type(item) is list):
            copied[key] = _copied(item, levels - 1)
    return copied


def to_text(value: Any, at: str = "") -> tuple[str, list[Mark]]:
    """Return ``value`` as text, and marks for what had to be changed; None is empty."""
    if type(value) is str and value.isascii():
        return value, []
    if value is None:
        return "", [{"at": at, "type": type_name(value), "as": "text"}]
    converted, marks = to_json(value, at)
    if isinstance(converted, str):
        return converted, marks
    return encode(converted).decode(), [{"at": at, "type": type_name(value), "as": "json"}, *marks]


def with_marks(payload: Any, marks: Sequence[Mark]) -> Any:
    """Return ``payload`` with ``marks`` beside what it holds, under a name that is free."""
    if not marks:
        return payload
    content = payload if isinstance(payload, dict) else {"value": payload}
    name = _MARKS
    while name in content:
        name = f"_{name}"
    listed = list(marks[:MARKS_MAX])
    if len(marks) > MARKS_MAX:
        listed.append({"more": sum(mark.get("more", 1) for mark in marks[MARKS_MAX:])})
    return {**content, name: listed}


def shorten_values(payload: Any) -> tuple[Any, list[Mark]]:
    """Return ``payload`` with its largest values cut until it can be kept, and marks for them."""
    marks: list[Mark] = []
    if not isinstance(payload, dict) or len(encode(payload)) <= SPILL_BYTES_MAX:
        return payload, marks
    shortened = dict(payload)
    for size, name in sorted(((len(encode(v)), k) for k, v in payload.items()), reverse=True):
        value = payload[name]
        text = value if isinstance(value, str) else encode(value).decode()
        shortened[name] = text[:SHORTENED_CHARACTERS]
        marks.append({"at": f"/{name}", "type": type_name(value), "as": "shortened", "bytes": size})
        if len(encode(shortened)) <= SPILL_BYTES_MAX:
            break
    return shortened, marks


def type_name(value: Any) -> str:
    """Return the name of the type of ``value``, with its module unless it is built in."""
    name, module = (_field(type(value), field) for field in ("__qualname__", "__module__"))
    full = name if module == "builtins" or type(module) is not str else f"{module}.{name}"
    return plain(full[:_TYPE_CHARACTERS_MAX])


def plain(text: str) -> str:
    """Return ``text``, of whatever type, with what no encoding can hold written out."""
    return str.encode(text, errors="backslashreplace").decode()


class _Conversion:
    """One value on its way to JSON."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._above: dict[int, str] = {}
        """Containers that are being converted, and where each is: to notice cycles."""
        self._left = VALUES_MAX
        self._left_to_write = WRITTEN_MAX

    def convert(self, value: Any, at: str, depth: int) -> Json:
        kind = type(value)
        if value is None or kind is bool:
            return value  # type: ignore[no-any-return]
        if kind is int or kind is float:
            return self._number(value, at)
        if kind is str:
            return self._text(value, at)
        try:
            return self._convert_other(value, at, depth)
        except STOPS:
            raise
        except BaseException:  # noqa: BLE001  (foreign code may raise anything)
            return self._repr(value, at)

    def _convert_other(self, value: Any, at: str, depth: int) -> Json:
        converted, form = _simple(value)
        if form is not None:
            self._mark(at, value, form)
            return plain(converted) if isinstance(converted, str) else converted
        if form is None and converted is not None:
            # A JSON value in another type: an enum's, or a scalar's of an array library.
            self._mark(at, value, "value")
            return self._nested(value, converted, at, depth)
        fields = _fields(value)
        if fields is not None:
            if type(value) is not dict:
                self._mark(at, value, "object")
            return self._nested(value, fields, at, depth)
        items = _items(value)
        if items is None:
            return self._repr(value, at)
        if type(value) is not list:
            self._mark(at, value, "list")
        return self._nested(value, items, at, depth)

    def _nested(self, value: Any, converted: Any, at: str, depth: int) -> Json:
        if not isinstance(converted, dict | list):
            too_deep = depth >= NESTING_MAX
            return self._repr(value, at) if too_deep else self.convert(converted, at, depth + 1)
        if id(value) in self._above:
            self._mark(at, value, "cycle")
            return f"(cycle: {self._above[id(value)] or '/'})"
        self._left -= len(converted)
        if depth >= NESTING_MAX or self._left < 0:
            return self._folded(value, converted, at)
        self._above[id(value)] = at
        try:
            if isinstance(converted, dict):
                return self._mapping(value, converted, at, depth)
            return [self.convert(item, f"{at}/{n}", depth + 1) for n, item in enumerate(converted)]
        finally:
            del self._above[id(value)]

    def _mapping(self, value: Any, converted: dict[Any, Any], at: str, depth: int) -> Json:
        keys = [self._key(key) for key in converted]
        if len(set(keys)) < len(keys):
            if depth + 1 >= NESTING_MAX:
                return self._repr(value, at)
            self._mark(at, value, "pairs")
            return [
                [
                    self.convert(item, f"{at}/{n}/{side}", depth + 2)
                    for side, item in enumerate(pair)
                ]
                for n, pair in enumerate(converted.items())
            ]
        result: dict[str, Json] = {}
        for text, (key, item) in zip(keys, converted.items(), strict=True):
            pointer = f"{at}/{text.replace('~', '~0').replace('/', '~1')}"
            if type(key) is not str or key != text:
                self._mark(pointer, key, "key")
            result[text] = self.convert(item, pointer, depth + 1)
        return result

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return plain(key)
        converted, form = _simple(key)
        if isinstance(key, Enum):
            converted = key.value
        if isinstance(converted, str):
            return plain(converted)
        return _repr_of(key)[0] if form is None or converted is None else str(converted)

    def _number(self, value: float, at: str) -> Json:
        if type(value) is int:
            if value.bit_length() < _INTEGER_BITS or _comes_back(value):
                return value
            self._mark(at, value, "text")
            return _digits(value)
        if math.isfinite(value):
            return value
        self._mark(at, value, "text")
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def _text(self, value: str, at: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            self._mark(at, value, "escaped")
            return plain(value)
        return value

    def _folded(self, value: Any, converted: Any, at: str) -> Json:
        """Return a value that is nested too deep, or too large, as one text."""
        if not self._can_be_written(converted):
            self._mark(at, value, "repr")
            return f"<{type_name(value)}: too many values>"
        if not _comes_back(converted):
            return self._repr(value, at)
        self._mark(at, value, "json")
        return encode(converted).decode()

    def _can_be_written(self, converted: Any) -> bool:
        """Whether a text of what ``converted`` holds has an end in sight.

        A list that holds one other twice, which holds a third one twice, is small, and its text is
        not: it doubles with every level.
        """
        stack = [converted]
        while stack and self._left_to_write >= 0:
            inner = stack.pop()
            parts = inner.values() if isinstance(inner, dict) else inner
            self._left_to_write -= len(parts)
            stack.extend(_parts(part) for part in parts if type(part) not in _SCALARS)
        return self._left_to_write >= 0

    def _repr(self, value: Any, at: str) -> str:
        text, length = _repr_of(value)
        more = {"characters": length} if length > REPR_CHARACTERS_MAX else {}
        self._mark(at, value, "repr", **more)
        return text

    def _mark(self, at: str, value: Any, form: str, **more: Any) -> None:
        if len(self.marks) < MARKS_MAX:
            self.marks.append({"at": at, "type": type_name(value), "as": form, **more})
        elif len(self.marks) == MARKS_MAX:
            self.marks.append({"more": 1})
        else:
            self.marks[-1]["more"] += 1


def _simple(value: Any) -> tuple[Any, str | None]:  # noqa: C901  (one case a type)
    """Return a value without parts as JSON, and its form.

    Without a form, what is found is the value in another type; nothing is found for containers.
    """
    match value:
        case Enum():
            return (value.value, None) if value.value is not None else ("null", "value")
        case str():
            return value, "value"
        case UserString():  # A sequence, too: of texts that hold themselves.
            return value.data, None
        case bool() | int():
            return int.__int__(value), None
        case float():
            return float.__float__(value), None
        case datetime() | date() | time():
            return value.isoformat(), "iso"
        case timedelta():
            return msgspec.to_builtins(value), "iso"
        case bytes() | bytearray() | memoryview():
            return _bytes(bytes(value))
        case UUID() | Decimal() | Fraction() | complex():
            return str(value), "text"
        case os.PathLike():
            path = os.fspath(value)
            return os.fsdecode(path) if isinstance(path, bytes) else path, "text"
        case BaseException():
            return described(value), "object"
    if _is_array(value) and value.shape == ():
        return value.tolist(), None
    return None, None


def described(error: BaseException) -> dict[str, str]:
    """Return an exception as values, whatever its text is like."""
    try:
        message = plain(str(error))
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (an exception that cannot say what it is about)
        message = "(it has no text)"
    return {"class": class_name(error), "message": message}


def class_name(error: BaseException) -> str:
    """Return the name of the class of ``error``, without its module."""
    return plain(_field(type(error), "__name__")[:_TYPE_CHARACTERS_MAX])


def _field(kind: type, name: str) -> Any:
    """Return a field of a class; not by way of its metaclass, which may say anything."""
    return vars(type)[name].__get__(kind)


def _bytes(value: bytes) -> tuple[str, str]:
    try:
        return value.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(value).decode(), "base64"


def _fields(value: Any) -> dict[Any, Any] | None:
    """Return what ``value`` holds by names, one level deep; None if it holds nothing so."""
    kind = type(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        names: Any = value.__struct_fields__
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    elif isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value, strict=False))
    elif hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_dump"):
        # Recognised by its attributes: importing pydantic takes long, and it may not be there.
        dumped = value.model_dump(warnings=False)
        return dumped if isinstance(dumped, dict) else {"root": dumped}
    elif isinstance(value, Mapping | MappingProxyType):
        return dict(islice(value.items(), len(value))) if len(value) <= VALUES_MAX else None
    else:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _parts(value: Any) -> Any:
    """Return what a text of ``value`` repeats, as far as that is known; never raise."""
    if type(value) in _CONTAINERS:
        return value
    try:
        found = _fields(value) or _items(value)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (foreign code may raise anything)
        found = None
    return found or ()


def _items(value: Any) -> list[Any] | None:
    """Return what ``value`` holds in order; None if that is not known without consuming it."""
    if isinstance(value, Iterator | range | type):
        return None
    if _is_array(value):
        return value.tolist() if value.size <= VALUES_MAX else None
    if isinstance(value, AbstractSet):
        if len(value) > VALUES_MAX:
            return None
        listed = list(islice(value, len(value)))
        try:
            return sorted(listed)
        except TypeError:
            return listed
    is_known = isinstance(value, list | tuple | deque | Sequence | ValuesView)
    # As many as it says: one that is read by index may never say that it is over.
    return list(islice(value, len(value))) if is_known and len(value) <= VALUES_MAX else None


def _is_array(value: Any) -> bool:
    """Whether ``value`` is an array or a scalar of an array library: numpy's, for instance."""
    kind = type(value)
    return all(hasattr(kind, name) for name in ("dtype", "shape", "tolist"))


def _comes_back(value: Any) -> bool:
    try:
        return bool(decode(encode(value)) == value)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (it holds what is not JSON, or itself)
        return False


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python limits how many digits it writes.
        return hex(value)


def _repr_of(value: Any) -> tuple[str, int]:
    """Return what ``repr`` says, bounded, and how long it was."""
    try:
        text = str.__str__(repr(value))  # Which may be of another type as well.
    except STOPS:
        raise
    except BaseException as error:  # noqa: BLE001  (foreign code may raise anything)
        text = f"<{type_name(value)}: its repr raised {class_name(error)}>"
    return plain(text[:REPR_CHARACTERS_MAX]), len(text)
