"""Edit JSON settings in place: every other byte is kept.

Settings belong to their user, who may have formatted them by hand. So a member is inserted or
removed within the text, which is never serialized again.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

import msgspec

from treering.errors import InvalidInput

NESTING_MAX: Final = 64
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\r\n"
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


class JsonNode(msgspec.Struct):
    """One value of a JSON text, and its position."""

    start: int
    end: int
    value: Any = None
    """The value, if it is neither an object nor an array."""
    members: dict[str, JsonNode] | None = None
    items: list[JsonNode] | None = None
    entry_start: int = 0
    """The start of the member's name, or of the value itself."""

    @property
    def children(self) -> list[JsonNode]:
        """Return the values inside, in order."""
        return list((self.members or {}).values()) if self.items is None else self.items

    def plain(self) -> Any:
        """Return the value as a Python object."""
        if self.members is not None:
            return {name: node.plain() for name, node in self.members.items()}
        return self.value if self.items is None else [node.plain() for node in self.items]


def parse(text: str) -> JsonNode:
    """Return ``text`` as nodes. Raises InvalidInput if it is not strict JSON."""
    at = _skip(text, 0)
    node = _value(text, at, 0)
    if _skip(text, node.end) != len(text):
        _refuse(text, _skip(text, node.end))
    return node


def insert(text: str, into: JsonNode, value: Any, *, name: str | None = None) -> str:
    """Return ``text`` with ``value`` appended to an array, or to an object as ``name``."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    children = into.children
    # An empty container is formatted like the rest: on one line if everything is.
    of_one_line = "\n" not in text.strip() and into.start > 0
    is_spread = "\n" in text[into.start : children[0].entry_start] if children else not of_one_line
    if children:
        depth = _indent(text, children[-1].entry_start)
        lead = f",{newline}{depth}" if is_spread else ", "
        return _spliced(
            text,
            children[-1].end,
            children[-1].end,
            lead + _written(value, name, depth if is_spread else None, unit, newline),
        )
    outer = _indent(text, into.entry_start)
    depth = outer + unit
    opening, closing = text[into.start], text[into.end - 1]
    if not is_spread:
        whole = opening + _written(value, name, None, unit, newline) + closing
        return _spliced(text, into.start, into.end, whole)
    body = _written(value, name, depth, unit, newline)
    whole = f"{opening}{newline}{depth}{body}{newline}{outer}{closing}"
    return _spliced(text, into.start, into.end, whole)


def remove(text: str, parent: JsonNode, child: JsonNode) -> str:
    """Return ``text`` without one value of an object or array, and without its comma."""
    children = parent.children
    index = children.index(child)
    if len(children) == 1:
        return _spliced(text, parent.start + 1, parent.end - 1, "")
    if index:
        return _spliced(text, children[index - 1].end, child.end, "")
    return _spliced(text, child.entry_start, children[1].entry_start, "")


def _value(text: str, at: int, depth: int) -> JsonNode:
    if depth > NESTING_MAX:
        raise InvalidInput(f"it is nested deeper than {NESTING_MAX} levels", hint="edit it by hand")
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    if first == '"':
        value, end = _string(text, at)
        return JsonNode(at, end, value, entry_start=at)
    match = _SCALAR.match(text, at)
    if not match:
        _refuse(text, at)
    return JsonNode(at, match.end(), json.loads(match[0]), entry_start=at)


def _object(text: str, start: int, depth: int) -> JsonNode:
    members: dict[str, JsonNode] = {}
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return JsonNode(start, at + 1, members=members, entry_start=start)
    while True:
        if text[at : at + 1] != '"':
            _refuse(text, at)
        entry_start = at
        name, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            _refuse(text, at)
        node = _value(text, _skip(text, at + 1), depth + 1)
        node.entry_start = entry_start
        if name in members:
            raise InvalidInput(
                f"{name!r} occurs twice in one object (line {_line(text, entry_start)})",
                hint="remove one of the two, then try again",
            )
        members[name] = node
        at = _skip(text, node.end)
        if text[at : at + 1] == "}":
            return JsonNode(start, at + 1, members=members, entry_start=start)
        if text[at : at + 1] != ",":
            _refuse(text, at)
        at = _skip(text, at + 1)


def _array(text: str, start: int, depth: int) -> JsonNode:
    items: list[JsonNode] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return JsonNode(start, at + 1, items=items, entry_start=start)
    while True:
        items.append(_value(text, at, depth + 1))
        at = _skip(text, items[-1].end)
        if text[at : at + 1] == "]":
            return JsonNode(start, at + 1, items=items, entry_start=start)
        if text[at : at + 1] != ",":
            _refuse(text, at)
        at = _skip(text, at + 1)


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except ValueError:
        _refuse(text, at)
    return str(value), end


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _refuse(text: str, at: int) -> NoReturn:
    line = _line(text, at)
    before = text[:at].rstrip()
    if text[at : at + 2] in {"//", "/*"} or text[at : at + 1] == "#":
        raise InvalidInput(
            f"it has comments (line {line}), which would be at risk",
            hint="remove the comments, or edit it by hand",
        )
    if before.endswith(",") and text[at : at + 1] in {"}", "]"}:
        raise InvalidInput(f"it has an extra comma (line {line})", hint="remove it, then try again")
    raise InvalidInput(f"it is not JSON (line {line})", hint="repair it, then try again")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _unit(text: str) -> str:
    """Return the indentation of one level, taken from the first indented line."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _indent(text: str, at: int) -> str:
    """Return the indentation of the line at ``at``."""
    begin = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, begin)
    return match[0] if match else ""


def _written(value: Any, name: str | None, depth: str | None, unit: str, newline: str) -> str:
    """Return a value as JSON, indented, or on one line if ``depth`` is None."""
    label = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if depth is None:
        return label + json.dumps(value, ensure_ascii=False)
    laid_out = json.dumps(value, ensure_ascii=False, indent=unit)
    return label + laid_out.replace("\n", newline + depth)


def _spliced(text: str, start: int, end: int, middle: str) -> str:
    return text[:start] + middle + text[end:]
