"""Words in their normalized form, for indexing and searching.

Case, accents and character widths are ignored. Names in code are split at their joints. Scripts
without spaces are split into pairs of characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern

WORD_CHARACTERS_MAX: Final = 64
"""Longer words are indexed and searched by this prefix."""
IDENTIFIER_CHARACTERS_MAX: Final = 200
NAME_CHARACTERS_MIN: Final = 10
"""As many letters and digits in a row are searched for what is inside, as names in code are."""
GRAM_CHARACTERS: Final = 3
PLAIN_KEPT_MAX: Final = 2**17
"""Chunks between blanks that are remembered because no name in code is in them: most chunks."""
NAMED_KEPT_MAX: Final = 2**16
FOREIGN_KEPT_MAX: Final = 2**13

_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0fff"
    "\u1000-\u109f\u1780-\u17d3\u200c\u200d\u3099\u309a\ufe00-\ufe0f"
)
"""Characters inside a word that are not letters: accents and vowels of many scripts."""
_PICTURES: Final = "\U0001f000-\U0001faff\u2600-\u27bf"
_CHUNK: Final = lazy_pattern(rf"[\w{_MARKS}{_PICTURES}]+")
_UNSPACED: Final = lazy_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""Scripts without spaces between words, or with endings that hide them."""
_TYPOGRAPHY: Final = lazy_pattern(
    "[\u00a0\u00ab\u00b7\u00bb\u2010-\u2027\u2030-\u205e\u2190-\u23ff\u2500-\u25ff]+"
)
"""Characters between words that are not ASCII."""
_ACCENTS: Final = lazy_pattern("[\u0300-\u036f\ufe00-\ufe0f\u200c\u200d]")
_NEVER_IN_WORDS: Final = lazy_pattern(r"[\x00-\x2f\x3a-\x60\x7b-\x7f\s]+")
_IDENTIFIER: Final = lazy_pattern(r"[A-Za-z0-9_]+(?:[./\\:@$-]{1,2}[A-Za-z0-9_]+)*")
_JOINED: Final = lazy_pattern(
    r"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:[a-z0-9][A-Z]|[A-Z][A-Z][a-z])[A-Za-z0-9]*"
)
_NAME: Final = lazy_pattern(
    r"[A-Za-z0-9_](?:[./\\:@$-]{1,2}[A-Za-z0-9_]|_)|_[A-Za-z0-9_]|[a-z0-9][A-Z]"
    rf"|[A-Z][A-Z][a-z]|[A-Za-z][0-9]|[0-9][A-Za-z]|[A-Za-z0-9]{{{NAME_CHARACTERS_MIN}}}"
)
"""What a name in code has somewhere, and other words seldom: a joint, a digit, or ten letters."""
_PIECE: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_BETWEEN: Final = lazy_pattern(r"[^a-z0-9]")
_LETTERS: Final = bytes(
    ord(letter) if (letter := chr(code).lower()).isalnum() and code < 128 else 32
    for code in range(256)
)
"""What each ASCII character becomes in words: itself, its small letter, or a blank."""
_JOINTS: Final = _LETTERS[:32].replace(b" ", b"_") + b" " + _LETTERS[33:].replace(b" ", b"_")
"""What each ASCII character becomes in names: the same, but lines between words."""
_PLAIN_CHUNKS: Final[set[str]] = set()


class Word(NamedTuple):
    """A normalized word and its position in the text."""

    word: str
    start: int
    end: int


def words_in(text: str) -> Iterator[Word]:
    """Yield the words of a text, in order."""
    for match in _CHUNK.finditer(text):
        chunk, start = match[0], match.start()
        if chunk.isascii():
            if "_" not in chunk:
                yield Word(chunk[:WORD_CHARACTERS_MAX].lower(), start, match.end())
                continue
            at = start
            for piece in chunk.split("_"):
                if piece:
                    yield Word(piece[:WORD_CHARACTERS_MAX].lower(), at, at + len(piece))
                at += len(piece) + 1
        else:
            yield from _foreign(chunk, start)


class TextTokens(NamedTuple):
    """What is indexed of a text, each separated by spaces."""

    words: str
    pieces: str
    """The distinct parts of names in camel case, as in ``joinedByCapitals``."""
    names: str
    """Names in code in small letters, with lines at their joints: found by what is inside."""


def tokens_of(text: str, more: str = "") -> TextTokens:
    """Return the words of a text, and the pieces and names of the text and ``more``."""
    chunks = text.split()
    unknown = {*chunks, *more.split()} - _PLAIN_CHUNKS
    if not text.isascii():
        words = _words(chunks)
    elif max(map(len, unknown), default=0) > WORD_CHARACTERS_MAX:
        words = _plain_words(text)
    else:
        words = _split(text)  # Plain chunks are short, so that no word is too long.
    # In the order of the alphabet, so that the same text always gives the same pieces.
    lookups = [entry for chunk in sorted(unknown) if (entry := _CHUNK_NAMES[chunk])[0]]
    pieces = dict.fromkeys([piece for _, pieces in lookups for piece in pieces])
    return TextTokens(" ".join(words), " ".join(pieces), " ".join([name for name, _ in lookups]))


def spelt(text: str) -> str:
    """Return the words of a text, separated by spaces."""
    return " ".join(word_list(text))


def word_list(text: str) -> list[str]:
    """Return the words of a text."""
    return _plain_words(text) if text.isascii() else _words(text.split())


def named_part(text: str) -> str:
    """Return the part of a text that has names in code, in order."""
    chunks = text.split()
    named = {chunk for chunk in {*chunks} - _PLAIN_CHUNKS if _has_name(chunk)}
    return " ".join([chunk for chunk in chunks if chunk in named]) if named else ""


