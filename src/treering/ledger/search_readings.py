"""Other readings of a query: session ids for their prefixes, prefixes for words."""

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

PREFIX_CHARACTERS_MIN: Final = 3
"""A shorter word is a prefix of too many."""
ID_CHARACTERS_MIN: Final = 4
SESSIONS_MAX: Final = 200
"""Sessions that one prefix may mean."""
HEADS_PAGE: Final = 1_000


def with_whole_ids(store: EventStore, query: SearchQuery) -> SearchQuery:
    """Return a query whose ``session:`` has whole ids in place of their prefixes."""
    if all(one.operator != "session" for one in query.narrowings):
        return query
    narrowings = tuple(
        _with_whole_ids(store, query, one) if one.operator == "session" else one
        for one in query.narrowings
    )
    return replace(query, narrowings=narrowings)


def wider(query: SearchQuery) -> Iterator[tuple[SearchQuery, list[str]]]:
    """Yield queries to try if one finds nothing, and the words that each reads as prefixes.

    The last word is the most likely prefix; after that, any of them may be one.
    """
    may = [at for at, term in enumerate(query.terms) if _may_be_prefix(term)]
    for chosen in dict.fromkeys((tuple(may[-1:]), tuple(may))):
        if chosen:
            terms = [
                replace(term, is_prefix=True) if at in chosen else term
                for at, term in enumerate(query.terms)
            ]
            words = [f"{query.terms[at].words[0]}*" for at in chosen]
            yield replace(query, terms=tuple(terms)), words


def _may_be_prefix(term: Term) -> bool:
    word = term.words[0]
    return (
        len(term.words) == 1
        and not term.is_prefix
        and len(word) >= PREFIX_CHARACTERS_MIN
        and not is_unspaced(word)
    )


def _with_whole_ids(store: EventStore, query: SearchQuery, narrowing: Narrowing) -> Narrowing:
    ids: dict[str, None] = {}
    prefixes: list[str] = []
    for text in narrowing.values:
        asked = Query(scope=query.scope, session_id=text, limit=1)
        if len(text) < ID_CHARACTERS_MIN or store.headers(asked):
            ids[text] = None
        else:
            prefixes.append(text)
    if prefixes:
        ids.update(dict.fromkeys(_sessions(store, query, tuple(prefixes))))
        # A text that is a prefix of no id is searched for as it is, and finds nothing.
        ids = ids or dict.fromkeys(prefixes)
    return replace(narrowing, values=tuple(ids))


def _sessions(store: EventStore, query: SearchQuery, prefixes: tuple[str, ...]) -> list[str]:
    ids: list[str] = []
    before = None
    while page := store.session_heads(query.scope, before_position=before, limit=HEADS_PAGE):
        ids += [head.session_id for head in page if head.session_id.startswith(prefixes)]
        before = page[-1].position
    if len(ids) > SESSIONS_MAX:
        raise InvalidInput(
            f"{len(ids):,} sessions begin with {' or '.join(prefixes)}",
            hint="write more of the id",
        )
    return ids
