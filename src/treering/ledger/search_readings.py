"""What a query may be taken for: ids of sessions for their beginnings, beginnings for words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from treering.errors import InvalidInput
from treering.model.queries import Query
from treering.model.search_words import is_unspaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ports import EventStore
    from treering.model.search_queries import Narrowing, SearchQuery, Term

BEGINNING_CHARACTERS_MIN: Final = 3
"""A shorter word is the beginning of too many."""
ID_CHARACTERS_MIN: Final = 4
SESSIONS_MAX: Final = 200
"""Sessions whose ids may begin alike."""
HEADS_PAGE: Final = 1_000


def with_whole_ids(store: EventStore, query: SearchQuery) -> SearchQuery:
    """Return a query whose ``session:`` names whole ids, where it named beginnings of some."""
    if all(one.operator != "session" for one in query.narrowings):
        return query
    narrowings = tuple(
        _with_whole_ids(store, query, one) if one.operator == "session" else one
        for one in query.narrowings
    )
    return replace(query, narrowings=narrowings)


def wider(query: SearchQuery) -> Iterator[tuple[SearchQuery, list[str]]]:
    """Return queries to try where one finds nothing, and the words taken for beginnings in each.

    The last word is most likely not written out; else any of them may be.
    """
    may = [at for at, term in enumerate(query.terms) if _may_begin(term)]
    for chosen in dict.fromkeys((tuple(may[-1:]), tuple(may))):
        if chosen:
            terms = [
                replace(term, is_prefix=True) if at in chosen else term
                for at, term in enumerate(query.terms)
            ]
            words = [f"{query.terms[at].words[0]}*" for at in chosen]
            yield replace(query, terms=tuple(terms)), words


def _may_begin(term: Term) -> bool:
    word = term.words[0]
    return (
        len(term.words) == 1
        and not term.is_prefix
        and len(word) >= BEGINNING_CHARACTERS_MIN
        and not is_unspaced(word)
    )


def _with_whole_ids(store: EventStore, query: SearchQuery, narrowing: Narrowing) -> Narrowing:
    found: dict[str, None] = {}
    begun: list[str] = []
    for text in narrowing.values:
        asked = Query(scope=query.scope, session_id=text, limit=1)
        if len(text) < ID_CHARACTERS_MIN or store.headers(asked):
            found[text] = None
        else:
            begun.append(text)
    if begun:
        found.update(dict.fromkeys(_sessions(store, query, tuple(begun))))
        # What begins no id is asked for as it is, and finds nothing.
        found = found or dict.fromkeys(begun)
    return replace(narrowing, values=tuple(found))


def _sessions(store: EventStore, query: SearchQuery, begun: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    before = None
    while page := store.session_heads(query.scope, before_position=before, limit=HEADS_PAGE):
        found += [one.session_id for one in page if one.session_id.startswith(begun)]
        before = page[-1].position
    if len(found) > SESSIONS_MAX:
        raise InvalidInput(
            f"{len(found):,} sessions begin with {' or '.join(begun)}",
            hint="write more of the id",
        )
    return found
