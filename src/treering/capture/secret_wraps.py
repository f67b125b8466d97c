"""Tokens that a terminal or a log broke into lines, joined again.

A token may break anywhere, even in its prefix. Text after a break belongs to a token only if both
parts together have the form of its family's tokens: a token that is complete before the break ends
there.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from treering.capture.secret_assignments import Span
from treering.lazy import lazy_pattern

Rejoin: TypeAlias = Callable[[str, int, str, int], Span | None]
"""Finds the token that starts at an offset, of which a part is read up to another offset."""

PIECES_MAX: Final = 64
TOKEN_CHARS_MAX: Final = 1_200
HEAD_CHARS_MAX: Final = 32

MASK_START: Final = "[redacted:"
BREAK: Final = r"(?:\r?\n|(?:\\r)?\\n)[ \t]{0,64}"
_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_ENCODED_CHARS: Final = _CHARS.encode()
_PIECE: Final = lazy_pattern(rf"{BREAK}([A-Za-z0-9_+/=.~%-]{{1,{TOKEN_CHARS_MAX}}}+)")
_RUN: Final = lazy_pattern(rf"[A-Za-z0-9_+/=.~%-]{{0,{TOKEN_CHARS_MAX}}}+")
# A continuation looks random: digits, capitals within a word, or only capitals.
_DRAWN: Final = r"(?=[A-Za-z0-9_.-]{8})(?=[A-Za-z_.-]{0,40}?(?:[0-9]|[a-z][A-Z])|[A-Z]{8})"
# They begin with the newline, which the regex engine finds fast.
_BROKEN: Final = lazy_pattern(rf"\n(?<=[A-Za-z0-9_.\r-]\n)[ \t]{{0,64}}+{_DRAWN}")
BROKEN_IN_TEXT: Final = lazy_pattern(_BROKEN.pattern.encode())
# The letter before the newline may be the one of an escaped carriage return.
_BROKEN_IN_JSON: Final = lazy_pattern(
    rb"\\n(?<=[A-Za-z0-9_.-]\\n) {0,64}+(?:\\t(?: |\\t){0,64}+)?+" + _DRAWN.encode()
)


def run_end(text: str, start: int) -> int:
    """Return where the token characters that begin at ``start`` end."""
    run = _RUN.match(text, start)
    return start if run is None else run.end()


def rejoined(
    text: str, joined: str, at: int, whole_end: Callable[[str], int | None], *, several: bool
) -> int | None:
    """Return where a token ends, of which ``joined`` is read up to ``at`` without breaks.

    ``whole_end`` returns where it is complete, and ``several`` means that several lengths are
    possible: then the longest counts. Return None if it is never complete.
    """
    stop = None
    read = 0
    for _ in range(PIECES_MAX):
        end = whole_end(joined)
        if end is not None and end > read:
            stop = at - len(joined) + end
        piece = _PIECE.match(text, at)
        if piece is None or len(joined) > TOKEN_CHARS_MAX or (stop is not None and not several):
            break
        read = len(joined)
        joined += piece[1]
        at = piece.end()
    # A token that ends at a mask was longer before.
    return None if stop is None or text.startswith(MASK_START, stop) else stop


def loosely(literal: str) -> str:
    """Return a pattern for ``literal`` that allows a break before each character."""
    return "".join(rf"(?:\r?\n[ \t]{{0,64}})?{re.escape(character)}" for character in literal)


class BrokenKeywords:
    """Finds tokens whose prefix itself is broken, so that no keyword matches."""

    def __init__(self, keywords: Iterable[tuple[str, Rejoin]]) -> None:
        self._rests: dict[str, tuple[str, ...]] = {}
        self._rejoins: dict[str, list[Rejoin]] = {}
        for word, rejoin in keywords:
            self._rejoins.setdefault(word, []).append(rejoin)
            for cut in range(1, len(word)):
                others = self._rests.get(word[:cut], ())
                self._rests[word[:cut]] = (*others, word[cut:])
        self._encoded_rests = {
            head.encode(): tuple(rest.encode() for rest in rests)
            for head, rests in self._rests.items()
        }

    def spans(self, text: str) -> list[Span]:
        """Return the tokens of ``text`` that are broken within their prefix."""
        if _BROKEN.search(text) is None:
            return []
        spans = (self._span(text, head, at) for head, at in self._heads(text))
        return [span for span in spans if span is not None]

    def may_be_in_text(self, encoded: bytes) -> bool:
        """Return whether a prefix may be broken in UTF-8 text that ``BROKEN_IN_TEXT`` finds."""
        return any(self._heads(encoded.decode("latin-1")))

    def may_be_in_json(self, encoded: bytes) -> bool:
        """Return whether a prefix may be broken in a string of canonical JSON."""
        if _BROKEN_IN_JSON.search(encoded) is None:
            return False
        for broken in _BROKEN_IN_JSON.finditer(encoded):
            end = broken.start()
            line = encoded[max(0, end - HEAD_CHARS_MAX) : end].removesuffix(b"\\r")
            before = line.rstrip(_ENCODED_CHARS)
            head = line[len(before) :]
            heads: tuple[bytes, ...] = (head,)
            if before.endswith(b"\\"):
                # The first letter may belong to an escape, as may a u and four digits.
                heads = (head, head[1:], head[5:])
            for head in heads:
                rests = self._encoded_rests.get(head)
                if rests is not None and encoded.startswith(rests, broken.end()):
                    return True
        return False

    def _span(self, text: str, head: str, at: int) -> Span | None:
        end = run_end(text, at)
        start = text.rindex(head, 0, at)
        for rest in self._rests[head]:
            if text.startswith(rest, at):
                for rejoin in self._rejoins[head + rest]:
                    span = rejoin(text, start, head + text[at:end], end)
                    if span is not None:
                        return span
        return None

    def _heads(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield each beginning of a prefix that ends a line, and where the next line continues."""
        for broken in _BROKEN.finditer(text):
            end = broken.start()
            line = text[max(0, end - HEAD_CHARS_MAX) : end].rstrip("\r")
            head = line[len(line.rstrip(_CHARS)) :]
            rests = self._rests.get(head)
            if rests is not None and text.startswith(rests, broken.end()):
                yield head, broken.end()
