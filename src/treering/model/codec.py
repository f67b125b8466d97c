"""Canonical JSON for storage: one spelling, bounded, never changed silently.

Encoders are too lenient for a ledger: NaN becomes null, bytes become base64, the last of two equal
keys wins. So stored JSON is decoded again and compared with the input.
"""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from treering.errors import InvalidInput
from treering.lazy import LazyModule

if TYPE_CHECKING:
    import base64
    import json
else:
    base64 = LazyModule("base64")
    json = LazyModule("json")

NESTING_MAX: Final = 64
PLAIN_LEVELS: Final = 6
"""Deeper values are checked by decoding and comparing, rather than by walking them."""
PAYLOAD_BYTES_MAX: Final = 8_192
"""The limit of a payload's canonical JSON in the event itself; larger ones go to a blob."""
REFS_BYTES_MAX: Final = 4_096
SPILL_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest payload that can be recorded."""

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_BYTES: Final = "$bytes"
"""The one field of an object that encodes bytes."""

encode = msgspec.json.Encoder(order="sorted").encode
"""Canonical JSON: UTF-8, keys sorted, no whitespace."""
decode = msgspec.json.Decoder().decode


def canonical(value: Any, name: str) -> bytes:
    """Return the canonical JSON of ``value``.

    Raises InvalidInput, with the path inside ``name``, if ``value`` would not decode to an equal
    value.
    """
    try:
        encoded = encode(value)
        faithful = decode(encoded) == value
    except _UNENCODABLE:
        faithful = False
        encoded = b""
    if not faithful or _too_deep(encoded, value):
        raise _unfaithful(value, name)
    return encoded


def canonical_content(
    summary: str, refs: Any, payload: Any
) -> tuple[bytes, bytes | None, bytes | None]:
    """Return ``[summary, refs, payload]`` as canonical JSON, and refs and payload on their own.

    Raises InvalidInput as ``canonical`` does; checking them together is cheaper than three checks.
    """
    try:
        encoded_refs = None if refs is None else encode(refs)
        encoded_payload = None if payload is None else encode(payload)
        refs_part = b"null" if encoded_refs is None else encoded_refs
        payload_part = b"null" if encoded_payload is None else encoded_payload
        content = b"".join((b"[", encode(summary), b",", refs_part, b",", payload_part, b"]"))
        # Plain values decode to themselves and are not deep, which settles most events: first
        # objects of plain values, since every append passes here.
        is_valid = (
            ((type(refs) is dict and _PLAIN.issuperset(map(type, refs.values()))) or is_plain(refs))
            and (
                (type(payload) is dict and _PLAIN.issuperset(map(type, payload.values())))
                or is_plain(payload)
            )
        ) or (
            decode(content) == [summary, refs, payload]
            and not _too_deep(content, refs)
            and not _too_deep(content, payload)
        )
    except _UNENCODABLE:
        is_valid = False
    if not is_valid:
        for name, value in (("summary", summary), ("refs", refs), ("payload", payload)):
            canonical(value, name)
        raise InvalidInput("the content does not survive JSON encoding", hint=_PLAIN_HINT)
    return content, encoded_refs, encoded_payload


def content_of(summary: str, refs: bytes | None, payload: bytes | None) -> bytes:
    """Return the JSON that an event's content digest covers."""
    return b"[%b,%b,%b]" % (encode(summary), refs or b"null", payload or b"null")


def packed(value: Any) -> Any:
    """Return ``value`` with all bytes in it as ``{"$bytes": base64}``, which JSON can hold."""
    match value:
        case bytes() | bytearray() | memoryview():
            return {_BYTES: base64.b64encode(value).decode()}
        case dict():
            items = {key: packed(item) for key, item in value.items()}
            # An object that looks like bytes, and is none.
            return {_BYTES: items} if len(items) == 1 and _BYTES in items else items
        case list():
            return [packed(item) for item in value]
    return value


def unpacked(value: Any) -> Any:
    """Return what ``packed`` was given."""
    match value:
        case dict():
            if len(value) == 1 and _BYTES in value:
                inner = value[_BYTES]
                if isinstance(inner, str):
                    return base64.b64decode(inner)
                return {_BYTES: unpacked(inner[_BYTES])}
            return {key: unpacked(item) for key, item in value.items()}
        case list():
            return [unpacked(item) for item in value]
    return value


def holds_bytes(value: Any) -> bool:
    """Whether there are bytes in ``value``, at a depth that can be recorded."""
    stack = [(value, 0)]
    while stack:
        inner, depth = stack.pop()
        if isinstance(inner, bytes | bytearray | memoryview):
            return True
        if depth < NESTING_MAX and isinstance(inner, dict | list):
            items = inner.values() if isinstance(inner, dict) else inner
            stack.extend((item, depth + 1) for item in items)
    return False