def pieces_in(text: str) -> list[str]:
    """Return the parts of names in camel case, as in ``joinedByCapitals``."""
    if text.islower():
        return []
    return [
        piece[:WORD_CHARACTERS_MAX].lower()
        for name in _JOINED.findall(text)
        for piece in _PIECE.findall(name)
    ]


def inner_spelling(text: str) -> str | None:
    """Return the form of a word inside names in code; None if it is not searched for there."""
    lowered = text.lower()
    if len(lowered) < GRAM_CHARACTERS or not lowered.isascii() or " " in lowered:
        return None
    joined = _BETWEEN.sub("_", lowered)[:IDENTIFIER_CHARACTERS_MAX]
    return joined if joined.strip("_") else None


def grams_of(spelling: str) -> list[str]:
    """Return the grams that every name containing ``spelling`` has."""
    return list(dict.fromkeys(_grams(spelling)))


def holds_inside(text: str, spelling: str) -> tuple[int, int] | None:
    """Return where a text has ``spelling`` within a name, or None."""
    at = _BETWEEN.sub("_", text.lower()).find(spelling) if text.isascii() else -1
    if at < 0 and not text.isascii():
        # Character by character: lower-casing may change the length of some.
        at = "".join(_inner(character) for character in text).find(spelling)
    return None if at < 0 else (at, at + len(spelling))


def is_unspaced(text: str) -> bool:
    """Return whether a text is in a script that is split into pairs."""
    return bool(_UNSPACED.fullmatch(text))


def _split(text: str) -> list[str]:
    return text.encode("ascii").translate(_LETTERS).decode("ascii").split()


def _plain_words(text: str) -> list[str]:
    words = _split(text)
    if words and max(map(len, words)) > WORD_CHARACTERS_MAX:
        return [word[:WORD_CHARACTERS_MAX] for word in words]
    return words


def _words(chunks: list[str]) -> list[str]:
    """Return the words of chunks between blanks: most are ASCII, and quickly done."""
    words: list[str] = []
    for is_plain, group in groupby(chunks, str.isascii):
        if is_plain:
            words += _plain_words(" ".join(group))
        else:
            for chunk in group:
                words += _foreign_words(chunk)
    return words


@lru_cache(FOREIGN_KEPT_MAX)
def _foreign_words(chunk: str) -> tuple[str, ...]:
    plain = _TYPOGRAPHY.sub(" ", chunk)
    if plain.isascii():
        return tuple(_plain_words(plain))
    return tuple(word.word for word in words_in(plain))


def _has_name(chunk: str) -> bool:
    # Ten letters are a name, a few small ones are none, and both are soon seen.
    is_short = len(chunk) < NAME_CHARACTERS_MIN
    is_word = is_short and chunk.islower() and chunk.isalpha()
    is_long = not is_short and chunk.isalnum() and chunk.isascii()
    if is_long or (not is_word and _NAME.search(chunk) is not None):
        return True
    if len(chunk) <= WORD_CHARACTERS_MAX:
        if len(_PLAIN_CHUNKS) >= PLAIN_KEPT_MAX:
            _PLAIN_CHUNKS.clear()
        _PLAIN_CHUNKS.add(chunk)
    return False


class _ChunkNames(dict[str, tuple[str, tuple[str, ...]]]):
    """The names in code of chunks between blanks, as they are indexed, and their pieces."""

    def __missing__(self, chunk: str) -> tuple[str, tuple[str, ...]]:
        if not _has_name(chunk):
            return "", ()
        names = chunk if len(chunk) <= IDENTIFIER_CHARACTERS_MAX else _short_names(chunk)
        joined = names.encode("ascii", "replace").translate(_JOINTS).decode("ascii")
        entry = joined, tuple(pieces_in(chunk))
        # The first ones stay: among them are those that are frequent.
        if len(chunk) <= WORD_CHARACTERS_MAX and len(self) < NAMED_KEPT_MAX:
            self[chunk] = entry
        return entry


_CHUNK_NAMES: Final = _ChunkNames()


def _short_names(chunk: str) -> str:
    return " ".join(
        [
            name[:IDENTIFIER_CHARACTERS_MAX]
            for name in _IDENTIFIER.findall(chunk)
            if _NAME.search(name) is not None
        ]
    )


def _inner(character: str) -> str:
    lowered = character.lower()
    return lowered if "a" <= lowered <= "z" or "0" <= lowered <= "9" else "_"


def _grams(text: str) -> list[str]:
    return [text[at : at + GRAM_CHARACTERS] for at in range(len(text) - GRAM_CHARACTERS + 1)]


def _foreign(chunk: str, start: int) -> Iterator[Word]:
    at = 0
    for match in _UNSPACED.finditer(chunk):
        yield from _spaced(chunk[at : match.start()], start + at)
        yield from _pairs(match[0], start + match.start())
        at = match.end()
    yield from _spaced(chunk[at:], start + at)


def _spaced(text: str, start: int) -> Iterator[Word]:
    at = start
    for piece in text.split("_"):
        folded = fold(piece)
        if folded:
            yield Word(folded, at, at + len(piece))
        at += len(piece) + 1


def _pairs(run: str, start: int) -> Iterator[Word]:
    plain = unicodedata.normalize("NFKC", run)
    exact = len(plain) == len(run)
    for at, character in enumerate(plain):
        following = plain[at + 1 : at + 2]
        span = (start + at, start + at + 1 + len(following)) if exact else (start, start + len(run))
        yield Word(character + following, *span)


def fold(text: str) -> str:
    """Return a word in its normalized form."""
    if text.isascii():
        return text[:WORD_CHARACTERS_MAX].lower()
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))
    return _NEVER_IN_WORDS.sub("", plain)[:WORD_CHARACTERS_MAX]
