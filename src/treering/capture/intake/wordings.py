"""Comparing words: whether a recorded event has the words that a log has under its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELDS: Final = ("text", "input", "output", "thinking", "content")
"""Fields of a payload with messages, inputs and outputs."""
_MASK_BEGINS: Final = "[redacted:"


def holds(recorded: Any, parsed: Any) -> bool:
    """Whether the payload ``recorded`` holds all words of the payload ``parsed``.

    It may hold them in another shape: another version may have read them. Words under a mask are
    not compared.
    """
    words = _words_in(parsed)
    if isinstance(recorded, dict) and all(
        recorded.get(name) == part for name, part in words.items()
    ):
        return True
    leaves = set(_leaves(recorded))
    missing = [leaf for leaf in _leaves(words) if leaf not in leaves]
    if not missing:
        return True
    masked = [leaf for leaf in leaves if isinstance(leaf, str) and _MASK_BEGINS in leaf]
    lines = {line for leaf in leaves for line in _lines(leaf)}
    return all(
        lines.issuperset(_lines(leaf)) or any(_fits(str(leaf), mask) for mask in masked)
        for leaf in missing
    )


def lines_of(payload: Any) -> frozenset[str]:
    """Return the words of a payload, in lines."""
    return frozenset(line for leaf in _leaves(_words_in(payload)) for line in _lines(leaf))


def _words_in(payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict):
        return {}
    words = {name: payload[name] for name in _FIELDS if payload.get(name) is not None}
    message = payload.get("message")
    if isinstance(message, dict):
        message = message.get("content")
    return words if message is None else {**words, "message": message}


def _leaves(value: Any) -> Iterator[Any]:
    """Give the values in ``value`` that contain no others."""
    ahead = [value]
    while ahead:
        node = ahead.pop()
        if isinstance(node, dict):
            ahead.extend(node.values())
        elif isinstance(node, list):
            ahead.extend(node)
        elif node is not None and node != "":
            yield node


def _lines(value: Any) -> Iterator[str]:
    return (line for raw_line in str(value).splitlines() if (line := raw_line.strip()))


def _fits(text: str, masked: str) -> bool:
    """Whether ``text`` equals ``masked`` except under its masks."""
    # Loading the guard takes long, and mostly nothing is masked.
    from treering.capture.secret_values import MASK  # noqa: PLC0415

    first, *rest = MASK.split(masked)
    if not rest or not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        start = text.find(piece, at, end)
        if start < 0:
            return False
        at = start + len(piece)
    return at <= end
