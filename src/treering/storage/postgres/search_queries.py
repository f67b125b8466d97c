"""Documents and queries of the index as PostgreSQL's text search reads them.

One vector holds the words of an event, another the three-letter grams of its names in code. Entries
other than words of the text begin with a character that no word has: ``_`` a mark, ``/`` a word of
a file, ``#`` the block of the document. A search reads the newest blocks first.
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
GRAMS_MAX: Final = 8_000
SPAN_BLOCKS: Final = 16
"""Blocks that are read as one, where there are many."""
_FIRST_BLOCKS: Final = 4
_GROWTH: Final = 4
_PLACE_MAX: Final = 16_000
"""A vector does not distinguish places after this one."""
_VECTOR_BYTES_MAX: Final = 900_000
"""A vector holds up to a mebibyte. Of a text with more words the last new ones are left out."""
_PLACES_MAX: Final = 255
"""The most places that PostgreSQL keeps of a word."""
_GAP: Final = 2
"""Places left out, so that no phrase continues into the next file."""


def vectors(event: Header, text: SearchText, number: int) -> tuple[str, str]:
    """Return a document as PostgreSQL reads it: its words, and its grams."""
    places = _places(text.words.split())
    at = text.words.count(" ") + 1
    for file in text.files.split(" _ ") if text.files else ():
        at += _GAP
        for word in file.split():
            at += 1
            position = str(min(at, _PLACE_MAX))
            places.setdefault(word, []).append(position)
            places.setdefault(f"/{word}", []).append(position)
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
    grams = _grams(text.names)
    return words, " ".join(map(_quoted, (*grams, *blocks))) if grams else ""


def _grams(names: str) -> list[str]:
    grams = set().union(*map(grams_of, names.split()))
    return sorted(grams)[:GRAMS_MAX]


def _places(words: list[str]) -> dict[str, list[str]]:
    """Return the places of each word, as far as a vector has room for them."""
    places: dict[str, list[str]] = {}
    room = _VECTOR_BYTES_MAX
    for at, word in enumerate(words, 1):
        positions = places.get(word)
        if positions is None:
            room -= len(word.encode()) + 8
            if room < 0:
                break
            positions = places[word] = []
        if at <= _PLACE_MAX and len(positions) < _PLACES_MAX:
            positions.append(str(at))
            room -= 2
    return places


def whole_query(query: SearchQuery, within: str) -> str:
    """Return the text search query for words in some blocks."""
    return " & ".join((*map(_term, query.terms), *_rest(query), within))


def inside_queries(query: SearchQuery, within: str) -> tuple[list[str], list[str | None]] | None:
    """Return, for each term, its queries as words and inside names; None if it cannot match.

    The first query also holds the filters.
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
    """Return ranges of ``count`` documents, the newest first, each longer than the one before."""
    last = count // BLOCK_DOCUMENTS
    span = last // SPAN_BLOCKS
    first = max(last - _FIRST_BLOCKS + 1, span * SPAN_BLOCKS)
    yield _any([_block(scope, block) for block in range(first, last + 1)])
    if first > span * SPAN_BLOCKS:
        yield _any([_block(scope, block) for block in range(span * SPAN_BLOCKS, first)])
    length = 1
    while span > 0:
        yield _any([_span(scope, number) for number in range(max(span - length, 0), span)])
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