def parse_json(text: str | bytes, name: str) -> Json:
    """Return the value of JSON ``text``. Raises InvalidInput for anything lossy."""
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_exact,
        )
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8", hint="convert the file to UTF-8") from error
    except RecursionError as error:
        raise InvalidInput(
            f"{name} is nested deeper than {NESTING_MAX} levels", hint="flatten it"
        ) from error
    except _Refused as error:
        raise InvalidInput(f"invalid {name} JSON: {error}", hint="correct it") from error
    except ValueError as error:
        raise InvalidInput(
            f"invalid {name} JSON: {error}",
            hint="""quote it for the shell, as in '{"key":"value"}', or pass it as a file""",
        ) from error
    return value


_UNENCODABLE: Final = (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError)
_PLAIN_HINT: Final = "record JSON values only"
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_SOUND: Final = ("", "")


def valid_fields(struct: type[msgspec.Struct], given: Any) -> dict[str, Any]:
    """Return the fields of ``struct`` that ``given`` holds with values of the right type."""
    if not isinstance(given, dict):
        return {}
    return {
        name: given[name]
        for name in struct.__struct_fields__
        if name in given and _fits(struct, name, given[name])
    }


def _fits(struct: type[msgspec.Struct], name: str, value: Any) -> bool:
    try:
        msgspec.convert({name: value}, struct)
    except msgspec.ValidationError:
        return False
    return True


class _Refused(Exception):
    """Accepted by lenient parsers, but not here."""


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # Do not name the key: it may be secret itself.
        raise _Refused("an object has the same key twice")
    return result


def _exact(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or Decimal(text) != Decimal(repr(number)):
        raise _Refused("a number has more digits than a double")
    return number


def _refuse_constant(name: str) -> Json:
    raise _Refused(f"{name} is not a JSON number")


def _unfaithful(value: Any, name: str) -> InvalidInput:
    path, reason = _find_fault(value, name, 0)
    path, reason = (path, reason) if path else (name, "does not survive JSON encoding")
    return InvalidInput(f"{path} {reason}", hint=_PLAIN_HINT)


def _find_fault(value: Any, path: str, depth: int) -> tuple[str, str]:
    """Return where and why ``value`` is not plain JSON."""
    if depth > NESTING_MAX:
        return path.split("[", 1)[0], f"is nested deeper than {NESTING_MAX} levels"
    match value:
        case None | bool() | int():
            return _SOUND
        case float():
            return _SOUND if math.isfinite(value) else (path, f"is {value}, not a JSON number")
        case str():
            return _find_fault_in_text(value, path)
        case dict():
            keys = (_find_fault_in_key(key, path) for key in value)
            inner = (_find_fault(v, f"{path}[{k!r}]", depth + 1) for k, v in value.items())
            return next((fault for fault in chain(keys, inner) if fault != _SOUND), _SOUND)
        case list():
            inner = (_find_fault(v, f"{path}[{at}]", depth + 1) for at, v in enumerate(value))
            return next((fault for fault in inner if fault != _SOUND), _SOUND)
        case tuple():
            return path, "is a tuple; JSON has lists only"
        case _:
            return path, f"is a {type(value).__name__}, which is not JSON; convert it first"


def _find_fault_in_key(key: Any, path: str) -> tuple[str, str]:
    if not isinstance(key, str):
        return path, f"has the key {key!r}; JSON keys are text"
    return _find_fault_in_text(key, f"{path} key")


def _find_fault_in_text(text: str, path: str) -> tuple[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return path, f"holds a lone surrogate at character {error.start}"
    return _SOUND


def is_plain(value: Any, levels: int = PLAIN_LEVELS) -> bool:
    """Return whether ``value`` consists only of JSON's own types, a few levels deep."""
    kind = type(value)
    if kind is dict:
        inner = value.values()
    elif kind is list:
        inner = value
    else:
        return kind in _PLAIN or (kind is float and math.isfinite(value))
    return _PLAIN.issuperset(map(type, inner)) or (
        levels > 0 and all(is_plain(item, levels - 1) for item in inner)
    )


def _too_deep(encoded: bytes, value: Any) -> bool:
    # Each level opens one bracket, so a small count of brackets rules out deep nesting.
    brackets = encoded.count(b"[") + encoded.count(b"{")
    return brackets > NESTING_MAX and _depth(value) > NESTING_MAX


def _depth(value: Any) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        inner, depth = stack.pop()
        if isinstance(inner, dict):
            children = list(inner.values())
        elif isinstance(inner, list):
            children = inner
        else:
            continue
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in children)
    return deepest
