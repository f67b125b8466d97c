"""Documents and queries of the index in the words of PostgreSQL.

One vector holds all that an event is found by, another all that is three characters long in names
of code. What is no word of its text begins with a character that no word has: ``_`` a mark, ``/`` a
word of a file, ``#`` the block of documents that it is in. A search looks at the newest blocks
first.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from treering.model.search_words import grams_of
from treering.storage.search_marks import file_words, marks_asked, marks_of, time_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.derive.search_texts import SearchText
    from treering.model.events import Header
    from treering.model.search_queries import Narrowing, SearchQuery, Term

BLOCK_DOCUMENTS: Final = 4_096
SPAN_BLOCKS: Final = 16
"""Blocks that are looked at as one, where many are."""
_FIRST_BLOCKS: Final = 4
_GROWTH: Final = 4
_PLACE_MAX: Final = 16_000
"""Behind this no place in a vector is told from another."""
_VECTOR_BYTES_MAX: Final = 900_000
"""A vector holds up to a mebibyte. Of a text with more words the last new ones are left out."""
_PLACES_MAX: Final = 255
"""PostgreSQL keeps so many places of a word."""
_GAP: Final = 2
"""Places that are left out, so that no phrase goes on into the next file."""


def vectors(event: Header, text: SearchText, number: int) -> tuple[str, str]:
    """Return a document as PostgreSQL reads it: its words, and its grams."""
    places = _places(text.words.split())
    at = text.words.count(" ") + 1
    for file in text.files.split(" _ ") if text.files else ():
        at += _GAP
        for word in file.split():
            at += 1
            place = str(min(at, _PLACE_MAX))
            places.setdefault(word, []).append(place)
            places.setdefault(f"/{word}", []).append(place)
    for word in text.pieces.split():
        places.setdefault(word, [])
    for mark in marks_of(event, text).split():
        places[mark] = []
    number //= BLOCK_DOCUMENTS
    blocks = [_block(event.scope, number), _span(event.scope, number // SPAN_BLOCKS)]
    places.update({block: [] for block in blocks})
    words = " ".join(
        f"{_quoted(word)}:{','.join(at)}" if at else _quoted(word) for word, at in places.items()
    )
    grams = text.grams.split()
    return words, " ".join(map(_quoted, (*grams, *blocks))) if grams else ""


def _places(words: list[str]) -> dict[str, list[str]]:
    """Return where each word stands, as far as a vector has room for it."""
    places: dict[str, list[str]] = {}
    room = _VECTOR_BYTES_MAX
    for at, word in enumerate(words, 1):
        known = places.get(word)
        if known is None:
            room -= len(word.encode()) + 8
            if room < 0:
                break
            known = places[word] = []
        if at <= _PLACE_MAX and len(known) < _PLACES_MAX:
            known.append(str(at))
            room -= 2
    return places


def whole_query(query: SearchQuery, within: str) -> str:
    """Return what matches the words of a query in some blocks."""
    return " & ".join((*map(_term, query.terms), *_rest(query), within))


def inside_queries(query: SearchQuery, within: str) -> tuple[list[str], list[str | None]] | None:
    """Return, for each term, what matches it as words and what inside of names; None if none may.

    The first says what else has to hold.
    """
    if all(term.inside is None for term in query.terms):
        return None
    words, grams = [" & ".join((*_rest(query), within))], list[str | None]([None])
    for term in query.terms:
        words.append(f"{_term(term)} & {within}")
        inside = [] if term.inside is None else [*map(_quoted, grams_of(term.inside)), within]
        grams.append(" & ".join(inside) or None)
    return words, grams


def windows(scope: str, count: int) -> Iterator[str]:
    """Return stretches of so many documents, the newest first and each longer than those before."""
    last = count // BLOCK_DOCUMENTS
    span = last // SPAN_BLOCKS
    first = max(last - _FIRST_BLOCKS + 1, span * SPAN_BLOCKS)
    yield _any([_block(scope, block) for block in range(first, last + 1)])
    if first > span * SPAN_BLOCKS:
        yield _any([_block(scope, block) for block in range(span * SPAN_BLOCKS, first)])
    length = 1
    while span > 0:
        yield _any([_span(scope, one) for one in range(max(span - length, 0), span)])
        span, length = span - length, length * _GROWTH


def _rest(query: SearchQuery) -> list[str]:
    wanted = []
    for narrowing in query.narrowings:
        text = _narrowed(narrowing)
        wanted.append(f"!{text}" if narrowing.is_negative else text)
    wanted += [f"!{_term(term)}" for term in query.without]
    times = time_marks(query.since_ms, query.before_ms)
    return [*wanted, _any(times)] if times else wanted


def _term(term: Term) -> str:
    star = ":*" if term.is_prefix else ""
    return "(" + " <-> ".join(map(_quoted, term.words)) + f"{star})"


def _narrowed(narrowing: Narrowing) -> str:
    if narrowing.operator != "file":
        return _any(marks_asked(narrowing))
    paths = [
        " <-> ".join(_quoted(f"/{word}") for word in file_words(path)) or _quoted("/")
        for path in narrowing.values
    ]
    return "(" + " | ".join(f"({path}:*)" for path in paths) + ")"


def _any(marks: Iterable[str]) -> str:
    return "(" + " | ".join(map(_quoted, marks)) + ")"


def _block(scope: str, block: int) -> str:
    return f"#{blake2b(scope.encode(), digest_size=6).hexdigest()}.{block}"


def _span(scope: str, span: int) -> str:
    return f"#{_block(scope, span)}"


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
