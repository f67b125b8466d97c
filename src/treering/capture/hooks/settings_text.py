"""JSON settings changed in place: what is not touched keeps every byte.

Settings belong to their user, who may have laid them out by hand. So a member is put in or taken
out of the text where it stands, and nothing is written anew.
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
    """One value of a JSON text, and where it stands."""

    start: int
    end: int
    value: Any = None
    """What it says, if it is neither an object nor an array."""
    members: dict[str, JsonNode] | None = None
    items: list[JsonNode] | None = None
    place: int = 0
    """Where what holds the value begins: the name of a member, else the value itself."""

    @property
    def children(self) -> list[JsonNode]:
        """Return the values inside, in their order."""
        return list((self.members or {}).values()) if self.items is None else self.items

    def plain(self) -> Any:
        """Return the value as Python has it."""
        if self.members is not None:
            return {name: node.plain() for name, node in self.members.items()}
        return self.value if self.items is None else [node.plain() for node in self.items]


def parse(text: str) -> JsonNode:
    """Return ``text`` as nodes. Raises InvalidInput if it is not exactly JSON."""
    at = _skip(text, 0)
    node = _value(text, at, 0)
    if _skip(text, node.end) != len(text):
        _refuse(text, _skip(text, node.end))
    return node


def insert(text: str, into: JsonNode, value: Any, *, name: str | None = None) -> str:
    """Return ``text`` with ``value`` put last into an object, as ``name``, or into an array."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    children = into.children
    # What is empty is laid out as the rest is: on one line, if all of it is.
    of_one_line = "\n" not in text.strip() and into.start > 0
    is_spread = "\n" in text[into.start : children[0].place] if children else not of_one_line
    if children:
        depth = _indent(text, children[-1].place)
        lead = f",{newline}{depth}" if is_spread else ", "
        return _spliced(
            text,
            children[-1].end,
            children[-1].end,
            lead + _written(value, name, depth if is_spread else None, unit, newline),
        )
    outer = _indent(text, into.place)
    depth = outer + unit
    opening, closing = text[into.start], text[into.end - 1]
    if not is_spread:
        whole = opening + _written(value, name, None, unit, newline) + closing
        return _spliced(text, into.start, into.end, whole)
    body = _written(value, name, depth, unit, newline)
    whole = f"{opening}{newline}{depth}{body}{newline}{outer}{closing}"
    return _spliced(text, into.start, into.end, whole)


def remove(text: str, parent: JsonNode, child: JsonNode) -> str:
    """Return ``text`` without a value of an object or array, and without its comma."""
    children = parent.children
    index = children.index(child)
    if len(children) == 1:
        return _spliced(text, parent.start + 1, parent.end - 1, "")
    if index:
        return _spliced(text, children[index - 1].end, child.end, "")
    return _spliced(text, child.place, children[1].place, "")


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
        return JsonNode(at, end, value, place=at)
    found = _SCALAR.match(text, at)
    if not found:
        _refuse(text, at)
    return JsonNode(at, found.end(), json.loads(found[0]), place=at)


def _object(text: str, start: int, depth: int) -> JsonNode:
    members: dict[str, JsonNode] = {}
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return JsonNode(start, at + 1, members=members, place=start)
    while True:
        if text[at : at + 1] != '"':
            _refuse(text, at)
        place = at
        name, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            _refuse(text, at)
        node = _value(text, _skip(text, at + 1), depth + 1)
        node.place = place
        if name in members:
            raise InvalidInput(
                f"{name!r} stands twice in one object (line {_line(text, place)})",
                hint="remove one of the two, then run it again",
            )
        members[name] = node
        at = _skip(text, node.end)
        if text[at : at + 1] == "}":
            return JsonNode(start, at + 1, members=members, place=start)
        if text[at : at + 1] != ",":
            _refuse(text, at)
        at = _skip(text, at + 1)


def _array(text: str, start: int, depth: int) -> JsonNode:
    items: list[JsonNode] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return JsonNode(start, at + 1, items=items, place=start)
    while True:
        items.append(_value(text, at, depth + 1))
        at = _skip(text, items[-1].end)
        if text[at : at + 1] == "]":
            return JsonNode(start, at + 1, items=items, place=start)
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
            hint="take the comments out, or put the hooks in by hand",
        )
    if before.endswith(",") and text[at : at + 1] in {"}", "]"}:
        raise InvalidInput(
            f"it has a comma too many (line {line})", hint="take it out, then run it again"
        )
    raise InvalidInput(f"it is not JSON (line {line})", hint="mend it, then run it again")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _unit(text: str) -> str:
    """Return what one level is indented by, as the first indented line has it."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent(text: str, at: int) -> str:
    """Return the blanks at the beginning of the line that ``at`` is in."""
    begin = text.rfind("\n", 0, at) + 1
    found = re.compile(r"[ \t]*").match(text, begin)
    return found[0] if found else ""


def _written(value: Any, name: str | None, depth: str | None, unit: str, newline: str) -> str:
    """Return a value as it is put in: over several lines, or on one if ``depth`` is None."""
    label = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if depth is None:
        return label + json.dumps(value, ensure_ascii=False)
    laid_out = json.dumps(value, ensure_ascii=False, indent=unit)
    return label + laid_out.replace("\n", newline + depth)


def _spliced(text: str, start: int, end: int, middle: str) -> str:
    return text[:start] + middle + text[end:]
