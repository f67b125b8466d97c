"""Queries of the index as SQLite's full-text tables read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.search_words import grams_of
from treering.storage.search_marks import ANY, file_words, marks_asked, time_marks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.search_queries import Narrowing, SearchQuery, Term

_TEXT: Final = "{words pieces files}"
_WEIGHTS: Final = "1.0, 0.6, 1.2, 0.0"
"""Of words, pieces, files and marks."""


def by_words(query: SearchQuery) -> str:
    """Return the full-text query for words."""
    return _whole([_term(term) for term in query.terms], query)


def words_statement(shard: int) -> str:
    """Return the SQL that finds the newest matches of a shard, with their scores."""
    return (
        f"SELECT rowid, -bm25(w_{shard}, {_WEIGHTS}) FROM w_{shard}"
        f" WHERE w_{shard} MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
    )


def any_statement(shard: int) -> str:
    """Return the SQL that finds the newest matches of a shard, without scores."""
    return f"SELECT rowid FROM w_{shard} WHERE w_{shard} MATCH ? ORDER BY rowid DESC LIMIT ?"


def by_insides(query: SearchQuery) -> list[tuple[str, str | None]] | None:
    """Return, for each term, its queries as words and inside names; None if it cannot match.

    The longest term, likely the rarest, comes first. The last query holds the filters, if any.
    """
    if all(term.inside is None for term in query.terms):
        return None
    terms = sorted(query.terms, key=lambda term: -sum(map(len, term.words)))
    queries = [
        (_term(term), None if term.inside is None else _all(grams_of(term.inside)))
        for term in terms
    ]
    filters = _whole([], query)
    return queries if filters == _EVERY else [*queries, (filters, None)]


def names_statement(shard: int) -> str:
    """Return the SQL that finds the matches of a shard inside names."""
    return f"SELECT rowid FROM g_{shard} WHERE g_{shard} MATCH ?"


def all_statement(shard: int) -> str:
    """Return the SQL that finds all matches of a shard."""
    return f"SELECT rowid FROM w_{shard} WHERE w_{shard} MATCH ?"


def _whole(terms: list[str], query: SearchQuery) -> str:
    wanted, unwanted = list(terms), [_term(term) for term in query.without]
    for narrowing in query.narrowings:
        (unwanted if narrowing.is_negative else wanted).append(_narrowed(narrowing))
    times = time_marks(query.since_ms, query.before_ms)
    if times:
        wanted.append(_marked(times))
    text = " AND ".join(wanted or [_marked([ANY])])
    return f"({text})" + "".join(f" NOT {clause}" for clause in unwanted)


def _term(term: Term) -> str:
    star = " *" if term.is_prefix else ""
    return f"({_TEXT} : {_quoted(' '.join(term.words))}{star})"


def _narrowed(narrowing: Narrowing) -> str:
    if narrowing.operator != "file":
        return _marked(marks_asked(narrowing))
    paths = [" ".join(file_words(path)) for path in narrowing.values]
    return "(files : (" + " OR ".join(f"{_quoted(path or '_')} *" for path in paths) + "))"


def _marked(marks: Iterable[str]) -> str:
    return "(marks : (" + " OR ".join(map(_quoted, marks)) + "))"


def _all(grams: list[str]) -> str:
    return " AND ".join(map(_quoted, grams))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


_EVERY: Final = f"({_marked([ANY])})"
"""The filters of a query that has none."""
